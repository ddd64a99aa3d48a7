"""Flow control: what has no room waits in the order of asking, and nothing is forgotten."""

# tidy: limits, rates, queues and budgets are one stage.
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import BadDefinition
from tallystick.kernel.inputs import Activate, Decide, Operate, Planned
from tallystick.model.records import IntentDenied, IntentOpened, IntentReleased, ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tallystick.views.effects import Settlements
from tests.rig import WORLD, Rig, bundle_of, check
from tests.worlds import ASK, GO, LAB, SPAWN, ask, go, lab_authority, lab_documents, lab_function

CODE = ("t/code@1", "lab")
SECOND = 1_000_000_000
LATER = SECOND + 1000  # logical time runs ahead of the clock by some ticks


def documents(*flows: Any, budgets: Any = (), rules: Any = None) -> list[Any]:
    authority = lab_authority()
    authority["authority"] |= {"flows": list(flows), "budgets": list(budgets)}
    extra = []
    if rules is not None:
        authority["authority"]["policies"] = ["t/mine@1"]
        extra = [{"$kind": "defpolicy", "name": "t/mine@1", "rules": rules}]
    return lab_documents(*extra, **authority)


def flow(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"name": name, "match": {"effect": ASK}, **more}


def lab(*flows: Any, wish: Any = None, **more: Any) -> Rig:
    """A world whose cells ask for what `wish` makes of the event's number."""

    def run(following: Any, value: Any, _ctx: Any) -> Outcome:
        effects = [ask(str(value["n"]))] if wish is None else wish(value["n"])
        return Outcome(following, effects=effects)

    return Rig(documents(*flows, **more), {CODE: lab_function(wish=run)})


def asked(rig: Rig) -> list[str]:
    """What has left, in order."""
    return [canon.decode(job.params)["q"] for job in rig.jobs.all]


def wishes(rig: Rig, *numbers: int, cell: str | None = None) -> None:
    for n in numbers:
        rig.send(GO, go(cell or f"c{n}", "wish", n))


def end(rig: Rig, n: int, **more: Any) -> None:
    """The job that asked for a number is done."""
    (job,) = [j for j in rig.jobs.all if canon.decode(j.params)["q"] == str(n)]
    rig.settle(job, {"a": "ok"}, **more)


def held(rig: Rig) -> int:
    return len(rig.world.levels.queue)


@pytest.mark.clause("F-22", "X-03")
def test_max_open_queues_in_order() -> None:
    """AG-11: over the limit intents wait; each settlement lets out the one that asked first."""
    rig = lab(flow(max_open={"world": 2}))
    wishes(rig, 1, 2, 3, 4)
    assert asked(rig) == ["1", "2"]
    hold = [r.hold["kind"] for r in rig.records(IntentOpened) if r.hold]
    assert hold == ["capacity", "capacity"]
    end(rig, 2)
    assert asked(rig) == ["1", "2", "3"]
    rig = rig.reopened()
    assert held(rig) == 1
    rig.operate("cancel", LAB, "c1", force=True)
    assert asked(rig) == ["4"]
    assert held(rig) == 0
    check(rig)


@pytest.mark.parametrize("scope", ["workflow", "cell"])
def test_scopes(scope: str) -> None:
    """06 section 4: a limit counts for the world, for each workflow, or for each cell."""
    rig = lab(flow(max_open={scope: 1}))
    wishes(rig, 1, 2, cell="a")
    wishes(rig, 3, cell="b")
    assert asked(rig) == (["1"] if scope == "workflow" else ["1", "3"])
    end(rig, 1)
    assert asked(rig)[-1] == "2"
    check(rig)


@pytest.mark.clause("F-22")
def test_one_key_never_blocks_another() -> None:
    """AG-11: with a key, the limit is per key, and a full key leaves the others alone."""
    rig = lab(flow(keyed={"key": "{{ params.q }}", "max_open": 1}))
    for cell in ("a", "b", "c"):
        wishes(rig, 1, 2, cell=cell)
    assert asked(rig) == ["1", "2"]
    rig.settle(rig.jobs.all[1], {"a": "ok"})
    assert asked(rig) == ["1", "2", "2"]
    rig.settle(rig.jobs.all[0], {"a": "ok"})
    assert asked(rig) == ["1", "2", "2", "1"]
    check(rig)


