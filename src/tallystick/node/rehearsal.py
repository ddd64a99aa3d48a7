"""Rehearsals: a candidate is tried on a world of this node while it goes on (06 sections 7, 9).

A shadow runs in a worker thread over a connection of its own; proofs are in `node/proofs.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tallystick.governance.prove import TAIL
from tallystick.governance.rerun import Order, Overlay
from tallystick.governance.shadow import TAIL as INPUTS
from tallystick.governance.shadow import Candidate, Shadowing, shadow
from tallystick.journal.base import Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle
from tallystick.model.frames import open_frame
from tallystick.model.records import BundleActivate
from tallystick.node.node import Node
from tallystick.node.worlds import world_at

SECONDS: Final = 60.0
_PAGE: Final = 256


class Rehearsal(NamedTuple):
    """What is tried, by which proposal, and how many ticks of a cell count; None for all.

    At most `held` cells are proved while their world stands still.
    """

    bundle: Bundle
    proposal: str | None = None
    ticks: int | None = TAIL
    held: int = 1_000


# ---- shadow -----------------------------------------------------------------------------------


async def shadow_on(
    node: Node,
    world: str,
    tried: Rehearsal,
    order: Order | None = None,
    *,
    tail: int = INPUTS,
) -> Shadowing:
    """Try a candidate on the live head and the last `tail` external inputs of a world.

    After a minute the report is incomplete: it cannot be approved.
    """
    seq = await node.look(world, lambda live: live.seq)

    def run(reader: Reader, stop: Callable[[], bool]) -> Shadowing:
        ends = time.monotonic() + SECONDS
        begin = _begin(reader, world, seq, tail)
        start = _opened(node, reader, world, begin, tried.bundle.blobs())
        live = _opened(node, reader, world, seq, {})
        frames = reader.read(world, after=begin, upto=seq)
        bundle = tried.bundle
        candidate = Candidate(bundle.root_digest, bundle.manifest_digest, tried.proposal)
        args = (start, live, frames, candidate, order)
        return shadow(*args, stop=lambda: stop() or time.monotonic() > ends)

    with node.reruns.told("shadow", world):
        # The longer limit is for a single tick of the candidate that does not end.
        return await node.reruns.run(run, 2 * SECONDS)


def _opened(
    node: Node, reader: Reader, world: str, seq: int, blobs: Mapping[bytes, bytes]
) -> World:
    """A world of the past over blobs of its own, with a runner of its own."""
    overlay = Overlay(StagedBlobs(reader, world))
    for digest, data in blobs.items():
        overlay.put(digest, data)
    runner = node.modules(overlay)
    made = world_at(reader, world, runner, seq=seq)
    made.rehouse(overlay)
    return made


def _begin(reader: Reader, world: str, seq: int, tail: int) -> int:
    """The sequence behind which the last inputs stand; never before the active manifest."""
    found, upto = 0, seq
    while upto > 1:
        after = max(upto - _PAGE, 0)
        for frame in reversed(list(reader.read(world, after=after, upto=upto))):
            first = open_frame(frame.body)[3][0]
            if isinstance(first, BundleActivate) or frame.seq == 1:
                return frame.last
            found += getattr(first, "stamp", None) is not None
            if found == tail:
                return frame.seq - 1
            upto = frame.seq - 1
    return upto
