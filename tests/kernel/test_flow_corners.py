"""Corners of flow control: authority is asked again at every release, and frames are bounded."""

# tidy: each corner needs a world of flows, and they share it.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import BadDefinition
from tallystick.kernel.drain import RELEASES_MAX
from tallystick.kernel.inputs import Activate, Operate, Propose, RevokeGrant
from tallystick.kernel.world import Settings
from tallystick.model.cells import COMPLETED, FAILED, RUNNING, CellId
from tallystick.model.frames import open_frame
from tallystick.model.records import IntentDenied, IntentReleased, ReceiptSettled, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel import mixed
from tests.kernel.parcels import planned
from tests.kernel.test_flows import (
    BUDGET,
    CODE,
    LATER,
    SECOND,
    asked,
    documents,
    end,
    flow,
    held,
    lab,
    wishes,
)
from tests.rig import START_NS, Rig, bundle_of, check
from tests.worlds import (
    ASK,
    GO,
    LAB,
    READ,
    SPAWN,
    UNDO,
    ask,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
)

ONE = flow(max_open={"world": 1})


def timed(late: str, **more: Any) -> list[dict[str, Any]]:
    """Rules that allow an effect for a second, and then decide otherwise."""
    early = f"{{{{ now_ns < {START_NS + SECOND} }}}}"
    return [
        {"id": "early", "when": {"effect": ASK}, "where": early, "decision": "allow"},
        {"id": "late", "when": {"effect": ASK}, "decision": late, **more},
        {"id": "rest", "decision": "allow"},
    ]


def denials(rig: Rig) -> list[str]:
    settled = [each for each in rig.records(ReceiptSettled) if each.status == "denied"]
    return [canon.decode(each.payload)["code"] for each in settled]


@pytest.mark.clause("K-29")
@pytest.mark.parametrize(
    ("late", "code"),
    [("deny", "policy.denied"), ("require_approval", "policy.approval_missing")],
)
def test_a_rule_that_changed_meanwhile_lets_nothing_out(late: str, code: str) -> None:
    """06 section 1: what waited for room is judged under the time of its release."""
    rig = lab(ONE, rules=timed(late))
    wishes(rig, 1, 2)
    assert (asked(rig), held(rig)) == (["1"], 1)
    rig.pass_time(2 * SECOND)
    end(rig, 1)
    assert (asked(rig), held(rig)) == (["1"], 0)
    assert denials(rig) == [code]
    assert rig.records(IntentReleased) == []
    check(rig)


def test_one_frame_releases_so_many_and_no_more() -> None:
    """11 section 4: what is denied at its release takes no room; the rest goes with the next."""
    rig = lab(ONE, rules=timed("deny"))
    many = RELEASES_MAX + 40
    wishes(rig, *range(1, many + 2))
    rig.pass_time(2 * SECOND)
    assert held(rig) == many
    end(rig, 1)
    assert held(rig) == 0
    frames = [open_frame(frame.body)[3] for frame in rig.journal.read(rig.world.id)]
    denied = [sum(getattr(each, "status", "") == "denied" for each in made) for made in frames]
    assert max(denied) == RELEASES_MAX
    assert sum(denied) == many == len(denials(rig))
    assert rig.verify().first is None


def test_what_people_hold_gives_its_cost_back() -> None:
    """06 section 4: cancelled before anybody said yes, it has used nothing of its budget."""
    hold = [{"id": "big", "when": {"effect": ASK}, "decision": "require_approval"}]
    paid = flow(budget={"name": "b", "cost": "4"})
    rig = lab(paid, budgets=[BUDGET], rules=[*hold, {"id": "rest", "decision": "allow"}])
    wishes(rig, 1)
    assert rig.world.levels.budgets["b"][1:] == (0, 4)
    ((intent, _),) = rig.world.intents.entries()
    rig.do(Operate(rig.clock.sample(), "cancel", "alice", "no more", intent=intent))
    rig.run()
    assert rig.world.levels.budgets["b"][1:] == (0, 0)
    check(rig)


@pytest.mark.clause("X-07")
def test_two_flows_that_draw_on_one_budget_are_counted_together() -> None:
    """AG-13: what an intent reserves in all of its flows is at most what is free."""
    paid = {"budget": {"name": "b", "cost": "{{ params.q | int }}"}}
    budget = {**BUDGET, "limit": 10}
    rig = lab(flow("f", **paid), flow("g", **paid), budgets=[budget])
    wishes(rig, 6, 5)
    assert [each.code for each in rig.records(IntentDenied)] == ["flow.budget_exhausted"]
    assert asked(rig) == ["5"]
    assert rig.world.levels.budgets["b"][1:] == (0, 10)
    check(rig)


