"""Shadow: a candidate tried on live state and the recorded tail."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.errors import Rejected
from tallystick.governance.rerun import Order, Scripted
from tallystick.kernel.inputs import Clock
from tallystick.values import canon
from tests.governance.stage import opened, shadowed
from tests.kernel.parcels import LOOK, PARCEL, SENT, Release, documents, parcel_rig
from tests.rig import Rig
from tests.worlds import TIMER


def played() -> tuple[Rig, int]:
    """A world with some history, and the seq that the tail begins behind."""
    rig = parcel_rig()
    rig.send(SENT, {"id": "before", "kg": 1})
    from_seq = rig.world.seq
    for n, name in enumerate(("a", "b", "c", "d")):
        rig.send(SENT, {"id": name, "kg": n})
    rig.settle(rig.jobs.of(LOOK)[0], {"a": "x"})
    rig.settle(rig.jobs.of(LOOK)[1], {"a": "y"})
    rig.send(SENT, {"id": "b", "kg": 9})
    return rig, from_seq


@pytest.mark.clause("K-21")
def test_unchanged_code_changes_nothing() -> None:
    """AG-18, control: the active bundle in the shadow of itself gives no difference at all."""
    rig, from_seq = played()
    made = shadowed(rig, documents(), from_seq)
    report = made.report
    assert report["divergences"] == report["state_deltas"] == report["missing_effects"] == []
    assert report["unused_receipts"] == report["allowlists"] == []
    assert {e["versus_live"] for e in report["observed_effects"]} == {"same"}
    answers = {e["key"]: e["answer"] for e in report["observed_effects"]}
    assert answers == {"a": "recorded", "b": "pending", "c": "pending", "d": "pending"}
    assert report["totals"] == {"cells": 5, "same": 5, "changed": 0, "faults": 0, "denials": 0}
    assert report["horizon"]["complete"] is True
    assert report["statement"].startswith("Covers 7 inputs and 7 ticks up to seq ")
    assert report["statement"].endswith("within this horizon are not predicted.")


# tidy: one change after the other.
@pytest.mark.clause("K-21")
def test_planted_changes_are_found() -> None:
    """AG-18: changes of state, effect, status and allow list are found, with cell and seq."""
    rig, from_seq = played()
    asks = shadowed(rig, documents(Release("asks")), from_seq).report
    kinds = {(d["kind"], d["key"]) for d in asks["divergences"]}
    # Who had asked before the tail goes on as recorded; the others ask for something else.
    assert kinds >= {("effect", name) for name in "abcd"}
    assert ("effect", "before") not in kinds
    first = next(d for d in asks["divergences"] if d["key"] == "a")
    assert first["seq"] == from_seq + 2
    changed = [e for e in asks["observed_effects"] if e["versus_live"] == "changed"]
    assert {e["answer"] for e in changed} == {"synthetic"}
    assert [m["key"] for m in asks["missing_effects"]] == list("abcd")
    assert [u["key"] for u in asks["unused_receipts"]] == ["a"]
    ends = [i for i in asks["instances"] if (i["live"], i["shadow"]) == ("waiting", "completed")]
    assert {i["key"] for i in ends} >= {"c", "d"}

    other = shadowed(rig, documents(Release("two")), from_seq).report
    assert {d["kind"] for d in other["divergences"]} == {"state"}
    (delta,) = [d for d in other["state_deltas"] if d["key"] == "c"]
    assert delta["diff"] == [{"path": "$.log[0]", "live": "one Sent:2", "shadow": "two Sent:2"}]

    stays = shadowed(rig, documents(Release("rests")), from_seq).report
    assert ("status", "before") in {(d["kind"], d["key"]) for d in stays["divergences"]}

    broken = shadowed(rig, documents(Release("broken")), from_seq).report
    assert {d["kind"] for d in broken["divergences"]} == {"fault"}
    assert broken["totals"]["faults"] == 5

    wider = documents()
    (flow,) = [d for d in wider if d.get("name") == PARCEL]
    flow["effects_emitted"] = [LOOK, TIMER]
    listed = shadowed(rig, wider, from_seq).report
    assert [(a["workflow"], a["added"]) for a in listed["allowlists"]] == [(PARCEL, [TIMER])]
    assert listed["divergences"] == []


@pytest.mark.clause("K-21")
def test_widened_authority_is_listed_even_if_nothing_ran() -> None:
    """AG-18: grants and rules that change are listed although no branch used them."""
    rig, _ = played()
    wide = documents()
    grants = wide[-1]["authority"]["grants"]
    wide[-1]["authority"]["grants"] = [
        *grants,
        {"name": "more", "cap": "sys/effect@1", "params": {}},
    ]
    policy = next(d for d in wide if d["$kind"] == "defpolicy")
    rules = [{"id": "x", "when": {"effect": LOOK}, "decision": "allow"}, *policy["rules"]]
    wide[wide.index(policy)] = {**policy, "rules": rules}
    report = shadowed(rig, wide, rig.world.seq).report
    assert report["horizon"]["inputs"] == 0
    assert report["authority"]["grants_added"] == ["more"]
    assert report["authority"]["rules_changed"] == [0, 1]


@pytest.mark.clause("K-21")
def test_same_shadow_twice() -> None:
    """AG-19: the same call gives the same hash; live roots and the outside are untouched."""
    rig, from_seq = played()
    before, jobs = rig.root(), len(rig.jobs.all)
    order = Order(seed=bytes(range(32)), seeds=((SENT, {"id": "new", "kg": 1}),))
    one = shadowed(rig, documents(Release("asks")), from_seq, order)
    two = shadowed(rig, documents(Release("asks")), from_seq, order)
    assert one.report_hash == two.report_hash
    assert canon.digest_of(one.document) == one.report_hash
    assert (rig.root(), len(rig.jobs.all)) == (before, jobs)
    other = shadowed(rig, documents(Release("asks")), from_seq, order._replace(seed=bytes(32)))
    assert other.report_hash != one.report_hash
    assert one.report["horizon"]["seed_events"] == 1


DEED = st.tuples(st.sampled_from(["send", "answer", "suspend", "resume"]), st.integers(0, 3))


# tidy: one history, tried twice.
@pytest.mark.clause("K-21")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    deeds=st.lists(DEED, min_size=1, max_size=14),
    entry=st.sampled_from(["one", "two", "asks", "rests", "broken"]),
    seed=st.binary(min_size=32, max_size=32),
    cut=st.integers(0, 20),
)
def test_any_shadow_twice(deeds: list[tuple[str, int]], entry: str, seed: bytes, cut: int) -> None:
    """AG-19: of any history, for any candidate and any tail: the same call gives the same hash,
    and the roots of the live world and all that was asked of the outside stay as they were.
    """
    rig = parcel_rig()
    for word, n in deeds:
        name, jobs = "abcd"[n], [j for j in rig.jobs.all if rig.world.intents.get(j.intent)]
        if word == "send":
            rig.send(SENT, {"id": name, "kg": n})
        elif word == "answer" and jobs:
            rig.settle(jobs[n % len(jobs)], {"a": name})
        elif word in ("suspend", "resume") and rig.cell(PARCEL, name) is not None:
            with suppress(Rejected):
                rig.operate(word, PARCEL, name)
    from_seq = min(1 + cut, rig.world.seq)
    order = Order(seed=seed, seeds=((SENT, {"id": "new", "kg": 1}),))
    before = (rig.root(), rig.state_root(), len(rig.jobs.all))
    one, two = (shadowed(rig, documents(Release(entry)), from_seq, order) for _ in range(2))
    assert one.report_hash == two.report_hash
    assert one.document == two.document
    assert (rig.root(), rig.state_root(), len(rig.jobs.all)) == before


def test_answers_come_in_their_order() -> None:
    """06 section 7: a script answers before the smallest value; without either it is pending."""
    rig, from_seq = played()
    script = {LOOK: (Scripted("ok", {"a": "scripted"}), Scripted("error", {}))}
    script[LOOK] = (script[LOOK][0],)  # type: ignore[assignment]
    order = Order(scripts=script)
    report = shadowed(rig, documents(Release("asks")), from_seq, order).report
    answers = [e["answer"] for e in report["observed_effects"]]
    assert answers == ["scripted", "synthetic", "synthetic", "synthetic"]
    bare = shadowed(rig, documents(Release("asks")), from_seq, Order(bare=True)).report
    assert {e["answer"] for e in bare["observed_effects"]} == {"pending"}


def test_horizon_ends_a_run() -> None:
    """06 section 7: a bound on ticks is said; a run that a clock stopped is incomplete."""
    rig, from_seq = played()
    short = shadowed(rig, documents(), from_seq, Order(ticks_max=3))
    assert (short.report["horizon"]["ended"], short.complete) == ("ticks", True)
    assert short.report["horizon"]["ticks"] == 3
    from tallystick.governance.shadow import Candidate, shadow
    from tests.rig import bundle_of

    manifest, blobs = bundle_of(documents())
    tail = list(rig.journal.read(rig.world.id, after=from_seq))
    live = opened(rig, rig.world.seq)
    args = (opened(rig, from_seq, blobs), live, tail, Candidate(manifest, manifest))
    stopped = shadow(*args, stop=lambda: True)
    assert (stopped.report["horizon"]["ended"], stopped.complete) == ("stopped", False)


def test_time_and_operators_are_run_again() -> None:
    """06 section 7: recorded operators act again, in their order and at their times."""
    rig = parcel_rig()
    from_seq = rig.world.seq
    rig.send(SENT, {"id": "a", "kg": 1})
    rig.operate("suspend", PARCEL, "a")
    rig.send(SENT, {"id": "a", "kg": 2})
    rig.do(Clock(rig.clock.sample()))
    rig.operate("resume", PARCEL, "a")
    rig.operate("cancel", PARCEL, "a", force=True)
    report = shadowed(rig, documents(), from_seq).report
    assert report["divergences"] == report["state_deltas"] == []
    assert report["instances"][0]["shadow"] == "failed"
