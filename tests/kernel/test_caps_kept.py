"""What a cell may do is what it was made with (ADR 0035)."""

from __future__ import annotations

import pytest

from tallystick.model.records import ReceiptSettled
from tallystick.values import canon
from tests.kernel.test_authority import KID, cap, family
from tests.rig import check
from tests.worlds import ASK, GO, go


@pytest.mark.clause("K-29", "X-17")
@pytest.mark.invariant("I27")
def test_a_cell_keeps_the_authority_it_was_made_with() -> None:
    """AG-05: nobody takes it away by a second spawn, whose payload then does not reach the cell."""
    rig = family("note", main=cap("main"))
    rig.send(GO, go("a", "spawn"))
    rig.send(GO, go("a", "strip"))
    refused = rig.records(ReceiptSettled)[-1]
    assert (refused.status, canon.decode(refused.payload)["code"]) == ("error", "spawn.has_caps")
    assert rig.state(KID, "a")["log"] == ["note"]
    rig.send(GO, go("a", "bid"))
    assert len(rig.jobs.of(ASK)) == 1, "it may still do what it was made to do"
    check(rig)
