"""Worlds on which changes are tried: the recorded history of a rig, opened again for a run."""

from __future__ import annotations

from typing import Any

from tallystick.governance.prove import Prover, Verdict, verdict_on
from tallystick.governance.rerun import Order, Overlay
from tallystick.governance.shadow import Candidate, Shadowing, shadow
from tallystick.kernel.quiescence import live_cells
from tallystick.kernel.replay import open_world
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tests.rig import Rig, bundle_of


def opened(rig: Rig, seq: int, blobs: dict[bytes, bytes] | None = None) -> World:
    """The world of a rig as of a seq, over blobs of its own."""
    overlay = Overlay(rig.driver.blobs)
    for digest, data in (blobs or {}).items():
        overlay.put(digest, data)
    frames = list(rig.journal.read(rig.world.id, upto=seq))
    return open_world(rig.world.id, frames, overlay, rig.runner)


def shadowed(rig: Rig, documents: Any, from_seq: int, order: Order | None = None) -> Shadowing:
    """A shadow of other documents on the tail of a rig behind a seq."""
    manifest, blobs = bundle_of(documents)
    start = opened(rig, from_seq, blobs)
    tail = list(rig.journal.read(rig.world.id, after=from_seq))
    live = opened(rig, rig.world.seq)
    return shadow(start, live, tail, Candidate(manifest, manifest, "p-1"), order)


def proved(
    rig: Rig, documents: Any, first: int = 0, tail: int | None = None
) -> dict[CellId, Verdict]:
    """A verdict for every open cell of a rig, from its whole history."""
    manifest, blobs = bundle_of(documents)
    live = opened(rig, rig.world.seq, blobs)
    prover = Prover(live.catalogue(manifest))
    found: dict[CellId, Verdict] = {}
    rest: dict[CellId, int] = {}
    for each in live_cells(live):
        verdict = prover.at_rest(live, each)
        if verdict is None:
            rest[each.id] = first
        else:
            found[each.id] = verdict
    start = open_world(rig.world.id, [], Overlay(live.blobs), rig.runner)
    frames = rig.journal.read(rig.world.id)
    ran = {ticks.cell: ticks for ticks in prover.run(start, frames, rest, tail)}
    for ident in rest:
        parts = [ran[ident]] if ident in ran else []
        found[ident] = verdict_on((ident, 0), parts, tail)
    return found
