"""The hot readers read what the general reader reads, and refuse what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.errors import JournalCorrupt, NotCanonical
from tallystick.model import hot, hot_items, hot_read, hot_read_effects
from tallystick.model.frames import GENESIS, open_frame, open_plainly, seal_frame
from tallystick.model.records import (
    EventAdmitted,
    IdemKey,
    IntentOpened,
    ReceiptSettled,
    Record,
    Source,
    Stamp,
    Target,
    Ticked,
)
from tallystick.values import canon
from tests.model.test_records import SAMPLES
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents

HOT = (EventAdmitted, Ticked, IntentOpened, ReceiptSettled)
MERKLE = {
    "alg": "ed25519-merkle",
    "key": "0" * 16,
    "sig": b"s" * 64,
    "path": [b"p" * 32, b"q" * 32],
    "root": b"r" * 32,
    "size": 3,
    "index": 1,
}


@pytest.fixture(scope="module")
def journal() -> list[Record]:
    """The records of two orders, one of them with an Idempotency-Key."""
    rig = Rig(order_documents(), FUNCTIONS)
    rig.send(CREATED, created("o-1"))
    rig.send(CREATED, created("o-2"), idem_key=b"once")
    for job in rig.jobs.all:
        rig.settle(job, {"ref": "r"})
    return list(rig.records())


def taken(record: Record) -> Record | None:
    """What the hot reader makes of a record; None when it leaves it to the general one."""
    data = hot.put(record)
    read = hot_read._READERS.get(data[:4])
    found = None if read is None else read(data, 0)
    assert found is None or found[1] == len(data)
    return None if found is None else found[0]


def opened(body: bytes, read: Any) -> Any:
    """The outcome of reading a body: what it holds, or the code and place of its refusal."""
    try:
        return read(body)
    except JournalCorrupt as why:
        return why.code, why.where


@pytest.mark.clause("K-12")
def test_a_journal_is_read_by_the_hot_readers(journal: list[Record]) -> None:
    """K2: every record of the four types is taken whole, and equals what was written."""
    usual = [record for record in journal if type(record) in HOT]
    assert {type(record) for record in usual} == set(HOT)
    for record in usual:
        assert taken(record) == record
    body = seal_frame(WORLD, 1, GENESIS, journal).body
    assert open_frame(body) == open_plainly(body) == (WORLD, 1, GENESIS, journal)


def variants(journal: list[Record]) -> Iterator[Record]:
    """Each hot record with each of its optional fields there and not, and with edges."""
    full = {type(sample): sample for sample in SAMPLES}
    record: Any
    for record in journal:
        if type(record) not in HOT:
            continue
        yield record
        for name in record._field_defaults:
            changes = {name: getattr(full[type(record)], name)}
            if name in {"value_hash", "params_hash", "payload_hash"}:
                changes[name.removesuffix("_hash")] = None  # content stands inline or by digest
            if name != "key_id" or record.seal is None:  # a seal names its key
                yield record._replace(**{name: None})
            yield record._replace(**changes)
        for name, value in record._asdict().items():
            if type(value) is bytes and name in {"key", "value", "state", "params", "payload"}:
                for length in (0, 23, 24, 255, 256, 65_535, 65_536):
                    yield record._replace(**{name: bytes(length)})
            if type(value) is int:
                for bits in (5, 8, 16, 32, 63):
                    yield record._replace(**{name: 2**bits - 1})
                    yield record._replace(**{name: 2**bits})
            if type(value) is str:
                for length in (0, 23, 24, 63, 64, 65, 300):
                    yield record._replace(**{name: "é"[: length % 2] + "n" * length})


@pytest.mark.clause("K-12")
def test_every_optional_field_and_every_size_reads_back(journal: list[Record]) -> None:
    """VA-01 for records: rare fields, empty and long strings, large numbers: one reading."""
    seen = 0
    for record in variants(journal):
        body = seal_frame(WORLD, 7, GENESIS, [record, journal[0]]).body
        assert open_frame(body) == open_plainly(body) == (WORLD, 7, GENESIS, [record, journal[0]])
        seen += 1
    assert seen > 300


def test_the_readers_take_what_a_node_writes(journal: list[Record]) -> None:
    """K2: principals, keys, batch seals, usage and timeouts are on the hot path too."""
    by_type: dict[type, Any] = {type(record): record for record in journal}
    event, intent = by_type[EventAdmitted], by_type[IntentOpened]
    settled = by_type[ReceiptSettled]
    batch = {"alg": "ed25519-batch", "key": "0" * 16, "sig": b"s" * 64, "path": [b"p" * 32]}
    merkle = {**MERKLE, "path": [b"\x64" * 32] * 8}
    stamp = Stamp(1, 2, bytes(64))
    delivered = (Target("t/flow@1", b"k", create=False),)
    called = delivered[0]._replace(caller=b"\x66create" * 4 + bytes(4))
    for record in (
        event._replace(origin=Source("external", "alice"), stamp=stamp, to=delivered),
        event._replace(idem_key=IdemKey(b"once", bytes(32)), stamp=stamp),
        event._replace(to=(called,)),
        event._replace(to=(called._replace(arm="Start"),)),
        intent._replace(timeout_at_ns=5, idempotency_key=b"k", issuer_ref="r"),
        settled._replace(seal=batch, usage={"tokens": 3}),
        settled._replace(seal=MERKLE, usage={"tokens": 3}),
        settled._replace(seal=merkle),
        settled._replace(seal={**merkle, "path": [bytes(32)] * 30, "index": 2**40}),
        settled._replace(seal={**merkle, "path": [bytes(31)]}),
        settled._replace(
            seal={**merkle, "path": [b"\x58\x20" * 16], "root": b"\x64root" * 6 + b"\0\0"}
        ),
        settled._replace(seal=None, key_id=None, stamp=None, to=()),
    ):
        assert taken(record) == record


def test_content_that_looks_like_a_record_is_only_content(journal: list[Record]) -> None:
    """I13: a stranger's bytes that hold whole records and keys change nothing about reading."""
    lures = b"".join(hot.put(record) for record in journal)
    record: Any
    for record in journal:
        for name in ("key", "value", "state", "params", "payload", "result"):
            if type(getattr(record, name, None)) is bytes:
                for length in (20, 100, 60_000):
                    lured = record._replace(**{name: lures[-length:]})
                    body = seal_frame(WORLD, 1, GENESIS, [lured]).body
                    assert open_frame(body) == open_plainly(body)
                    assert open_frame(body)[3] == [lured]


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I13")
def test_changed_bytes_have_one_outcome(journal: list[Record]) -> None:
    """KN-22 for frames: each byte changed, dropped or doubled: both readers agree on every one."""
    chosen = [next(r for r in journal if type(r) is kind) for kind in HOT]
    chosen.append(chosen[-1]._replace(seal=MERKLE))  # type: ignore[call-arg]  # it is a receipt
    refused = 0
    for record in chosen:
        body = seal_frame(WORLD, 1, GENESIS, [record]).body
        for at in range(len(body)):
            for other in (
                body[:at] + bytes((body[at] ^ (1 << at % 8),)) + body[at + 1 :],
                body[:at] + body[at + 1 :],
                body[: at + 1] + body[at:],
            ):
                outcome = opened(other, open_frame)
                assert outcome == opened(other, open_plainly)
                refused += len(outcome) == 2
    assert refused > 1000


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("raw", [b"\x61", b"\x61ab", b"\x41a", b"\x78\x01a", b"\x61\xff", b""])
def test_what_is_not_one_text_is_refused(raw: bytes) -> None:
    """VA-01: the memory of texts takes one canonical text and nothing else."""
    with pytest.raises((NotCanonical, ValueError)):
        hot_items.TEXTS[raw]
    assert raw not in hot_items.TEXTS


