"""Every corner of a trial: rarer inputs, cells without a state, code that fails alike."""

# tidy: one corner after the other.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import BlobLost, Rejected
from tallystick.governance import standing
from tallystick.governance.apart import Stood, ancestor, effects_apart
from tallystick.governance.closure import closure_of
from tallystick.governance.compare import Live
from tallystick.governance.patch import compiled, derived
from tallystick.governance.prove import Prover
from tallystick.governance.recorded import steps
from tallystick.governance.rerun import Order, Rerun, Scripted
from tallystick.kernel.inputs import Activate, Assume, Clock, Decide, Operate
from tallystick.kernel.quiescence import live_cells
from tallystick.model.records import IntentAttached, IntentReleased
from tallystick.modules.python import Outcome
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.governance.stage import opened, proved, shadowed
from tests.governance.test_flow_upgrades import BASE as FLOW
from tests.governance.test_flow_upgrades import verdicts
from tests.governance.test_patch import BASE, NOTE, blobs, node, patch
from tests.governance.test_prove import cell, sent
from tests.governance.test_recorded import lab as recorded_lab
from tests.governance.test_recorded import log, tail, what_if
from tests.kernel.parcels import CODE as PARCELS
from tests.kernel.parcels import (
    FUNCTIONS,
    LOOK,
    PARCEL,
    SENT,
    Release,
    documents,
    parcel_rig,
    planned,
)
from tests.kernel.test_approvals import asker, held
from tests.kernel.test_flows import SECOND, wishes
from tests.kernel.test_flows import documents as flow_documents
from tests.kernel.test_flows import flow as flow_of
from tests.kernel.test_flows import lab as flow_lab
from tests.kernel.test_fork import child_rig
from tests.rig import Rig
from tests.rig import bundle_of as digests_of
from tests.workflow.names import loaded
from tests.workflow.test_flows import program
from tests.worlds import ASK, GO, LAB, ask, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")


# ---- recorded inputs --------------------------------------------------------------------------


def test_large_receipts_are_read_back() -> None:
    """06 section 7: a receipt that stands by digest is given again as it was."""
    rig = recorded_lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x" * 70_000})
    given = [s.given for s in steps(opened(rig, begin), tail(rig, begin))]
    assert isinstance(given[-1], Assume)
    assert canon.decode(given[-1].payload) == {"a": "x" * 70_000}


def test_a_vote_is_run_again() -> None:
    """AG-18: what people decided is decided again, and the effect leaves as recorded."""
    rig = asker({"by": ["role:finance"], "count": 1})
    begin = rig.world.seq
    rig.do(Decide(rig.clock.sample(), held(rig), "bob", "approve"))
    rig.settle(rig.jobs.all[0], {"a": "yes"})
    (vote, _) = steps(opened(rig, begin), tail(rig, begin))
    assert isinstance(vote.given, Decide)
    start = opened(rig, begin)
    recorded = Live(start, tail(rig, begin))
    start.synthetic = True
    trail = Rerun(start, Order()).run(steps(opened(rig, begin), tail(rig, begin)), recorded)
    assert (trail.refusals, trail.unused) == ([], [])
    assert log(start, "a") == ["wish", "ok:"]


def test_a_release_is_an_operators_or_times() -> None:
    """AG-30: what a fork held is let go by an operator, what a rate held by time."""
    rig = recorded_lab()
    rig.send(GO, go("a", "ask"))
    child = child_rig(rig, 1, None)
    begin = child.world.seq
    ((path, _),) = child.world.intents.entries()
    child.do(Operate(child.clock.sample(), "release", "alice", "now", intent=path))
    (step,) = steps(opened(child, begin), tail(child, begin))
    assert isinstance(step.given, Operate)
    assert (step.given.verb, step.about is not None) == ("release", True)

    waits = flow_lab(flow_of(rate={"count": 1, "per_ns": SECOND}))
    wishes(waits, 1, 2)
    begin = waits.world.seq
    waits.pass_time(2 * SECOND)
    assert [r.hold for r in waits.records(IntentReleased)] == ["capacity"]
    (step,) = steps(opened(waits, begin), tail(waits, begin))
    assert isinstance(step.given, Clock)


# ---- running again ----------------------------------------------------------------------------


