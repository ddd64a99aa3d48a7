"""The door: what is refused leaves the world as it was, and says why and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, RevokeGrant, RevokeKey, Submit, TrustKey
from tallystick.model.records import Dropped, EventAdmitted, Ticked
from tallystick.model.sys_definitions import SYSTEM_INPUTS, of_kind
from tallystick.values import canon
from tests.rig import NODE, OUTSIDER, Rig, check, refused
from tests.worlds import GO, LAB, TEXT, go, lab_documents, lab_function, record, schema

CODE = ("t/code@1", "lab")
DAY_NS = 86_400 * 1_000_000_000


def lab(**given: Any) -> Rig:
    return Rig(lab_documents(**given), {CODE: lab_function()})


def event(rig: Rig, name: str = GO, value: Any = None, **more: Any) -> Submit:
    return Submit(rig.clock.sample(), name, go("a") if value is None else value, **more)


# ---- refusals -------------------------------------------------------------------------------

SYSTEM = sorted(of_kind("defschema"))


@pytest.mark.clause("K-09")
@pytest.mark.parametrize("name", SYSTEM)
def test_reserved(name: str) -> None:
    """MO-12: no `sys/` schema comes in from outside, whatever its value: receipts above all."""
    rig = lab()
    for value, lens in (({}, "sugar"), (canon.encode({}), "canonical")):
        for origin in ("external", "system"):
            why = refused(rig, event(rig, name, value, lens=lens, origin=origin))
            # The node's own rooms may send a few, and those are judged like any event.
            ours = origin == "system" and name in SYSTEM_INPUTS
            assert why.code == ("value.mismatch" if ours else "ingress.reserved_schema")
    assert not rig.records(EventAdmitted)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("ingress.unknown_schema", {"name": "t/Nothing@1"}),
    ("ingress.unknown_schema", {"name": "t/Go@2"}),
    ("value.mismatch", {"value": {"id": "a"}}),
    ("value.mismatch", {"value": {"id": "a", "do": "x", "n": -1}}),
    ("value.mismatch", {"value": {"id": "a", "do": "x", "n": 1, "more": 1}}),
    ("value.mismatch", {"value": {"id": 7, "do": "x", "n": 1}}),
    ("value.mismatch", {"value": "text"}),
    ("cbor.prefix", {"value": b"junk", "lens": "canonical"}),
    ("value.mismatch", {"value": canon.encode({"id": "a"}), "lens": "canonical"}),
    ("ingress.key_mismatch", {"key": canon.encode("b")}),
    ("ingress.key_mismatch", {"key": b"a"}),
    ("ingress.bad_key", {"idem_key": b""}),
    ("ingress.bad_key", {"idem_key": b"x" * 129}),
    ("ingress.bad_tags", {"tags": ("x",) * 65}),
    ("ingress.bad_tags", {"tags": ("x" * 201,)}),
]


@pytest.mark.clause("K-09", "K-12", "X-01")
@pytest.mark.parametrize(("code", "given"), REFUSED)
def test_refused(code: str, given: dict[str, Any]) -> None:
    """Every refusal has a stable code, a place and a hint; the root stays as it was."""
    rig = lab()
    rig.send(GO, go("a"))
    assert refused(rig, event(rig, **given)).code == code
    assert len(rig.records(EventAdmitted)) == 1
    check(rig)


@pytest.mark.clause("K-09")
def test_mismatch_names_the_path() -> None:
    """A value that does not fit is refused with the path of each fault."""
    rig = lab()
    why = refused(rig, event(rig, value={"id": 7, "do": "x", "n": -1}))
    assert {e["path"] for e in why.where["errors"]} == {"/id", "/n"}


@pytest.mark.clause("K-09")
@pytest.mark.parametrize("lens", ["sugar", "canonical"])
def test_too_large(lens: str) -> None:
    """An event over `event_bytes_max` is refused with the limit and the size."""
    rig = lab(limits={"event_bytes_max": 64})
    value: Any = go("a", "x" * 100)
    given = canon.encode(value) if lens == "canonical" else value
    why = refused(rig, event(rig, value=given, lens=lens))
    assert why.code == "ingress.too_large"
    assert why.where["max"] == 64
    assert why.where["got"] > 100
    check(rig)


@pytest.mark.clause("K-09")
def test_read_only() -> None:
    """A world that is read-only takes no event and keeps its root."""
    rig = lab()
    rig.world.read_only = True
    assert refused(rig, event(rig)).code == "ingress.read_only"
    rig.world.read_only = False
    assert rig.send(GO, go("a")).kind == "accepted"
    check(rig)


@pytest.mark.clause("K-36")
def test_busy() -> None:
    """At `mailbox_max` ingress for that cell alone is refused, and taken again once it ticks."""
    rig = lab(limits={"mailbox_max": 3})
    for _ in range(3):
        rig.send(GO, go("a"), run=False)
    why = refused(rig, event(rig))
    assert why.code == "ingress.busy"
    assert why.status == 429
    assert rig.send(GO, go("b"), run=False).kind == "accepted"
    rig.driver.tick()
    assert rig.send(GO, go("a"), run=False).kind == "accepted"
    check(rig)
    assert rig.state(LAB, "a")["log"] == ["note"] * 4


GOVERN: list[tuple[str, Callable[[Rig], Any]]] = [
    ("key.unknown", lambda rig: RevokeKey(rig.clock.sample(), "0" * 16, "alice", "why")),
    ("grant.unknown", lambda rig: RevokeGrant(rig.clock.sample(), "nothing", "alice", "why")),
    (
        "bundle.incomplete",
        lambda rig: Activate(rig.clock.sample(), b"1" * 32, b"1" * 32, rig.manifest, {}, "alice"),
    ),
]


@pytest.mark.clause("K-09")
@pytest.mark.parametrize(("code", "given"), GOVERN)
def test_governance_refused(code: str, given: Callable[[Rig], Any]) -> None:
    """Governance about things that are not there is refused like any input."""
    rig = lab()
    assert refused(rig, given(rig)).code == code
    check(rig)


@pytest.mark.clause("K-11")
def test_revoked_key_stays_revoked() -> None:
    """A key that was revoked is not trusted again."""
    rig = lab()
    sample = rig.clock.sample()
    trust = TrustKey(sample, OUTSIDER.public, ("outside",), ("t/ask@1",), "alice")
    rig.do(trust)
    rig.do(RevokeKey(rig.clock.sample(), OUTSIDER.key_id, "alice", "lost"))
    assert refused(rig, trust._replace(sample=rig.clock.sample())).code == "key.revoked"
    assert rig.world.keys[OUTSIDER.key_id].revoked
    assert not rig.world.keys[NODE.key_id].revoked
    check(rig)


# ---- what nobody takes ----------------------------------------------------------------------


@pytest.mark.clause("X-01")
def test_unrouted() -> None:
    """An event that nobody subscribes to is journaled, reported, and no error."""
    rig = Rig(lab_documents(schema("t/Odd@1", {"text": {}})), {CODE: lab_function()})
    answer = rig.send("t/Odd@1", "hello")
    assert answer.kind == "unrouted"
    (record,) = rig.records(EventAdmitted)
    assert record.to == ()
    assert canon.decode(record.value) == "hello"
    check(rig)


@pytest.mark.clause("X-01", "K-33")
def test_no_instance() -> None:
    """With `create_if_missing` false an event for nobody leaves evidence and makes no cell."""
    way = {"event": GO, "workflow": LAB, "key_field": "id", "create_if_missing": False}
    rig = lab(subscriptions=[way])
    assert rig.send(GO, go("a")).kind == "unrouted"
    assert [(d.what, d.reason) for d in rig.records(Dropped)] == [("event", "no_instance")]
    assert rig.cell(LAB, "a") is None
    check(rig)


@pytest.mark.clause("K-12")
def test_lenses_agree() -> None:
    """K-12: spelled as sugar, native, tagged or bytes, an event is the same bytes and hash."""
    rig = lab()
    value = go("a", "note", 5)
    tagged = {"record": {"id": {"text": "a"}, "do": {"text": "note"}, "n": {"nat": 5}}}
    hashes = {
        rig.send(GO, value).event_hash,
        rig.send(GO, value, lens="native").event_hash,
        rig.send(GO, tagged, lens="tagged").event_hash,
        rig.send(GO, canon.encode(value), lens="canonical").event_hash,
    }
    assert len(hashes) == 1
    assert len({e.value for e in rig.records(EventAdmitted)}) == 1
    check(rig)


# ---- the duplicate fence --------------------------------------------------------------------


@pytest.mark.clause("K-47")
@pytest.mark.invariant("I9")
def test_fence() -> None:
    """Same key, same event: the first answer, one record. Same key, other event: refused."""
    rig = lab()
    first = rig.send(GO, go("a"), idem_key=b"k")
    before = rig.root()
    again = rig.send(GO, go("a"), idem_key=b"k")
    assert (again.kind, again.seq, again.event_hash) == ("seen", first.seq, first.event_hash)
    assert rig.root() == before
    why = refused(rig, event(rig, value=go("a", "other"), idem_key=b"k"))
    assert why.code == "ingress.idempotency_conflict"
    assert why.where == {"seq": first.seq}
    assert len(rig.records(EventAdmitted)) == 1
    assert rig.send(GO, go("a"), idem_key=b"l").kind == "accepted"
    check(rig)


@pytest.mark.clause("K-47")
@pytest.mark.invariant("I9")
def test_fence_survives_reopening() -> None:
    """The fence is state: a reopened world, from its journal or from a snapshot, still knows."""
    rig = lab()
    first = rig.send(GO, go("a"), idem_key=b"k")
    for turn in range(2):
        other = rig.reopened()
        assert other.send(GO, go("a"), idem_key=b"k").seq == first.seq
        why = refused(other, event(other, value=go("b"), idem_key=b"k"))
        assert why.code == "ingress.idempotency_conflict"
        if turn == 0:
            rig = other
            rig.driver.snapshot()
    assert len(rig.records(EventAdmitted)) == 1
    check(other)


@pytest.mark.clause("K-47")
def test_fence_window() -> None:
    """A key is forgotten after `idempotency_window` of logical time, not before."""
    rig = lab(limits={"idempotency_window": 1000})
    rig.send(GO, go("a"), idem_key=b"k")
    rig.clock.now_ns += 900
    assert rig.send(GO, go("a"), idem_key=b"k").kind == "seen"
    rig.clock.now_ns += 200
    assert rig.send(GO, go("a", "new"), idem_key=b"k").kind == "accepted"
    assert rig.send(GO, go("a", "new"), idem_key=b"k").kind == "seen"
    check(rig)


@pytest.mark.clause("K-47")
@pytest.mark.invariant("I9")
def test_fence_renewed_before_pruning() -> None:
    """A key used again while its old entry still waits for pruning is fenced for a new window."""
    rig = lab()
    for i in range(200):
        rig.send(GO, go("a"), idem_key=b"k%d" % i)
    rig.clock.now_ns += DAY_NS + 1000
    assert rig.send(GO, go("a", "new"), idem_key=b"k199").kind == "accepted"
    for i in range(5):
        rig.send(GO, go("b", n=i))
    assert rig.send(GO, go("a", "new"), idem_key=b"k199").kind == "seen"
    check(rig)


@pytest.mark.clause("X-01")
def test_one_tick_per_delivery() -> None:
    """I17: each accepted event is handled once, in the order in which it came."""
    rig = lab()
    words = [f"w{i}" for i in range(20)]
    seqs = [rig.send(GO, go("a", word), run=False).seq for word in words]
    rig.run()
    assert rig.state(LAB, "a")["log"] == words
    assert [t.input_seq for t in rig.records(Ticked)] == seqs
    check(rig)


@pytest.mark.clause("K-09")
def test_a_refused_secret_is_in_no_answer_and_no_record(caplog: pytest.LogCaptureFixture) -> None:
    """VA-08: what stood at a secret position of a refused event is told to nobody, and not kept."""
    auth_type = {"ref": "sys/TextOrSecretRef@1"}
    login = schema("t/Login@1", record(who=TEXT, auth=auth_type))
    rig = Rig(lab_documents(login), {CODE: lab_function()})
    word = "hunter2"
    for auth in (word, {"literal": [word]}, {"secret": {"alias": word}}, {word: 1}):
        why = refused(rig, event(rig, "t/Login@1", {"who": "a", "auth": auth}))
        assert why.code == "value.mismatch"
        assert word not in repr(why.problem()) + str(why)
    assert not any(word.encode() in frame.body for frame in rig.journal.read(rig.world.id))
    assert word not in caplog.text
    # The control: at an open position the same word is shown.
    assert word in repr(refused(rig, event(rig, GO, {"n": word})).problem())