def test_the_memories_are_bounded(journal: list[Record]) -> None:
    """Names, numbers, trails and sources chosen by strangers are read right and do not pile up."""
    by_type: dict[type, Any] = {type(record): record for record in journal}
    ticked, intent = by_type[Ticked], by_type[IntentOpened]
    event = by_type[EventAdmitted]._replace(stamp=Stamp(1, 2, bytes(64)))
    for i in range(hot_items.MEMORY_MAX + 50):
        for record in (
            ticked._replace(workflow=f"t/w{i}@1", state_version=i, state=bytes(i % 700)),
            intent._replace(effect=f"t/e{i}@1"),
            event._replace(origin=Source("external", f"p{i}")),
        ):
            assert taken(record) == record
    for memory in (
        hot_items.TEXTS,
        hot_items.NUMBERS,
        hot_items.SIZES,
        hot_read._CODES,
        hot_read._SOURCES,
        hot_read_effects._TRAILS,
    ):
        assert len(memory) <= hot_items.MEMORY_MAX


def test_more_lengths_than_are_remembered() -> None:
    """Lengths are a stranger's choice: all are read right, and no more than a bound is kept."""
    for length in range(256, 256 + hot_items.MEMORY_MAX + 50):
        assert hot_items.SIZES[b"\x59" + length.to_bytes(2, "big")] == length
    assert len(hot_items.SIZES) <= hot_items.MEMORY_MAX


@pytest.mark.parametrize("raw", [b"\x58\x18short", b"\x58\x17" + bytes(23)])
def test_a_string_has_the_length_that_its_head_says(raw: bytes) -> None:
    """VA-01: a string that was found by what follows it is compared with its head."""
    with pytest.raises(ValueError, match="length"):
        hot_items.bare(raw)


@pytest.mark.clause("K-12")
def test_a_map_that_counts_otherwise_is_left_to_the_general_reader(journal: list[Record]) -> None:
    """KN-22 for frames: the counts of a delivery and of a record are what their heads say."""
    event = next(r for r in journal if type(r) is EventAdmitted and r.to and r.to[0].arm)
    for record in (event, next(r for r in journal if type(r) is Ticked)):
        body = seal_frame(WORLD, 1, GENESIS, [record]).body
        for at in [i for i, byte in enumerate(body) if 0xA0 <= byte < 0xB8]:
            for change in (-1, 1):
                other = body[:at] + bytes((body[at] + change,)) + body[at + 1 :]
                assert opened(other, open_frame) == opened(other, open_plainly)
    data = hot.put(event)
    assert hot_read._event(data.replace(b"\x81\xa4", b"\x81\xa3", 1), 0) is None


def test_a_trail_without_facts_is_not_remembered(journal: list[Record]) -> None:
    """Two trails of one effect follow each other: each is read as it was written."""
    intent = next(record for record in journal if type(record) is IntentOpened)
    bare = intent._replace(judged=intent.judged._replace(inputs_digest=None))
    other = intent._replace(judged=intent.judged._replace(capacity="later"))
    for record in (intent, bare, other, intent):
        assert taken(record) == record


def test_an_array_of_many_records() -> None:
    """MO-18: a frame of more records than a short head counts is read by the same way."""
    many = list(SAMPLES) * 3
    body = seal_frame(WORLD, 1, GENESIS, many).body
    assert open_frame(body)[3] == open_plainly(body)[3] == many
    assert canon.encode(canon.decode(body)) == body
