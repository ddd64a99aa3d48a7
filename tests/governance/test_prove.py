"""Proof: a verdict for each open cell, and the plan that follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.errors import Rejected
from tallystick.governance.planning import chosen, proof_report
from tallystick.governance.prove import Verdict, verdict_of
from tallystick.model.cells import CellId
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.governance.stage import proved
from tests.kernel.parcels import (
    CODE,
    FUNCTIONS,
    PARCEL,
    SENT,
    Release,
    documents,
    parcel_rig,
    upgrade,
)
from tests.rig import Rig, check


def cell(name: str) -> CellId:
    return CellId(PARCEL, canon.encode(name))


def sent(rig: Rig, *names: str, kg: int = 1) -> None:
    for name in names:
        rig.send(SENT, {"id": name, "kg": kg})


@pytest.mark.clause("X-21")
def test_unchanged_code_is_identical() -> None:
    """AG-23: the same definitions need no run; another entrypoint that does the same is proved."""
    rig = parcel_rig()
    sent(rig, "a", "b", "a")
    same = proved(rig, documents())
    assert {(v.verdict, v.ok, v.ticks) for v in same.values()} == {("identical", True, 0)}
    other = proved(rig, documents(Release("same")))
    assert {k: (v.verdict, v.ticks) for k, v in other.items()} == {
        cell("a"): ("identical", 2),
        cell("b"): ("identical", 1),
    }


PLANTS: dict[str, tuple[str, Any]] = {
    "state": ("state", lambda out: Outcome({**out.state, "id": "x"}, effects=out.effects)),
    "effects": ("effects", lambda out: Outcome(out.state)),
    "status": ("status", lambda out: Outcome(out.state, status="completed", effects=out.effects)),
    "events": (
        "events",
        lambda out: Outcome(
            out.state,
            effects=out.effects,
            events=[{"schema": "t/Moved@1", "value": {"id": "a", "n": 1}}],
        ),
    ),
    "fault": ("fault", lambda _out: 1 // 0),
}


@pytest.mark.clause("X-21")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    where=st.integers(0, 5),
    kind=st.sampled_from(sorted(PLANTS)),
)
def test_a_planted_divergence_is_named(weights: list[int], where: int, kind: str) -> None:
    """AG-23: a divergence planted at one tick is found at its exact seq and field."""
    where %= len(weights)
    field, plant = PLANTS[kind]
    plain = FUNCTIONS[CODE, "one"]

    def planted(state: Any, event: Any, ctx: Any) -> Any:
        out = plain(state, event, ctx)
        # The effects of the first tick are the only ones there are.
        at = 0 if kind == "effects" else where
        return plant(out) if len(out.state["log"]) == at + 1 else out

    functions = {**FUNCTIONS, (CODE, "planted"): planted}
    rig = Rig(documents(), functions)
    ticks: list[int] = []
    for kg in weights:
        rig.send(SENT, {"id": "a", "kg": kg})
        ticks.append(rig.cell(PARCEL, "a").last_seq)
    found = proved(rig, documents(Release("planted")))[cell("a")]
    at = 0 if kind == "effects" else where
    assert found.verdict == "diverges"
    assert found.detail is not None
    assert (found.detail["seq"], found.detail["field"]) == (ticks[at], field)
    assert found.ticks == at + 1


@pytest.mark.clause("X-21")
def test_only_the_tail_is_compared() -> None:
    """AG-23: a difference before the tail that was asked for does not count."""
    rig = parcel_rig()
    sent(rig, "a", "a", "a")
    found = proved(rig, documents(Release("asks")), first=rig.cell(PARCEL, "a").last_seq)
    assert (found[cell("a")].verdict, found[cell("a")].ticks) == ("identical", 1)
    for tail, verdict in ((1, "identical"), (2, "identical"), (3, "diverges")):
        made = proved(rig, documents(Release("asks")), tail=tail)[cell("a")]
        assert (made.verdict, made.ticks) == (verdict, tail)
    assert proved(rig, documents(Release("asks")))[cell("a")].verdict == "diverges"


@pytest.mark.clause("X-21")
@pytest.mark.parametrize(
    ("release", "ok"),
    [
        (Release("counts", state_version=2, migration="counted"), {"bad": True, "good": True}),
        (Release("counts", state_version=2, migration="fails"), {"bad": False, "good": True}),
        (Release("counts", state_version=2), {"bad": False, "good": False}),
    ],
    ids=["declared", "fails for one", "missing"],
)
def test_migrations_are_tried(release: Release, ok: dict[str, bool]) -> None:
    """AG-23: a declared path is run on the very state of each cell; a missing one is said."""
    rig = parcel_rig()
    sent(rig, "bad", "good")
    found = proved(rig, documents(release))
    assert {v.verdict for v in found.values()} == {"needs_migration"}
    assert {name: found[cell(name)].ok for name in ok} == ok


def test_a_workflow_that_is_gone_diverges() -> None:
    """AG-23: a candidate without the workflow of an open cell leaves only a pin."""
    rig = parcel_rig()
    sent(rig, "a")
    without = [d for d in documents() if d.get("name") != PARCEL]
    without[-1] = {**without[-1], "routing": {"subscriptions": []}, "module_bindings": {}}
    found = proved(rig, without)
    assert found[cell("a")].verdict == "diverges"
    assert (
        chosen(found.values(), {"diverges": "pin"}).plan[PARCEL, canon.encode("a")].action == "pin"
    )


@pytest.mark.clause("K-13", "X-21")
def test_a_plan_of_verdicts_is_applied() -> None:
    """AG-24: continue, migrate and pin from one proof; the kernel takes the plan as it is."""
    rig = parcel_rig()
    sent(rig, "bad", "good")
    release = Release("counts", state_version=2, migration="fails")
    verdicts = list(proved(rig, documents(release)).values())
    refused = chosen(verdicts)
    assert [v.cell for v in refused.refused] == [cell("bad")]
    choice = chosen(verdicts, {f"{PARCEL}:needs_migration": "pin"})
    assert {p.action for p in choice.plan.values()} == {"pin"}
    mixed = {**choice.plan, **refused.plan}
    assert upgrade(rig, release, mixed).kind == "activated"
    sent(rig, "bad", "good", kg=2)
    assert rig.state(PARCEL, "bad")["log"] == ["one Sent:1", "one Sent:2"]
    assert rig.state(PARCEL, "good")["n"] == 2
    check(rig)


@pytest.mark.parametrize("on", [{"diverges": "continue"}, {"odd": "pin"}, {"identical": "migrate"}])
def test_choices_that_nobody_has(on: dict[str, str]) -> None:
    """06 section 9: what a verdict does not allow is refused with the list of what it does."""
    with pytest.raises(Rejected) as bad:
        chosen([], on)
    assert bad.value.code == "gov.bad_choice"


def test_reports_are_in_one_order() -> None:
    """06 section 9: a report does not depend on who proved first; rows read back as verdicts."""
    made = [
        Verdict(cell("b"), 4, "diverges", ok=False, ticks=2, detail={"seq": 4, "field": "state"}),
        Verdict(cell("a"), 5, "identical", ok=True),
    ]
    one, two = (proof_report(b"1" * 32, b"2" * 32, each) for each in (made, made[::-1]))
    assert canon.encode(one) == canon.encode(two)
    assert one["verdicts"] == {"identical": 1, "diverges": 1, "needs_migration": 0}
    assert [verdict_of(row) for row in one["rows"]] == made[:1]
    assert verdict_of(made[1].row()) == made[1]
    other = proof_report(b"1" * 32, b"2" * 32, [made[0], made[1]._replace(seq=6)])
    assert other["rows_hash"] != one["rows_hash"]
