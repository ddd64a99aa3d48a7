"""What readers see of governance: proposals, authority, flows, and a request that is only tried."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import UnknownName
from tallystick.kernel.inputs import Operate
from tallystick.model.cells import CellId
from tallystick.model.records import IntentOpened, ReceiptSettled, StateMigrated
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tallystick.views import diff, explain, governance, waiting
from tallystick.views.asks import ask_list
from tallystick.views.causes import FOLLOWS, Link, linked
from tallystick.views.effects import Settlements, effect_show, open_intent, open_show
from tallystick.views.journal import export_rows
from tallystick.views.judge import Question, judged
from tallystick.views.pages import Page
from tallystick.views.timeline import timeline
from tallystick.views.waiting import Serving
from tests.kernel import governed
from tests.kernel.parcels import PARCEL, SENT, Release, parcel_rig, planned, upgrade
from tests.kernel.test_flows import BUDGET, flow, wishes
from tests.kernel.test_flows import lab as flow_lab
from tests.rig import Rig
from tests.views.worlds import frames, lab
from tests.worlds import (
    ASK,
    GO,
    LAB,
    allow_all,
    go,
    lab_authority,
    lab_documents,
    lab_function,
)

HUMAN = waiting.ASK


def test_proposals_page_by_page() -> None:
    """AG-16: proposals are listed in their order, by state, behind a cursor; one is shown whole."""
    rig = governed.lab(governance=governed.governance())
    first = governed.approved(rig, 3)
    second = governed.proposed(rig, number=4)
    world = rig.world
    found = governance.proposal_list(world, Page(limit=1))
    assert [row["proposal"] for row in found["items"]] == [first]
    rest = governance.proposal_list(world, Page(limit=1, after=found["next"]))
    assert ([row["proposal"] for row in rest["items"]], rest["next"]) == ([second], None)
    named = governance.proposal_list(world, Page(), "submitted")
    assert [row["proposal"] for row in named["items"]] == [second]
    whole = governance.proposal_show(world, first)
    assert (whole["state"], whole["votes"]) == ("approved", 1)
    assert [each["principal"] for each in whole["approvals"]] == ["bob"]
    with pytest.raises(UnknownName) as raised:
        governance.proposal_show(world, "p-999")
    assert raised.value.code == "gov.unknown_proposal"


def test_authority_names_people_and_cells_of_older_code() -> None:
    """AG-24: keys of people are not shown; pinned cells are listed up to a bound, and counted."""
    seen = governance.authority(governed.lab(governance=governed.governance()).world)
    people = {row["id"]: row for row in seen["principals"]}
    assert people["bob"]["has_key"]
    assert not people["eve"]["has_key"]
    assert all("key" not in row for row in people.values())
    assert seen["pins"] == {"items": [], "count": 0}
    rig = parcel_rig()
    for name in "abc":
        rig.send(SENT, {"id": name, "kg": 1})
    upgrade(rig, Release("two"), planned(rig, "pin", c="continue"))
    pins = governance.pins(rig.world)
    assert (sorted(row["key"] for row in pins["items"]), pins["count"]) == (["a", "b"], 2)
    few = governance.pins(rig.world, most=1)
    assert (few["items"], few["count"]) == (pins["items"][:1], 2)


def test_flows_show_what_is_open_and_what_waits() -> None:
    """AG-12: a full flow names its places and its queue; a budget says what is left of it."""
    cost = {"name": "b", "cost": "{{ 2 }}"}
    rig = flow_lab(flow(max_open={"world": 1}, budget=cost), budgets=[BUDGET])
    wishes(rig, 1, 2)
    seen = governance.flows(rig.world)
    ((one,), (left,)) = (seen["flows"], seen["budgets"])
    assert set(one["open"].values()) == {1}
    assert (seen["queued"], seen["queue"][0]["place"], one["over"]) == (1, 0, "queue")
    assert (left["limit"], left["unit"]) == (10, "tokens")
    assert left["free"] == 10 - left["spent"] - left["reserved"]


# ---- a request that is only tried -----------------------------------------------------------


def test_a_made_up_request_is_judged_and_leaves_nothing() -> None:
    """D13: allowed, misshapen, unknown: each is told by its stage, and the world is as before."""
    rig = lab()
    rig.send(GO, go("a"))
    before = (rig.world.seq, rig.state_root())
    asked = judged(rig.world, Question(LAB, ASK, {"q": "?"}, "a", "main"))
    assert (asked["decision"], asked["code"]) == ("allow", None)
    fresh = judged(rig.world, Question(LAB, ASK, {"q": "?"}, cap_slot="main"))
    assert fresh["decision"] == "allow"
    wrong = judged(rig.world, Question(LAB, ASK, {"q": 7}, "a", "main"))
    assert wrong["decision"] == "deny"
    assert [row["stage"] for row in wrong["judged"] if row["verdict"] == "deny"] == ["shape"]
    nobody = judged(rig.world, Question(LAB, "t/nobody@1", {}, "a"))
    assert [row["stage"] for row in nobody["judged"] if row["verdict"] == "deny"] == ["declared"]
    with pytest.raises(UnknownName) as raised:
        judged(rig.world, Question("t/none@1", ASK, {}))
    assert raised.value.code == "workflow.unknown"
    assert (rig.world.seq, rig.state_root()) == before


# ---- questions to people --------------------------------------------------------------------


def asking() -> Rig:
    """A lab that asks a person; with a large number the question is too long to stand inline."""

    def run(following: Any, value: Any, _ctx: Any) -> Outcome:
        asked = {
            "title": "Ship it?", "body": "x" * value["n"], "choices": ["yes", "no"],
            "form": None, "to": ["ops"], "default": None, "expires_at_ns": None,
        }  # fmt: skip
        return Outcome(following, effects=[{"effect": HUMAN, "params": asked, "cap_slot": "main"}])

    slots = {"cap_slots": {"main": "human"}, "effects_emitted": [HUMAN]}
    bound = allow_all("sys/human@1", bindings={LAB: {"main": "human"}})
    documents = lab_documents(flow=slots, **{**lab_authority(), **bound})
    return Rig(documents, {("t/code@1", "lab"): lab_function(ask=run)})


def test_questions_that_wait_for_a_person() -> None:
    """K-30: each open question is listed with its words, also one whose words stand by digest."""
    rig = asking()
    rig.send(GO, go("a", "ask", 1))
    rig.send(GO, go("b", "ask", 100_000))
    assert [r.params is None for r in rig.records(IntentOpened)] == [False, True]
    rows = ask_list(rig.world, Page())["items"]
    assert {row["title"] for row in rows} == {"Ship it?"}
    assert sorted(len(row["body"]) for row in rows) == [1, 100_000]


# ---- why and how it went on -----------------------------------------------------------------


def test_an_effect_explains_how_it_ended() -> None:
    """K-23: open it says what it waits for, settled it says what its receipt says."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    (job,) = rig.jobs.of(ASK)
    live = open_intent(rig.world, canon.text_of(job.intent))
    reason = waiting.why(live).shown()
    open_one = explain.explain_effect({**open_show(rig.world, live), "reason": reason})
    assert open_one["reasons"] == [reason]
    rig.settle(job, {"a": "yes"})
    (row,) = Settlements().read(frames(rig)).rows()
    told = effect_show(live.record, row, rig.records(ReceiptSettled)[0])
    ended = explain.explain_effect({**told, "reason": None})
    assert (ended["status"], ended["reasons"][0]["code"]) == ("ok", "settled_ok")