@pytest.mark.clause("X-07")
def test_what_its_own_tick_cancels_has_used_nothing() -> None:
    """06 section 4: never dispatched, all refunded: also where the cell ends as it asks."""
    last = lambda f, *_: Outcome(f, status=COMPLETED, effects=[ask()])  # noqa: E731
    paid = flow(budget={"name": "b", "cost": "4"})
    rig = Rig(documents(paid, budgets=[BUDGET]), {CODE: lab_function(last=last)})
    rig.send(GO, go("a", "last"))
    assert asked(rig) == []
    assert rig.world.levels.budgets["b"][1:] == (0, 0)
    check(rig)


@pytest.mark.clause("X-07")
@pytest.mark.invariant("I2")
def test_a_usage_beyond_all_numbers_spends_all_there_is() -> None:
    """06 section 4: an overrun is recorded, however large, and the world still has a root."""
    most = 2**63 - 1
    paid = flow(budget={"name": "b", "cost": "1"})
    rig = lab(paid, budgets=[{**BUDGET, "limit": most}])
    wishes(rig, 1, 2, 3)
    for n in (1, 2, 3):
        end(rig, n, usage={"tokens": most})
    wishes(rig, 4)
    assert [each.code for each in rig.records(IntentDenied)] == ["flow.budget_exhausted"]
    check(rig)