def test_what_a_rate_holds_goes_out_between_inputs() -> None:
    """06 section 7: the passing of time that no record names lets go what waits for a rate."""
    rate = flow_of(rate={"count": 1, "per_ns": SECOND})
    rig = flow_lab()
    begin = rig.world.seq
    wishes(rig, 1, 2)
    rig.clock.now_ns += 3 * SECOND
    wishes(rig, 3)
    report = shadowed(rig, flow_documents(rate), begin).report
    answers = [effect["answer"] for effect in report["observed_effects"]]
    assert answers == ["pending"] * 3
    assert [row["hold"] for row in report["pending"]] == [None] * 3


def test_an_event_that_the_candidate_refuses_is_told() -> None:
    """AG-18: an event that was taken and does not fit the candidate is a divergence with a code."""
    rig = parcel_rig()
    begin = rig.world.seq
    sent(rig, "a")
    other = documents()
    (shape,) = [d for d in other if d.get("name") == SENT]
    shape["type"] = {"record": {"id": {"text": {}}, "grams": {"int": {}}}}
    made = shadowed(rig, other, begin)
    (first, *_) = made.report["divergences"]
    assert (first["kind"], first["live"]) == ("event", "taken")
    assert first["shadow"] == "value.mismatch"
    assert made.diverges


def test_a_lost_blob_ends_a_run() -> None:
    """I40: bytes that the store has lost are no refusal of the candidate: the run stops."""
    rig = asker({"by": ["role:finance"], "count": 1}, [ask("x" * 70_000)])
    begin = rig.world.seq
    ((path, intent),) = rig.world.intents.entries()
    rig.do(Decide(rig.clock.sample(), path, "bob", "approve"))
    start = opened(rig, begin)
    recorded, todo = Live(start, tail(rig, begin)), list(steps(start, tail(rig, begin)))
    start.synthetic = True
    known, lost = start.blobs, intent.record.params_hash

    class Holed:
        """The same store without one blob."""

        def get(self, digest: bytes) -> bytes | None:
            return None if digest == lost else known.get(digest)

        def put(self, digest: bytes, data: bytes) -> None:
            known.put(digest, data)

        def place(self) -> bytes:
            return known.place()

    start.blobs = Holed()
    with pytest.raises(BlobLost):
        Rerun(start, Order()).run(todo, recorded)


def test_words_about_what_was_not_asked_are_left_out() -> None:
    """06 section 7: a cancellation of a request that the candidate never makes goes nowhere."""
    rig = recorded_lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    rig.operate("cancel", "", intent=rig.jobs.of(ASK)[0].intent)
    first = next(s for s in steps(opened(rig, begin), tail(rig, begin)))
    made = what_if(rig, begin, [{"seq": first.seq, "event": go("a", "note")}])
    assert log(made, "a") == ["note"]


