"""A world from a backup: everything open is held, and its new node is trusted."""

from __future__ import annotations

import pytest

from tallystick.kernel.restore import restored
from tallystick.model.records import KeyTrusted, WorldRestored
from tests import worlds
from tests.kernel import mixed
from tests.rig import Rig, check

NEW_KEY = bytes(range(32))


def played() -> Rig:
    rig = mixed.mixed_rig()
    mixed.play(rig)
    rig.send(worlds.GO, worlds.go("held", "note"))
    return rig


@pytest.mark.clause("X-07", "X-24")
@pytest.mark.invariant("I43")
def test_a_restored_world_holds_what_is_open() -> None:
    """ND-25: one frame holds every open intent and trusts the node; replay gives the same root."""
    rig = played()
    assert any(True for _ in rig.world.intents.entries())
    rig.driver.stage(restored(rig.world, rig.clock.sample(), "sha256:b", NEW_KEY))
    rig.driver.flush()
    holds = [intent.hold for _, intent in rig.world.intents.entries()]
    assert {hold["kind"] for hold in holds if hold is not None} == {"restore"}
    assert None not in holds
    (record,) = rig.records(WorldRestored)
    assert record.backup == "sha256:b"
    assert NEW_KEY in [trust.public_key for trust in rig.world.keys.values()]
    check(rig)


def test_a_known_key_is_not_trusted_again() -> None:
    """ND-25: restored by the node that made it, or opened twice, no second trust is recorded."""
    rig = played()
    known = next(iter(rig.world.keys.values())).public_key
    before = len(rig.records(KeyTrusted))
    rig.driver.stage(restored(rig.world, rig.clock.sample(), "sha256:b", known))
    rig.driver.flush()
    assert len(rig.records(KeyTrusted)) == before