@pytest.mark.clause("X-10")
def test_rate() -> None:
    """AG-11: after a burst one goes out per gap of logical time; the clock lets it out."""
    rig = lab(flow(rate={"count": 1, "per_ns": SECOND, "burst": 2}))
    wishes(rig, 1, 2, 3, 4)
    assert asked(rig) == ["1", "2"]
    rig.pass_time(SECOND // 2)
    assert asked(rig) == ["1", "2"]
    for n in (3, 4):
        rig.pass_time(SECOND)
        assert asked(rig)[-1] == str(n)
    rig.pass_time(10 * SECOND)
    assert rig.driver.settle_due() is False
    wishes(rig, 5, 6, 7)
    assert asked(rig)[-2:] == ["5", "6"]
    assert rig.driver.settle_due() is False
    rig.clock.now_ns += LATER
    assert rig.driver.settle_due() is True
    rig.run()
    assert asked(rig)[-1] == "7"
    check(rig)


DENIED: dict[str, tuple[dict[str, Any], str]] = {
    "open": ({"max_open": {"world": 1}, "over": "deny"}, "flow.over_open"),
    "rate": ({"rate": {"count": 1, "per_ns": SECOND}, "over": "deny"}, "flow.over_rate"),
    "queue": ({"max_open": {"world": 1}, "queue_max": 1}, "flow.queue_full"),
    "cost": ({"budget": {"name": "b", "cost": "{{ params.nothing }}"}}, "flow.cost_fault"),
    "kind of cost": ({"budget": {"name": "b", "cost": "{{ params.q }}"}}, "flow.cost_fault"),
    "budget": ({"budget": {"name": "b", "cost": "{{ 4 }}"}}, "flow.budget_exhausted"),
}
BUDGET = {"name": "b", "unit": "tokens", "limit": 10}


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("name", DENIED)
def test_denied(name: str) -> None:
    """06 section 4: each way to have no room has its own code, at the stage capacity."""
    given_flow, code = DENIED[name]
    rig = lab(flow(**given_flow), budgets=[BUDGET])
    wishes(rig, 1, 2, 3)
    denied = rig.records(IntentDenied)[-1]
    assert (denied.stage, denied.code, denied.judged.capacity) == ("capacity", code, "no")
    assert denied.judged.policy.decision == "allow"
    check(rig)


def test_all_or_none() -> None:
    """06 section 4: an intent takes room in all of its flows or in none."""
    rig = lab(flow("wide", max_open={"world": 2}), flow("narrow", max_open={"cell": 1}))
    wishes(rig, 1, 2, cell="a")
    wishes(rig, 3, cell="b")
    assert asked(rig) == ["1", "3"], "what waits for the cell holds no room of the world"
    end(rig, 1)
    assert asked(rig) == ["1", "3", "2"]
    check(rig)


@pytest.mark.clause("X-10")
def test_held_ends_by_itself() -> None:
    """AG-12: a held intent times out, and gives up its place; nothing of it leaves."""
    rig = lab(
        flow(max_open={"world": 1}),
        wish=lambda n: [ask("2", timeout_ns=SECOND) if n == 2 else ask(str(n))],
    )
    wishes(rig, 1, 2, 3)
    rig.pass_time(2 * SECOND)
    assert [r.status for r in rig.records(ReceiptSettled)] == ["timeout"]
    end(rig, 1)
    assert asked(rig) == ["1", "3"]
    check(rig)


def test_cancel_and_ask_in_one_tick() -> None:
    """AG-12: room that a tick frees is taken by what the same tick asked for, in its frame."""
    undo = {"effect": "sys/effect.cancel@1", "params": {"intent": None, "issuer_ref": "one"}}
    rig = lab(
        flow(max_open={"world": 1}),
        wish=lambda n: (
            [ask("2"), {**undo, "cap_slot": "main"}] if n == 2 else [ask("1", issuer_ref="one")]
        ),
    )
    wishes(rig, 1, 2, cell="a")
    assert asked(rig) == ["1", "2"]
    assert held(rig) == 0
    check(rig)


def test_a_denial_leaves_the_room_of_its_namesake() -> None:
    """AG-12: a denied asking and an open one may share a key; the denial frees no room."""
    undo = {"effect": "sys/effect.cancel@1", "params": {"intent": None, "issuer_ref": "one"}}

    def wish(n: int) -> Any:
        if n == 1:
            return [ask("1", issuer_ref="one")]
        same = [ask("2", idempotency_key=b"k"), ask("2", idempotency_key=b"k")]
        same[0]["cap_slot"] = "nothing"
        return [*same, ask("3"), {**undo, "cap_slot": "main"}]

    rig = lab(flow(max_open={"world": 1}), wish=wish)
    wishes(rig, 1, 2, cell="a")
    assert [denial.code for denial in rig.records(IntentDenied)] == ["cap.unbound"]
    assert asked(rig) == ["1", "2"]
    assert held(rig) == 1
    end(rig, 2)
    assert asked(rig) == ["1", "2", "3"]
    check(rig)


def test_internal_effects_wait() -> None:
    """06 section 4: a spawn that has no room yet begins when it has."""

    def spawn(n: int) -> Any:
        payload = {"schema": GO, "value": canon.encode(go(f"kid{n}"))}
        key = canon.encode(f"kid{n}")
        params = {"workflow": LAB, "key": key, "payload": payload, "caps": None}
        return [{"effect": SPAWN, "params": params, "cap_slot": "flow"}]

    rate = {"count": 1, "per_ns": SECOND}
    rig = lab({"name": "s", "match": {"effect": SPAWN}, "rate": rate}, wish=spawn)
    wishes(rig, 1, 2, 3)
    assert rig.state(LAB, "kid1") is not None
    assert rig.state(LAB, "kid2") is None
    rig.pass_time(LATER)
    rig.pass_time(LATER)
    assert rig.state(LAB, "kid2") is not None
    assert rig.state(LAB, "kid3") is not None
    check(rig)


def test_approved_still_needs_room() -> None:
    """06 section 1: release judges capacity too: after the people, the queue."""
    big = {"id": "big", "decision": "require_approval", "where": "{{ params.q == '2' }}"}
    rules = [{**big, "approval": {"by": ["bob"], "ttl_ns": SECOND}}, {"decision": "allow"}]
    rig = lab(flow(max_open={"world": 1}), rules=rules)
    wishes(rig, 2, 1)
    assert asked(rig) == ["1"]
    intent = next(r.intent for r in rig.records(IntentOpened) if r.hold)
    rig.do(Decide(rig.clock.sample(), intent, "bob", "approve"))
    assert asked(rig) == ["1"]
    seen = Settlements().read(rig.journal.read(WORLD)).known[intent]
    assert seen.hold == rig.world.intents.get(intent).hold
    rig.pass_time(2 * SECOND)
    assert held(rig) == 1, "the time to decide is over, and it was decided"
    end(rig, 1)
    assert asked(rig) == ["1", "2"]
    assert [r.cause for r in rig.records(IntentReleased)] == ["queued", "room"]
    check(rig)


def test_a_flow_that_is_gone_blocks_nothing() -> None:
    """06 section 4: what waits for a flow that an upgrade removed goes out with the upgrade."""
    rig = lab(flow(max_open={"world": 1}))
    wishes(rig, 1, 2, cell="a")
    manifest, blobs = bundle_of(documents())
    plan = {(LAB, canon.encode("a")): Planned(rig.cell(LAB, "a").last_seq)}
    given_ = Activate(rig.clock.sample(), manifest, manifest, rig.manifest, blobs, "al", plan=plan)
    assert rig.do(given_).kind == "activated"
    rig.pass_time(1)
    assert asked(rig) == ["1", "2"]
    check(rig)


@pytest.mark.parametrize(
    "bad",
    [
        flow(keyed={"key": "{{ ( }}"}),
        flow(budget={"name": "none", "cost": "{{ 1 }}"}),
    ],
)
def test_a_bad_flow_is_refused_at_the_door(bad: Any) -> None:
    """06 section 4: a flow that cannot be compiled never becomes active."""
    with pytest.raises(BadDefinition) as caught:
        lab(bad)
    assert caught.value.code == "flow.bad_flow"


# ---- budgets --------------------------------------------------------------------------------


def budget_rig(limit: int = 10, **more: Any) -> Rig:
    cost = {"name": "b", "cost": "{{ 4 }}"}
    return lab(flow(budget=cost), budgets=[{**BUDGET, "limit": limit, **more}])


def spent(rig: Rig) -> tuple[int, int]:
    _, paid, reserved = rig.world.levels.budgets["b"]
    return paid, reserved


@pytest.mark.clause("X-07")
def test_budget_settles() -> None:
    """AG-13: reserved at opening, settled to the sealed usage, the rest comes back."""
    rig = budget_rig()
    wishes(rig, 1, 2)
    assert spent(rig) == (0, 8)
    end(rig, 1, usage={"calls": 1, "tokens": 1, "cents": 0})
    assert spent(rig) == (1, 4)
    wishes(rig, 3)
    assert spent(rig) == (1, 8)
    end(rig, 2)
    assert spent(rig) == (5, 4), "no usage reported: the reservation is spent"
    end(rig, 3, usage={"calls": 1, "tokens": 40, "cents": 0})
    assert spent(rig) == (45, 0), "an overrun is recorded"
    wishes(rig, 4)
    assert rig.records(IntentDenied)[-1].code == "flow.budget_exhausted"
    check(rig)


def test_budget_windows_and_refunds() -> None:
    """AG-13: a new window begins at nothing; what never left is refunded."""
    rig = budget_rig(limit=4, window_ns=100 * SECOND)
    wishes(rig, 1)
    end(rig, 1)
    wishes(rig, 2)
    assert asked(rig) == ["1"]
    rig.pass_time(100 * SECOND)
    wishes(rig, 3)
    assert asked(rig) == ["1", "3"]
    check(rig)
    cost = {"name": "b", "cost": "{{ 4 }}"}
    rig = lab(flow(budget=cost, max_open={"world": 1}), budgets=[BUDGET])
    wishes(rig, 1, 2)
    assert spent(rig) == (0, 8)
    waiting = rig.world.levels.queue[0].intent
    rig.do(Operate(rig.clock.sample(), "cancel", "alice", "no", intent=waiting))
    rig.run()
    assert spent(rig) == (0, 4)
    check(rig)


# ---- all of it ------------------------------------------------------------------------------

STEP = st.tuples(st.sampled_from(["ask", "end", "cancel", "time", "open"]), st.integers(0, 7))


@pytest.mark.clause("F-22", "X-03", "X-07")
@settings(max_examples=25, deadline=None)
@given(st.lists(STEP, min_size=5, max_size=40))
def test_never_over_never_forgotten(steps: list[tuple[str, int]]) -> None:
    """AG-11, AG-12, AG-13: whatever happens, limits hold, room is used, roots agree at replay."""
    cost = {"name": "b", "cost": "{{ 2 }}"}
    key = {"key": "{{ params.q }}", "max_open": 1}
    rig = lab(
        flow("k", keyed=key, budget=cost),
        flow("w", max_open={"world": 3}),
        budgets=[{**BUDGET, "limit": 40}],
    )
    for word, n in steps:
        _do(rig, word, n)
        out = [i for _, i in rig.world.intents.entries() if i.hold is None]
        keys = [canon.decode(i.record.params)["q"] for i in out]
        assert len(out) <= 3
        assert len(set(keys)) == len(keys)
        waits = [rig.world.intents.get(who.intent) for who in rig.world.levels.queue]
        wanted = [canon.decode(i.record.params)["q"] for i in waits]
        assert len(out) == 3 or all(q in keys for q in wanted), "there was room, and one waits"
        paid, reserved = spent(rig) if rig.world.levels.budgets else (0, 0)
        assert reserved == 2 * len(list(rig.world.intents.entries()))
        assert paid + reserved <= 40
    check(rig)


def _do(rig: Rig, word: str, n: int) -> None:
    out = sorted((i.seq, p) for p, i in rig.world.intents.entries() if i.hold is None)
    if word == "ask":
        wishes(rig, n % 4, cell=f"c{n}")
    elif word == "time":
        rig.pass_time(n * SECOND)
    elif word == "open":
        rig.driver.snapshot()
    elif word == "cancel" and rig.world.levels.queue:
        waiting = rig.world.levels.queue[n % len(rig.world.levels.queue)].intent
        rig.do(Operate(rig.clock.sample(), "cancel", "alice", "no", intent=waiting))
        rig.run()
    elif word == "end" and out:
        intent = out[n % len(out)][1]
        (job,) = [job for job in rig.jobs.all if job.intent == intent]
        rig.settle(job, {"a": "ok"})
