"""Records: every type round-trips canonically, and a reader never guesses."""

# tidy: one sample of every record type stands here as one table.
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.errors import JournalCorrupt
from tallystick.model import records
from tallystick.model.records import DEFAULTS, KIND_OF, load_record, put_record
from tallystick.values import canon

GOLDEN = Path(__file__).parent.parent / "golden" / "journals" / "records.json"

D = bytes(range(32))
STAMP = records.Stamp(1_700_000_000_000_000_000, 1_700_000_000_000_000_001, bytes(range(64)))
ORIGIN = records.Origin("workflow", "t/flow@1", D, b"k", 7, 0)
JUDGED = records.Judged(
    "ok",
    "ok",
    records.JudgedGrant("pay", "effect", D),
    records.JudgedRule("t/all@1", 0, "allow", "all"),
    "ok",
    D,
)
ACT = ("t/flow@1", b"k", "alice", "because", STAMP)

# One of each, with every field set, so that the golden bytes pin every name and kind.
SAMPLES: tuple[records.Record, ...] = (
    records.EventAdmitted(
        schema="t/Go@1",
        event_hash=D,
        origin=records.Source("workflow", "alice", "t/flow@1", b"k", 4),
        hops=1,
        to=(
            records.Target("t/flow@1", b"k", create=True, arm="Go", upcast="t/up@1", value=b"v"),
            records.Target("t/one@1", b"", create=False, init=b"i", caps={"a": 1}, caller=D),
        ),
        value=b"v",
        value_hash=D,
        key=b"k",
        tags=["eu"],
        idem_key=records.IdemKey(b"once", D),
        stamp=STAMP,
    ),
    records.Ticked(
        workflow="t/flow@1",
        key=b"k",
        workflow_hash=D,
        module_hash=D,
        input_seq=5,
        input_index=1,
        born_seq=5,
        size=3,
        state_version=2,
        status="completed",
        output=D,
        events=1,
        effects=2,
        fuel=9,
        engine="python/1",
        before=D,
        after=D,
        state=b"s",
        reason={"code": "c", "message": "m"},
        result=b"r",
        ann=b"a",
        logs=[{"level": "info", "message": "m"}],
        metrics={"n": -1},
        blobs=[D],
    ),
    records.IntentOpened(
        intent=D,
        effect="t/ask@1",
        effect_hash=D,
        executor="outside",
        origin=ORIGIN,
        judged=JUDGED,
        params=b"p",
        params_hash=D,
        issuer_ref="ref",
        idempotency_key=b"once",
        timeout_at_ns=10,
        hold={"kind": "approval"},
        flow={"rate": 1},
    ),
    records.IntentAttached(D, ORIGIN, "ref"),
    records.IntentDenied(
        intent=D,
        effect="t/ask@1",
        origin=ORIGIN,
        judged=records.Judged("no"),
        stage="declared",
        code="effect.undeclared",
        message="no",
        effect_hash=D,
        params=b"p",
        params_hash=D,
        issuer_ref="ref",
        idempotency_key=b"once",
        normalised=True,
        rule="t/all@1#0",
        path="/x",
    ),
    records.IntentReleased(D, "fork", "by hand", STAMP),
    records.IntentApproval(D, "bob", "approve", STAMP, "fine", {"alg": "ed25519", "at_ns": 1}),
    records.EffectAttempted(D, 2, "restart", STAMP),
    records.ReceiptSettled(
        intent=D,
        status="ok",
        source="executor",
        executor="outside",
        attempt=1,
        started_ns=1,
        ended_ns=2,
        to=(records.Address("t/flow@1", b"k"),),
        outcome="delivered",
        payload=b"p",
        payload_hash=D,
        usage={"cents": 3},
        seal={"key": "0011223344556677", "sig": bytes(64)},
        key_id="0011223344556677",
        stamp=STAMP,
        error={"code": "c", "message": "m"},
    ),
    records.ProgressNoted(D, 1, 3, "token", b"p", STAMP, 2),
    records.WorkflowFaulted(
        workflow="t/flow@1",
        key=b"k",
        input_seq=5,
        input_index=0,
        code="fuel",
        message="m",
        fuel=9,
        engine="python/1",
        action="failed",
        limit={"name": "fuel", "max": 1, "got": 2},
    ),
    records.StateMigrated("t/flow@1", b"k", 1, 2, D, D),
    records.CellUnpinned("t/flow@1", b"k", "checkpoint"),
    records.WorldCreated("6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "node", STAMP),
    records.WorldForked(
        "child", "parent", 4, D, D, {"*": "suspend"}, "alice", STAMP, synthetic=True
    ),
    records.WorldRestored("backup", D, "alice", STAMP),
    records.CellSuspended(*ACT),
    records.CellResumed(*ACT),
    records.CellSkipped(*ACT, input_seq=5),
    records.CellCancelRequested(*ACT, deadline_ns=9),
    records.CellFailed(*ACT),
    records.KeyTrusted("0011223344556677", D, ["*"], ["*"], "node", STAMP),
    records.KeyRevoked("0011223344556677", "alice", "lost", STAMP),
    records.GrantMinted(
        "tool.http@e1",
        "tool.http",
        "sys/http.out@1",
        {"hosts": ["a"]},
        D,
        "sys/playbook@1",
        b"k",
        "ana",
    ),
    records.GrantRevoked("effect", "alice", "misused", STAMP),
    records.ApplyRefused(D, "gov.not_quiescent", [["ready", {}]], 1, "alice", STAMP, "p-1"),
    records.Proposed("p-1", D, D, D, D, {"added": []}, "alice", STAMP, "why", "p-0"),
    records.Shadowed("p-1", D, True, "alice", STAMP, ["bob"]),
    records.Proved("p-1", D, {"identical": 3}, "alice", STAMP),
    records.Approved("p-1", D, "bob", STAMP, D, "fine", {"alg": "ed25519", "at_ns": 1}),
    records.Rejected("p-1", "bob", STAMP, "no", {"alg": "ed25519", "at_ns": 1}),
    records.ProposalFailed("p-1", "module.no_entrypoint", "no such", "alice", STAMP),
    records.AliasMoved("prod", "w-2", "alice", STAMP, "w-1"),
    records.BundleActivate(
        to=D,
        bundle=D,
        mode="quiescent",
        principal="alice",
        proposal="p-1",
        from_=D,
        plan=D,
        report_hash=D,
        approved_by=[{"principal": "bob", "seq": 3}],
        stamp=STAMP,
    ),
    records.SnapshotTaken(D, D, {"cell:t/flow@1": D}, D, 3, 1, STAMP),
    records.Dropped("receipt", "late", D, 3, "outside", D, "t/flow@1", b"k", STAMP),
    records.Noted("topic", {"n": 1}, "t/flow@1", b"k", STAMP),
)

BY_TYPE: dict[str, Any] = {type(sample).__name__: sample for sample in SAMPLES}
each_type = pytest.mark.parametrize("name", sorted(BY_TYPE))


def raw_of(record: records.Record) -> dict[str, Any]:
    """The decoded map of a record."""
    raw = canon.decode(canon.PREFIX + put_record(record))
    assert isinstance(raw, dict)
    return raw


def required(record: records.Record) -> list[str]:
    """The names in the map that have no default."""
    return [n.rstrip("_") for n in record._fields if n not in record._field_defaults]


def test_there_is_a_sample_of_every_type_with_every_field() -> None:
    """MO-18: the table below misses no record type and no field."""
    assert set(BY_TYPE) == {cls.__name__ for cls in KIND_OF}
    assert [s for s in SAMPLES if None in s] == []


@each_type
@pytest.mark.clause("X-07")
@pytest.mark.invariant("I13")
def test_golden_bytes(name: str) -> None:
    """MO-18: the bytes of each type are those on file: a journal of today is read tomorrow."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert put_record(BY_TYPE[name]).hex() == golden[name]
    assert set(golden) == set(BY_TYPE)


@each_type
@pytest.mark.clause("X-07")
def test_round_trip(name: str) -> None:
    """MO-18: whole, and with only what is required; the map holds `record` and no null."""
    whole = BY_TYPE[name]
    slim = whole._replace(**dict.fromkeys(whole._field_defaults))
    for record in (whole, slim):
        raw = raw_of(record)
        assert raw["record"] == name
        assert None not in raw.values()
        assert load_record(raw) == record
        assert canon.encode(raw)[3:] == put_record(record), "fields stand in canonical order"


@each_type
@pytest.mark.clause("X-07")
def test_an_unknown_field_stops_reading(name: str) -> None:
    """MO-18: a field of a newer release is not skipped; exit 4."""
    with pytest.raises(JournalCorrupt) as caught:
        load_record({**raw_of(BY_TYPE[name]), "newer": 1})
    assert caught.value.code == "record.unknown_field"
    assert caught.value.exit_code == 4
    assert caught.value.where["fields"] == ["newer"]


@each_type
def test_a_missing_field_stops_reading(name: str) -> None:
    """MO-18: each required field, taken away, is missed; a null is never a value."""
    raw = raw_of(BY_TYPE[name])
    for field in required(BY_TYPE[name]):
        if field in DEFAULTS.get(type(BY_TYPE[name]), {}):
            continue  # it goes without saying
        with pytest.raises(JournalCorrupt) as caught:
            load_record({key: value for key, value in raw.items() if key != field})
        assert caught.value.code == "record.malformed"
        assert caught.value.where["field"] == field
    for field in raw:
        with pytest.raises(JournalCorrupt):
            load_record({**raw, field: None})


# Values of every CBOR kind; for each field some of these are of the wrong kind.
STRANGERS = (True, -1, "text", b"short", [1], {"x": 1})
FREE = {
    "tags", "caps", "reason", "logs", "metrics", "blobs", "hold", "flow", "usage", "seal", "error",
    "limit", "pending", "executors", "effects", "blockers", "approved_by", "roots", "data",
    "summary", "verdicts", "voided", "params",
}  # fmt: skip


@each_type
def test_a_field_of_another_kind_stops_reading(name: str) -> None:
    """MO-18: in each typed field all but one of six kinds of value are refused, by field."""
    raw = raw_of(BY_TYPE[name])
    for field, value in raw.items():
        if field in FREE and not isinstance(value, str | int | bytes):
            continue
        for stranger in STRANGERS:
            if not _fits(value, stranger):
                with pytest.raises(JournalCorrupt):
                    load_record({**raw, field: stranger})


def _fits(value: Any, stranger: Any) -> bool:
    """Whether a stranger may stand in place of a value: digests are 32 bytes, numbers natural."""
    if type(stranger) is not type(value) or stranger == -1:
        return False
    return not (isinstance(value, bytes) and len(value) == 32)


@pytest.mark.parametrize(
    "raw",
    [None, 1, [], {}, {"record": "Newer"}, {"record": 1}, {"record": ["Ticked"]}],
    ids=repr,
)
@pytest.mark.clause("X-07")
def test_an_unknown_type_stops_reading(raw: object) -> None:
    """MO-18: folding past an unknown record would be a guess; exit 4 and a hint."""
    with pytest.raises(JournalCorrupt) as caught:
        load_record(raw)
    assert caught.value.code == "record.unknown_type"
    assert caught.value.exit_code == 4
    assert caught.value.hint


@given(
    st.integers(0, 2**64 - 1),
    st.binary(max_size=40),
    st.text(max_size=20),
    st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5), st.booleans())),
)
def test_round_trip_of_any_values(number: int, data: bytes, text: str, to: list[Any]) -> None:
    """MO-18: sizes, bytes and text of any length keep their canonical form."""
    record = BY_TYPE["EventAdmitted"]._replace(
        hops=number,
        value=data,
        schema=text,
        to=tuple(records.Target(*each) for each in to),
        tags=[text],
    )
    raw = raw_of(record)
    assert load_record(raw) == record
    assert canon.encode(raw)[3:] == put_record(record)
