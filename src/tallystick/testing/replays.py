"""What a replay must give: one root by every way to it, and one end for every intent."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tallystick.kernel.replay import fold_frames, open_world, verify
from tallystick.kernel.roots import root
from tallystick.kernel.snapshot import plan_of
from tallystick.kernel.world import World
from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.modules.runners import Runners
from tallystick.values import canon


class Beside:
    """A blob store whose own additions stay beside it."""

    def __init__(self, under: Any) -> None:
        self._under = under
        self.own: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        """The bytes of a name."""
        found: bytes | None = self.own.get(name)
        return self._under.get(name) if found is None else found

    def put(self, name: bytes, data: bytes) -> None:
        """Keep bytes here alone."""
        self.own[name] = data

    def place(self) -> bytes:
        """Where the next node would lie in the store below."""
        place: bytes = self._under.place()
        return place


def assert_replays(world: Any) -> None:
    """Genesis fold, snapshot with its tail, and re-run of every tick end in the live root."""
    live, name = root(world.driver.world), world.driver.world.id
    blobs = world.driver.blobs
    folded = open_world(
        name, world.journal.read(name), blobs, _runner(world, blobs), settings=world.settings
    )
    assert root(folded) == live, "the fold from genesis is another world"
    assert root(_from_snapshot(world)) == live, "a snapshot and its tail are another world"
    again = open_world(name, [], blobs, _runner(world, blobs), settings=world.settings)
    verified = verify(again, world.journal.read(name))
    assert verified.first is None, f"replay differs: {verified.first}"
    assert verified.root == live, "the re-run ends in another world"
    settled = Counter(record.intent for record in world.records(ReceiptSettled))
    settled.subtract(record.intent for record in world.records(IntentDenied))
    for record in world.records(IntentOpened):
        assert settled[record.intent] <= 1, f"{record.effect} was settled twice"


def _runner(world: Any, blobs: Any) -> Runners:
    return Runners(blobs, library=world.library)


def _from_snapshot(world: Any) -> World:
    """The world opened from a snapshot that is taken half-way, where nothing was ready."""
    name: str = world.driver.world.id
    frames = list(world.journal.read(name))
    blobs = Beside(world.driver.blobs)
    half = World(name, blobs, _runner(world, blobs), world.settings)
    done = 0
    while done < max(1, len(frames) // 2) or (half.ring and done < len(frames)):
        fold_frames(half, frames[done : done + 1])
        done += 1
    assert not half.ring, "a world that was run has nothing ready at its end"
    plan = plan_of(half, blobs.own)
    pinned = canon.digest_of(plan.document)
    blobs.put(pinned, plan.document)
    runner = _runner(world, blobs)
    return open_world(name, frames[done:], blobs, runner, pinned=pinned, settings=world.settings)
