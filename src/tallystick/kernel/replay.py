"""Opening and replaying (D2, X-08): recovery folds, verification runs again.

`open_world` takes the newest snapshot and folds the tail; no module code runs.
`verify` folds and runs every tick and every routing decision again under the definitions recorded
then; the first difference is named with its sequence, cell and field, and ends it.
"""

# tidy: opening, running again and naming the first difference are one story.
from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import BlobLost, JournalCorrupt, ReplayDiverged, TallyError
from tallystick.kernel import snapshot
from tallystick.kernel.index import Blobs
from tallystick.kernel.inputs import Decide, Govern, Sample, Submit
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.machine import advance, fold_frame, submit
from tallystick.kernel.regovern import again
from tallystick.kernel.roots import root, root_of, state_root
from tallystick.kernel.world import Settings, World
from tallystick.model.abi import Runner
from tallystick.model.frames import Sealed, frame_body, is_tick, next_records, open_frame
from tallystick.model.records import (
    EventAdmitted,
    IntentApproval,
    Record,
    SnapshotTaken,
    Ticked,
    WorkflowFaulted,
)
from tallystick.model.tuples import make


class Found(NamedTuple):
    """The first difference between the journal and what running again gives."""

    seq: int
    workflow: str | None
    key: bytes | None
    field: str
    expected: Any
    got: Any

    def error(self) -> ReplayDiverged:
        """The difference as the error that ends a verification."""
        return ReplayDiverged(
            f"seq {self.seq}: {self.field} differs when run again",
            where={
                "seq": self.seq,
                "workflow": self.workflow,
                "key": None if self.key is None else self.key.hex(),
                "field": self.field,
                "expected": self.expected,
                "got": self.got,
            },
        )


class Verified(NamedTuple):
    """A finished verification: how much was run again, and the first difference if any.

    `unverifiable` counts the faults of another engine's own limits: they are kept as recorded.
    """

    ticks: int
    records: int
    root: bytes
    first: Found | None
    unverifiable: int = 0


def fold_frames(world: World, frames: Iterable[Sealed]) -> None:
    """Fold stored frames; no module code runs.

    Refuses a frame that is not what the chain says: damage is found before it is used (I10).
    """
    for frame in frames:
        if sha256(frame.body).digest() != frame.hash:
            raise _damaged(world, "its bytes do not match its hash")
        found = next_records(frame, world.seq + 1, world.head)
        if found is None:
            _, seq, prev, found = open_frame(frame.body)
            if seq != world.seq + 1 or prev != world.head:
                raise _damaged(world, "it does not follow the frame before")
        fold_frame(world, found, frame.hash)


def _damaged(world: World, why: str) -> JournalCorrupt:
    seq = world.seq + 1
    return JournalCorrupt(
        f"the frame at seq {seq} is damaged: {why}", where={"world": world.id, "seq": seq}
    )


def open_world(
    world_id: str,
    frames: Iterable[Sealed],
    blobs: Blobs,
    runner: Runner,
    *,
    pinned: bytes | None = None,
    settings: Settings | None = None,
) -> World:
    """The world behind its frames; with `pinned` they are those after that snapshot."""
    if pinned is None:
        world = World(world_id, blobs, runner, settings)
    else:
        world = snapshot.load(pinned, blobs, runner, settings)
    fold_frames(world, frames)
    return world


def verify(world: World, frames: Iterable[Sealed], workflow: str | None = None) -> Verified:
    """Run everything again from where the world stands; stops at the first difference.

    With `workflow` only its ticks are run; everything else is folded as it was recorded.
    """
    ticks = records = unverifiable = 0
    for frame in frames:
        if workflow is not None and not _is_next(world, frame, workflow):
            records += frame.last - frame.seq + 1
            fold_frame(world, open_frame(frame.body)[3], frame.hash)
            continue
        if world.ring and is_tick(frame):
            again = _run_again(world, frame)
            if again is not None:
                ticks += 1
                records += len(again)
                fold_frame(world, again, frame.hash)
                continue
        recorded = next_records(frame, world.seq + 1, world.head) or open_frame(frame.body)[3]
        records += len(recorded)
        found = _compare(world, recorded)
        if found is _ENGINES_OWN:
            unverifiable += 1
        elif found is not None:
            return Verified(ticks, records, root(world), found, unverifiable)
        ticks += type(recorded[0]) in (Ticked, WorkflowFaulted)
        fold_frame(world, recorded, frame.hash)
    return Verified(ticks, records, root(world), None, unverifiable)


def _is_next(world: World, frame: Sealed, workflow: str) -> bool:
    """True for a tick of a workflow: the cell whose turn it is was one of its cells."""
    return bool(world.ring) and world.ring[0].workflow == workflow and is_tick(frame)


def _run_again(world: World, frame: Sealed) -> tuple[Record, ...] | None:
    """The records of a tick that gives the very bytes of its frame; None when it does not.

    Equal bytes are equal records, and writing them costs less than reading the recorded ones.
    Where they differ, the records are read and compared, so that the field can be named.
    """
    made = advance(world)
    # The caller has looked at the ring.
    assert made is not None, "a cell is ready"
    body = frame_body(world.id, world.seq + 1, world.head, made.records)
    return made.records if body == frame.body else None


