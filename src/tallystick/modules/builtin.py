"""The lane of built-in modules: our own workflows, behind the protocol that every module has.

They are part of the release, so their code needs no artifact; a fault in them is a fault of the
tick like any other.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.errors import TallyError
from tallystick.model.abi import (
    Content,
    EffectRequest,
    Halted,
    Ran,
    TickInput,
    TickOutput,
    write_output,
)
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.modules.builtin_reactions import REACTIONS, react
from tallystick.playbooks.interpret import Answer, interpret
from tallystick.values import canon

ENGINE: Final = "builtin/1"
_SLOTS: Final = {
    "sys/playbook.step@1": "step",
    "sys/effect.cancel@1": "step",
    "sys/timer.set@1": "timer",
    "sys/human.ask@1": "human",
}
# What broken data can raise inside our own code: a fault of the tick, never of the world.
_FAULTS: Final = (TallyError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError)


class Builtin:
    """Runs `sys/playbook@1` and the cells of reactions: no pure functions, no first state."""

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """One tick of an execution, or of a cell of reactions."""
        assert content is not None, "built-in modules are given a reader"
        assert tick.ctx is not None, "the workflow declares its context"
        if workflow.module == REACTIONS:
            return react(catalogue, workflow, tick, content)
        state = None if tick.state is None else canon.decode(tick.state)
        try:
            answer = interpret(state, tick.event.plain(), tick.ctx.now_ns, content)
            output = _output(catalogue, workflow, answer)
        except _FAULTS as why:
            message = f"{type(why).__name__}: {why}"
            return Halted("exception", message, 0, ENGINE)
        return Ran(output, write_output(output), len(answer.trace), ENGINE)

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """None: the first event makes the first state."""
        del catalogue, workflow, tick
        return None

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Refused: built-in modules have no pure functions."""
        del catalogue, data, ctx
        return Halted("exception", f"{module} has no function {entrypoint}", 0, ENGINE)


# tidy: one output, all of its fields.
def _output(catalogue: Catalogue, workflow: Workflow, answer: Answer) -> TickOutput:
    status = RUNNING
    if answer.done is not None:
        status = FAILED if answer.done == "failed" else COMPLETED
    reason = None
    result = None
    if status == FAILED:
        reason = {"code": "playbook.failed", "message": _why(answer.state["net"])}
    elif status == COMPLETED:
        result = canon.encode(answer.result)
    effects = tuple(
        EffectRequest(
            asked.effect,
            catalogue.effects[asked.effect].params.admit(asked.params, "native"),
            asked.ref,
            None,
            _SLOTS[asked.effect],
            asked.timeout_ns,
        )
        for asked in answer.asked
    )
    ann = None
    if answer.trace and workflow.annotations is not None:
        ann = workflow.annotations.admit({"events": answer.trace}, "native").bytes
    return TickOutput(
        state=workflow.state.admit(answer.state, "native"),
        status=status,
        result=result,
        reason=reason,
        effects=() if status != RUNNING else effects,
        ann=ann,
        blobs=answer.blobs or None,
    )


def _why(net: dict[str, Any]) -> str:
    doom, failures = net["doom"], net["failures"]
    if doom is not None:
        return f"{doom['code']} {doom['message']}"
    for row in failures:
        if not row["handled"]:
            return f"{row['step']} {row['run']}: {row['code']} {row['message']}"
    return "the final step failed"
