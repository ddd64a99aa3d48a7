"""Re-run: recorded inputs once more, on the real kernel, with no outside (06 section 7).

It is the one engine of shadow and what-if: inputs come with the stamps they were recorded with, and
what the outside would have said is taken, in this order, from the record, from a script, or from
the smallest value that fits.
The world it runs on is synthetic: nothing that it asks for leaves it.
"""

# tidy: a run, its answers and its trail are one story.
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol, cast

from tallystick.errors import TallyError
from tallystick.governance.recorded import Asked, Requests, Step, place_of
from tallystick.governance.smallest import smallest
from tallystick.kernel.draft import Frame
from tallystick.kernel.index import Blobs
from tallystick.kernel.inputs import (
    Activate,
    Assume,
    Clock,
    Input,
    Planned,
    Progress,
    Sample,
    Submit,
)
from tallystick.kernel.machine import accept, advance, submit
from tallystick.kernel.parts import KERNEL
from tallystick.kernel.plans import CONTINUE, PIN
from tallystick.kernel.quiescence import open_cells
from tallystick.kernel.settle import OWN, next_due_ns
from tallystick.kernel.world import World
from tallystick.model.records import (
    IntentDenied,
    IntentOpened,
    ReceiptSettled,
    Record,
    Ticked,
    WorkflowFaulted,
)

TICKS_MAX: Final = 10_000
SEEDS_MAX: Final = 2_000
EXHAUSTED: Final = "inputs_exhausted"
RECORDED: Final = "recorded"
SCRIPTED: Final = "scripted"
SYNTHETIC: Final = "synthetic"
PENDING: Final = "pending"
DENIED: Final = "denied"
_LOOK_EVERY: Final = 64  # ticks between two looks at whether somebody wants it to stop


class Overlay:
    """Blobs of a store that is only read, and of this run on top of it."""

    __slots__ = ("_base", "_own")

    def __init__(self, base: Blobs) -> None:
        self._base = base
        self._own: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        """The bytes of that name, or None."""
        own = self._own.get(name)
        return self._base.get(name) if own is None else own

    def put(self, name: bytes, data: bytes) -> None:
        """Keep bytes for as long as the run lasts."""
        self._own[name] = data

    def place(self) -> bytes:
        """Where the next node would lie in the store below."""
        return self._base.place()


class Scripted(NamedTuple):
    """One answer of a script: the status, and the payload as it would be written in JSON."""

    status: str
    payload: Any


class Order(NamedTuple):
    """How far a run goes and what it answers with; the same order gives the same run.

    `scripts` has the answers of an effect in order, `seeds` are events to send after the recorded
    inputs, `seed` is where their time and chance come from.
    With `bare` what nobody answered stays pending.
    """

    seed: bytes = bytes(32)
    ticks_max: int = TICKS_MAX
    scripts: Mapping[str, tuple[Scripted, ...]] = {}
    seeds: tuple[tuple[str, Any], ...] = ()
    bare: bool = False


class Effect(NamedTuple):
    """One request of the run: what was asked, and how it was answered."""

    seq: int
    asked: Asked
    opened: IntentOpened | IntentDenied
    answer: str
    status: str | None


class Refusal(NamedTuple):
    """An input that was taken when it was recorded, and is refused now."""

    seq: int
    given: Input
    error: TallyError


class Tick(NamedTuple):
    """One tick of the run: the records of its frame, and where the frame stands."""

    seq: int
    records: tuple[Record, ...]


@dataclass
class Trail:
    """What a run did."""

    effects: list[Effect] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    unused: list[Step] = field(default_factory=list)
    inputs: int = 0
    seeds: int = 0
    ended: str = EXHAUSTED


class Recorded(Protocol):
    """What the recorded history asked for, and how that was settled."""

    requests: Requests
    statuses: dict[bytes, str]


Keep = Callable[[World, Frame], None]


def kept_in_memory(world: World, frame: Frame) -> None:
    """Fold a frame and forget it; a what-if that becomes a world hands in its own."""
    accept(world, frame)


