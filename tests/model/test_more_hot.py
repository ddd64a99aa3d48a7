"""Records that the hot encoders leave to the general codec, and those at their edges."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import NotCanonical
from tallystick.model import hot, hot_effects
from tallystick.model.records import (
    EventAdmitted,
    IdemKey,
    IntentOpened,
    Judged,
    ReceiptSettled,
    Source,
    Target,
    Ticked,
    load_record,
    put_framed,
)
from tallystick.values import canon
from tests.rig import Rig
from tests.values.strategies import schema_of
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


@pytest.fixture(scope="module")
def written() -> dict[type, Any]:
    """One record of each kind, from a real journal."""
    rig = Rig(order_documents(), FUNCTIONS)
    rig.send(CREATED, created("o-1"))
    rig.settle(rig.jobs.all[0], {"ref": "r"})
    return {type(record): record for record in rig.records()}


BATCH = {
    "alg": "ed25519-batch",
    "key": "0" * 16,
    "root": b"r" * 32,
    "size": 2,
    "index": 0,
    "path": [b"p" * 32],
    "sig": b"s" * 64,
}
CALLED = Target("t/flow@1", b"k", create=True, caller=bytes(range(32)))
MERKLE = {**BATCH, "alg": "ed25519-merkle"}


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(
    ("kind", "field", "change"),
    [
        (EventAdmitted, "origin", lambda held: held._replace(principal="alice")),
        (EventAdmitted, "origin", lambda held: held._replace(kind="system")),
        (EventAdmitted, "origin", lambda held: Source("workflow", None, "t/w@1", b"k", 3)),
        (EventAdmitted, "origin", lambda held: Source("workflow", "alice", "t/w@1", b"k", 3)),
        (EventAdmitted, "origin", lambda held: Source("system", "alice", "t/w@1", b"k", 3)),
        (EventAdmitted, "to", lambda held: (CALLED,)),
        (EventAdmitted, "to", lambda held: (CALLED._replace(arm="Start", create=False),)),
        (EventAdmitted, "to", lambda held: (CALLED._replace(caps={"slots": {}, "grants": {}}),)),
        (EventAdmitted, "idem_key", lambda held: IdemKey(b"once", bytes(32))),
        (EventAdmitted, "schema", lambda held: "t/é@1"),
        (IntentOpened, "judged", lambda held: held._replace(policy=None)),
        (IntentOpened, "judged", lambda held: held._replace(capability=None)),
        (IntentOpened, "judged", lambda held: held._replace(inputs_digest=None)),
        (IntentOpened, "judged", lambda held: held._replace(capacity=None)),
        (IntentOpened, "judged", lambda held: held._replace(shape=None)),
        (IntentOpened, "judged", lambda held: Judged("no")),
        (ReceiptSettled, "seal", lambda held: BATCH),
        (ReceiptSettled, "seal", lambda held: MERKLE),
        (ReceiptSettled, "seal", lambda held: {**MERKLE, "path": [b"p" * 32] * 30, "size": 2**29}),
        (ReceiptSettled, "seal", lambda held: {**MERKLE, "path": []}),
        (ReceiptSettled, "seal", lambda held: {**MERKLE, "path": [b"p" * 31, b"p" * 32]}),
        (ReceiptSettled, "seal", lambda held: {**MERKLE, "root": b"short"}),
        (ReceiptSettled, "seal", lambda held: {**held, "alg": "other"}),
        (Ticked, "metrics", lambda held: {"a": 1}),
        (Ticked, "logs", lambda held: [{"level": "info", "message": "m"}]),
    ],
)
def test_rare_records_have_the_same_bytes(
    written: dict[type, Any], kind: type, field: str, change: Any
):
    """VA-01 for records: whatever the hot path leaves out, both writers agree and it reads back."""
    record = written[kind]
    other = record._replace(**{field: change(getattr(record, field))})
    data = hot.put(other)
    assert data == put_framed(other) != put_framed(record)
    assert load_record(canon.decode(canon.PREFIX + data)) == other


@pytest.mark.clause("K-12")
def test_more_names_than_are_remembered(written: dict[type, Any]):
    """VA-01 for records: names chosen by a stranger are written right and do not pile up."""
    ticked = written[Ticked]
    for number in range(4_200):
        other = ticked._replace(workflow=f"t/w{number}@1")
        assert hot.put(other) == put_framed(other)
    assert len(hot._NAMES) <= 4096


@pytest.mark.clause("K-12")
def test_more_senders_than_are_remembered(written: dict[type, Any]):
    """VA-01 for records: principals, which are a stranger's words, do not pile up either."""
    event = written[EventAdmitted]
    for number in range(1_100):
        other = event._replace(origin=Source("external", f"p{number}"))
        assert hot.put(other) == put_framed(other)
    assert len(hot._SENDERS) <= 1024


@pytest.mark.clause("K-12")
def test_more_lengths_than_are_remembered(written: dict[type, Any]):
    """VA-01 for records: byte strings of any length are written right, remembered or not."""
    ticked = written[Ticked]
    for length in range(4_200):
        other = ticked._replace(key=b"k" * length)
        assert hot.put(other) == put_framed(other)


@pytest.mark.clause("K-12")
def test_more_numbers_than_are_remembered() -> None:
    """VA-01: numbers that come once are written right, and the memory forgets when it is full."""
    for number in range(2**40, 2**40 + 2_100):
        assert canon.NUMBERS[number] == canon.put_int(number)
        assert len(canon.NUMBERS) <= 1024
    assert canon.NUMBERS[2**40] == canon.put_int(2**40)


@pytest.mark.clause("K-12")
def test_more_trails_than_are_remembered(written: dict[type, Any]) -> None:
    """VA-01 for records: any number of grants and rules is written right and does not pile up."""
    opened = written[IntentOpened]
    judged = opened.judged
    for number in range(1_100):
        rule = judged.policy._replace(rule=number, id=None if number % 2 else f"r{number}")
        other = opened._replace(judged=judged._replace(policy=rule))
        assert hot.put(other) == put_framed(other)
    assert len(hot_effects._TRAILS) <= 1024


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("head", [b"\x18\x17", b"\x19\x00\xff", b"\x1a\x00\x00\xff\xff", b"\x1c"])
def test_a_head_longer_than_needed_is_not_taken(head: bytes) -> None:
    """VA-01: a number has one head; the typed reader refuses the others as the general one does."""
    schema = schema_of({"nat": {}})
    with pytest.raises(NotCanonical) as refused:
        schema.read(canon.PREFIX + head)
    assert refused.value.code == "cbor.not_minimal"


@pytest.mark.clause("K-12")
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ({"int": {}}, -(2**40)),
        ({"unit": {}}, None),
        ({"set": {"int": {}}}, [1, 300, 70_000]),
        ({"map": {"key": {"text": {}}, "value": {"nat": {}}}}, {"a": 1, "b": 2**33}),
        ({"json": {}}, {"a": [1, 1.5, None]}),
    ],
)
def test_what_was_written_is_taken_back(type_: dict[str, Any], value: Any) -> None:
    """VA-01: the typed reader gives the value and keeps the bytes; a cut document is refused."""
    schema = schema_of(type_)
    data = schema.admit(value).bytes
    taken = schema.read(data)
    assert (taken.value, taken.bytes) == (value, data)
    with pytest.raises(NotCanonical):
        schema.read(data[:-1])
