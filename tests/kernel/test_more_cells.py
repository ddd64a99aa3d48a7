"""Cells and definitions at their edges: deleted with mail, upgraded, built in, forgotten."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tallystick.kernel.active import activate
from tallystick.kernel.catalogues import KEPT_MAX, Catalogues
from tallystick.kernel.draft import Draft
from tallystick.kernel.inputs import Activate, Planned, Submit
from tallystick.kernel.machine import submit
from tallystick.kernel.reach import Marks
from tallystick.kernel.receipts import outcome_of
from tallystick.model.abi import TickOutput
from tallystick.model.cells import COMPLETED, CellId
from tallystick.model.records import (
    Dropped,
    EventAdmitted,
    IntentDenied,
    Origin,
    Ticked,
    WorkflowFaulted,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.blobs import Shelf
from tests.kernel.test_more_outputs import GOOD, Lane, lane_rig
from tests.rig import Rig, bundle_of, check, refused
from tests.worlds import (
    ASK,
    GO,
    LAB,
    TEXT,
    ask,
    go,
    lab_documents,
    lab_function,
    module,
    opt,
    record,
    schema,
)

CODE = ("t/code@1", "lab")


@pytest.mark.clause("K-35")
def test_a_cell_deleted_with_mail_begins_again_for_it():
    """KN-19: a tick that ends and deletes its cell leaves the waiting event a fresh one."""
    rig = Rig(
        lab_documents(flow={"lifecycle": "entity"}),
        {CODE: lab_function(gone=lambda *_: Outcome(None, status=COMPLETED))},
    )
    rig.send(GO, go("a", "first"))
    born = rig.cell(LAB, "a").born_seq
    for do in ("gone", "again"):
        rig.driver.stage(submit(rig.world, Submit(rig.clock.sample(), GO, go("a", do))))
    rig.run()
    assert rig.state(LAB, "a") == {"id": "a", "log": ["again"]}
    assert rig.cell(LAB, "a").born_seq > born
    check(rig)


# tidy: every way that a subscription may go, over one story.
@pytest.mark.clause("K-35", "X-01")
@pytest.mark.parametrize("way", ["init_state", "init_fn", "halts", "bad", "no_instance"])
def test_mail_behind_a_delete_begins_as_its_subscription_says(way: str):
    """K-35, X-01: from the first state, or not at all; it found a cell that is gone meanwhile."""
    first: dict[str, Any] = {"init_fn": {"module": "t/pure@1", "entrypoint": "first"}}
    others: dict[str, dict[str, Any]] = {
        "init_state": {"init_state": {"id": "", "log": ["first"]}},
        "no_instance": {"create_if_missing": False},
    }
    more = others.get(way, first)

    def made(given: Any) -> Any:
        begun = {"id": given["input"]["id"], "log": ["first"]}
        if given["input"]["do"] == "again" and way != "init_fn":
            return {"output": 1 // 0 if way == "halts" else 1}
        return {"output": begun}

    ways = [{"event": GO, "workflow": LAB, "key_field": "id", **more}]
    if way == "no_instance":
        ways.insert(0, {**ways[0], "create_if_missing": True, "filter": {"tags": ["new"]}})
    pure = module("t/pure@1", pure={"first": {"input": GO, "output": "t/State@1"}})
    gone = lab_function(gone=lambda *_: Outcome(None))
    documents = lab_documents(pure, subscriptions=ways)
    rig = Rig(documents, {CODE: gone, ("t/pure@1", "first"): made})
    rig.send(GO, go("a", "one"), tags=("new",))
    for do in ("gone", "again"):
        rig.driver.stage(submit(rig.world, Submit(rig.clock.sample(), GO, go("a", do))))
    rig.run()
    if way == "no_instance":
        assert rig.world.cell(CellId(LAB, canon.encode("a"))) is None
        assert [r.reason for r in rig.records(Dropped)] == ["no_instance"]
    elif way in ("halts", "bad"):
        assert [r.code for r in rig.records(WorkflowFaulted)] == ["exception"]
    else:
        assert rig.state(LAB, "a")["log"] == ["first", "again"]
    check(rig)


@pytest.mark.clause("K-35", "X-01")
def test_a_cell_that_was_reset_begins_as_a_new_one():
    """K-35: after null the next tick starts from the first state again, as in a new cell."""
    first = {"id": "", "log": ["first"]}
    way = {"event": GO, "workflow": LAB, "init_state": first}
    rig = Rig(
        lab_documents(flow={"key_schema": None}, subscriptions=[way]),
        {CODE: lab_function(reset=lambda *_: Outcome(None))},
    )
    for do in ("one", "reset", "two"):
        rig.send(GO, go("a", do))
    assert rig.state(LAB)["log"] == ["first", "two"]
    check(rig)


@pytest.mark.clause("K-35")
@pytest.mark.invariant("I19")
def test_a_key_of_the_tick_that_reset_its_cell_is_forgotten():
    """K-35: the cell that begins again can never ask with it, so it takes none of its keys."""
    again = lambda f, *_: Outcome(f, effects=[ask(idempotency_key=b"two")])  # noqa: E731
    reset = lambda *_: Outcome(None, effects=[ask(idempotency_key=b"one")])  # noqa: E731
    way = {"event": GO, "workflow": LAB}
    rig = Rig(
        lab_documents(flow={"key_schema": None}, subscriptions=[way], limits={"keys_max": 1}),
        {CODE: lab_function(reset=reset, ask=again)},
    )
    rig.send(GO, go("a", "reset"))
    rig.send(GO, go("a", "ask"))
    assert rig.records(IntentDenied) == []
    assert len(rig.jobs.of(ASK)) == 1
    check(rig)


@pytest.mark.clause("K-35")
@pytest.mark.invariant("I17")
@pytest.mark.parametrize("keyed", [True, False])
def test_what_a_cell_sends_itself_as_it_fails_and_goes(keyed: bool):
    """K-35: it is for the cell that begins anew, under a key or not; no mail lies unread."""

    def last(_following: Any, value: Any, _ctx: Any) -> Outcome:
        reason = {"code": "t.no", "message": "no"}
        events = [{"schema": GO, "value": go(value["id"], "again")}]
        return Outcome(None, status="failed", reason=reason, events=events)

    way = {"event": GO, "workflow": LAB, **({"key_field": "id"} if keyed else {})}
    form = {} if keyed else {"key_schema": None}
    rig = Rig(lab_documents(subscriptions=[way], flow=form), {CODE: lab_function(last=last)})
    rig.send(GO, go("a", "last"))
    cell = rig.cell(LAB, "a" if keyed else None)
    assert (cell.status, len(cell.mailbox)) == ("running", 0)
    assert rig.state(LAB, "a" if keyed else None)["log"] == ["again"]
    check(rig)


@pytest.mark.invariant("I19")
def test_a_continuation_finds_only_the_cell_that_asked():
    """I19: nothing is delivered to a cell that is gone, unknown, or born after it was asked."""
    rig = Rig(lab_documents(), {CODE: lab_function(ask=lambda f, *_: Outcome(f, effects=[ask()]))})
    rig.send(GO, go("a", "ask"))
    key = canon.encode("a")
    seq = rig.records(Ticked)[0] and rig.cell(LAB, "a").last_seq
    asked = Origin("workflow", LAB, bytes(32), key, seq, 0)
    draft = Draft(rig.world)
    assert outcome_of(draft, asked) == "delivered"
    born = rig.cell(LAB, "a").born_seq
    for other in (
        asked._replace(workflow="t/other@1"),
        asked._replace(key=canon.encode("b")),
        asked._replace(tick_seq=born - 1),
    ):
        assert outcome_of(draft, other) == "terminal"


@pytest.mark.clause("X-21")
def test_an_older_state_of_another_shape_is_handed_over_plain():
    """KN-04: code that reads version 1 is given the old fields as they were written."""
    seen: list[Any] = []

    def run(state: Any, event: Any, _ctx: Any) -> Any:
        seen.append(state)
        more = {} if len(seen) == 1 else {"note": "new"}
        return {"id": event["$value"]["id"], "log": ["x"], **more}

    rig = Rig(lab_documents(), {CODE: run})
    rig.send(GO, go("a"))
    documents = lab_documents(flow={"state_version": 2, "accepts_state_versions": [1]})
    wide = schema("t/State@1", record(id=TEXT, log={"list": TEXT}, note=opt(TEXT)))
    manifest, blobs = bundle_of([wide if d.get("name") == "t/State@1" else d for d in documents])
    plan = {(LAB, canon.encode("a")): Planned(rig.cell(LAB, "a").last_seq)}
    sample = rig.clock.sample()
    given = Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan)
    assert rig.do(given).kind == "activated"
    rig.send(GO, go("a"))
    assert seen == [None, {"id": "a", "log": ["x"]}]
    assert rig.state(LAB, "a")["note"] == "new"


@pytest.mark.clause("K-31")
def test_an_event_without_its_key_is_refused_with_the_path():
    """KN-08: an event with nothing where the key should stand is refused with that place.

    The check of a bundle refuses such a path, so the subscription is bent here.
    """
    rig = Rig(lab_documents(), {CODE: lab_function()})
    catalogue = rig.world.active.catalogue
    way, *ours = catalogue.subscriptions
    for field, path in (("id.deeper", "/id/deeper"), ("gone", "/gone")):
        bent = dataclasses.replace(way, key_field=field)
        rig.world.active = activate(dataclasses.replace(catalogue, subscriptions=(bent, *ours)))
        why = refused(rig, Submit(rig.clock.sample(), GO, go("a")))
        assert why.code == "value.mismatch"
        (finding,) = why.errors  # type: ignore[attr-defined]
        assert (finding["path"], finding["expected"]) == (path, "key")


def test_blobs_of_a_built_in_module_are_kept():
    """KN-04: a module of our own may hand blobs over; the record names them, the journal has them.

    Only `sys/` modules are built in, so the definition is turned into one here.
    """
    data = canon.encode({"page": 1})
    output = TickOutput(GOOD, blobs={canon.hash_of(data): data})
    rig = lane_rig(Lane(lambda _tick: output))
    catalogue = rig.world.active.catalogue
    flow = dataclasses.replace(catalogue.workflows[LAB], module_runtime="builtin")
    workflows = {**catalogue.workflows, LAB: flow}
    rig.world.active = activate(dataclasses.replace(catalogue, workflows=workflows))
    rig.send(GO, go("a"))
    (ticked,) = rig.records(Ticked)
    assert list(ticked.blobs) == [canon.digest_of(data)]
    assert rig.driver.blobs.get(canon.digest_of(data)) == data
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.manifest(rig.manifest)
    marks.record(ticked)
    assert canon.digest_of(data) in marks.digests()


@pytest.mark.clause("K-44")
def test_an_event_of_a_forgotten_schema_keeps_its_bytes():
    """KN-13: a schema that no manifest has any more names nothing, and hinders nothing."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    rig.send(GO, go("a"))
    (event,) = [r for r in rig.records(EventAdmitted) if r.schema == GO]
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.manifest(rig.manifest)
    before = marks.digests()
    marks.record(event._replace(schema="t/Gone@1", to=()))
    assert marks.digests() == before
    document = canon.encode({"any": 1})
    assert rig.world.decoded("t/Gone@1", document) == {"any": 1}


@pytest.mark.invariant("I28")
def test_the_memory_of_catalogues_is_bounded():
    """I28: the oldest is forgotten and loaded again when it is asked for; equal, not the same."""
    shelf = Shelf()
    manifests = []
    for number in range(KEPT_MAX + 1):
        manifest, blobs = bundle_of(lab_documents(limits={"hops_max": 10 + number}))
        shelf.add(blobs)
        manifests.append(manifest)
    kept = Catalogues()
    loaded = [kept.load(manifest, shelf) for manifest in manifests]
    assert kept.load(manifests[-1], shelf) is loaded[-1]
    assert kept.load(manifests[1], shelf) is loaded[1]
    again = kept.load(manifests[0], shelf)
    assert again is not loaded[0]
    assert again.hash == loaded[0].hash