def test_an_answer_that_comes_later_is_waited_for() -> None:
    """06 section 7: a request whose recorded answer is still to come gets none of a script."""
    rig = recorded_lab()
    begin = rig.world.seq
    rig.send(GO, go("a", "ask"))
    rig.send(GO, go("b", "note"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    start, frames = opened(rig, begin), tail(rig, begin)
    recorded = Live(start, frames)
    asked, other, answer = steps(start, frames)
    start.synthetic = True
    order = Order(scripts={ASK: (Scripted("ok", {"a": "scripted"}),)})
    # More room for ticks than was recorded: the run comes to the request before its answer.
    todo = [asked, other._replace(ticks=9), answer]
    trail = Rerun(start, order).run(todo, recorded)
    assert [effect.answer for effect in trail.effects] == ["recorded"]


def test_held_requests_get_no_made_up_answer() -> None:
    """06 section 7: what the candidate's policy holds for people stays held."""
    rig = asker({"by": ["role:finance"], "count": 1})
    start, frames = opened(rig, 1), tail(rig, 1)
    start.synthetic = True
    trail = Rerun(start, Order()).run(steps(start, frames), Live(start, ()))
    assert [effect.answer for effect in trail.effects] == ["pending"]


def test_seeds_are_not_sent_after_the_bound() -> None:
    """06 section 7: a run that has used up its ticks sends no seed events."""
    rig = parcel_rig()
    begin = rig.world.seq
    sent(rig, "a", "b")
    order = Order(ticks_max=1, seeds=((SENT, {"id": "new", "kg": 1}),))
    report = shadowed(rig, documents(), begin, order).report
    assert (report["horizon"]["ended"], report["horizon"]["seed_events"]) == ("ticks", 0)
    assert report["divergences"] == [], "what the bound cut off is no difference"


def test_a_change_that_drops_a_workflow_pins_its_cells() -> None:
    """X-21: run again, a recorded change without the workflow of an open cell leaves it pinned."""
    rig = parcel_rig()
    begin = rig.world.seq
    sent(rig, "a", "b")
    without = [d for d in documents() if d.get("name") != PARCEL]
    without[-1] = {**without[-1], "routing": {"subscriptions": []}, "module_bindings": {}}
    manifest, held_now = digests_of(without)
    sample, now = rig.clock.sample(), rig.world.manifest
    given = Activate(sample, manifest, manifest, now, held_now, "alice", planned(rig, "pin"))
    assert rig.do(given).kind == "activated"
    first = next(s for s in steps(opened(rig, begin), tail(rig, begin)))
    made = what_if(rig, begin, [{"seq": first.seq, "event": {"id": "c", "kg": 2}}])
    assert (rig.world.pinned, made.pinned) == (2, 1), "c was answered and has ended"


def test_what_ran_less_is_told() -> None:
    """AG-18: a cell that the candidate leaves idle where the record has ticks diverges there."""
    rig = parcel_rig()
    begin = rig.world.seq
    sent(rig, "a")
    rig.settle(rig.jobs.of(LOOK)[0], {"a": "x"})
    other = documents()
    other[-1]["routing"]["subscriptions"] = []
    report = shadowed(rig, other, begin).report
    (found,) = [d for d in report["divergences"] if d["kind"] == "status"]
    assert (found["key"], found["live"], found["shadow"]) == ("a", "ran", "idle")


# ---- comparing --------------------------------------------------------------------------------


def test_code_that_fails_alike_does_not_diverge() -> None:
    """AG-18, control: a fault with the same code before and after is no difference."""
    rig = parcel_rig(Release("broken"))
    begin = rig.world.seq
    sent(rig, "a")
    report = shadowed(rig, documents(Release("broken")), begin).report
    assert report["divergences"] == []
    assert report["totals"]["faults"] == 1


def test_a_key_that_was_joined_is_compared() -> None:
    """AG-18: joining an intent under its key is an effect of the tick, equal when run again."""

    def key(following: Any, value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask(idempotency_key=b"k")])

    rig = Rig(lab_documents(), {CODE: lab_function(key=key)})
    begin = rig.world.seq
    rig.send(GO, go("a", "key"))
    rig.send(GO, go("a", "key"))
    assert rig.records(IntentAttached)
    assert shadowed(rig, lab_documents(), begin).report["divergences"] == []


def test_two_worlds_of_one_origin() -> None:
    """AG-31: the last point in common, and the effects that one alone has or that ended apart."""
    line = [Stood("child", 9), Stood("parent", 5)]
    assert ancestor(line, [Stood("other", 7), Stood("parent", 8)]) == Stood("parent", 5)
    assert ancestor(line, [Stood("other", 7)]) is None
    rig = recorded_lab()
    rig.send(GO, go("a", "ask"))
    begin = rig.world.seq
    other = child_rig(rig, 1, begin)
    rig.settle(rig.jobs.of(ASK)[0], {"a": "x"})
    rig.send(GO, go("b", "ask"))
    left, right = tail(rig, begin), []
    found = effects_apart(opened(rig, begin), left, right)
    changes = {(row["key"], row["change"]): row["status"] for row in found}
    assert changes == {("a", "outcome"): ["ok", "open"], ("b", "only_here"): ["open", None]}
    back = effects_apart(opened(rig, begin), right, left)
    assert [row["change"] for row in back] == ["outcome", "only_there"]
    assert effects_apart(opened(rig, begin), left, left) == []
    assert other.world.intents.get(rig.jobs.of(ASK)[0].intent) is not None


# ---- proving ----------------------------------------------------------------------------------


def test_a_cell_that_has_not_run_has_nothing_to_prove() -> None:
    """AG-23: mail without a state: no tick is compared, so the cell goes on."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "a", "kg": 1}, run=False)
    found = proved(rig, documents(Release("two")))[cell("a")]
    assert (found.verdict, found.ok, found.ticks) == ("identical", True, 0)


def test_a_version_that_is_accepted_needs_no_migration() -> None:
    """AG-23: a state of an older version that the candidate reads is proved by its ticks."""
    rig = parcel_rig()
    sent(rig, "a")
    later = Release("same", state_version=2, accepts=(1,))
    assert proved(rig, documents(later))[cell("a")].verdict != "needs_migration"


def test_a_state_that_does_not_fit_needs_a_migration() -> None:
    """AG-23: the same version with another shape is named, and only a pin is left."""
    rig = parcel_rig()
    sent(rig, "a")
    other = documents(Release("two"))
    (shape,) = [d for d in other if d.get("name") == "t/Parcel@1"]
    shape["type"]["record"]["size"] = {"int": {}}
    found = proved(rig, other)[cell("a")]
    assert (found.verdict, found.ok) == ("needs_migration", False)
    assert found.detail is not None
    assert "does not fit" in found.detail["message"]


def test_faults_are_compared_by_their_code() -> None:
    """AG-23: a recorded fault that the candidate repeats is identical."""
    rig = parcel_rig(Release("broken", on_fault="suspend"))
    sent(rig, "a")
    again = documents(Release("broken", on_fault="suspend", lifecycle="entity"))
    assert proved(rig, again)[cell("a")].verdict == "identical"


def test_code_that_moved_by_itself_is_not_the_candidates_fault() -> None:
    """AG-23: where the active code, run again, fails just as the candidate does, nothing diverges.

    Control: where only the candidate fails, it does.
    """
    spoiled: dict[str, bool] = {"old": False}

    def moody(name: str) -> Any:
        def run(state: Any, event: Any, ctx: Any) -> Any:
            if spoiled.get(name, True):
                raise ValueError("not today")
            return FUNCTIONS[PARCELS, "one"](state, event, ctx)

        return run

    functions = {**FUNCTIONS, (PARCELS, "old"): moody("old"), (PARCELS, "new"): moody("new")}
    rig = Rig(documents(Release("old")), functions)
    sent(rig, "a")
    assert proved(rig, documents(Release("new")))[cell("a")].verdict == "diverges"
    spoiled["old"] = True
    assert proved(rig, documents(Release("new")))[cell("a")].verdict == "identical"


def shaped(flow: Any = None, **fields: Any) -> list[Any]:
    """The documents of the lab with more fields, or others, in its state."""
    made = lab_documents(flow=flow)
    (state,) = [d for d in made if d.get("name") == "t/State@1"]
    state["type"]["record"] |= fields
    return made


SHORT = {"list": {"where": {"type": {"text": {}}, "max_len": 3}}}


def test_states_are_compared_under_the_candidates_shape() -> None:
    """AG-23: a field that was added is null in both; a state that no longer fits is shown as is."""

    def big(following: Any, value: Any, _ctx: Any) -> Outcome:
        return Outcome({**following, "log": ["x" * value["n"]]})

    rig = Rig(lab_documents(), {CODE: lab_function(big=big)})
    rig.send(GO, go("a", "big", 1))
    (same,) = proved(rig, shaped(more={"option": {"int": {}}})).values()
    assert same.verdict == "identical"
    rig.send(GO, go("a", "big", 9))
    rig.send(GO, go("a", "big", 2))
    (found,) = proved(rig, shaped(log=SHORT)).values()
    assert found.verdict == "diverges"
    assert found.detail is not None
    assert found.detail["field"] == "fault"


def test_a_state_that_was_given_up_or_no_longer_fits_is_compared() -> None:
    """AG-23: no state against some, and a recorded one that the new shape does not take."""

    def code(*, short: bool) -> Any:
        def run(following: Any, value: Any, _ctx: Any) -> Outcome:
            if value["n"] == 0 and not short:
                return Outcome(None)
            return Outcome({**following, "log": ["x" * (1 if short else value["n"])]})

        return lab_function(big=run)

    newer = {"impl": {"module": CODE[0], "entrypoint": "newer"}}
    for n, path in ((0, "$"), (9, "$.log[0]")):
        functions = {CODE: code(short=False), (CODE[0], "newer"): code(short=True)}
        rig = Rig(lab_documents(), functions)
        rig.send(GO, go("a", "big", n))
        rig.send(GO, go("a", "big", 1))
        (found,) = proved(rig, shaped(flow=newer, log=SHORT)).values()
        assert found.detail is not None
        assert (found.verdict, found.detail["field"]) == ("diverges", "state")
        assert found.detail["diff"][0]["path"] == path


def test_an_effect_that_a_world_does_not_hold_is_in_the_closure() -> None:
    """AG-23: a workflow that names an effect nobody defines is not taken for one that does not."""
    made = [
        closure_of(Rig(lab_documents(flow=flow_), {}).world.active.catalogue, LAB)
        for flow_ in ({"effects_emitted": [ASK]}, {"effects_emitted": [ASK, "t/none@1"]})
    ]
    assert made[0] != made[1]


def test_a_flow_without_history() -> None:
    """AU-11: a flow that has not run is identical; one that cannot be rebuilt is run instead."""
    world, app = loaded(program(FLOW), twice=False)
    world.do(world.submit_of(app.Go(key="a")))
    (found,) = verdicts(world, program(FLOW.replace("Work(n=1)", "Work(n=2)")))
    assert (found.verdict, found.ticks) == ("identical", 0)
    world.run()
    live = world.driver.world
    bundle = built(program(FLOW.replace("Work(n=1)", "Work(n=2)"))).bundle
    for digest, data in bundle.blobs().items():
        world.driver.blobs.put(digest, data)
    prover = Prover(live.catalogue(bundle.manifest_digest), lambda *_: None)
    assert [prover.at_rest(live, each) for each in live_cells(live)] == [None]


# ---- patches and what stands ------------------------------------------------------------------


def test_older_defaults_become_sections() -> None:
    """AG-17: `set_defaults` of an older patch sets the policies, or clears them."""
    policies = BASE.manifest["authority"]["policies"]
    made = compiled(patch({"set_defaults": {"policy": policies[0]}}), BASE, blobs(BASE))
    assert made.bundle.manifest["authority"]["policies"] == policies[:1]


def test_a_definition_that_is_gone_is_removed_by_the_patch() -> None:
    """AG-16: the patch derived from a bundle without a definition removes it by name and hash."""
    wider = compiled(patch({"add_def": {"kind": "schema", "node": NOTE}}), BASE, blobs(BASE))
    made = derived(BASE, wider.bundle)
    removed = {"kind": "schema", "name": NOTE["name"], "pre_hash": canon.hash(NOTE)}
    assert {"remove_def": removed} in made.patch["patches"]
    assert node("defschema", str(NOTE["name"]), wider.bundle) == NOTE


def test_blobs_that_are_not_there() -> None:
    """A bundle asks for its parts by hash: one that is missing is a KeyError, not nothing."""
    with pytest.raises(KeyError):
        blobs(BASE)[canon.hash("no such")]


def test_a_widened_grant_is_named_by_its_field() -> None:
    """AG-18: another capability, a field that is gone or allows more, a later end."""
    base = parcel_rig()
    grants = documents()[-1]["authority"]["grants"]

    def told(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        made = []
        for more in (old, new):
            each = documents()
            each[-1]["authority"]["grants"] = [
                *grants,
                {"name": "g", "cap": "sys/human@1", "params": {}, **more},
            ]
            manifest, held_now = digests_of(each)
            world = opened(base, 1, held_now)
            made.append(world.catalogue(manifest))
        found: list[str] = standing.authority(*made)["grants_widened"]
        return found

    assert told({}, {"cap": "sys/timer@1"}) == ["g.cap"]
    assert told({"expires_ns": 5}, {"expires_ns": 6}) == ["g.expires_ns"]
    assert told({"expires_ns": 5}, {}) == ["g.expires_ns"]
    assert told({"expires_ns": 6}, {"expires_ns": 5}) == []
    far = {"params": {"max_open_ns": 5}}
    assert told(far, {"params": {"max_open_ns": 6}}) == ["g.max_open_ns"]
    assert told(far, {"params": {}}) == ["g.max_open_ns"]
    assert told(far, {"params": {"max_open_ns": 4}}) == []


def test_an_error_that_is_no_map_is_taken_as_it_is() -> None:
    """AG-31: only a map is filled in; anything else meets the schema, and is refused."""
    made = recorded_lab()
    begin = made.world.seq
    made.send(GO, go("a", "ask"))
    made.settle(made.jobs.of(ASK)[0], {"a": "x"})
    answer = list(steps(opened(made, begin), tail(made, begin)))[-1]
    with pytest.raises(Rejected) as bad:
        what_if(made, begin, [{"seq": answer.seq, "receipt": {"status": "error", "payload": [1]}}])
    assert bad.value.code == "whatif.bad_edit"
