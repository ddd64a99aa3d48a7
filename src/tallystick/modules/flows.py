"""How an async workflow ticks: its state is the record of what it consumed (05 section 2).

Theory of operation.
A live coroutine is only a cache: it is valid for one cell and one digest of its history.
Without it the flow is rebuilt by running the function from its start over the recorded items; if
that asks for other things than the record says, the code is not the one that wrote the history,
and the tick faults.
64 items become one sealed blob, so a tick rewrites at most 63 whatever the length of the history.
"""

# tidy: a tick, its items and its answer are one story.
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from tallystick.errors import BlobLost, JournalCorrupt, LimitExceeded, TickFault
from tallystick.model.abi import Halted, Ran, TickInput, TickOutput, write_output
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.modules.history import History, Item
from tallystick.modules.lane import Space
from tallystick.modules.reducers import halted
from tallystick.values import canon
from tallystick.workflow.bundle import WorkflowSpec
from tallystick.workflow.ctx import plain_of
from tallystick.workflow.deliver import event_of
from tallystick.workflow.flow import Flow
from tallystick.workflow.loop import Loop, Restarted
from tallystick.workflow.shape import CANCEL, PROGRESS, RECEIPT, REJECTED, Shape, shape_of
from tallystick.workflow.traps import Cancelled, Fail

CACHE: Final = 4096
START: Final = "start"
_EVENT: Final = "event:"
_KEPT: Final = (
    "effect", "status", "receipt_payload", "issuer_ref", "intent_hash", "error_code",
    "error_message",
)  # fmt: skip

Read = Callable[[bytes], bytes | None]


