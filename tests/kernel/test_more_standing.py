"""Standing agreements cover nothing they were not given for; neither do other short ways."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Planned, RevokeGrant
from tallystick.model.records import IntentDenied, IntentOpened, Ticked, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel import test_routing
from tests.kernel.test_authority import EFFECT_GRANT, cap, policy, rule, sections
from tests.rig import START_NS, Rig, bundle_of, check
from tests.worlds import (
    ASK,
    GO,
    LAB,
    SPAWN,
    TEXT,
    ask,
    go,
    lab_documents,
    lab_function,
    record,
    schema,
)

CODE = ("t/code@1", "lab")
PLACE = (LAB, ASK, "main")


def wishing(*effects: Any) -> Any:
    return lambda following, *_: Outcome(following, effects=list(effects))


def spawning(caps: Any) -> Any:
    """A deed that makes another lab, named n, which wishes with the given caps."""

    def run(following: Any, value: Any, _ctx: Any) -> Outcome:
        ident = f"kid{value['n']}"
        params = {
            "workflow": LAB,
            "key": canon.encode(ident),
            "payload": {"schema": GO, "value": canon.encode(go(ident, "wish"))},
            "caps": caps,
        }
        wish = {"effect": SPAWN, "params": params, "cap_slot": "flow"}
        return Outcome(following, effects=[wish])

    return run


DEEDS = {
    "wish": wishing(ask()),
    "odd": wishing({**ask(), "params": {"q": 7}}),
    "long": wishing(ask("x" * 2_000)),
    "keyed": wishing(ask(idempotency_key=b"k")),
    "bare": spawning({"flow": cap("flow")}),
    "brief": spawning({"main": cap("main", expires_ns=START_NS)}),
    "heir": spawning({"main": cap("main")}),
}


def lab(*extra: Any, **authority: Any) -> Rig:
    documents = lab_documents(*extra, flow={"limits": {"params_bytes_max": 1_000}}, **authority)
    return Rig(documents, {CODE: lab_function(**DEEDS)})


def says_yes(rig: Rig) -> bool:
    """True when policy and capability need not be asked for a wish again."""
    held = rig.world.active.standing.get(PLACE)
    return held is not None and held.verdict is not None


def agreed(rig: Rig) -> Rig:
    """The same rig after a first wish, which left its agreement standing."""
    rig.send(GO, go("a", "wish"))
    assert says_yes(rig)
    return rig


@pytest.mark.clause("K-06", "X-06")
def test_a_standing_yes_is_recorded_like_the_first() -> None:
    """AG-03: the second yes has the trail of the first, though nobody was asked again."""
    rig = agreed(lab())
    held = rig.world.active.standing[PLACE]
    rig.send(GO, go("b", "wish"))
    assert rig.world.active.standing[PLACE] is held
    first, second = rig.records(IntentOpened)
    assert first.judged._replace(inputs_digest=None) == second.judged._replace(inputs_digest=None)
    assert first.judged.inputs_digest != second.judged.inputs_digest
    assert first.intent != second.intent
    check(rig)


@pytest.mark.clause("X-06", "K-10")
@pytest.mark.parametrize("do", ["odd", "long"])
def test_a_standing_yes_does_not_cover_bad_params(do: str) -> None:
    """AG-02: the shape is asked every time; the denial is the one a first request gets."""
    rig = agreed(lab())
    rig.send(GO, go("b", do))
    (denied,) = rig.records(IntentDenied)
    assert (denied.stage, denied.code) == ("shape", "effect.params_invalid")
    assert denied.judged.capability is denied.judged.policy is None
    fresh = lab()
    fresh.send(GO, go("b", do))
    (control,) = fresh.records(IntentDenied)
    assert (control.message, control.path) == (denied.message, denied.path)
    assert len(rig.jobs.all) == 1
    rig.send(GO, go("b", "wish"))
    assert len(rig.jobs.all) == 2
    check(rig)


@pytest.mark.clause("K-29", "X-17")
def test_a_standing_yes_ends_with_its_grant() -> None:
    """AG-05: a revocation reaches the next request, also after the journal was opened anew."""
    rig = agreed(lab())
    rig.do(RevokeGrant(rig.clock.sample(), "effect", "alice", "lost"))
    rig.send(GO, go("b", "wish"))
    rig = rig.reopened()
    rig.send(GO, go("b", "wish"))
    assert [d.code for d in rig.records(IntentDenied)] == ["cap.revoked"] * 2
    assert len(rig.records(IntentOpened)) == 1
    check(rig)


@pytest.mark.clause("K-29", "X-17")
@pytest.mark.parametrize(("do", "code"), [("bare", "cap.unbound"), ("brief", "cap.expired")])
def test_a_standing_yes_is_not_for_a_cell_with_caps_of_its_own(do: str, code: str) -> None:
    """AG-05: a spawned cell holds what it was given, whatever its workflow was told before."""
    rig = agreed(lab())
    rig.send(GO, go("a", do, 1))
    (denied,) = rig.records(IntentDenied)
    assert (denied.stage, denied.code) == ("capability", code)
    assert canon.decode(denied.origin.key) == "kid1"
    assert len(rig.jobs.of(ASK)) == 1
    check(rig)


@pytest.mark.clause("K-29", "X-17")
def test_the_yes_of_a_spawned_cell_does_not_stand() -> None:
    """AG-05: what one cell was given is not agreed for the others of its workflow."""
    rig = lab()
    rig.send(GO, go("a", "heir", 1))
    assert len(rig.jobs.of(ASK)) == 1
    assert not rig.records(IntentDenied)
    assert not says_yes(rig)
    check(agreed(rig))


@pytest.mark.clause("K-47")
def test_a_request_with_a_key_is_asked_again() -> None:
    """KN-17: a key is looked up before a standing yes, so the same key opens once."""
    rig = agreed(lab())
    rig.send(GO, go("b", "keyed"))
    rig.send(GO, go("b", "keyed"))
    assert len(rig.records(IntentOpened)) == 2
    check(rig)


MINE = sections(
    bound={"main": "effect", "flow": "workflow"},
    grants=[EFFECT_GRANT, {"name": "workflow", "cap": "sys/workflow@1", "params": {}}],
    policies=("t/mine@1",),
)
BRIEF = sections(
    bound={"main": "effect"}, grants=[{**EFFECT_GRANT, "expires_ns": START_NS + 10**15}]
)
WHERE = policy(rule(where="{{ params.q == '?' }}"))
HELD = policy({**rule("require_approval"), "approval": {"by": ["role:finance"], "count": 1}})


@pytest.mark.clause("X-24", "K-29")
@pytest.mark.parametrize(
    ("extra", "authority"),
    [((WHERE,), MINE), ((HELD,), MINE), ((), BRIEF)],
    ids=["where", "approval", "expiry"],
)
def test_a_yes_that_depends_does_not_stand(
    extra: tuple[Any, ...], authority: dict[str, Any]
) -> None:
    """AG-03, AG-05: what parameters, people or time have a say in is asked every time."""
    rig = lab(*extra, **authority)
    rig.send(GO, go("a", "wish"))
    assert len(rig.records(IntentOpened)) == 1
    assert not says_yes(rig)
    check(rig)


@pytest.mark.clause("X-06", "X-24")
def test_a_standing_yes_ends_with_its_manifest() -> None:
    """AG-03: another policy is asked anew; what was agreed under the old one is forgotten."""
    rig = agreed(lab(policy(rule()), **MINE))
    manifest, blobs = bundle_of(lab_documents(policy(rule("deny")), **MINE))
    rig.settle(rig.jobs.all[0], {"a": "x"})
    plan = {(LAB, canon.encode("a")): Planned(rig.cell(LAB, "a").last_seq)}
    sample = rig.clock.sample()
    rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan))
    rig.send(GO, go("b", "wish"))
    assert [d.code for d in rig.records(IntentDenied)] == ["policy.denied"]
    assert not says_yes(rig)
    check(rig)


# ---- answers that leave the usual way ---------------------------------------------------------


@pytest.mark.clause("X-20")
def test_a_first_state_is_not_made_from_a_failed_upcast() -> None:
    """KN-08: where the upcast failed, the init function is not asked; the cell has the fault."""
    asked: list[Any] = []

    def first(given: Any) -> Any:
        asked.append(given["input"])
        return {"output": {"id": given["input"]["id"], "log": ["made"]}}

    way = {**test_routing.WAY, "init_fn": {"module": test_routing.PURE, "entrypoint": "first"}}
    old = test_routing.OLD
    rig = test_routing.lab(
        schema(old, record(id=TEXT, do=TEXT)),
        test_routing.pure_module(up=(old, GO), first=(GO, "t/State@1")),
        test_routing.upcast("t/up@1", old, GO, "up"),
        ways=[way],
        up=lambda _given: {"output": {"id": "a"}},
        first=first,
    )
    rig.send(old, {"id": "a", "do": "old"})
    assert [fault.code for fault in rig.records(WorkflowFaulted)] == ["upcast_failed"]
    assert not asked
    rig.send(GO, go("b"))
    assert asked == [go("b")]
    assert rig.state(LAB, "b")["log"] == ["made", "note"]
    check(rig)


@pytest.mark.clause("X-26")
def test_a_cell_without_mail_resumes_to_rest() -> None:
    """KN-19: a resumed cell takes its place in the ring only when something waits for it."""
    rig = lab()
    rig.send(GO, go("a"))
    rig.operate("suspend", LAB, "a")
    rig.operate("resume", LAB, "a")
    assert not rig.world.ring
    assert not rig.cell(LAB, "a").queued
    rig.send(GO, go("a"))
    assert rig.state(LAB, "a")["log"] == ["note", "note"]
    check(rig)


@pytest.mark.clause("K-34")
@pytest.mark.parametrize(
    "changed", [{"effect": 7}, {"cap_slot": 7}, {"cap_slot": None}, {"params": None}]
)
def test_an_effect_of_the_usual_fields_is_read_as_strictly(changed: dict[str, Any]) -> None:
    """KN-04: the short way takes no field that the long one refuses; the tick is at fault."""
    documents = lab_documents()
    rig = Rig(documents, {CODE: lab_function(wish=wishing({**ask(), **changed}))})
    rig.send(GO, go("a", "wish"))
    assert [fault.code for fault in rig.records(WorkflowFaulted)] == ["bad_output"]
    assert not rig.records(IntentOpened)
    check(rig)


@pytest.mark.clause("K-34")
@pytest.mark.parametrize(("ann", "fits"), [({"note": "seen"}, True), ({"note": 7}, False)])
def test_annotations_of_a_plain_function_fit_their_schema(ann: Any, fits: bool) -> None:
    """KN-04: what a function notes is admitted under the declared schema, or its tick faults."""
    notes = schema("t/Ann@1", record(note=TEXT))
    documents = lab_documents(notes, flow={"annotations": "t/Ann@1"})
    noting = lab_function(wish=lambda following, *_: Outcome(following, ann=ann))
    rig = Rig(documents, {CODE: noting})
    rig.send(GO, go("a", "wish"))
    kept = [ticked.ann for ticked in rig.records(Ticked)]
    faults = [fault.code for fault in rig.records(WorkflowFaulted)]
    assert (kept, faults) == (([canon.encode(ann)], []) if fits else ([], ["bad_output"]))
    check(rig)
