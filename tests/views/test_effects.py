"""Effects as readers see them: open ones, settled ones, and why one waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallystick.errors import Rejected, UnknownName
from tallystick.kernel.inputs import Operate, TakeSnapshot
from tallystick.model.cells import CellId
from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.values import canon
from tallystick.views import waiting
from tallystick.views.effects import (
    EffectFilter,
    Settlements,
    effect_history,
    effect_list,
    effect_show,
    open_intent,
    open_show,
)
from tallystick.views.pages import Page
from tallystick.views.waiting import Serving
from tests.rig import Rig
from tests.views.worlds import KID, frames, lab
from tests.worlds import ASK, CALL, GO, LAB, TIMER, go

ROW = [
    "intent",
    "effect",
    "workflow",
    "key",
    "status",
    "hold",
    "opened_seq",
    "settled_seq",
    "attempts",
    "why",
]


def busy() -> Rig:
    """Open: asks, a timer and a call; settled: one ask; denied: one undeclared effect."""
    rig = lab()
    rig.send(GO, go("a", "ask", 3))
    rig.send(GO, go("t", "time", 60))
    rig.send(GO, go("p", "wait"))
    rig.send(GO, go("d", "undeclared"))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "yes"})
    return rig


def walked(
    rig: Rig, limit: int, wanted: EffectFilter | None = None, looked_max: int = 2000
) -> list[dict[str, Any]]:
    found, after = [], None
    while True:
        page = effect_list(rig.world, Page(limit, after, looked_max), wanted)
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


@pytest.mark.clause("K-23", "X-10")
def test_open_effects_say_why() -> None:
    """K-23, 04 section 9: each open effect is a row of the stated shape with its reason."""
    rig = busy()
    rows = walked(rig, 2)
    assert rows == walked(rig, 1000)
    assert [list(row) for row in rows] == [ROW] * 4
    assert sorted((row["effect"], row["key"], row["why"]) for row in rows) == [
        (TIMER, "t", "timer"),
        (CALL, "p", "child"),
        (ASK, "a", "outside"),
        (ASK, "a", "outside"),
    ]
    assert [row["intent"] for row in rows] == sorted(row["intent"] for row in rows)


def test_filters() -> None:
    """A list by effect, by hold and by cell shows those and no others."""
    rig = busy()
    assert {row["key"] for row in walked(rig, 2, EffectFilter(effect=ASK))} == {"a"}
    assert walked(rig, 2, EffectFilter(status="ok")) == []
    assert walked(rig, 2, EffectFilter(held=True)) == []
    assert len(walked(rig, 2, EffectFilter(held=False))) == 4
    only = walked(rig, 2, EffectFilter(cell=CellId(LAB, canon.encode("t"))))
    assert [row["effect"] for row in only] == [TIMER]


def test_a_filtered_page_is_bounded() -> None:
    """A filter that nothing passes goes on by cursor instead of walking all open intents."""
    rig = busy()
    first = effect_list(rig.world, Page(9, None, 2), EffectFilter(effect=CALL))
    assert first["next"] is not None
    assert len(walked(rig, 9, EffectFilter(effect=CALL), 2)) == 1


REASONS = [
    ("no_executor", lambda _intent: Serving(lambda _e, _x: False, {})),
    ("queued", lambda _intent: Serving(lambda _e, _x: True, {})),
    ("running", lambda intent: Serving(lambda _e, _x: True, {intent: 1})),
]


@pytest.mark.parametrize(("code", "serving"), REASONS)
def test_what_the_node_knows(code: str, serving: Any) -> None:
    """D13: nobody serves it, it waits for a slot, or an executor has it in hand."""
    rig = busy()
    (one, _) = [row for row in walked(rig, 9) if row["effect"] == ASK]
    found = open_show(rig.world, open_intent(rig.world, one["intent"]), serving(_raw(one)))
    assert found["why"] == code
    assert found["judged"][0] == {"stage": "declared", "verdict": "ok", "detail": None}
    assert found["asked"]["params"] == {"q": found["issuer_ref"][1:]}
    assert json.loads(json.dumps(found)) == found


def _raw(row: dict[str, Any]) -> bytes:
    return canon.raw_of(row["intent"])


def test_reasons_carry_facts() -> None:
    """The reason of a timer names its time, that of a call its child."""
    rig = busy()
    by_effect = {row["effect"]: open_intent(rig.world, row["intent"]) for row in walked(rig, 9)}
    assert waiting.why(by_effect[TIMER]).detail == {"due_ns": by_effect[TIMER].due_ns}
    assert waiting.why(by_effect[CALL]).detail == {"workflow": KID, "key": "p-kid"}
    told = waiting.why(by_effect[CALL]).shown()
    assert (told["code"], told["text"]) == ("child", f"waits for {KID} p-kid to end")


def test_names_by_prefix() -> None:
    """An intent is found by a prefix that it alone begins with; others are refused by code."""
    rig = busy()
    rig.do(TakeSnapshot(rig.clock.sample()))
    for row in walked(rig, 9):
        text = row["intent"].removeprefix("sha256:")
        for given in (row["intent"], text, text[:8]):
            assert open_intent(rig.world, given).record.intent == _raw(row)
    for given, code in (
        ("00000000", "intent.unknown"),
        ("ffffffff", "intent.unknown"),
        ("abc", "intent.bad_name"),
        ("x" * 16, "intent.bad_name"),
    ):
        with pytest.raises(Rejected) as why:
            open_intent(rig.world, given)
        assert why.value.code == code


def test_an_ambiguous_prefix_is_refused() -> None:
    """Two open intents that begin alike are not told apart by a guess."""
    rig = lab()
    rig.send(GO, go("a", "ask", 2))
    (path, intent), _ = rig.world.intents.entries()
    twin = path[:8] + bytes(24)
    rig.world.intents.put(twin, intent)
    with pytest.raises(Rejected) as why:
        open_intent(rig.world, path.hex()[:16])
    assert why.value.code == "intent.ambiguous"
    assert not isinstance(why.value, UnknownName)


@pytest.mark.clause("X-06", "X-07")
def test_history_has_both_halves() -> None:
    """X-06, X-07: settled and denied effects are rows too, in the order they were asked for."""
    rig = busy()
    rig.do(
        Operate(rig.clock.sample(), "attempt", "node", "retry", intent=rig.jobs.of(ASK)[1].intent)
    )
    rows = list(Settlements().read(frames(rig)).rows())
    assert [list(row) for row in rows] == [ROW] * 6
    assert [row["opened_seq"] for row in rows] == sorted(row["opened_seq"] for row in rows)
    assert [(row["effect"], row["status"], row["attempts"]) for row in rows] == [
        (ASK, "ok", 1),
        (ASK, "open", 2),
        (ASK, "open", 1),
        (TIMER, "open", 1),
        (CALL, "open", 1),
        ("t/nowhere@1", "denied", 0),
    ]
    live = {row["intent"]: row for row in walked(rig, 9)}
    for row in rows:
        if row["status"] == "open":
            assert {**live[row["intent"]], "why": None} == row
    first = effect_history(frames(rig), Page(4), EffectFilter(), rig.world.seq)
    rest = effect_history(frames(rig), Page(4, first["next"]), EffectFilter(), rig.world.seq)
    assert first["items"] + rest["items"] == rows
    assert rest["next"] is None


@pytest.mark.clause("X-06")
def test_the_trail_of_a_denial() -> None:
    """X-06: the stage that refused names its code; the stages behind it were not reached."""
    rig = busy()
    (denied,) = rig.records(IntentDenied)
    stages = waiting.trail(denied)
    assert [(row["stage"], row["verdict"]) for row in stages] == [
        ("declared", "deny"),
        ("shape", "not reached"),
        ("capability", "not reached"),
        ("policy", "not reached"),
        ("capacity", "not reached"),
    ]
    assert stages[0]["detail"]["code"] == "effect.undeclared"
    opened = next(r for r in rig.records(IntentOpened) if r.effect == ASK)
    found = {row["stage"]: row["detail"] for row in waiting.trail(opened)}
    assert found["capability"]["grant"] == "effect"
    assert found["policy"]["decision"] == "allow"
    halves = Settlements().read(frames(rig)).known[opened.intent]
    (receipt,) = [r for r in rig.records(ReceiptSettled) if r.intent == opened.intent]
    shape = effect_show(halves.asked, halves.row(), receipt)
    assert shape["receipt"]["payload"] == {"a": "yes"}
    assert json.loads(json.dumps(shape)) == shape