@pytest.mark.clause("F-22")
@pytest.mark.invariant("I2")
def test_a_burst_ends_before_time_does() -> None:
    """06 section 4: the largest rate keeps a moment that a root can say; beyond it is refused."""
    most = 2**63 - 1
    rig = lab(flow(rate={"count": 1, "per_ns": most // 3, "burst": 3}))
    wishes(rig, 1, 2, 3, 4)
    assert (asked(rig), held(rig)) == (["1", "2", "3"], 1)
    check(rig)
    with pytest.raises(BadDefinition) as caught:
        lab(flow(rate={"count": 1, "per_ns": most, "burst": 2}))
    assert (caught.value.code, caught.value.where["path"]) == ("flow.bad_flow", "/rate")


@pytest.mark.clause("K-41")
@pytest.mark.invariant("I20")
def test_a_cell_that_is_gone_is_not_spilled() -> None:
    """K-41: whether cells stay or go, memory keeps to its bound and the root to its history.

    The state of a cell that ended before its turn is not written out; one that stays is.
    """
    rig = mixed.mixed_rig(Settings(resident_bytes_max=150))
    states = {}
    for name in ("gone", "stays"):
        rig.send(GO, go(name, "note"))
        states[name] = rig.cell(LAB, name).state_hash
    rig.send(GO, go("gone", "gone"))
    assert CellId(LAB, canon.encode("gone")) in rig.world.resident
    for number in range(12):
        rig.send(GO, go(f"d{number}", "note"))
    assert CellId(LAB, canon.encode("gone")) not in rig.world.resident
    assert rig.world.resident_bytes <= 150
    assert rig.driver.blobs.get(states["gone"]) is None
    assert rig.driver.blobs.get(states["stays"]) is not None
    check(rig)


@pytest.mark.clause("F-22")
def test_a_tick_releases_what_is_due_at_its_own_time() -> None:
    """06 section 4: a rate is asked at the logical time of the frame, not a nanosecond later."""
    rig = lab(flow(rate={"count": 1, "per_ns": SECOND}))
    wishes(rig, 1, 2)
    assert (asked(rig), held(rig)) == (["1"], 1)
    # The first left at the tick behind the first input, so the next may a second later.
    rig.clock.now_ns = START_NS + SECOND - 1
    rig.send(GO, go("z", "note"))
    assert rig.world.logical_ns == START_NS + SECOND
    assert asked(rig) == ["1"]
    rig.send(GO, go("z", "note"))
    assert asked(rig) == ["1", "2"]
    check(rig)


def undoing(n: int) -> list[dict[str, Any]]:
    """A cell fills a place for a second, or asks for something, or takes that back."""
    if n < 10:
        return [ask(str(n), timeout_ns=SECOND)]
    if n == 10:
        return [ask("10", issuer_ref="mine")]
    params = {"intent": None, "issuer_ref": "mine"}
    return [{"effect": UNDO, "params": params, "cap_slot": "main", "issuer_ref": "undo"}]


@pytest.mark.clause("X-10", "K-13")
@pytest.mark.parametrize("cells", [("c", "c"), ("c", "d")], ids=["own", "of another"])
def test_a_cancellation_that_waited_cancels_in_its_own_cell(cells: tuple[str, str]) -> None:
    """03 section 6: what one frame lets out together stays the affair of the cell that asked."""
    rig = lab(
        {"name": "f", "match": {"cap_type": "effect"}, "max_open": {"world": 2}}, wish=undoing
    )
    wishes(rig, 1, 2)
    wishes(rig, 10, cell=cells[0])
    wishes(rig, 11, cell=cells[1])
    assert (asked(rig), held(rig)) == (["1", "2"], 2)
    rig.pass_time(LATER)  # both places come free in one frame
    assert held(rig) == 0
    told = ["cancelled:mine"] if cells[0] == cells[1] else []
    assert [word for word in rig.state(LAB, "c")["log"] if "mine" in word] == told
    assert rig.state(LAB, cells[1])["log"][-1] == "ok:undo"
    assert asked(rig) == (["1", "2"] if told else ["1", "2", "10"])
    check(rig)


ENDS: dict[str, Any] = {
    "done": lambda state, *_: Outcome(state, status=COMPLETED),
    "fail": lambda state, *_: Outcome(state, status=FAILED, reason={"code": "t", "message": "no"}),
    "bad": lambda *_: Outcome("no state"),
    "gone": lambda *_: Outcome(None),
}


@pytest.mark.clause("X-17", "K-35")
@pytest.mark.invariant("I19")
@pytest.mark.parametrize("how", [*ENDS, "operator"])
def test_what_the_end_of_a_cell_lets_out_does_not_wake_it(how: str) -> None:
    """03 section 5: an end is sticky, also for what waited for the room that it gives back.

    The control is a cell that deletes itself: it is created anew.
    """
    to = {"workflow": LAB, "key": canon.encode("x"), "caps": None}
    hello = {"schema": GO, "value": canon.encode(go("x", "hello"))}
    call = {"effect": SPAWN, "params": {**to, "payload": hello}, "issuer_ref": "s"}
    asking = lambda state, *_: Outcome(state, effects=[ask()])  # noqa: E731 - as the others
    spawning = lambda state, *_: Outcome(state, effects=[call])  # noqa: E731
    functions = {CODE: lab_function(ask=asking, spawn=spawning, **ENDS)}
    rig = Rig(documents({"name": "f", "match": {}, "max_open": {"world": 1}}), functions)
    rig.send(GO, go("x", "ask"))
    rig.send(GO, go("y", "spawn"))
    assert held(rig) == 1
    if how == "operator":
        rig.operate("cancel", LAB, "x", force=True)
    else:
        rig.send(GO, go("x", how))
    cell, gone = rig.cell(LAB, "x"), how == "gone"
    assert (cell.status == RUNNING, len(cell.mailbox)) == (gone, 0)
    assert rig.state(LAB, "y")["log"] == ["spawn", "ok:s" if gone else "error:s"]
    check(rig)


def hopping(n: int) -> list[dict[str, Any]]:
    """Each cell makes a dead end and the next cell: the one takes the room that the other wants."""

    def kid(ident: str, number: int) -> dict[str, Any]:
        payload = {"schema": GO, "value": canon.encode(go(ident, "wish", number))}
        params = {"workflow": LAB, "key": canon.encode(ident), "payload": payload, "caps": None}
        return {"effect": SPAWN, "params": params, "cap_slot": "flow"}

    return [kid(f"dead-{n}", 99), kid(f"k{n + 1}", n + 1)] if n < 40 else []


@pytest.mark.clause("K-08")
@pytest.mark.parametrize("rules", [[], [flow(match={"effect": SPAWN}, max_open={"world": 1})]])
def test_hops_are_counted_through_a_queue_too(rules: list[dict[str, Any]]) -> None:
    """I16: what a tick lets out of a queue is as far from the outside as what it causes itself."""
    made = documents(*rules)
    made[-1]["limits"] = {"hops_max": 10}
    wish = lab_function(wish=lambda f, v, _: Outcome(f, effects=hopping(v["n"])))
    rig = Rig(made, {CODE: wish})
    rig.send(GO, go("k0", "wish", 0))
    assert [each.code for each in rig.records(WorkflowFaulted)] == ["hops_max"]
    assert rig.cell(LAB, "k10") is not None
    assert rig.cell(LAB, "k11") is None
    check(rig)


@pytest.mark.clause("X-19")
@pytest.mark.invariant("I15")
def test_what_leaves_a_queue_beside_a_decision_was_not_asked_by_it() -> None:
    """D2: a proposal in whose frame a read got its room is decided again without that read."""
    look = {"workflow": LAB, "key": canon.encode("a")}
    wish = {"effect": READ, "params": look, "cap_slot": "main"}
    functions = {CODE: lab_function(read=lambda f, *_: Outcome(f, effects=[wish]))}
    paced = flow(match={"effect": READ}, rate={"count": 1, "per_ns": SECOND})
    rig = Rig(documents(paced), functions)
    rig.send(GO, go("a", "read"))
    rig.send(GO, go("b", "read"))
    assert held(rig) == 1
    rig.clock.now_ns += LATER
    manifest, blobs = bundle_of(documents())
    patch = canon.encode({"flows": []})
    blobs[canon.digest_of(patch)] = patch
    ids = (rig.world.manifest, manifest, manifest, canon.digest_of(patch))
    rig.do(Propose(rig.clock.sample(), *ids, blobs, {"changed": []}, "alice"))
    assert held(rig) == 0
    assert rig.state(LAB, "b")["log"] == ["read"]
    check(rig)
    assert rig.state(LAB, "b")["log"] == ["read", "ok:"]


PACED = flow(rate={"count": 1, "per_ns": SECOND})


@pytest.mark.clause("X-24")
@pytest.mark.invariant("I6")
def test_a_change_lets_nothing_out_by_the_rules_that_it_replaces() -> None:
    """06 section 1: what got its room as the rules changed is judged by the new ones."""
    rig = lab(PACED)
    wishes(rig, 1, 2)
    assert (asked(rig), held(rig)) == (["1"], 1)
    rules = [{"id": "no", "when": {"effect": ASK}, "decision": "deny"}]
    manifest, blobs = bundle_of(documents(PACED, rules=rules))
    rig.clock.now_ns += LATER
    ids = (manifest, manifest, rig.manifest)
    given = Activate(rig.clock.sample(), *ids, blobs, "alice", planned(rig, "continue"))
    assert rig.do(given).kind == "activated"
    assert rig.driver.settle_due(), "and that is not put off"
    rig.run()
    assert (asked(rig), held(rig), denials(rig)) == (["1"], 0, ["policy.denied"])
    check(rig)


@pytest.mark.clause("K-29")
@pytest.mark.invariant("I6")
def test_a_revocation_lets_nothing_out_by_the_grant_that_it_ends() -> None:
    """AG-05: what derives from a derived grant is denied too, though it got its room just then."""
    kid, grandkid = "t/kid@1", "t/grandkid@1"
    given = {slot: {"from": slot, "params": None, "expires_ns": None} for slot in ("main", "flow")}

    def spawning(do: str, workflow: str, then: str) -> Any:
        payload = {"schema": GO, "value": canon.encode(go("k", then))}
        to = {"workflow": workflow, "key": canon.encode("k"), "payload": payload, "caps": given}
        wish = {"effect": SPAWN, "params": to, "cap_slot": "flow"}
        return lab_function(**{do: lambda f, *_: Outcome(f, effects=[wish])})

    made = lab_authority()
    made["authority"] |= {"flows": [PACED]}
    last = lab_function(two=lambda f, *_: Outcome(f, effects=[ask("1"), ask("2")]))
    functions = {
        CODE: spawning("one", kid, "deep"),
        ("t/code@1", "kid"): spawning("deep", grandkid, "two"),
        ("t/code@1", "grandkid"): last,
    }
    rig = Rig(lab_documents(lab_workflow(kid), lab_workflow(grandkid), **made), functions)
    rig.send(GO, go("a", "one"))
    assert (asked(rig), held(rig)) == (["1"], 1)
    name = rig.cell(kid, "k").caps["slots"]["main"]
    rig.clock.now_ns += LATER
    rig.do(RevokeGrant(rig.clock.sample(), name, "alice", "enough"))
    assert rig.driver.settle_due(), "and that is not put off"
    rig.run()
    assert (asked(rig), held(rig), denials(rig)) == (["1"], 0, ["cap.revoked"])
    check(rig)
