"""Corners of pinned cells: what they emit, what they are sent, who calls them (06 section 9)."""

# tidy: what a pinned cell is sent, tells and becomes, one after the other.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate
from tallystick.model.records import CellUnpinned, Dropped, EventAdmitted, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.parcels import (
    FUNCTIONS,
    PARCEL,
    PURE,
    SENT,
    SENT2,
    Release,
    documents,
    planned,
    upgrade,
)
from tests.rig import Rig, bundle_of, check
from tests.worlds import (
    GO,
    LAB,
    LAB_ARMS,
    LAB_EFFECTS,
    NAT,
    SPAWN,
    TEXT,
    ask,
    effect,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
    record,
    schema,
)

CODE = ("t/code@1", "lab")
KID = "t/kid@1"
TOLD = "t/Told@1"
OPEN = {"lifecycle": "process"}


def telling(name: str, value: Any) -> Any:
    """A deed that emits an event."""

    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, events=[{"schema": name, "value": value}])

    return run


def spawning(following: Any, value: Any, _ctx: Any) -> Outcome:
    payload = {"schema": GO, "value": canon.encode(go("k", "ask"))}
    params = {"workflow": KID, "key": canon.encode("k"), "payload": payload, "caps": None}
    return Outcome(following, effects=[{"effect": SPAWN, "params": params, "cap_slot": "flow"}])


def last_words(following: Any, value: Any, _ctx: Any) -> Outcome:
    """A deed that ends the cell, and sends it something with the same breath."""
    told = [{"schema": GO, "value": go(value["id"])}]
    return Outcome(following, status="completed", events=told)


def world(*more: Any) -> Rig:
    """A lab whose cells tell, spawn and wait."""
    deeds = lab_function(
        ask=lambda f, *_: Outcome(f, effects=[ask()]),
        tell=telling(TOLD, {"n": 1}),
        stranger=telling("t/Nowhere@1", {"n": 1}),
        wrong=telling(TOLD, {"n": "one"}),
        spawn=spawning,
        last=last_words,
    )
    made = lab_documents(*more, lab_workflow(KID), flow=OPEN, **lab_authority(KID))
    return Rig(made, {CODE: deeds, ("t/code@1", "kid"): deeds})


def change(rig: Rig, *more: Any, action: str = "pin") -> None:
    """Switch to a bundle that differs by a limit and by `more`; open cells finish as they began."""
    limits = {"effects_max": 7}
    manifest, blobs = bundle_of(
        lab_documents(*more, lab_workflow(KID), flow=OPEN, limits=limits, **lab_authority(KID))
    )
    sample, plan = rig.clock.sample(), planned(rig, action)
    answer = rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "al", plan))
    assert answer.kind == "activated"


OLD = schema(TOLD, record(n=NAT))


@pytest.mark.clause("X-20")
def test_what_a_pinned_cell_tells_is_good_for_the_record() -> None:
    """AG-24: a schema that the new bundle has not is still the cell's own; nobody hears of it."""
    rig = world(OLD)
    rig.send(GO, go("a", "ask"))
    change(rig)
    rig.send(GO, go("a", "tell"))
    (told,) = [each for each in rig.records(EventAdmitted) if each.schema == TOLD]
    assert told.to == ()
    assert rig.records(WorkflowFaulted) == []
    check(rig)


@pytest.mark.parametrize("do", ["stranger", "wrong"])
def test_a_pinned_cell_tells_by_its_own_schemas(do: str) -> None:
    """AG-24: what neither bundle knows, and what does not fit, is a fault of the tick."""
    rig = world(OLD)
    rig.send(GO, go("a", "ask"))
    change(rig, OLD)
    rig.send(GO, go("a", do))
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == "bad_output"
    check(rig)


def test_a_child_that_is_pinned_is_called_by_its_own_code() -> None:
    """06 section 9: whoever spawns what is there already sends it an event of its own bundle."""
    rig = world(OLD)
    rig.send(GO, go("a", "spawn"))
    assert rig.cell(KID, "k").status != "completed"
    change(rig)
    assert rig.cell(KID, "k").pin == rig.manifest
    rig.send(GO, go("b", "spawn"))
    assert rig.state(KID, "k")["log"] == ["ask", "ask"]
    assert rig.records(CellUnpinned) == []
    check(rig)


MARK = "t/Mark@1"


