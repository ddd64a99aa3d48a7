"""What a cell was given by its parent, in a world whose capabilities an upgrade has changed."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate
from tallystick.model.records import IntentDenied
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.parcels import planned
from tests.rig import Rig, bundle_of, check
from tests.worlds import (
    GO,
    LAB,
    LAB_EFFECTS,
    LAB_SLOTS,
    SPAWN,
    allow_all,
    effect,
    go,
    lab_documents,
    lab_function,
    lab_workflow,
)

KID, GRANDKID = "t/kid@1", "t/grandkid@1"
PRINT = "t/print.it@1"
CAP = {"$kind": "defcap", "name": "t/print@1", "cap_type": "print"}
GIVEN = {slot: {"from": slot, "params": None, "expires_ns": None} for slot in ("print", "flow")}


def documents(*caps: Any, grant: str | None = None) -> list[dict[str, Any]]:
    """A world in which the lab may print by a grant of that name, if there is one."""
    kids = [lab_workflow(n, effects_emitted=[*LAB_EFFECTS, PRINT]) for n in (KID, GRANDKID)]
    prints = effect(PRINT, "t/Ask@1", "t/Answer@1", cap_type="print")
    bound = {"flow": "workflow", **({} if grant is None else {"print": grant})}
    authority = allow_all("sys/effect@1", "sys/workflow@1", bindings={LAB: bound})
    if grant is not None:
        row = {"name": grant, "cap": "t/print@1", "params": {}}
        authority["authority"]["grants"].append(row)
    ways = [{"event": GO, "workflow": name, "key_field": "id"} for name in (LAB, KID)]
    slots = {**LAB_SLOTS, "print": "print"}
    more = {"subscriptions": ways, "flow": {"cap_slots": slots}, **authority}
    return lab_documents(*kids, prints, *caps, **more)


def asking(name: str, params: Any, slot: str) -> Any:
    wish = {"effect": name, "params": params, "cap_slot": slot}
    return lambda following, *_: Outcome(following, effects=[wish])


def spawning(workflow: str) -> Any:
    payload = {"schema": GO, "value": canon.encode(go("k"))}
    child = {"workflow": workflow, "key": canon.encode("k"), "payload": payload}
    return asking(SPAWN, {**child, "caps": GIVEN}, "flow")


@pytest.mark.clause("K-29", "X-17")
@pytest.mark.invariant("I6")
@pytest.mark.parametrize("do", ["print", "deep"])
@pytest.mark.parametrize(
    ("left", "code"),
    [((), "cap.unbound"), ((CAP,), "cap.revoked")],
    ids=["no capability", "another grant"],
)
def test_a_child_whose_grant_has_left_the_manifest(left: Any, code: str, do: str) -> None:
    """AG-05: what derives from what is gone gives nothing; neither asking nor passing it on."""
    deeds = lab_function(print=asking(PRINT, {"q": "x"}, "print"), deep=spawning(GRANDKID))
    functions = {
        ("t/code@1", "lab"): lab_function(spawn=spawning(KID)),
        ("t/code@1", "kid"): deeds,
        ("t/code@1", "grandkid"): deeds,
    }
    rig = Rig(documents(CAP, grant="old"), functions)
    rig.send(GO, go("a", "spawn"))
    rig.send(GO, go("k", "print"))
    assert len(rig.jobs.of(PRINT)) == 1
    manifest, blobs = bundle_of(documents(*left, grant="new" if left else None))
    ids = (manifest, manifest, rig.manifest)
    given = Activate(rig.clock.sample(), *ids, blobs, "alice", planned(rig, "continue"))
    assert rig.do(given).kind == "activated"
    rig.send(GO, go("k", do))
    assert [each.code for each in rig.records(IntentDenied)] == [code]
    assert rig.cell(GRANDKID, "k") is None
    check(rig)
