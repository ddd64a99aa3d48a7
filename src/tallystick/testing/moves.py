"""What may happen next to a workflow under check, and what it does to a world (05 section 7).

A move is a value, so a path of them can be played again, on a bare kernel world for speed and on a
`TestWorld` for a counter-example that people can run.
Time stands still but for timers, and chance is the same for every tick; else two ways to the same
situation would never meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tallystick.authority.denial import Denial
from tallystick.errors import TallyError
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.fold import fold_frame
from tallystick.kernel.fold_effects import timer_of
from tallystick.kernel.inputs import Operate, Receipt, Sample, Settle, Submit
from tallystick.kernel.machine import advance, submit
from tallystick.kernel.parts import CALL, CANCEL, READ, SPAWN, TIMER, Intent
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.values import canon

RETRYABLE: Final = "check.retryable"
FINAL: Final = "check.final"
RULE: Final = "check"
ENTROPY: Final = bytes(range(64))
# What the kernel settles itself: no executor can answer these.
OWN: Final = frozenset({TIMER, SPAWN, CALL, READ, CANCEL})
_TICKS_MAX: Final = 10_000


class Send(NamedTuple):
    """A sample event; `copy` 0 and 1 are two ids of the same content, `again` repeats the first."""

    sample: int
    copy: int
    again: bool = False


class Say(NamedTuple):
    """An answer to the nth open request of an effect under a correlation."""

    effect: str
    corr: str | None
    nth: int
    cell: CellId
    status: str
    value: int = 0


class Fire(NamedTuple):
    """A timer comes due, and time moves to its moment."""

    corr: str | None
    nth: int
    cell: CellId


class Stop(NamedTuple):
    """An operator asks the cell to stop."""


Move = Send | Say | Fire | Stop


class Sampled(NamedTuple):
    """A sample as the kernel takes it, and as people write it."""

    schema: str
    plain: Any
    value: Any


class Samples(NamedTuple):
    """What is sent, and what each effect may be answered."""

    events: tuple[Sampled, ...]
    answers: dict[str, tuple[Sampled, ...]]
    key_id: str
    mark: str = ""  # before every id that is sent: a search may begin in a world with a past


class Asked(NamedTuple):
    """An open request, by a name that does not depend on how the world came to it."""

    intent: Intent
    effect: str
    corr: str | None
    nth: int
    cell: CellId


def open_requests(world: World) -> Iterator[Asked]:
    """Every open intent in the order of asking, numbered within its effect, correlation and cell.

    What waits for capacity has not gone out, so nobody can answer it yet.
    """
    counts: dict[tuple[str, str | None, CellId], int] = {}
    held = [intent for intent in world.intents.delta.values() if intent is not None]
    held.sort(key=lambda intent: intent.seq)
    for intent in held:
        record = intent.record
        origin = CellId(record.origin.workflow, record.origin.key)
        name = (record.effect, record.issuer_ref, origin)
        nth = counts[name] = counts.get(name, -1) + 1
        if intent.hold is None or intent.hold["kind"] != "capacity":
            yield Asked(intent, record.effect, record.issuer_ref, nth, origin)


class Player:
    """Plays moves on worlds of one workflow."""

    def __init__(self, samples: Samples, ident: CellId, *, any_timer: bool = False) -> None:
        self.samples = samples
        self.ident = ident
        self._any = any_timer

    def moves(self, world: World, sent: tuple[int, ...], *, stopped: bool) -> list[Move]:
        """Everything that may happen next, in a fixed order: the outside first, then people."""
        found: list[Move] = []
        timers: list[tuple[int, Move]] = []
        for asked in open_requests(world):
            at = (asked.corr, asked.nth, asked.cell)
            if asked.effect == TIMER:
                timers.append((due_of(asked.intent), Fire(*at)))
            elif asked.effect not in OWN:
                found += self._answers(asked)
        timers.sort(key=lambda timer: timer[0])
        found += [move for _, move in (timers if self._any else timers[:1])]
        for number, count in enumerate(sent):
            if count < 2:
                found.append(Send(number, count))
            if count:
                found.append(Send(number, 0, again=True))
        if not stopped and world.cell(self.ident) is not None:
            found.append(Stop())
        return found

    def _answers(self, asked: Asked) -> list[Move]:
        at = (asked.effect, asked.corr, asked.nth, asked.cell)
        found: list[Move] = [
            Say(*at, "ok", number) for number in range(len(self.samples.answers[asked.effect]))
        ]
        found += [Say(*at, RETRYABLE), Say(*at, FINAL)]
        if asked.intent.record.timeout_at_ns is not None:
            found.append(Say(*at, "timeout"))
        found.append(Say(*at, "denied"))
        return found

    def play(self, world: World, now_ns: int, move: Move) -> tuple[list[Frame], int] | None:
        """Do a move to a world and run it until nothing is ready; None when it is refused.

        Gives the frames that were folded, and the time it is then.
        """
        if isinstance(move, Fire):
            now_ns = max(now_ns, due_of(_find(world, TIMER, move)))
        world.logical_ns = now_ns - 1  # so that the stamp of this input says `now` exactly
        try:
            frame = self._frame(world, Sample(now_ns, ENTROPY), move)
        except TallyError:
            return None
        frames: list[Frame] = []
        while frame is not None:
            _fold(world, frame)
            frames.append(frame)
            assert len(frames) < _TICKS_MAX, "one move set off more ticks than any limit allows"
            frame = advance(world)
        return frames, now_ns

    def _frame(self, world: World, sample: Sample, move: Move) -> Frame | None:
        match move:
            case Send(number, copy):
                given = self.samples.events[number]
                idem = f"{self.samples.mark}{number}/{copy}".encode()
                made = Submit(sample, given.schema, given.plain, "native", idem_key=idem)
                return submit(world, made)
            case Stop():
                ident = self.ident
                given_up = Operate(sample, "cancel", "check", "check", ident.workflow, ident.key)
                return submit(world, given_up)
            case Fire():
                return by_kernel(world, sample, _find(world, TIMER, move), "fired")
            case Say(effect, _, _, _, status, value):
                intent = _find(world, effect, move)
                if status in ("timeout", "denied"):
                    return by_kernel(world, sample, intent, status)
                return submit(world, self._receipt(world, sample, intent, (status, value)))

    def _receipt(
        self, world: World, sample: Sample, intent: Intent, said: tuple[str, int]
    ) -> Settle:
        record, (status, value) = intent.record, said
        if status == "ok":
            payload = self.samples.answers[record.effect][value].plain
        else:
            payload = receipts.error_payload("error", status, "", retryable=status == RETRYABLE)
        receipt = Receipt(
            world=world.id,
            intent=record.intent,
            effect=record.effect,
            status="ok" if status == "ok" else "error",
            payload=payload,
            executor=record.executor,
            attempt=intent.attempt,
            started_ns=sample.now_ns,
            ended_ns=sample.now_ns,
            usage=None,
            seal={"key": self.samples.key_id},
        )
        # What a seal is worth is not in question here, so none is made and none is checked.
        return Settle(sample, receipt, seal_ok=True)


def _fold(world: World, frame: Frame) -> None:
    """As the kernel accepts a frame, without the chain of hashes that nobody will read."""
    for digest, data in frame.blobs.items():
        world.blobs.put(digest, data)
    if frame.records:
        fold_frame(world, frame.records, world.head)


def by_kernel(world: World, sample: Sample, intent: Intent, status: str, rule: str = RULE) -> Frame:
    """The frame in which the kernel itself ends an open intent: `fired`, `timeout` or `denied`."""
    draft = Draft(world)
    stamp = draft.stamp(sample)
    record = intent.record
    if status == "fired":
        key = timer_of(world, record)["key"]
        payload = canon.encode({"delivered_at_ns": stamp.logical_ns, "key": key})
        receipts.settle(draft, record, "ok", payload, stamp=stamp)
    elif status == "timeout":
        message = "no receipt before the deadline"
        payload = receipts.error_payload("timeout", "effect.timeout", message, retryable=True)
        receipts.settle(draft, record, "timeout", payload, stamp=stamp)
    else:
        denial = Denial("policy", "policy.denied", "a rule says no", rule=rule)
        receipts.deny(draft, record, denial, stamp)
    return draft.frame(Answer("settled", world.seq + 1))


def due_of(intent: Intent) -> int:
    """When a timer is due."""
    assert intent.due_ns is not None, "a timer has its time"
    return intent.due_ns


def _find(world: World, effect: str, move: Say | Fire) -> Intent:
    wanted = (effect, move.corr, move.nth, move.cell)
    for asked in open_requests(world):
        if (asked.effect, asked.corr, asked.nth, asked.cell) == wanted:
            return asked.intent
    raise AssertionError(f"{wanted} is not open")