def marked(*kinds: str, **more: Any) -> list[Any]:
    """The lab with one event more, which is of one of these kinds."""
    kind = {"variant": {each: {"unit": {}} for each in kinds}}
    ways = [{"event": name, "workflow": LAB, "key_field": "id"} for name in (GO, MARK)]
    return lab_documents(
        schema(MARK, record(id=TEXT, kind=kind)),
        lab_arms={**LAB_ARMS, "Mark": MARK},
        subscriptions=ways,
        flow=OPEN,
        **more,
    )


@pytest.mark.clause("X-20")
def test_an_event_that_a_pinned_cell_cannot_read_is_lost_to_it() -> None:
    """AG-27: a value of a newer kind has no way back to what the cell knows: it is unread."""
    ends = lab_function(ask=lambda f, *_: Outcome(f, effects=[ask()]))
    rig = Rig(marked("a"), {CODE: ends})
    rig.send(GO, go("old", "ask"))
    manifest, blobs = bundle_of(marked("a", "b", limits={"effects_max": 7}))
    plan = planned(rig, "pin")
    rig.do(Activate(rig.clock.sample(), manifest, manifest, rig.manifest, blobs, "al", plan))
    for kind in "ab":
        rig.send(MARK, {"id": "old", "kind": {"$tag": kind}})
    assert rig.state(LAB, "old")["log"] == ["ask", "mark"]
    assert [each.reason for each in rig.records(Dropped)] == ["unread"]
    check(rig)


@pytest.mark.clause("K-35")
@pytest.mark.parametrize("pinned", [False, True])
def test_what_a_cell_sends_itself_at_its_end_is_lost(pinned: bool) -> None:
    """03 section 4: an ended process takes no mail, from the very frame that ends it.

    A pinned cell is no exception: its own workflow says whether it takes mail after its end.
    """
    rig = world()
    rig.send(GO, go("a", "ask"))
    if pinned:
        change(rig)
    rig.send(GO, go("a", "last"))
    assert [each.reason for each in rig.records(Dropped)] == ["terminal"]
    assert rig.cell(LAB, "a").status == "completed"
    assert rig.state(LAB, "a")["log"] == ["ask", "last"]
    check(rig)


def _upcast_of_light_ones(given: Any) -> Any:
    """Right for one kilogram; what it makes of others is not of the newer schema."""
    value = given["input"]
    grams: Any = 1000 if value["kg"] == 1 else "many"
    return {"output": {"id": value["id"], "grams": grams}}


@pytest.mark.clause("X-20")
@pytest.mark.parametrize(("action", "left"), [("pin", "failed"), ("continue", "suspended")])
def test_an_upcast_that_answers_nonsense_is_a_fault_of_the_cell(action: str, left: str) -> None:
    """X-20: the answer of an upcast is checked, also by the bundle that a cell is pinned to.

    Other cells are served; the first tick under code that a plan let it go on with ends no cell.
    """
    newer = Release("one", event=SENT2, upcast=True)
    functions = {**FUNCTIONS, (PURE, "sent_1_2"): _upcast_of_light_ones}
    rig = Rig(documents(newer), functions)
    rig.send(SENT, {"id": "a", "kg": 1})
    upgrade(rig, newer._replace(entry="two"), planned(rig, action))
    rig.send(SENT, {"id": "b", "kg": 1})
    rig.send(SENT, {"id": "a", "kg": 2})
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, canon.decode(fault.key)) == ("upcast_failed", "a")
    assert rig.cell(PARCEL, "a").status == left
    assert rig.state(PARCEL, "b")["log"] == ["two Sent:1000"]
    check(rig)


OLD_EFFECT = effect("t/old@1", "t/Ask@1", "t/Answer@1")


def queueing(*, old: bool) -> list[Any]:
    """A lab whose cells have one thing out at a time; `old` is the bundle with one effect more."""
    authority = lab_authority(KID)
    authority["authority"]["flows"] = [{"name": "f", "match": {}, "max_open": {"cell": 1}}]
    emitted = [*LAB_EFFECTS, OLD_EFFECT["name"]] if old else LAB_EFFECTS
    extra = (OLD_EFFECT,) if old else ()
    flow = {**OPEN, "effects_emitted": emitted}
    return lab_documents(*extra, lab_workflow(KID), flow=flow, **authority)


