"""The lane of built-in modules: our own workflows, behind the protocol that every module has.

They are part of the release, so their code needs no artifact; a fault in them is a fault of the
tick like any other.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.errors import JournalCorrupt, TallyError
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
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.modules.builtin_reactions import REACTIONS, react
from tallystick.playbooks.catalog import published
from tallystick.playbooks.follow import follow
from tallystick.playbooks.interpret import Answer, interpret
from tallystick.playbooks.iterate import Live, Moved, Reads, iterate
from tallystick.playbooks.trace import put_trace
from tallystick.values import canon
from tallystick.values.schema import Admitted

ENGINE: Final = "builtin/1"
STEP: Final = "sys/playbook.step@1"
END: Final = "sys/PlayCancel@1"
CATALOG: Final = "sys/playbook.catalog@1"
LIVE_MAX: Final = 64
_SLOTS: Final = {
    STEP: "step",
    "sys/effect.cancel@1": "step",
    "sys/cell.read@1": "step",
    "sys/workflow.call@1": "flow",
    "sys/timer.set@1": "timer",
    "sys/human.ask@1": "human",
    "sys/file.read@1": "read",
    "sys/file.write@1": "write",
    "sys/file.delete@1": "write",
}
# What broken data can raise inside our own code: a fault of the tick, never of the world.
_FAULTS: Final = (TallyError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError)


class Builtin:
    """Runs the workflows of playbooks and reactions: no pure functions, no first state."""

    def __init__(self) -> None:
        # Encoded state -> what it says: a tick that moves little of it needs not read it again.
        self._live: dict[bytes, Live] = {}

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """One tick of a built-in workflow."""
        assert content is not None, "built-in modules are given a reader"
        if workflow.module == REACTIONS:
            return react(catalogue, workflow, tick, content)
        try:
            if workflow.name == CATALOG:
                output, fuel = _published(workflow, tick), 1
            else:
                output, fuel = self._play(catalogue, workflow, tick, content)
        except JournalCorrupt:
            raise  # lost bytes say nothing about the tick
        except _FAULTS as why:
            message = f"{type(why).__name__}: {why}"
            return Halted("exception", message, 0, ENGINE)
        return Ran(output, write_output(output), fuel, ENGINE)

    def _play(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content
    ) -> tuple[TickOutput, int]:
        """One tick of an execution; by a short way where only a loop or a chain moves on."""
        live = None if tick.state is None else self._live.pop(tick.state, None)
        if live is not None:
            moved = self._short(catalogue, live, tick, content)
            if moved is not None:
                self._keep(moved.state, live)
                return _moved(catalogue, workflow, moved)
        assert tick.ctx is not None, "the workflow declares its context"
        state, memory = None, None
        if live is not None:
            state, memory = live.state, live.memory
        elif tick.state is not None:
            state = canon.decode(tick.state)
        answer = interpret(state, tick.event.plain(), tick.ctx.now_ns, content, memory)
        if answer.done is None:
            self._keep(
                answer.wrote.data, Live(answer.wrote, answer.net, answer.plan, answer.memory)
            )
        return _output(catalogue, workflow, answer), len(answer.trace)

    def _short(
        self, catalogue: Catalogue, live: Live, tick: TickInput, content: Content
    ) -> Moved | None:
        """What the receipt of a step brings that moves little; None leaves all as it was."""
        came = tick.event.receipt()
        if came is None or came.effect != STEP or came.status != "ok":
            return None
        reads = catalogue.effects[STEP].receipt.plain
        if not live.loops:
            return follow(live, came, reads)
        assert tick.state is not None, "what was found in memory was a state"
        return iterate(live, tick.state, came, Reads(reads, content))

    def _keep(self, state: bytes, live: Live) -> None:
        if len(self._live) >= LIVE_MAX:
            self._live.clear()
        self._live[state] = live

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


def _moved(catalogue: Catalogue, workflow: Workflow, moved: Moved) -> tuple[TickOutput, int]:
    effects: tuple[EffectRequest, ...] = ()
    if moved.params is not None:
        params = Admitted(catalogue.effects[STEP].params, *moved.params)
        effects = (EffectRequest(STEP, params, moved.ref, None, _SLOTS[STEP], moved.timeout_ns),)
    state = Admitted(workflow.state, None, moved.state)
    return TickOutput(state=state, effects=effects, ann=moved.trace), moved.told


# tidy: one output, all of its fields.
def _output(catalogue: Catalogue, workflow: Workflow, answer: Answer) -> TickOutput:
    status = RUNNING
    if answer.done is not None:
        status = FAILED if answer.done == "failed" else COMPLETED
    reason = None
    result = None
    if status == FAILED:
        reason = {"code": "playbook.failed", "message": _why(answer.net)}
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
    return TickOutput(
        # Nothing in a state is of another type than json has, so writing it is admitting it.
        state=Admitted(workflow.state, None, answer.wrote.data),
        status=status,
        result=result,
        reason=reason,
        events=tuple(_ended(catalogue, name) for name in answer.ended),
        effects=() if status != RUNNING else effects,
        ann=put_trace(answer.trace) if answer.trace else None,
        blobs=answer.blobs or None,
    )


def _ended(catalogue: Catalogue, name: str) -> EmittedEvent:
    """Word to a child that its parent waits for it no more."""
    value = {"execution": name, "reason": "the parent is over", "principal": "sys/playbook@1"}
    return EmittedEvent(END, catalogue.schemas[END].admit(value, "native"))


def _published(workflow: Workflow, tick: TickInput) -> TickOutput:
    """One more version of a playbook in the catalogue; its document is kept as a blob."""
    event = tick.event.plain()
    state = None if tick.state is None else canon.decode(tick.state)
    made = published(state, event)
    blobs = {event["hash"]: event["document"]}
    return TickOutput(
        state=workflow.state.admit(made, "native"), status=COMPLETED, result=None, blobs=blobs
    )


def _why(net: dict[str, Any]) -> str:
    doom, failures = net["doom"], net["failures"]
    if doom is not None:
        return f"{doom['code']} {doom['message']}"
    for row in failures:
        if not row["handled"]:
            return f"{row['step']} {row['run']}: {row['code']} {row['message']}"
    return "the final step failed"