class Gathered:
    """What one tick asks for, over all the items that it handles."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.emitted: list[Any] = []
        self.logs: list[Any] = []
        self.counts: dict[str, int] = {}

    def take(self, flow: Flow) -> None:
        """Add what the flow asked for since its last turn."""
        self.asked += flow.asked
        self.emitted += flow.emitted
        self.logs += flow.logs
        for name, n in flow.counts.items():
            self.counts[name] = self.counts.get(name, 0) + n


class Live:
    """A running flow: its loop and the context that its code holds."""

    def __init__(self, flow: Flow, loop: Loop) -> None:
        self.flow = flow
        self.loop = loop


class AsyncFlow:
    """An async workflow, ready to run in one space."""

    def __init__(
        self, space: Space, spec: WorkflowSpec, engine: str, read: Read, cache: int = CACHE
    ) -> None:
        self.space = space
        self.shape: Shape = shape_of(spec)
        self._spec = spec
        self.engine = engine
        self._read = read
        self._size = cache
        self._live: OrderedDict[tuple[bytes, bytes], Live] = OrderedDict()
        self.lost: JournalCorrupt | None = None  # what a read could not find, for the fence

    def init(self, _catalogue: Catalogue, _workflow: Workflow, _tick: TickInput) -> None:
        """A flow starts from its first event."""
        return

    def tick(
        self,
        catalogue: Catalogue,
        workflow: Workflow,
        tick: TickInput,
        successor: AsyncFlow | None = None,
    ) -> Ran | Halted:
        """Run one delivery; whatever goes wrong in it is a fault.

        A checkpoint starts the successor if there is one: a new history belongs to new code.
        """
        self.space.start(workflow.limits.fuel)
        turn = Turn(self, catalogue, workflow, tick)
        turn.successor = successor
        try:
            output = turn.run()
            used = turn.entry.space.meter.used + turn.spent
            moved = turn.entry is not self
            made = Ran(output, write_output(output), used, turn.entry.engine, moved, written=True)
        except BaseException as why:
            turn.drop()
            if why is turn.entry.lost:
                raise  # lost bytes say nothing about the tick
            return halted(why, turn.entry.space, workflow, turn.entry.engine)
        turn.entry.keep(turn)
        return made

    def keep(self, turn: Turn) -> None:
        """Remember the live flow behind a tick."""
        assert turn.live is not None and turn.history is not None, "a turn has begun"  # noqa: PT018
        self._live[turn.cell, turn.history.digest] = turn.live
        while len(self._live) > self._size:
            self._live.popitem(last=False)[1].loop.close()

    @staticmethod
    def is_short(state: bytes) -> bool:
        """True for a history that nothing of is sealed yet: its rebuild costs little."""
        return canon.decode(state)["sealed"] is None

    def taken(self, cell: bytes, digest: bytes) -> Live | None:
        """The live flow of a cell at a digest, once."""
        return self._live.pop((cell, digest), None)

    def blob(self, text: str) -> bytes:
        """A sealed chunk or a large value: this flow wrote it, so where it is not it was lost."""
        try:
            data = self._read(canon.raw_of(text))
        except JournalCorrupt as why:
            self.lost = why
            raise
        if data is None:
            message = f"the history names {text}, which is not there"
            self.lost = BlobLost(message, where={"blob": text})
            raise self.lost
        return data

    @property
    def code(self) -> Callable[..., Any]:
        """The function of the flow."""
        function: Callable[..., Any] = self._spec.code
        return function

    @property
    def spec(self) -> WorkflowSpec:
        """What was written."""
        return self._spec


class Turn:
    """One tick of one cell."""

    def __init__(
        self, entry: AsyncFlow, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> None:
        self.entry = entry
        self.catalogue = catalogue
        self.workflow = workflow
        self.tick = tick
        self.cell = tick.key or b""
        self.live: Live | None = None
        self.history: History | None = None
        self.gathered = Gathered()
        self.successor: AsyncFlow | None = None
        self.spent = 0  # in the space that was left
        assert tick.ctx is not None, "the kit declares the context for every workflow"
        self.at: int = tick.ctx.now_ns
        self.seed: bytes = sha256(tick.ctx.entropy()).digest()
        self.facts = {"key": tick.key, "world": tick.ctx.world, "workflow": workflow.name}

    def run(self) -> TickOutput:
        """The output of the tick."""
        plain = self.tick.event.plain()
        if self.tick.state is None:
            if plain["$tag"] not in self.entry.shape.starts:
                message = f"{plain['$tag']} does not start {self.workflow.name}"
                raise TickFault(message, code="exception")
            self._begin(canon.encode(plain), [])
            return self._output()
        state = canon.decode(self.tick.state)
        history = self.history = History.of(state)
        on, value = _recorded(plain)
        live = self.entry.taken(self.cell, history.digest)
        self.live = live if live is not None else self._rebuilt(history)
        # Fuel counts from the newest item on, so that a rebuild is not seen in the record.
        self.entry.space.start(self.workflow.limits.fuel)
        if not on.startswith(_EVENT) and on != CANCEL and not self.live.loop.expects(on):
            return TickOutput(self.tick.state)  # the flow does not wait for it any more
        self._handle([(on, value)])
        return self._output()

    def drop(self) -> None:
        """After a fault: the live flow has gone where its record did not follow."""
        if self.live is not None:
            self.live.loop.close()
            self.live = None

    # ---- items ------------------------------------------------------------------------------

    def _begin(self, start: bytes, carried: list[tuple[str, bytes]]) -> None:
        """A flow from its start, in this tick; after a checkpoint unread events come along."""
        self.drop()
        self.history = History.new(start)
        flow = Flow(self.catalogue, self.entry.spec.bundle)
        self.live = Live(flow, Loop(flow, self.workflow.limits.inbox_max))
        self._handle([(START, b""), *carried])

    def _handle(self, todo: list[tuple[str, bytes]]) -> None:
        for number, (on, value) in enumerate(todo):
            live, history = self.live, self.history
            assert live is not None and history is not None, "a turn has begun"  # noqa: PT018
            try:
                self.deliver(live, on, history.start if on == START else value, self._now())
            except Restarted as again:
                self.gathered.take(live.flow)
                unread = [self._event(event) for event in live.loop.inbox]
                start = self._event(again.value)[1]
                self._succeed()
                self._begin(start, [*unread, *todo[number + 1 :]])
                return
            item = Item(on, value, None, self.at, self.seed, live.flow.did())
            history.append(item)
            if history.n > self.workflow.limits.history_max:
                most = self.workflow.limits.history_max
                raise LimitExceeded("history_max", most, history.n)
            self.gathered.take(live.flow)

    def _succeed(self) -> None:
        """Go on with the successor, if there is one."""
        if self.successor is None or self.tick.successor is None:
            return
        self.drop()
        self.spent = self.entry.space.meter.used
        self.entry, self.successor = self.successor, None
        self.catalogue, self.workflow = self.tick.successor
        self.entry.space.start(self.workflow.limits.fuel)

    def _now(self) -> tuple[int, bytes]:
        return self.at, self.seed

    def deliver(self, live: Live, on: str, value: bytes, when: tuple[int, bytes]) -> None:
        """Hand one item to the loop."""
        live.flow.turn(self.catalogue, self.facts, *when)
        if on == CANCEL:
            live.loop.cancel()
            return
        event = event_of(self.entry.shape, canon.decode(value), live.flow)
        if on == START:
            live.loop.begin(self.entry.code, event)
        elif on.startswith(_EVENT):
            live.loop.event(event)
        else:
            live.loop.settle(on, event)

    def _event(self, event: Any) -> tuple[str, bytes]:
        tag = type(event).__name__
        codec = self.entry.shape.codecs.get(tag)
        if codec is None:
            message = f"a checkpoint from {tag}, which does not start {self.workflow.name}"
            raise TickFault(message, code="exception")
        return _EVENT + tag, canon.encode({"$tag": tag, "$value": codec.plain(event)})

    def _rebuilt(self, history: History) -> Live:
        """The flow run from its start over its items; refuses one that asks for other things."""
        flow = Flow(self.catalogue, self.entry.spec.bundle)
        live = Live(flow, Loop(flow, self.workflow.limits.inbox_max))
        for number, item in enumerate(history.items(self.entry.blob)):
            self.entry.space.start(self.workflow.limits.fuel)
            value = item.value if item.ref is None else self.entry.blob(item.ref)
            value = history.start if item.on == START else value
            self.deliver(live, item.on, value, (item.at, item.seed))
            if flow.did() != item.did:
                asked = ", ".join(str(request.issuer_ref) for request in flow.asked) or "nothing"
                live.loop.close()  # what it asks on its way out is not meant
                message = f"item {number} ({item.on}) asks for {asked}, and the history does not"
                raise TickFault(message, code="nondeterministic")
        return live

    # ---- the answer -------------------------------------------------------------------------

    def _output(self) -> TickOutput:
        live, history, all_ = self.live, self.history, self.gathered
        assert live is not None and history is not None, "a turn has begun"  # noqa: PT018
        status, result, reason = self._ending(live.loop)
        blobs = history.seal()
        return TickOutput(
            self.workflow.state.admit(history.plain()),
            status,
            result,
            reason,
            tuple(all_.emitted),
            tuple(all_.asked),
            None,
            tuple(all_.logs),
            all_.counts or None,
            blobs or None,
        )

    def _ending(self, loop: Loop) -> tuple[str, bytes | None, dict[str, str] | None]:
        main = loop.main
        assert main is not None, "a flow has begun"
        if not main.done:
            return RUNNING, None, None
        if isinstance(main.error, Fail):
            reason = {"code": main.error.code, "message": main.error.message}
            return FAILED, None, reason
        if isinstance(main.error, Cancelled):
            return FAILED, None, {"code": "flow.cancelled", "message": "the flow was cancelled"}
        if main.error is not None:
            raise main.error
        result = None if main.value is None else canon.encode(plain_of(main.value))
        return COMPLETED, result, None


def _recorded(plain: Any) -> tuple[str, bytes]:
    """What the history keeps of a delivery: where it belongs, and as much as code can see."""
    tag, value = plain["$tag"], plain["$value"]
    if tag == CANCEL:
        return CANCEL, b""
    if tag in (RECEIPT, REJECTED):
        kept = {name: value[name] for name in _KEPT if name in value}
        return str(value["issuer_ref"] or ""), canon.encode({"$tag": tag, "$value": kept})
    if tag == PROGRESS:
        return "", b""
    return _EVENT + tag, canon.encode(plain)
