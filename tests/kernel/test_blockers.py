"""AG-20: six ways of being open, each refuses a change and is named, and no state moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.quiescence import named
from tallystick.model.records import ApplyRefused, BundleActivate
from tests.kernel.governed import applying, approved, governance, lab, state
from tests.rig import Rig, check
from tests.worlds import ASK, GO, LAB, go, lab_authority

PROCESS = {"lifecycle": "process"}
ENTITY = {"lifecycle": "entity"}
HELD = {
    "$kind": "defpolicy",
    "name": "t/held@1",
    "rules": [
        {"id": "big", "when": {"effect": ASK}, "decision": "require_approval"},
        {"id": "rest", "decision": "allow"},
    ],
}


def sends(*deeds: str, run: bool = True) -> Callable[[Rig], None]:
    def act(rig: Rig) -> None:
        for deed in deeds:
            rig.send(GO, go("a", deed), run=run)

    return act


def suspends(rig: Rig) -> None:
    rig.send(GO, go("a", "note"))
    rig.operate("suspend", LAB, "a")


def held(rig: Rig) -> None:
    rig.send(GO, go("a", "ask"))
    ((_, intent),) = rig.world.intents.entries()
    assert intent.hold is not None


CASES: dict[str, tuple[dict[str, Any], Callable[[Rig], None], list[tuple[str, str | None]]]] = {
    "running": (PROCESS, sends("note"), [("cell_open", "running")]),
    "waiting": (ENTITY, sends("wait"), [("cell_open", "waiting"), ("intent_open", None)]),
    "suspended": (ENTITY, suspends, [("cell_open", "suspended")]),
    "inflight": (ENTITY, sends("ask"), [("cell_open", "waiting"), ("intent_open", None)]),
    "held": (ENTITY, held, [("cell_open", "waiting"), ("intent_open", "approval")]),
    "mailbox": (
        ENTITY,
        sends("note", run=False),
        [("cell_open", "running"), ("mailbox", None), ("ready", None)],
    ),
}


def shown(kind: str, detail: dict[str, Any]) -> tuple[str, str | None]:
    if kind == "intent_open" and detail["hold"] is not None:
        return kind, detail["hold"]["kind"]
    return kind, detail.get("status")


@pytest.mark.clause("K-20", "K-48")
@pytest.mark.parametrize("name", CASES)
def test_each_refuses_and_is_named(name: str) -> None:
    """AG-20: running, waiting, suspended, inflight, held, mailbox: refused with the blockers of
    each, the state root equal, nothing dropped or cancelled, the proposal as approved as before.
    """
    flow, act, wanted = CASES[name]
    sections: dict[str, Any] = {"governance": governance()}
    more: tuple[Any, ...] = ()
    if name == "held":
        sections |= lab_authority()
        sections["authority"]["policies"] = ["t/held@1"]
        more = (HELD,)
    rig = lab(*more, flow=flow, **sections)
    ident = approved(rig, flow=flow)
    act(rig)
    before = rig.state_root()
    answer = rig.do(applying(rig, ident))
    assert answer.kind == "refused"
    assert [shown(kind, detail) for kind, detail in answer.detail["blockers"]] == wanted
    assert rig.state_root() == before
    (refused,) = rig.records(ApplyRefused)
    assert (refused.proposal, refused.count) == (ident, len(wanted))
    assert len(rig.records(BundleActivate)) == 1
    assert state(rig, ident) == "approved"
    assert len(named(rig.world)[0]) == len(wanted)
    check(rig)
