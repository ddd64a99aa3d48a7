"""Frames: the chain that finds any change, loss, reorder, insertion or cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import JournalCorrupt
from tallystick.journal.base import Append, Head
from tallystick.journal.memory import MemoryJournal
from tallystick.model.frames import (
    GENESIS,
    Damage,
    Sealed,
    next_records,
    open_frame,
    seal_frame,
    verify_chain,
)
from tallystick.model.records import Noted, Record
from tallystick.node.worlds import ForkOrder, fork_world
from tallystick.values import canon
from tests import worlds
from tests.model.test_records import SAMPLES
from tests.rig import WORLD, Rig


@cache
def chain(length: int = 12) -> tuple[Sealed, ...]:
    """A chain of frames of one to three records."""
    frames: list[Sealed] = []
    seq, prev = 1, GENESIS
    for i in range(length):
        records: list[Record] = [Noted("n", {"frame": i, "record": j}) for j in range(1 + i % 3)]
        frames.append(seal_frame(WORLD, seq, prev, records))
        seq, prev = frames[-1].last + 1, frames[-1].hash
    return tuple(frames)


def verify(frames: list[Sealed], upto: tuple[int, bytes] | None = None) -> Damage | None:
    return verify_chain(frames, world=WORLD, upto=upto)


def checkpoint() -> tuple[int, bytes]:
    """The last seq and hash of the whole chain, as a checkpoint kept elsewhere has it."""
    return chain()[-1].last, chain()[-1].hash


def resealed(frame: Sealed, body: bytes) -> Sealed:
    """A forged frame whose hash fits its new body."""
    return frame._replace(body=body, hash=sha256(body).digest())


def test_body_form() -> None:
    """MO-20: the hashed body is `{v, world, seq, prev, records}` and nothing else."""
    frame = chain()[4]
    raw = canon.decode(frame.body)
    assert isinstance(raw, dict)
    assert raw.keys() == {"v", "world", "seq", "prev", "records"}
    assert (raw["v"], raw["world"], raw["seq"]) == (1, WORLD, frame.seq)
    assert raw["prev"] == chain()[3].hash
    assert frame.hash == sha256(frame.body).digest()
    assert canon.encode(raw) == frame.body
    assert frame.last == frame.seq + len(raw["records"]) - 1


def test_frames_of_every_record_type_read_back() -> None:
    """MO-18: a frame of one record of each type is read back as it was written."""
    frame = seal_frame(WORLD, 1, GENESIS, SAMPLES)
    world, seq, prev, found = open_frame(frame.body)
    assert (world, seq, prev) == (WORLD, 1, GENESIS)
    assert tuple(found) == SAMPLES


@pytest.mark.invariant("I10")
def test_the_records_of_the_next_frame_are_those_that_opening_it_gives() -> None:
    """MO-19: read where it must stand, a frame gives its records; anywhere else it gives none."""
    for frame in chain():
        _, seq, prev, records = open_frame(frame.body)
        assert next_records(frame, seq, prev) == records
        assert next_records(frame, seq + 1, prev) is None
        assert next_records(frame, seq, bytes(31) + b"x") is None
        assert next_records(frame._replace(world="w-other"), seq, prev) is None
        for body in (*(frame.body[:end] for end in range(len(frame.body))), frame.body + b"\x00"):
            assert next_records(frame._replace(body=body), seq, prev) is None
    many = seal_frame(WORLD, 1, GENESIS, [Noted("n", {"record": j}) for j in range(30)])
    assert next_records(many, 1, GENESIS) is None  # rare, and left to the general way


@pytest.mark.invariant("I10")
def test_a_whole_chain_has_no_damage() -> None:
    """MO-19: control: untouched, in parts, and up to a checkpoint."""
    frames = list(chain())
    assert verify(frames, checkpoint()) is None
    behind = (frames[4].last, frames[4].hash)
    assert verify_chain(frames[5:], world=WORLD, after=behind, upto=checkpoint()) is None
    assert verify_chain([], world=WORLD, after=behind, upto=behind) is None
    assert verify(frames, (frames[4].last, frames[4].hash)) is None


def changed(frames: list[Sealed], at: int, byte: int) -> list[Sealed]:
    body = bytearray(frames[at].body)
    body[byte % len(body)] ^= 1 + byte % 255
    return [*frames[:at], frames[at]._replace(body=bytes(body)), *frames[at + 1 :]]


def rehashed(frames: list[Sealed], at: int, byte: int) -> list[Sealed]:
    """The forger also corrects the frame's own hash: the next link, or the checkpoint, tells."""
    broken = changed(frames, at, byte)
    return [*broken[:at], resealed(broken[at], broken[at].body), *broken[at + 1 :]]


