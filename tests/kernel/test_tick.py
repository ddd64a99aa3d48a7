"""The tick: what it is told, in which order cells run, and where a chain of events ends."""

# tidy: what a tick is told and what its frame holds belong together.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.model.cells import CellId, child_entropy
from tallystick.model.effects import event_hash
from tallystick.model.records import (
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    Noted,
    ReceiptSettled,
    Ticked,
    WorkflowFaulted,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import START_NS, WORLD, Rig, check
from tests.worlds import (
    ASK,
    DONE,
    GO,
    LAB,
    SPAWN,
    ask,
    go,
    lab_documents,
    lab_function,
    schema,
    workflow,
)

CODE = ("t/code@1", "lab")
CONTEXT = {"context": "sys/WorkflowContext@1"}


# ---- KN-23: context and cascade -------------------------------------------------------------


def told(rig_flow: dict[str, Any] | None = None, **deeds: Any) -> tuple[Rig, list[Any]]:
    """A lab that keeps every context it was given."""
    seen: list[Any] = []

    def note(following: Any, _value: Any, ctx: Any) -> Outcome:
        seen.append(ctx)
        return Outcome(following)

    documents = lab_documents(flow={**CONTEXT, **(rig_flow or {})})
    return Rig(documents, {CODE: lab_function(note=note, **deeds)}), seen


@pytest.mark.clause("K-28")
def test_context() -> None:
    """KN-23: the context tells time, entropy, position and definitions, and fits its schema."""
    rig, seen = told()
    rig.send(GO, go("a"))
    answer = rig.send(GO, go("a"))
    first, second = seen
    assert first["now_ns"] == START_NS
    assert second["logical_now_ns"] > first["logical_now_ns"] > START_NS
    assert first["entropy"] != second["entropy"]
    assert len(first["entropy"]) == 64
    assert second["event_seq"] == answer.seq
    assert second["event_hash"] == canon.text_of(answer.event_hash)
    assert second["manifest_hash"] == canon.text_of(rig.manifest)
    assert (second["workflow"], second["key"]) == (LAB, canon.encode("a"))
    assert second["workflow_hash"] == rig.world.workflow(LAB).hash_text
    assert second["world"] == WORLD
    assert second["cell_mode"] is True
    assert second["journal_height"] == answer.seq
    known = rig.world.active.catalogue.schemas["sys/WorkflowContext@1"]
    assert known.admit(second).value == second
    check(rig)


@pytest.mark.clause("K-28")
def test_context_of_a_keyed_event() -> None:
    """KN-23: the event hash of the context is that of the record, with an explicit key too."""
    rig, seen = told()
    answer = rig.send(GO, go("a"), key=canon.encode("a"))
    (record,) = rig.records(EventAdmitted)
    assert record.event_hash == answer.event_hash
    assert seen[0]["event_hash"] == canon.text_of(answer.event_hash)
    rig.send(GO, go("a"), key=canon.encode("a"), run=False)
    check(rig.reopened())


@pytest.mark.clause("X-21")
def test_a_new_cell_begins_with_the_present_version_of_its_state() -> None:
    """X-21: code that reads older versions too is not told that its first state is one of those."""
    seen = []

    def tick(_state: Any, _event: Any, ctx: Any) -> Any:
        seen.append(ctx["state_version"])
        return {"id": "x", "log": []}

    versions = {"state_version": 2, "accepts_state_versions": [1]}
    way = {"event": GO, "workflow": LAB, "key_field": "id", "init_state": {"id": "", "log": []}}
    context = {"context": "sys/WorkflowContext@1"}
    documents = lab_documents(flow={**versions, **context}, subscriptions=[way])
    rig = Rig(documents, {CODE: tick})
    rig.send(GO, go("a"))
    rig.send(GO, go("a"))
    assert seen == [2, 2]
    check(rig)


@pytest.mark.clause("K-28")
def test_no_context_unless_declared() -> None:
    """K-28: a workflow that declares no context is told nothing of time or chance."""
    seen: list[Any] = []

    def note(following: Any, _value: Any, ctx: Any) -> Outcome:
        seen.append(ctx)
        return Outcome(following)

    rig = Rig(lab_documents(), {CODE: lab_function(note=note)})
    rig.send(GO, go("a"))
    assert seen == [None]
    check(rig)


@pytest.mark.clause("K-28", "K-01")
@pytest.mark.invariant("I14", "I15")
# tidy: one scene, told from begin to end.
def test_cascade() -> None:
    """KN-23: two levels of children: time, entropy and intents are equal when run again.

    Every tick's entropy is derived from its parent, its cell and its position, never sampled.
    """
    seen: dict[str, list[Any]] = {}

    def chain(following: Any, value: Any, ctx: Any) -> Outcome:
        ident, level = value["id"], value["n"]
        seen.setdefault(ident, []).append((ctx["now_ns"], ctx["logical_now_ns"], ctx["entropy"]))
        following["log"].append(ctx["entropy"].hex())
        if level == 0:
            return Outcome(following, effects=[ask(ctx["entropy"].hex())])
        names = [f"{ident}.{i}" for i in range(2)]
        events = [{"schema": GO, "value": go(name, "chain", level - 1)} for name in names]
        return Outcome(following, events=events)

    rig = Rig(lab_documents(flow=CONTEXT), {CODE: lab_function(chain=chain)})
    samples = rig.clock.count
    rig.send(GO, go("r", "chain", 2))
    assert rig.clock.count == samples + 1
    first = {name: list(told) for name, told in seen.items()}
    assert sorted(first) == ["r", "r.0", "r.0.0", "r.0.1", "r.1", "r.1.0", "r.1.1"]
    assert len({told[0][2] for told in first.values()}) == 7
    assert {told[0][0] for told in first.values()} == {START_NS}
    logical = [told[0][1] for told in first.values()]
    assert len(set(logical)) == 7
    intents = [record.intent for record in rig.records(IntentOpened)]
    assert len(set(intents)) == 4
    seen.clear()
    assert rig.verify().first is None
    assert seen == first
    (root,) = [e for e in rig.records(EventAdmitted) if e.stamp is not None]
    ident = CellId(LAB, canon.encode("r"))
    seq = next(t.input_seq for t in rig.records(Ticked))
    assert first["r"][0][2] == child_entropy(root.stamp.entropy, ident, seq, 0)
    check(rig)


@pytest.mark.clause("K-28")
def test_logical_time_never_goes_back() -> None:
    """D4: a wall clock that steps back a year does not take logical time with it."""
    rig, seen = told()
    rig.send(GO, go("a"))
    rig.clock.now_ns -= 31_536_000 * 10**9
    rig.send(GO, go("a"))
    assert seen[1]["now_ns"] < seen[0]["now_ns"]
    assert seen[1]["logical_now_ns"] > seen[0]["logical_now_ns"]
    check(rig)


# ---- the frame ------------------------------------------------------------------------------


@pytest.mark.clause("K-01", "K-08")
# tidy: one scene, told from begin to end.
def test_frame_order() -> None:
    """03 section 5: tick, emitted events, intents in order, then what follows from them."""

    def much(following: Any, _value: Any, _ctx: Any) -> Outcome:
        payload = {"schema": GO, "value": canon.encode(go("s"))}
        key = canon.encode("s")
        child = {"workflow": LAB, "key": key, "payload": payload, "caps": None}
        wishes = [ask("1"), {**ask("2"), "cap_slot": "no"}, {"effect": SPAWN, "params": child}]
        events = [{"schema": GO, "value": go(name)} for name in "xy"]
        reason = {"code": "t.end", "message": "end"}
        return Outcome(following, status="failed", reason=reason, effects=wishes, events=events)

    rig = Rig(lab_documents(), {CODE: lab_function(much=much)})
    rig.send(GO, go("a", "much"), run=False)
    before = len(rig.records())
    rig.driver.tick()
    rig.driver.flush()
    made = [type(r) for r in rig.records()[before:]]
    assert made[:6] == [
        Ticked,
        EventAdmitted,
        EventAdmitted,
        IntentOpened,
        IntentDenied,
        IntentOpened,
    ]
    derived = rig.records()[before + 6 :]
    assert [r.status for r in derived if isinstance(r, ReceiptSettled)] == [
        "denied",
        "ok",
        "cancelled",
    ]
    assert DONE in [r.schema for r in derived if isinstance(r, EventAdmitted)]
    rig.run()
    assert not rig.jobs.all
    assert [rig.state(LAB, name)["log"] for name in "xys"] == [["note"]] * 3
    check(rig)


@pytest.mark.clause("K-01")
def test_mutating_what_was_given() -> None:
    """K-01: a reducer that changes its arguments changes nobody else's copy."""

    def spoil(following: Any, value: Any, _ctx: Any) -> Outcome:
        value["do"] = "spoiled"
        value["extra"] = 1
        return Outcome(following, events=[{"schema": GO, "value": go("b")}])

    rig = Rig(lab_documents(), {CODE: lab_function(spoil=spoil)})
    rig.send(GO, go("a", "spoil"))
    assert canon.decode(rig.records(EventAdmitted)[0].value) == go("a", "spoil")
    check(rig)


@pytest.mark.clause("K-01")
def test_large_state_and_event() -> None:
    """02 section 6: large values and states stand by digest, and read back the same."""

    def big(following: Any, value: Any, _ctx: Any) -> Outcome:
        return Outcome({**following, "log": ["x" * value["n"]]})

    rig = Rig(lab_documents(), {CODE: lab_function(big=big)})
    rig.send(GO, go("a", "big", 50_000))
    rig.send(GO, go("b", "y" * 100_000))
    ticked = rig.records(Ticked)
    assert ticked[0].state is None
    assert len(rig.state(LAB, "a")["log"][0]) == 50_000
    assert rig.records(EventAdmitted)[1].value is None
    assert rig.state(LAB, "b")["log"] == ["y" * 100_000]
    check(rig)


# ---- KN-09: fairness ------------------------------------------------------------------------


@pytest.mark.clause("K-36", "X-16")
@pytest.mark.invariant("I17", "I18")
def test_fairness() -> None:
    """KN-09: one hot cell with 10,000 entries and 999 cold ones: no cold cell waits over 1,000."""
    way = {"event": GO, "workflow": LAB, "key_field": "id"}
    documents = lab_documents(subscriptions=[way])
    count = {"n": 0}
    waited: list[int] = []

    def hot(state: Any, event: Any, _ctx: Any) -> Any:
        count["n"] += 1
        if event["$value"]["do"] == "cold":
            waited.append(count["n"])
        return {"id": event["$value"]["id"], "log": []}

    rig = Rig(documents, {CODE: hot})
    for _ in range(10_000):
        rig.send(GO, go("hot"), run=False)
    for i in range(999):
        rig.send(GO, go(f"c{i}", "cold"), run=False)
    rig.run()
    assert count["n"] == 10_999
    assert len(waited) == 999
    assert max(waited) <= 1000
    keys = [t.key for t in rig.records(Ticked)]
    assert len(set(keys[:1000])) == 1000
    inputs = [t.input_seq for t in rig.records(Ticked) if t.key == canon.encode("hot")]
    assert inputs == sorted(inputs)


@pytest.mark.clause("K-36", "X-16")
def test_ring_order() -> None:
    """K-36: a cell with more mail goes to the back of the ring after each tick."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    for name in "aabbc":
        rig.send(GO, go(name), run=False)
    rig.run()
    ticked = [canon.decode(t.key) for t in rig.records(Ticked)]
    assert ticked == ["a", "b", "c", "a", "b"]
    check(rig)


# ---- hops -----------------------------------------------------------------------------------


def bouncing(following: Any, value: Any, _ctx: Any) -> Outcome:
    other = "b" if value["id"] == "a" else "a"
    return Outcome(following, events=[{"schema": GO, "value": go(other, "bounce")}])


@pytest.mark.clause("X-03")
@pytest.mark.invariant("I16")
def test_hops() -> None:
    """X-03: a chain that feeds itself ends after `hops_max` events, at the same seq at replay."""
    documents = lab_documents(limits={"hops_max": 20})
    rig = Rig(documents, {CODE: lab_function(bounce=bouncing)})
    rig.send(GO, go("a", "bounce"))
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == "hops_max"
    assert fault.limit == {"name": "hops_max", "max": 20, "got": 21}
    assert len(rig.records(Ticked)) == 20
    check(rig)


@pytest.mark.clause("X-03")
def test_hops_start_anew() -> None:
    """X-03: what comes from outside, a receipt too, starts counting anew."""

    def again(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask()])

    documents = lab_documents(limits={"hops_max": 2})
    rig = Rig(documents, {CODE: lab_function(ask=again, Receipt=again)})
    rig.send(GO, go("a", "ask"))
    for _ in range(10):
        rig.settle(rig.jobs.of(ASK)[-1], {"a": "x"})
    assert not rig.records(WorkflowFaulted)
    check(rig)


@pytest.mark.clause("X-03")
@pytest.mark.invariant("I16")
def test_hops_through_a_remembered_key() -> None:
    """X-03: asking again and again for what is settled is a chain too, and nobody outside is asked.

    The receipt that began it comes from outside and counts anew.
    """

    def again(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask(idempotency_key=b"k")])

    documents = lab_documents(limits={"hops_max": 10})
    rig = Rig(documents, {CODE: lab_function(ask=again, Receipt=again)})
    rig.send(GO, go("a", "ask"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"}, run=False)
    for _ in range(50):
        if not rig.driver.tick():
            break
    else:
        pytest.fail("the chain has no end")
    rig.run()
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.limit == {"name": "hops_max", "max": 10, "got": 11}
    assert len(rig.records(Ticked)) == 11
    check(rig)


@pytest.mark.clause("X-03")
def test_hops_through_completions() -> None:
    """X-03: a chain through the kernel's own events ends too: each end starts a cell that ends."""
    extra = [
        schema("t/Seq@1", {"nat": {}}),
        schema("t/Ends@1", {"variant": {"Done": {"ref": DONE}, "Go": {"ref": GO}}}),
        workflow("t/phoenix@1", "t/State@1", "t/Ends@1", key_schema="t/Seq@1"),
    ]
    ways = [
        {"event": GO, "workflow": "t/phoenix@1", "key_field": "n"},
        {"event": DONE, "workflow": "t/phoenix@1", "key_field": "ended_seq"},
    ]

    def phoenix(_state: Any, _event: Any, _ctx: Any) -> Outcome:
        return Outcome({"id": "x", "log": []}, status="completed")

    documents = lab_documents(*extra, subscriptions=ways, limits={"hops_max": 10})
    rig = Rig(documents, {("t/code@1", "phoenix"): phoenix})
    rig.send(GO, go("a"), run=False)
    for _ in range(50):
        if not rig.driver.tick():
            break
    else:
        pytest.fail("the chain has no end")
    rig.run()
    assert len(rig.records(Ticked)) == 12
    assert [n.topic for n in rig.records(Noted)] == ["hops_max"]
    check(rig)


@pytest.mark.clause("K-01")
def test_event_hash_vector() -> None:
    """02 section 5: the published event hash, through the door."""
    value = canon.encode({"order_id": "o-1", "amount_cents": 1250, "note": None})
    found = event_hash("com.acme/OrderCreated@1", value, None).hex()
    assert found == "bddb7a91db03f56a02810bc8ad8fd2680924d04bd263f9b966aae0576eac177b"
