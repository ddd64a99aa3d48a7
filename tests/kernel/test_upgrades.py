"""Upgrades while cells are open: pins, migrations, and mail that waited."""

# tidy: one table of what may be open, and what becomes of it.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.reach import Marks
from tallystick.kernel.roots import root
from tallystick.kernel.world import Settings
from tallystick.model.records import (
    ApplyRefused,
    BundleActivate,
    CellUnpinned,
    Dropped,
    StateMigrated,
    Ticked,
    WorkflowFaulted,
)
from tallystick.values import canon
from tests.kernel.parcels import (
    LOOK,
    PARCEL,
    SENT,
    SENT2,
    Release,
    documents,
    parcel_rig,
    planned,
    upgrade,
)
from tests.rig import Rig, bundle_of, check


def sent(rig: Rig, name: str, kg: int = 1, *, run: bool = True) -> None:
    rig.send(SENT, {"id": name, "kg": kg}, run=run)


def log(rig: Rig, name: str) -> list[str]:
    found: list[str] = rig.state(PARCEL, name)["log"]
    return found


def snapshot(rig: Rig) -> None:
    from tallystick.kernel.inputs import TakeSnapshot

    rig.do(TakeSnapshot(rig.clock.sample()))


# ---- pins -----------------------------------------------------------------------------------


# tidy: one story of three cells.
@pytest.mark.clause("K-13", "X-21")
@pytest.mark.parametrize("reopen", [False, True], ids=["live", "from a snapshot"])
def test_pinned_cells_finish_on_old_code(reopen: bool) -> None:
    """AG-24: pinned cells with open intents finish on old code, new cells run new code.

    The receipt of an intent is read under the schema it was opened under; the pin is in the root
    and in snapshots, and ends with the cell.
    """
    rig = parcel_rig()
    sent(rig, "old")
    sent(rig, "moves")
    two = Release("two", look_answer="t/Answer@2")
    assert upgrade(rig, two, planned(rig, old="pin")).kind == "activated"
    sent(rig, "new")
    if reopen:
        snapshot(rig)
        jobs = rig.jobs
        rig = rig.reopened()
        rig.jobs = jobs
    assert rig.world.pinned == 1
    assert rig.cell(PARCEL, "old").pin == rig.records(BundleActivate)[0].to
    sent(rig, "old", 2)
    sent(rig, "moves", 2)
    old, moves, new = rig.jobs.of(LOOK)
    rig.settle(old, {"a": "here"})
    rig.settle(moves, {"a": "there"})
    rig.settle(new, {"b": "anywhere"})
    assert log(rig, "old") == ["one Sent:1", "one Sent:2", "one Receipt"]
    assert log(rig, "moves") == ["one Sent:1", "two Sent:2", "two Receipt"]
    assert log(rig, "new") == ["two Sent:1", "two Receipt"]
    assert rig.cell(PARCEL, "old").status == "completed"
    assert rig.cell(PARCEL, "old").pin is None
    assert rig.world.pinned == 0
    hashes = {r.key: r.workflow_hash for r in rig.records(Ticked)}
    assert hashes[canon.encode("old")] != hashes[canon.encode("new")]
    check(rig)


@pytest.mark.clause("K-13")
def test_pins_survive_a_second_upgrade() -> None:
    """AG-24: a cell that is pinned already keeps the definitions it began with."""
    rig = parcel_rig()
    sent(rig, "a")
    first = rig.world.manifest
    upgrade(rig, Release("two"), planned(rig, "pin"))
    upgrade(rig, Release("counts", state_version=2, migration="counted"), planned(rig, "pin"))
    assert rig.cell(PARCEL, "a").pin == first
    sent(rig, "a", 3)
    assert log(rig, "a") == ["one Sent:1", "one Sent:3"]
    # A plan that lets it go on ends the pin; its state is then carried on.
    again = Release("counts", state_version=2, migration="counted", on_fault="suspend")
    upgrade(rig, again, planned(rig, "migrate"))
    assert rig.world.pinned == 0
    sent(rig, "a", 4)
    assert log(rig, "a")[-1] == "counts Sent:4"
    assert rig.state(PARCEL, "a")["n"] == 3
    check(rig)


def test_a_pinned_entity_leaves_its_pin_at_rest() -> None:
    """AG-24: an entity is pinned while it waits; at rest it is on today's code again."""
    rig = parcel_rig(Release("rests", lifecycle="entity"))
    sent(rig, "a")
    upgrade(rig, Release("two", lifecycle="entity"), planned(rig, "pin"))
    (job,) = rig.jobs.of(LOOK)
    rig.settle(job, {"a": "x"})
    assert [r.reason for r in rig.records(CellUnpinned)] == ["rest"]
    sent(rig, "a", 2)
    assert log(rig, "a") == ["rests Sent:1", "rests Receipt", "two Sent:2"]
    check(rig)