def deleted(frames: list[Sealed], at: int, _byte: int) -> list[Sealed]:
    return [*frames[:at], *frames[at + 1 :]]


def swapped(frames: list[Sealed], at: int, byte: int) -> list[Sealed]:
    other = (at + 1 + byte % (len(frames) - 1)) % len(frames)
    frames = list(frames)
    frames[at], frames[other] = frames[other], frames[at]
    return frames


def doubled(frames: list[Sealed], at: int, _byte: int) -> list[Sealed]:
    return [*frames[: at + 1], frames[at], *frames[at + 1 :]]


def inserted(frames: list[Sealed], at: int, _byte: int) -> list[Sealed]:
    before = frames[at - 1] if at else None
    prev = GENESIS if before is None else before.hash
    false = seal_frame(WORLD, frames[at].seq, prev, [Noted("false", {})])
    return [*frames[:at], false, *frames[at:]]


def cut(frames: list[Sealed], at: int, _byte: int) -> list[Sealed]:
    return frames[:at]


Damaging = Callable[[list[Sealed], int, int], list[Sealed]]


@pytest.mark.parametrize("damage", [changed, deleted, cut])
@settings(max_examples=150)
@given(at=st.integers(0, 11), byte=st.integers(0, 2**16))
@pytest.mark.invariant("I10")
def test_damage_is_named_by_its_first_seq(damage: Damaging, at: int, byte: int) -> None:
    """MO-19: changed, deleted or cut below a checkpoint: the first bad seq is where it begins."""
    frames = list(chain())
    found = verify(damage(frames, at, byte), checkpoint())
    assert found is not None
    assert found.seq == frames[at].seq
    assert found.what


@settings(max_examples=150)
@given(at=st.integers(0, 11), byte=st.integers(0, 2**16))
@pytest.mark.invariant("I10")
def test_reordered_frames_are_found(at: int, byte: int) -> None:
    """MO-19: two frames that changed places: the earlier place is named."""
    frames = list(chain())
    found = verify(swapped(frames, at, byte), checkpoint())
    other = (at + 1 + byte % (len(frames) - 1)) % len(frames)
    assert found is not None
    assert found.seq == frames[min(at, other)].seq


@settings(max_examples=150)
@given(at=st.integers(0, 11), byte=st.integers(0, 2**16))
@pytest.mark.invariant("I10")
def test_inserted_and_rehashed_frames_are_found(at: int, byte: int) -> None:
    """MO-19: a frame added, or forged with a fitting hash, breaks the chain right there or after.

    A forged body with a true hash can only be told by the next link or by the checkpoint.
    """
    frames = list(chain())
    behind = frames[at].last + 1
    assert verify(doubled(frames, at, byte), checkpoint()) == Damage(
        behind, f"sequence {frames[at].seq} follows {frames[at].last}"
    )
    extra = verify(inserted(frames, at, byte), checkpoint())
    assert extra is not None
    assert frames[at].seq <= extra.seq <= frames[at].seq + 1
    forged = verify(rehashed(frames, at, byte), checkpoint())
    assert forged is not None
    assert frames[at].seq <= forged.seq <= behind


@pytest.mark.invariant("I10")
def test_a_cut_without_a_checkpoint_cannot_be_known() -> None:
    """MO-19: control: only a checkpoint kept elsewhere tells that a tail is gone."""
    frames = list(chain())
    assert verify(frames[:7]) is None
    assert verify(frames[:7], checkpoint()) == Damage(
        frames[7].seq, "journal ends before the checkpoint"
    )


@pytest.mark.invariant("I10")
def test_a_rewritten_tail_differs_from_the_checkpoint() -> None:
    """MO-19: a chain that is whole in itself but not the one that was signed is damage."""
    frames = list(chain())
    last = frames[-1]
    false = seal_frame(WORLD, last.seq, last.prev, [Noted("x", {})] * (last.last - last.seq + 1))
    found = verify([*frames[:-1], false], checkpoint())
    assert found == Damage(last.seq, "frame differs from the checkpoint")