class Rerun:
    """One run over one world; made for a single use."""

    def __init__(
        self,
        world: World,
        order: Order,
        *,
        keep: Keep = kept_in_memory,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        assert world.synthetic, "only a world without an outside is run again"
        self.world = world
        self.trail = Trail()
        self._order = order
        self._keep = keep
        self._stop = stop
        self._requests = Requests(world)
        self._answers: dict[Asked, Assume] = {}
        self._unasked: dict[Asked, Step] = {}
        self._pending: dict[Asked, None] = {}
        self._places: dict[Asked, int] = {}
        self._scripts = {effect: list(said) for effect, said in order.scripts.items()}
        self._now_ns = world.now_ns
        self._drawn = 0

    # ---- the run ------------------------------------------------------------------------------

    def run(self, steps: Iterable[Step], live: Recorded) -> Trail:
        """Submit recorded inputs, then seeds; `live` is what the recorded history did.

        Between two inputs as many ticks run as were recorded there: a busy world takes inputs
        while cells are ready, and what is compared must stand at the same place.
        """
        todo = list(steps)
        answered = {s.about: s for s in todo if s.about and isinstance(s.given, Assume)}
        self._live, self._answered = live, answered
        for step in todo:
            self._advance(step.ticks)
            if self._over():
                break
            self._align(step.seq)
            self._take(step)
            self.trail.inputs += 1
        self._advance()
        for schema, value in self._order.seeds[:SEEDS_MAX]:
            if self._over():
                break
            sample = self._sample(self._now_ns + 1)
            self._submit(Step(self.world.seq + 1, Submit(sample, schema, value)))
            self._advance()
            self.trail.seeds += 1
        self.trail.unused += self._unasked.values()
        return self.trail

    def _over(self) -> bool:
        return self.trail.ended != EXHAUSTED

    def _align(self, seq: int) -> None:
        """Positions are a tick's business (entropy, ids): as long as can be they stay the same."""
        if self._keep is kept_in_memory and self.world.seq < seq - 1:
            self.world.seq = seq - 1

    def _take(self, step: Step) -> None:
        given = step.given
        if not isinstance(given, Clock):
            self._pass_time(given.sample.now_ns)
        if step.about is None:
            self._submit(step)
            return
        intent = self._requests.intent(step.about)
        if intent is None or self.world.intents.get(intent) is None:
            if isinstance(given, Assume):
                # Nobody has asked yet: the answer waits for the question.
                self._unasked[step.about] = step
            return
        self._submit(step._replace(given=cast("Any", given)._replace(intent=intent)))
        if isinstance(given, Assume):
            self._settled(step.about, given.status)

    def _pass_time(self, until_ns: int) -> None:
        """Settle what is due before the next input, each at its own time."""
        seq = -1  # a moment that changed nothing is the last
        while self.world.seq != seq and (due := self._due_ns(until_ns)) is not None:
            seq = self.world.seq
            self._submit(Step(seq + 1, Clock(self._sample(max(due, self._now_ns)))))
        self._now_ns = max(self._now_ns, until_ns)

    def _due_ns(self, until_ns: int) -> int | None:
        """When the next thing is due, if that is not later and no coming input says it."""
        due = next_due_ns(self.world)
        return None if due is None or due > until_ns or self._comes_later(due) else due

    def _comes_later(self, due_ns: int) -> bool:
        """True when the record has the very moment at which this timer or timeout was settled."""
        first = self.world.timers.first()
        if first is None or first[0] != due_ns:
            return False
        asked = self._requests.asked(first[1])
        known = None if asked is None else self._live.requests.intent(asked)
        return known is not None and self._live.statuses.get(known) in ("ok", "timeout", "denied")

    def _submit(self, step: Step) -> None:
        given = step.given
        if isinstance(given, Progress):
            given = given._replace(world=self.world.id)
        elif isinstance(given, Activate):
            given = self._replanned(given)
        try:
            frame = submit(self.world, given)
        except TallyError as why:
            if why.exit_code == 4:
                raise
            self.trail.refusals.append(Refusal(step.seq, given, why))
            return
        self._fold(frame)

    def _replanned(self, given: Activate) -> Activate:
        """A recorded change with a plan for the cells that are open here, as recorded if it was."""
        for digest, data in given.blobs.items():
            self.world.blobs.put(digest, data)
        workflows = self.world.catalogue(given.manifest).workflows
        known = given.plan or {}
        plan: dict[tuple[str, bytes], Planned] = {}
        for each in open_cells(self.world):
            ident = (each.detail["workflow"], bytes.fromhex(each.detail["key"]))
            action = known[ident].action if ident in known else CONTINUE
            if ident[0] not in workflows:
                action = PIN  # it can only finish under what it has
            plan[ident] = Planned(each.detail["since_seq"], action)
        return given._replace(expect_manifest=self.world.manifest, plan=plan)

    def _advance(self, most: int | None = None) -> None:
        """Run ticks until nothing is ready, or until there were as many as wanted."""
        begun = len(self.trail.ticks)
        while not self._over():
            if most is not None and len(self.trail.ticks) - begun >= most:
                return
            if len(self.trail.ticks) >= self._order.ticks_max:
                self.trail.ended = "ticks"
                return
            if len(self.trail.ticks) % _LOOK_EVERY == 0 and self._stop():
                self.trail.ended = "stopped"
                return
            frame = advance(self.world)
            if frame is None:
                if not self._answer_next():
                    return
                continue
            self._fold(frame)

    def _fold(self, frame: Frame) -> None:
        seq = self.world.seq + 1
        self._keep(self.world, frame)
        if frame.records and isinstance(frame.records[0], Ticked | WorkflowFaulted):
            self.trail.ticks.append(Tick(seq, frame.records))
        for offset, record in enumerate(frame.records):
            if isinstance(record, IntentOpened):
                self._opened(seq + offset, record)
            elif isinstance(record, IntentDenied):
                self._denied(seq + offset, record)
            elif isinstance(record, ReceiptSettled) and record.source == KERNEL:
                asked = self._requests.asked(record.intent)
                if asked is not None:
                    self._settled(asked, record.status, KERNEL)

    # ---- answers ------------------------------------------------------------------------------

    def _opened(self, seq: int, record: IntentOpened) -> None:
        asked = self._requests.opened(record)
        self._places[asked] = len(self.trail.effects)
        self.trail.effects.append(Effect(seq, asked, record, PENDING, None))
        if record.effect not in OWN:
            self._pending[asked] = None

    def _denied(self, seq: int, record: IntentDenied) -> None:
        place = place_of(record)
        asked = Asked(place, self._requests.count(place))
        self.trail.effects.append(Effect(seq, asked, record, DENIED, DENIED))

    def _answer_next(self) -> bool:
        """Answer one request that no coming input answers; False when there is none."""
        for asked in list(self._pending):
            del self._pending[asked]
            intent = self._requests.intent(asked)
            held = None if intent is None else self.world.intents.get(intent)
            if intent is None or held is None or held.hold is not None:
                continue
            told = self._told(asked, held.record.effect, held.manifest)
            if told is None:
                continue
            how, status, payload = told
            self._fold(submit(self.world, Assume(self._sample(), intent, status, payload)))
            self._settled(asked, status, how)
            return True
        return False

    def _told(self, asked: Asked, effect: str, manifest: bytes) -> tuple[str, str, bytes] | None:
        """What the outside would say: recorded, scripted or synthetic; None leaves it pending."""
        early = self._unasked.pop(asked, None)
        if early is not None:
            given = early.given
            assert isinstance(given, Assume), "only answers wait"
            return RECORDED, given.status, given.payload
        if asked in self._answered:
            return None  # its answer comes with a later input
        script = self._scripts.get(effect)
        known = self.world.catalogue(manifest).effects[effect]
        if script:
            said = script.pop(0)
            schema = known.receipt if said.status == "ok" else known.error
            return SCRIPTED, said.status, schema.admit(said.payload, "sugar").bytes
        # What the recorded history waits for as well has no outcome to be guessed.
        if self._order.bare or self._live.requests.intent(asked) is not None:
            return None
        value = smallest(known.receipt)
        return None if value is None else (SYNTHETIC, "ok", value.bytes)

    def _settled(self, asked: Asked, status: str, how: str = RECORDED) -> None:
        self._pending.pop(asked, None)
        place = self._places.get(asked)
        if place is not None:
            effect = self.trail.effects[place]
            self.trail.effects[place] = effect._replace(answer=how, status=status)

    def _sample(self, now_ns: int | None = None) -> Sample:
        """Time and chance of what no record brought: counted from the seed of the order."""
        self._drawn += 1
        self._now_ns = max(self._now_ns, now_ns or 0)
        first = sha256(self._order.seed + self._drawn.to_bytes(8, "big")).digest()
        return Sample(self._now_ns, first + sha256(first).digest())