def test_what_a_pool_has_not_taken_waits_for_a_worker() -> None:
    """K-23: an intent that stands in a pool names it."""
    rig = lab()
    rig.send(GO, go("a", "ask", 1))
    ((path, intent),) = rig.world.intents.entries()
    reason = waiting.why(intent, Serving(lambda _e, _x: True, {}, {path: "gpu"}))
    assert (reason.code, reason.detail["pool"]) == ("worker", "gpu")


def test_a_cell_that_has_ended_says_so() -> None:
    """K-23: there is nothing to wait for in a completed cell."""
    rig = lab()
    rig.send(GO, go("a", "end"))
    found = explain.explain_cell(rig.world, CellId(LAB, canon.encode("a")))
    assert [row["code"] for row in found["reasons"]] == ["completed"]


def test_a_cell_at_rest_says_so() -> None:
    """K-23: an entity between two events has nothing to do."""
    rig = lab(lifecycle="entity")
    rig.send(GO, go("a"))
    found = explain.explain_cell(rig.world, CellId(LAB, canon.encode("a")))
    assert [row["code"] for row in found["reasons"]] == ["resting"]


def test_an_export_of_one_cell_has_its_history_alone() -> None:
    """X-23: the rows of a cell by its workflow and its shown key, and their number."""
    rig = lab()
    for name in ("a", "b"):
        rig.send(GO, go(name))
    span = (1, rig.world.seq)
    (head, *found, end) = export_rows(rig.world.id, frames(rig), span, (LAB, "a"))
    assert (head["to"], end["records"]) == (rig.world.seq, len(found))
    assert 0 < len(found) < len(list(export_rows(rig.world.id, frames(rig), span))) - 2