@pytest.mark.parametrize("field", ["world", "seq", "last", "prev"])
def test_what_stands_beside_the_body_must_agree(field: str) -> None:
    """MO-19: a header that says other than its body is damage at that frame."""
    frames = list(chain())
    lie = {"world": "other", "seq": 1, "last": 99, "prev": GENESIS}[field]
    frames[5] = frames[5]._replace(**{field: lie})  # type: ignore[arg-type]
    found = verify(frames)
    assert found is not None
    assert found.seq == chain()[5].seq


def test_a_frame_of_another_world_is_damage() -> None:
    """MO-19: a frame cannot be moved between worlds."""
    frames = list(chain())
    other = seal_frame("other", frames[3].seq, frames[3].prev, [Noted("x", {})])
    found = verify([*frames[:3], other._replace(world=WORLD)])
    assert found == Damage(frames[3].seq, "frame belongs to another world")


def body(**changes: object) -> bytes:
    raw = canon.decode(chain()[0].body)
    assert isinstance(raw, dict)
    raw.update(changes)
    return canon.encode({key: value for key, value in raw.items() if value is not ...})


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (body(v=2), "record.unknown_type"),
        (body(more=1), "record.malformed"),
        (body(prev=...), "record.malformed"),
        (body(prev=bytes(31)), "record.malformed"),
        (body(seq=0), "record.malformed"),
        (body(seq="1"), "record.malformed"),
        (body(world=b"w"), "record.malformed"),
        (body(records=[]), "record.malformed"),
        (body(records={}), "record.malformed"),
        (body(records=[{"record": "Newer"}]), "record.unknown_type"),
        (
            body(records=[{"record": "Noted", "topic": "t", "data": 1, "x": 1}]),
            "record.unknown_field",
        ),
        (canon.encode([]), "record.malformed"),
        (b"", "journal.corrupt"),
        (chain()[0].body[:-1], "journal.corrupt"),
        (chain()[0].body + b"\x00", "journal.corrupt"),
    ],
)
@pytest.mark.clause("X-07")
def test_a_reader_stops_at_what_it_does_not_know(data: bytes, code: str) -> None:
    """MO-18: an unknown format, field, type or a torn body: exit 4, never a guess."""
    with pytest.raises(JournalCorrupt) as caught:
        open_frame(data)
    assert caught.value.code == code
    assert caught.value.exit_code == 4


@pytest.mark.clause("X-08")
def test_who_wrote_a_frame_does_not_change_its_hash() -> None:
    """MO-20: two writers of other epochs write the same history, and so the same hashes."""
    heads = []
    for epochs in (1, 3):
        journal = MemoryJournal()
        for _ in range(epochs):
            journal.acquire(WORLD)
        batch = Append(WORLD, list(chain()), Head(0, GENESIS, epochs), {})
        heads += journal.append(batch)
        assert [frame.hash for frame in journal.read(WORLD)] == [f.hash for f in chain()]
    assert heads[0].hash == heads[1].hash
    assert (heads[0].epoch, heads[1].epoch) == (1, 3)


@pytest.mark.clause("X-08")
def test_a_fork_chains_to_its_parent() -> None:
    """MO-20: the first frame of a fork names the parent's frame hash at the fork point."""
    rig = Rig(worlds.order_documents(), worlds.FUNCTIONS)
    for i in range(3):
        rig.send(worlds.CREATED, worlds.created(f"o-{i}"))
    parents = list(rig.journal.read(WORLD))
    child = "0b7e4f7a-6b3c-4a57-9f0e-3f1f2a6f9a01"
    fork_world(rig.ports(), ForkOrder(WORLD, child, parents[2].last), rig.runner)
    own = [frame for frame in rig.journal.read(child) if frame.world == child]
    assert own[0].prev == parents[2].hash
    assert own[0].seq == parents[2].last + 1
    behind = (parents[2].last, parents[2].hash)
    assert verify_chain(own, world=child, after=behind) is None
    assert verify_chain(own, world=child) is not None, "control: it does not stand alone"