def test_a_pinned_cell_outlives_its_workflow() -> None:
    """AG-24: a pinned cell finishes although the new bundle has no such workflow."""
    rig = parcel_rig()
    sent(rig, "a")
    without = [d for d in documents() if d.get("name") != PARCEL]
    without[-1] = {**without[-1], "routing": {"subscriptions": []}, "module_bindings": {}}
    from tallystick.kernel.inputs import Activate

    manifest, blobs = bundle_of(without)

    def change(action: str) -> Any:
        sample, plan = rig.clock.sample(), planned(rig, action)
        return rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "al", plan))

    assert change("continue").kind == "refused"
    assert change("pin").kind == "activated"
    (job,) = rig.jobs.of(LOOK)
    rig.settle(job, {"a": "x"})
    assert log(rig, "a") == ["one Sent:1", "one Receipt"]
    check(rig)


def test_authority_is_never_pinned() -> None:
    """06 section 9: a pinned cell asks under today's bindings; without one it is denied."""
    from tallystick.kernel.inputs import Activate
    from tallystick.model.records import IntentDenied

    rig = parcel_rig()
    sent(rig, "a", run=False)
    bare = documents(Release("two"))
    bare[-1] = {**bare[-1], "module_bindings": {}}
    manifest, blobs = bundle_of(bare)
    sample, plan = rig.clock.sample(), planned(rig, "pin")
    rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "al", plan))
    rig.run()
    assert [r.code for r in rig.records(IntentDenied)] == ["cap.unbound"]
    assert log(rig, "a")[0] == "one Sent:1"
    check(rig)


@pytest.mark.clause("X-20")
def test_a_pinned_cell_is_given_the_version_it_takes() -> None:
    """AG-27: an event reaches a pinned cell as V1 and a new cell as V2, from one V1 event.

    A V2 event has no way back: the pinned cell does not get it, and that is on record.
    """
    rig = parcel_rig()
    sent(rig, "old")
    upgrade(rig, Release("two", event=SENT2, upcast=True), planned(rig, "pin"))
    sent(rig, "old", 2)
    sent(rig, "new", 3)
    rig.send(SENT2, {"id": "old", "grams": 5})
    assert log(rig, "old") == ["one Sent:1", "one Sent:2"]
    assert log(rig, "new") == ["two Sent:3000"]
    assert [(r.reason, r.key) for r in rig.records(Dropped)] == [("unread", canon.encode("old"))]
    check(rig)


@pytest.mark.clause("K-44")
def test_collection_keeps_what_a_pin_names() -> None:
    """I21: the definitions of a pinned cell are reached from its snapshot."""
    rig = parcel_rig()
    sent(rig, "a")
    old = rig.world.manifest
    upgrade(rig, Release("two"), planned(rig, "pin"))
    snapshot(rig)
    row = rig.journal.snapshots(rig.world.id)[-1]
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    kept = marks.digests()
    assert old in kept
    for each in canon.decode(rig.driver.blobs.get(old))["workflows"]:  # type: ignore[arg-type]
        assert canon.raw_of(each["hash"]) in kept
    plan = rig.records(BundleActivate)[-1].plan
    marks.tail(rig.journal.read(rig.world.id))
    (page,) = canon.decode(rig.driver.blobs.get(plan))["pages"]  # type: ignore[arg-type]
    assert canon.raw_of(page) in marks.digests()


# ---- plans ----------------------------------------------------------------------------------


@pytest.mark.clause("K-20")
def test_a_plan_for_more_cells_than_are_named() -> None:
    """AG-20: a plan covers more than 1,000 open cells; what it leaves out is counted in full."""
    rig = parcel_rig()
    for n in range(1205):
        sent(rig, f"p{n}", run=False)
    rig.run()
    plan = planned(rig)
    short = dict(list(plan.items())[:5])
    assert upgrade(rig, Release("two"), short).kind == "refused"
    (refused,) = rig.records(ApplyRefused)
    assert (refused.code, refused.count) == ("gov.plan_outdated", 1200)
    assert len(refused.blockers) == 1000
    sent(rig, "p7", 2)
    assert upgrade(rig, Release("two"), plan).kind == "refused"
    last = rig.records(ApplyRefused)[-1]
    assert (last.code, last.count) == ("gov.plan_outdated", 1)
    assert upgrade(rig, Release("two"), planned(rig, p7="pin")).kind == "activated"
    assert rig.world.pinned == 1
    assert root(rig.folded()) == rig.root()


# ---- migrations -----------------------------------------------------------------------------


