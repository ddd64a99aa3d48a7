"""The cells of reactions behind the protocol of modules: values in, an output out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tallystick.errors import JournalCorrupt, SchemaMismatch, TallyError
from tallystick.model.abi import (
    Content,
    EffectRequest,
    EmittedEvent,
    Halted,
    Ran,
    TickInput,
    TickOutput,
    write_output,
)
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.reactions.cell import Asked, Body, Turn, held_by
from tallystick.reactions.cell_context import context
from tallystick.reactions.cell_lane import lane
from tallystick.reactions.cell_run import run
from tallystick.reactions.cell_workspace import workspace
from tallystick.values import canon, names

REACTIONS: Final = "sys/reactions@1"
ENGINE: Final = "builtin/1"
Cell = Callable[[Turn, Body | None, str, Mapping[str, Any]], Body]
_CELLS: Final[Mapping[str, Cell]] = {
    "workspace": workspace,
    "lane": lane,
    "reaction": run,
    "context": context,
}
# What broken data can raise inside our own code: a fault of the tick, never of the world.
_FAULTS: Final = (TallyError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError)


def react(
    catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content
) -> Ran | Halted:
    """One tick of a workspace, a lane, a run or a place of frames."""
    assert tick.ctx is not None, "the workflow declares its context"
    ctx = canon.decode(tick.ctx.document())
    state = None if tick.state is None else canon.decode(tick.state)

    def misfit(schema: str, value: Any) -> str | None:
        return _misfit(catalogue, schema, value)

    turn = Turn(ctx["logical_now_ns"], ctx["journal_height"], ctx["world"], content, misfit)
    event = tick.event.plain()
    body = None if state is None else state["body"]
    try:
        body = _CELLS[workflow.entrypoint](turn, body, event["$tag"], event["$value"])
        output = _output(catalogue, workflow, turn, body)
    except JournalCorrupt:
        raise  # lost bytes say nothing about the tick
    except _FAULTS as why:
        return Halted("exception", f"{type(why).__name__}: {why}", 0, ENGINE)
    return Ran(output, write_output(output), len(turn.sent) + len(turn.asked), ENGINE)


def _output(catalogue: Catalogue, workflow: Workflow, turn: Turn, body: Body) -> TickOutput:
    held = sorted(held_by(body, {}))
    return TickOutput(
        state=workflow.state.admit({"body": body, "held": held}, "native"),
        events=tuple(
            EmittedEvent(sent.schema, catalogue.schemas[sent.schema].admit(sent.value, _lens(sent)))
            for sent in turn.sent
        ),
        effects=tuple(_effect(catalogue, asked) for asked in turn.asked),
        blobs=turn.blobs or None,
    )


def _lens(sent: Any) -> Any:
    """Ours are native values; those of a reaction file are written as people write JSON."""
    return "native" if names.is_reserved(sent.schema) else "sugar"


def _effect(catalogue: Catalogue, asked: Asked) -> EffectRequest:
    params = catalogue.effects[asked.effect].params.admit(asked.params, "native")
    return EffectRequest(asked.effect, params, asked.ref, asked.key, asked.slot, asked.timeout_ns)


def _misfit(catalogue: Catalogue, schema: str, value: Any) -> str | None:
    if names.is_reserved(schema) or schema not in catalogue.schemas:
        return f"no schema {schema} that may be sent"
    try:
        catalogue.schemas[schema].admit(value, "sugar")
    except SchemaMismatch as why:
        return why.message
    return None