@pytest.mark.clause("K-13", "X-21")
def test_what_a_pinned_cell_waits_for_within_its_own_tick() -> None:
    """AG-24: an effect that has left the bundle goes out, also when its room comes free at once."""

    def both(following: Any, value: Any, ctx: Any) -> Outcome:
        old = {"effect": OLD_EFFECT["name"], "params": {"q": "?"}, "cap_slot": "main"}
        return Outcome(following, effects=[*spawning(following, value, ctx).effects, old])

    deeds = lab_function(ask=lambda f, *_: Outcome(f, effects=[ask()]), both=both)
    rig = Rig(queueing(old=True), {CODE: deeds, ("t/code@1", "kid"): lab_function()})
    rig.send(GO, go("a", "ask"))
    manifest, blobs = bundle_of(queueing(old=False))
    sample, plan = rig.clock.sample(), planned(rig, "pin")
    rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "al", plan))
    rig.settle(rig.jobs.all[0], {"a": "x"})
    rig.send(GO, go("a", "both"))
    (job,) = rig.jobs.of(OLD_EFFECT["name"])
    rig.settle(job, {"a": "y"})
    assert rig.state(LAB, "a")["log"] == ["ask", "ok:", "both", "ok:", "ok:"]
    check(rig)


@pytest.mark.clause("K-35", "X-17")
def test_a_pinned_cell_that_begins_anew_begins_on_new_code() -> None:
    """06 section 9: deleted and spawned by one tick, a cell is a new one, and its pin is gone."""

    def renewed(_following: Any, value: Any, _ctx: Any) -> Outcome:
        payload = {"schema": GO, "value": canon.encode(go(value["id"]))}
        params = {"workflow": LAB, "key": canon.encode(value["id"]), "payload": payload}
        wish = {"effect": SPAWN, "params": {**params, "caps": None}, "cap_slot": "flow"}
        return Outcome(None, effects=[wish])

    asking = lambda f, *_: Outcome(f, effects=[ask()])  # noqa: E731
    newer = lambda _s, event, _c: {"id": "a", "log": [event["$tag"]]}  # noqa: E731
    old = lab_function(ask=asking, renew=renewed)
    rig = Rig(lab_documents(flow=OPEN), {CODE: old, ("t/code@1", "newer"): newer})
    rig.send(GO, go("a", "ask"))
    named = {**LAB_ARMS, "Came": LAB_ARMS["Go"]}
    del named["Go"]
    impl = {"impl": {"module": "t/code@1", "entrypoint": "newer"}}
    manifest, blobs = bundle_of(lab_documents(lab_arms=named, flow={**OPEN, **impl}))
    ids = (manifest, manifest, rig.manifest)
    given = Activate(rig.clock.sample(), *ids, blobs, "al", planned(rig, "pin"))
    assert rig.do(given).kind == "activated"
    rig.send(GO, go("a", "renew"))
    assert rig.records(WorkflowFaulted) == []
    assert rig.state(LAB, "a")["log"] == ["Came"]
    assert rig.world.pinned == 0
    check(rig)


@pytest.mark.clause("X-20", "X-21")
def test_what_waits_as_a_pinned_entity_comes_to_its_end_is_of_the_newer_shape() -> None:
    """06 section 9: sent in the shape that the old code knows, it is read in that of the new."""
    entity = {"lifecycle": "entity"}
    done = lambda f, *_: Outcome(f, status="completed")  # noqa: E731
    asking = lambda f, *_: Outcome(f, effects=[ask()])  # noqa: E731
    old = lab_function(ask=asking, done=done)

    def newer(state: Any, event: Any, _ctx: Any) -> Any:
        return {"id": "a", "log": [*state["log"], repr(event["$value"]["more"])]}

    rig = Rig(lab_documents(flow=entity), {CODE: old, ("t/code@1", "newer"): newer})
    rig.send(GO, go("a", "ask"))
    impl = {"impl": {"module": "t/code@1", "entrypoint": "newer"}}
    made = lab_documents(flow={**entity, **impl})
    (event,) = [each for each in made if each.get("name") == GO]
    event["type"]["record"]["more"] = {"option": TEXT}
    manifest, blobs = bundle_of(made)
    ids = (manifest, manifest, rig.manifest)
    given = Activate(rig.clock.sample(), *ids, blobs, "al", planned(rig, "pin"))
    assert rig.do(given).kind == "activated"
    for do in ("done", "note"):
        rig.send(GO, go("a", do), run=False)
    rig.run()
    assert rig.records(WorkflowFaulted) == []
    assert rig.state(LAB, "a")["log"] == ["ask", "done", "None"]
    check(rig)