def test_a_cancellation_is_an_input_and_a_mark() -> None:
    """X-23: who asked a cell to end stands on its timeline, and its tick names that as input."""
    rig = lab()
    rig.send(GO, go("a"))
    raw = canon.encode("a")
    rig.do(Operate(rig.clock.sample(), "cancel", "alice", "enough", workflow=LAB, key=raw))
    seq = rig.world.seq
    rig.run()
    found = timeline(frames(rig), CellId(LAB, raw))
    assert found["marks"][-1]["record"]["reason"] == "enough"
    assert found["ticks"][-1]["input"] == {"seq": seq, "schema": "sys/CancelRequested@1"}


def test_a_state_that_was_carried_over_follows_the_change() -> None:
    """X-23: a migration in a tick's frame hangs on the first record of that frame."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "a", "kg": 1})
    counts = Release("counts", state_version=2, migration="counted")
    upgrade(rig, counts, planned(rig))
    rig.send(SENT, {"id": "a", "kg": 2})
    (moved,) = [one for one in linked(frames(rig)) if isinstance(one.entry.record, StateMigrated)]
    assert moved.links == (Link(moved.entry.frame.seq, FOLLOWS),)


def test_states_of_two_worlds_side_by_side() -> None:
    """X-08: cells that both worlds have are compared down to the fields of their states."""
    left, right = lab(), lab()
    left.send(GO, go("a"))
    right.send(GO, go("a", "big", 3))
    for rig in (left, right):
        rig.send(GO, go("b"))
    two = (diff.census(left.world), diff.census(right.world))
    cells = diff.apart(*two)
    states = [diff.states(rig.world, cells) for rig in (left, right)]
    (row,) = diff.with_states(diff.compared(*two), cells, *states)["items"]
    assert (row["key"], row["change"]) == ("a", "changed")
    assert row["diff"]["items"][0]["path"] == "/log/0"
    assert diff.states(left.world, [CellId(LAB, canon.encode("none"))]) == [None]


def test_pins_of_a_parcel_are_of_its_workflow() -> None:
    """AG-24: the row of a pinned cell names the manifest that it still runs under."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "a", "kg": 1})
    old = canon.text_of(rig.world.manifest)
    upgrade(rig, Release("two"), planned(rig, "pin"))
    (row,) = governance.pins(rig.world)["items"]
    assert (row["workflow"], row["manifest"]) == (PARCEL, old)