def _compare(world: World, recorded: list[Record]) -> Found | None:
    """Decide again what the journal says was decided, where the inputs are on record."""
    first = recorded[0]
    seq = world.seq + 1
    if type(first) in (Ticked, WorkflowFaulted):
        frame = advance(world)
        made: tuple[Record, ...] = () if frame is None else frame.records
        assert isinstance(first, Ticked | WorkflowFaulted), "looked at above"
        if made and _is_elsewhere(first, made[0]):
            if _is_engines_own(first):
                return _ENGINES_OWN
            made = (_counted_as(first, made[0]), *made[1:])
        return _difference(seq, recorded, made)
    if isinstance(first, EventAdmitted) and first.stamp is not None:
        return _difference(seq, recorded, _submitted(world, first))
    if isinstance(first, IntentApproval):
        return _difference(seq, recorded, _decided(world, first))
    if isinstance(first, SnapshotTaken):
        return _check_roots(world, first, seq)
    given = again(world, recorded)
    return None if given is None else _difference(seq, recorded, _governed(world, given))


_ENGINES_OWN: Final = Found(0, None, None, "engine", None, None)
_METERED: Final = "wasmtime/"  # what an instruction costs is the engine's business, by version


def _is_elsewhere(first: Ticked | WorkflowFaulted, made: Record) -> bool:
    """True when a tick was recorded under another version of the engine that runs it now."""
    if not isinstance(made, Ticked | WorkflowFaulted) or first.engine == made.engine:
        return False
    return str(first.engine).startswith(_METERED) and str(made.engine).startswith(_METERED)


def _counted_as(first: Ticked | WorkflowFaulted, made: Record) -> Record:
    """What was made now, under the fuel and the engine of the record."""
    if isinstance(made, Ticked):
        return made._replace(fuel=first.fuel, engine=first.engine)
    assert isinstance(made, WorkflowFaulted), "only ticks and faults have an engine"
    return made._replace(fuel=first.fuel, engine=first.engine)


def _is_engines_own(first: Ticked | WorkflowFaulted) -> bool:
    """True for a fault that only the engine of its time can give again: its fuel, its stack."""
    if not isinstance(first, WorkflowFaulted):
        return False
    return first.code == "fuel" or (first.code == "trap" and "stack_overflow" in first.message)


def _submitted(world: World, first: EventAdmitted) -> tuple[Record, ...]:
    """Admit a recorded event again: schema, key and routing are decided anew."""
    assert first.stamp is not None, "only external events are submitted again"
    value = first.value
    if value is None:
        assert first.value_hash is not None, "a value stands inline or by digest"
        value = read_blob(world.blobs, first.value_hash)
    sample = make(Sample, (first.stamp.now_ns, first.stamp.entropy))
    idem_key = None if first.idem_key is None else first.idem_key.key
    sender = (first.origin.kind, first.origin.principal)
    tags = tuple(first.tags or ())
    fields = (sample, first.schema, value, "canonical", first.key, tags, idem_key, *sender)
    given = make(Submit, fields)
    try:
        return submit(world, given).records
    except TallyError as why:
        return _refused(why)


def _decided(world: World, first: IntentApproval) -> tuple[Record, ...]:
    """Decide again about a held intent: who may, how many it takes, and what is released."""
    sample = Sample(first.stamp.now_ns, first.stamp.entropy)
    seal_ok = None if first.seal is None else True
    fields = (first.intent, first.principal, first.decision, first.comment, first.seal)
    try:
        return submit(world, Decide(sample, *fields, seal_ok)).records
    except TallyError as why:
        return _refused(why)


def _governed(world: World, given: Govern) -> tuple[Record, ...]:
    """Decide again about a change of the rules or of the code."""
    try:
        return submit(world, given).records
    except TallyError as why:
        return _refused(why)


def _refused(why: TallyError) -> tuple[Record, ...]:
    """What was taken once is refused now: no records; what was whole then and is not was lost."""
    if isinstance(why, JournalCorrupt):
        raise why
    if why.code == "bundle.incomplete":
        raise BlobLost(why.message, where={"blob": why.where["hash"]}) from why
    return ()


def _check_roots(world: World, taken: SnapshotTaken, seq: int) -> Found | None:
    state = state_root(world)
    if state != taken.state_root:
        return Found(seq, None, None, "state_root", taken.state_root.hex(), state.hex())
    whole = root_of(world, state)
    if whole != taken.root:
        return Found(seq, None, None, "root", taken.root.hex(), whole.hex())
    return None


def _difference(seq: int, recorded: list[Record], made: tuple[Record, ...]) -> Found | None:
    for i, record in enumerate(recorded):
        if i >= len(made):
            return _found(seq + i, record, "record", type(record).__name__, None)
        if record == made[i]:
            continue
        if type(record) is not type(made[i]):
            kind = type(made[i]).__name__
            return _found(seq + i, record, "record", type(record).__name__, kind)
        pairs = _fields(record, made[i])
        name, expected, got = next(each for each in pairs if each[1] != each[2])
        return _found(seq + i, record, name, _shown(expected), _shown(got))
    if len(made) > len(recorded):
        extra = made[len(recorded)]
        return _found(seq + len(recorded), extra, "record", None, type(extra).__name__)
    return None


def _fields(one: Record, other: Record) -> Iterator[tuple[str, Any, Any]]:
    return zip(one._fields, one, other, strict=True)


def _found(seq: int, record: Record, field: str, expected: Any, got: Any) -> Found:
    workflow = getattr(record, "workflow", None)
    key = getattr(record, "key", None)
    return Found(seq, workflow, key if type(key) is bytes else None, field, expected, got)


def _shown(value: Any) -> Any:
    if type(value) is bytes:
        return value.hex()
    return value if type(value) in (str, int, bool) or value is None else repr(value)[:200]
