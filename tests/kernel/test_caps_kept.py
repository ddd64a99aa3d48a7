"""What a cell may do is what it was made with (ADR 0035)."""

from __future__ import annotations

import pytest

from tallystick.model.records import IntentDenied, ReceiptSettled
from tallystick.values import canon
from tests.kernel.test_authority import KID, cap, family
from tests.rig import check
from tests.worlds import GO, go


@pytest.mark.clause("K-29", "X-17")
@pytest.mark.invariant("I27")
def test_a_cell_keeps_the_authority_of_its_manifest() -> None:
    """AG-05: nobody takes it away by a spawn, whose payload then does not reach the cell."""
    rig = family("note", main=cap("main"))
    rig.send(GO, go("a", "bid"))
    rig.send(GO, go("a", "spawn"))
    refused = rig.records(ReceiptSettled)[-1]
    assert (refused.status, canon.decode(refused.payload)["code"]) == ("error", "spawn.has_caps")
    assert rig.state(KID, "a")["log"] == ["wish", "denied:"]
    kid = rig.cell(KID, "a")
    assert kid is not None
    assert kid.caps is None
    check(rig)


@pytest.mark.clause("K-29", "X-17")
def test_what_a_spawn_gave_a_spawn_may_replace() -> None:
    """AG-05: a reaction runs again for the same content, with the grants of today."""
    rig = family("note", main=cap("main"))
    rig.send(GO, go("a", "spawn"))
    rig.send(GO, go("a", "strip"))
    assert rig.state(KID, "a")["log"] == ["note", "wish", "denied:"]
    (denied,) = rig.records(IntentDenied)
    assert (denied.origin.workflow, denied.code) == (KID, "cap.unbound")
    check(rig)