COUNTS = Release("counts", state_version=2, migration="counted")


@pytest.mark.clause("X-21")
def test_migration_on_the_first_tick() -> None:
    """AG-25, X-21: the first tick begins from the migrated state; the record says from what."""
    rig = parcel_rig()
    sent(rig, "a")
    before = rig.cell(PARCEL, "a").state_hash
    upgrade(rig, COUNTS, planned(rig, "migrate"))
    sent(rig, "a", 2)
    sent(rig, "a", 3)
    assert rig.state(PARCEL, "a") == {
        "id": "a",
        "log": ["one Sent:1", "counts Sent:2", "counts Sent:3"],
        "n": 3,
    }
    (moved,) = rig.records(StateMigrated)
    want = canon.encode({"id": "a", "log": ["one Sent:1"], "n": 1})
    assert (moved.from_, moved.to, moved.before) == (1, 2, before)
    assert moved.after == canon.digest_of(want)
    assert rig.cell(PARCEL, "a").state_version == 2
    check(rig)


@pytest.mark.clause("X-21")
@pytest.mark.parametrize("on_fault", ["fail", "suspend"])
def test_failing_migration(on_fault: str) -> None:
    """AG-25: a failing migration suspends its cell once and keeps the event; others go on.

    Nothing tries again by itself; an operator may, once per resume.
    """
    rig = parcel_rig()
    for name in ("bad", "good"):
        sent(rig, name)
    state = rig.cell(PARCEL, "bad").state_hash
    fails = COUNTS._replace(migration="fails", on_fault=on_fault)
    upgrade(rig, fails, planned(rig, "migrate"))
    for name in ("bad", "bad", "good"):
        sent(rig, name, 2)
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, fault.action) == ("migration_failed", "suspended")
    cell = rig.cell(PARCEL, "bad")
    assert (cell.status, len(cell.mailbox), cell.state_hash) == ("suspended", 2, state)
    assert log(rig, "good")[-1] == "counts Sent:2"
    rig.operate("resume", PARCEL, "bad")
    assert len(rig.records(WorkflowFaulted)) == 2
    assert rig.cell(PARCEL, "bad").status == "suspended"
    # The next bundle mends it: the event that waited is handled at last.
    upgrade(rig, COUNTS, planned(rig, "migrate"))
    rig.operate("resume", PARCEL, "bad")
    assert log(rig, "bad") == ["one Sent:1", "counts Sent:2", "counts Sent:2"]
    check(rig)


@pytest.mark.clause("X-21")
def test_a_proved_cell_that_faults_waits() -> None:
    """AG-25: a cell whose first tick under proved code faults is suspended, not failed."""
    rig = parcel_rig()
    sent(rig, "a")
    upgrade(rig, Release("broken"), planned(rig))
    sent(rig, "a", 2)
    sent(rig, "b", 2)
    assert rig.cell(PARCEL, "a").status == "suspended"
    assert rig.cell(PARCEL, "b").status == "failed"
    check(rig)


# ---- mail -----------------------------------------------------------------------------------


@pytest.mark.clause("X-20")
@pytest.mark.parametrize("reopen", [False, True], ids=["live", "from a snapshot"])
def test_mail_that_waited_is_upcast_at_its_tick(reopen: bool) -> None:
    """AG-27: an event that waited across an upgrade is handled as the version of today.

    A receipt that waited too keeps its schema; the event keeps its name and hash.
    """
    rig = parcel_rig(settings=Settings(cell_cache=1))
    sent(rig, "a")
    rig.operate("suspend", PARCEL, "a")
    (job,) = rig.jobs.of(LOOK)
    sent(rig, "a", 2)
    rig.settle(job, {"a": "x"})
    up = Release("two", event=SENT2, upcast=True)
    assert upgrade(rig, up, planned(rig)).kind == "activated"
    if reopen:
        snapshot(rig)
        rig = rig.reopened()
    rig.operate("resume", PARCEL, "a")
    assert log(rig, "a") == ["one Sent:1", "two Sent:2000", "two Receipt"]
    check(rig)


@pytest.mark.clause("X-20")
def test_mail_without_a_way_is_a_fault_of_its_cell() -> None:
    """AG-27: what waited and cannot be upcast suspends its cell; the event stays first."""
    rig = parcel_rig()
    sent(rig, "a")
    rig.operate("suspend", PARCEL, "a")
    sent(rig, "a", 2)
    upgrade(rig, Release("two", event=SENT2), planned(rig))
    rig.operate("resume", PARCEL, "a")
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, fault.action) == ("upcast_failed", "suspended")
    assert len(rig.cell(PARCEL, "a").mailbox) == 1
    check(rig)
