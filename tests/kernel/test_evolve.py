"""What was written before an upgrade, as today's workflow takes it: states, mail, beginnings."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate
from tallystick.model.records import IntentDenied, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.parcels import (
    CODE,
    FUNCTIONS,
    LOOK,
    PARCEL,
    PURE,
    SENT,
    SENT2,
    Release,
    documents,
    parcel_rig,
    planned,
    upgrade,
)
from tests.rig import Rig, bundle_of, check
from tests.worlds import (
    GO,
    LAB,
    REJECTED,
    TEXT,
    arms,
    ask,
    go,
    lab_documents,
    lab_function,
    opt,
    record,
)


def changed(rig: Rig, docs: list[dict[str, Any]], plan: Any) -> str:
    """Activate documents by a plan."""
    manifest, blobs = bundle_of(docs)
    sample, now = rig.clock.sample(), rig.world.manifest
    kind: str = rig.do(Activate(sample, manifest, manifest, now, blobs, "al", plan)).kind
    return kind


def replaced(docs: list[dict[str, Any]], name: str, **fields: Any) -> list[dict[str, Any]]:
    return [{**d, **fields} if d.get("name") == name else d for d in docs]


@pytest.mark.clause("X-20", "X-21")
def test_a_state_is_read_under_its_newer_shape() -> None:
    """AG-27: a field that was added to a state is null for a cell of before; nothing migrates."""
    seen: list[Any] = []

    def looks(state: Any, event: Any, ctx: Any) -> Any:
        seen.append(state)
        return FUNCTIONS[CODE, "two"](state, event, ctx)

    rig = Rig(documents(), {**FUNCTIONS, (CODE, "looks"): looks})
    rig.send(SENT, {"id": "a", "kg": 1})
    wide = record(id=TEXT, log={"list": TEXT}, note=opt(TEXT))
    docs = replaced(documents(Release("looks")), "t/Parcel@1", type=wide)
    assert changed(rig, docs, planned(rig)) == "activated"
    rig.send(SENT, {"id": "a", "kg": 2})
    assert seen[0] == {"id": "a", "log": ["one Sent:1"], "note": None}
    assert rig.state(PARCEL, "a")["note"] is None
    check(rig)


@pytest.mark.clause("X-21")
def test_a_state_that_does_not_fit_any_more_waits() -> None:
    """AG-25: a state that no shape and no migration reads suspends its cell, and only that."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "a", "kg": 1})
    other = record(id=TEXT, log=TEXT)
    docs = replaced(documents(), "t/Parcel@1", type=other)
    assert changed(rig, docs, planned(rig)) == "activated"
    rig.send(SENT, {"id": "a", "kg": 2})
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, fault.action) == ("migration_failed", "suspended")
    assert "does not fit t/Parcel@1" in fault.message


@pytest.mark.clause("X-20")
@pytest.mark.parametrize("fault", ["raises", "answers nonsense"])
def test_an_upcast_that_fails_at_its_tick(fault: str) -> None:
    """AG-27: a failing upcast of waiting mail is a fault of the cell; the event stays."""

    def fails(_given: Any) -> Any:
        if fault == "raises":
            raise ValueError("no")
        return {"output": {"id": "a"}}

    rig = Rig(documents(), {**FUNCTIONS, (PURE, "sent_1_2"): fails})
    rig.send(SENT, {"id": "a", "kg": 1})
    rig.operate("suspend", PARCEL, "a")
    rig.send(SENT, {"id": "a", "kg": 2})
    upgrade(rig, Release("two", event=SENT2, upcast=True), planned(rig))
    rig.operate("resume", PARCEL, "a")
    assert [r.code for r in rig.records(WorkflowFaulted)] == ["upcast_failed"]
    assert len(rig.cell(PARCEL, "a").mailbox) == 1


@pytest.mark.clause("K-13")
def test_a_receipt_that_waited_for_an_arm_that_is_gone() -> None:
    """AG-24: a waiting receipt whose arm has left the event is a fault, not a guess."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "a", "kg": 1})
    rig.operate("suspend", PARCEL, "a")
    rig.settle(rig.jobs.of(LOOK)[0], {"a": "x"})
    bare = replaced(documents(Release("two")), "t/Event@1", type=arms(Sent=SENT, Rejected=REJECTED))
    assert changed(rig, bare, planned(rig)) == "activated"
    rig.operate("resume", PARCEL, "a")
    assert [r.code for r in rig.records(WorkflowFaulted)] == ["upcast_failed"]


@pytest.mark.clause("X-21")
@pytest.mark.parametrize("fits", [True, False], ids=["fits", "does not"])
def test_a_cell_that_never_ran(fits: bool) -> None:
    """AG-24: a cell born before the upgrade begins from its given state, if that still fits."""

    def begins(docs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        made = docs[-1]
        (way,) = made["routing"]["subscriptions"]
        first = {**way, "init_state": {"id": "a", "log": ["born"]}}
        return [*docs[:-1], {**made, "routing": {"subscriptions": [first]}}]

    rig = Rig(begins(documents()), FUNCTIONS)
    rig.send(SENT, {"id": "a", "kg": 1}, run=False)
    release = Release("two") if fits else Release("counts", state_version=2, migration="counted")
    docs = documents(release)
    assert changed(rig, docs, planned(rig)) == "activated"
    rig.run()
    if fits:
        assert rig.state(PARCEL, "a")["log"] == ["born", "two Sent:1"]
        check(rig)
    else:
        assert [r.code for r in rig.records(WorkflowFaulted)] == ["migration_failed"]


def test_a_migration_that_answers_nonsense() -> None:
    """AG-25: what a migration answers is checked like any output."""

    def odd(_given: Any) -> Any:
        return {"output": {"state": canon.encode("odd")}}

    rig = Rig(documents(), {**FUNCTIONS, (PURE, "counted"): odd})
    rig.send(SENT, {"id": "a", "kg": 1})
    upgrade(rig, Release("counts", state_version=2, migration="counted"), planned(rig, "migrate"))
    rig.send(SENT, {"id": "a", "kg": 2})
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == "migration_failed"
    assert "does not fit" in fault.message


@pytest.mark.clause("X-20", "K-47")
@pytest.mark.invariant("I9")
def test_a_key_is_known_under_the_newer_shape_of_its_parameters() -> None:
    """D8, 01 section 5: what an upgrade added to the parameters is null in both, so they are equal.

    The control says something in the new field.
    """

    def asking(following: Any, value: Any, _ctx: Any) -> Outcome:
        more = {"more": "x"} if value["n"] else {}
        return Outcome(following, effects=[ask(idempotency_key=b"k", params={"q": "?", **more})])

    functions = {("t/code@1", "lab"): lab_function(ask=asking)}
    entity = {"lifecycle": "entity"}
    rig = Rig(lab_documents(flow=entity), functions)
    rig.send(GO, go("a", "ask"))
    rig.settle(rig.jobs.all[0], {"a": "x"})
    newer = record(q=TEXT, more=opt(TEXT))
    assert (
        changed(rig, replaced(lab_documents(flow=entity), "t/Ask@1", type=newer), None)
        == "activated"
    )
    rig.send(GO, go("a", "ask"))
    assert rig.state(LAB, "a")["log"] == ["ask", "ok:", "ask", "ok:"]
    assert len(rig.jobs.all) == 1
    rig.send(GO, go("a", "ask", 1))
    assert [each.code for each in rig.records(IntentDenied)] == ["effect.key_conflict"]
    check(rig)
