"""Snapshots: pinned roots from which a world opens without its whole history (K-42, K-43).

Taking one needs an idle ring, not a world without open effects: intents, mail of suspended cells,
fences and keys are all in it.
The cost grows with what is dirty.
The plan is computed first, its record becomes durable, and only then `promote` makes entries
clean (I20).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple

from tallystick.errors import JournalCorrupt, NotQuiescent
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.index import EMPTY, Blobs, Branch
from tallystick.kernel.inputs import TakeSnapshot
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.levels import Levels
from tallystick.kernel.proposals import Proposals
from tallystick.kernel.roots import governance_value, keys_value, root_of, state_root_of
from tallystick.kernel.store import Store
from tallystick.kernel.world import Settings, Trust, World
from tallystick.model.abi import Runner
from tallystick.model.records import Noted, SnapshotTaken
from tallystick.values import canon, large

RECENT_KEPT: Final = 4096
_CLEANED: Final = 8  # entries in the time in which one is merged, at least

Put = Callable[[bytes, bytes], None]
"""Takes a blob: its digest and its bytes."""


class Plan(NamedTuple):
    """A snapshot on its way: where the world stands in it, and which entries it covers."""

    seq: int
    head: bytes
    manifest: bytes
    document: bytes
    root: bytes
    tops: dict[str, bytes]
    paths: dict[str, list[bytes]]
    written: int
    branches: dict[bytes, Branch]


def take(world: World, given: TakeSnapshot) -> Frame:
    """The frame of a snapshot; refuses while cells are ready."""
    if world.ring:
        raise NotQuiescent(
            f"{len(world.ring)} cells are ready; a snapshot needs an idle ring",
            code="snapshot.busy",
            hint="let the world advance until nothing is ready",
        )
    while clean(world, RECENT_KEPT):
        pass  # what the one before has made clean is no part of this one
    draft = Draft(world)
    stamp = draft.stamp(given.sample)
    plan = plan_of(world, draft.blobs)
    roots = _roots(plan.tops)
    state_root = state_root_of(world, roots)
    dirty = sum(len(store.delta) for store in world.cells.values())
    draft.add(
        SnapshotTaken(
            root=plan.root,
            state_root=state_root,
            roots=roots,
            manifest=world.manifest,
            cells=world.cell_count,
            dirty=dirty,
            stamp=stamp,
        )
    )
    if world.suppressed:
        draft.add(Noted("dropped.more", dict(world.suppressed)))
    return draft.frame(Answer("snapshot", world.seq + 1), snapshot=plan)


def prepare(world: World, most: int, least: int, put: Put, *, hurry: bool = False) -> bool:
    """Do some of the work of the next snapshot now; False when hardly any is left.

    At most so many entries, and of no store with fewer than `least`.

    Its nodes go to `put`, which lets the world read them; until a snapshot names them only the
    world knows of them.
    """
    if clean(world, most * _CLEANED if hurry else most):
        return True  # else it would be written once more
    # The one that lacks most: while a large one goes round, small ones gather more.
    for store in sorted(world.stores().values(), key=_unprepared, reverse=True):
        made = store.prepare(most, least, hurry=hurry)
        if made is not None:
            for name, data in made.nodes.items():
                put(name, data)
            world.nodes.keep(made.branches)
            return True
    return False


def _unprepared(store: Store[Any]) -> int:
    return store.unprepared


def unprepare(world: World) -> None:
    """Let go what of the next snapshot was prepared: nothing names it, and nothing will."""
    for store in world.stores().values():
        store.unprepare()


def plan_of(world: World, blobs: dict[bytes, bytes]) -> Plan:
    """Materialise the deltas into new nodes (into `blobs`); changes nothing in the world."""
    tops: dict[str, bytes] = {}
    paths: dict[str, list[bytes]] = {}
    branches: dict[bytes, Branch] = {}
    for name, store in world.stores().items():
        made = store.written()
        paths[name] = list(store.delta)
        blobs.update(made.nodes)
        branches.update(made.branches)
        if made.top != EMPTY:
            tops[name] = made.top
    written = len(blobs)
    root = root_of(world, state_root_of(world, _roots(tops)))
    document = _document(world, tops)
    blobs[canon.digest_of(document)] = document
    stands = (world.seq, world.head, world.manifest)
    return Plan(*stands, document, root, tops, paths, written, branches)


def _roots(tops: dict[str, bytes]) -> dict[str, bytes]:
    """The digests of the indexes, wherever they lie."""
    return {name: top[:32] for name, top in tops.items()}


def tops_of(document: Any) -> dict[str, bytes]:
    """The names of the indexes of a snapshot.

    Where the snapshot was taken in from elsewhere its places mean nothing, and nothing lies there.
    """
    places = document.get("places", {})
    return {name: root + places.get(name, b"") for name, root in document["roots"].items()}


def _document(world: World, tops: dict[str, bytes]) -> bytes:
    places = {name: top[32:] for name, top in tops.items() if top[32:]}
    flows = world.levels.value(world.logical_ns)
    governance = governance_value(world)
    fields = {
        "$type": "snapshot@1",
        "world": world.id,
        "seq": world.seq,
        "logical_ns": world.logical_ns,
        "now_ns": world.now_ns,
        "head": world.head,
        "manifest": world.manifest,
        "roots": _roots(tops),
        **({"places": places} if places else {}),
        "cells": world.cell_count,
        "keys": keys_value(world),
        "revoked": world.revoked,
        **({"flows": flows} if flows else {}),
        **_upgrades(world),
        **({"governance": governance} if governance else {}),
        **({"synthetic": True} if world.synthetic else {}),
        "drops": [[intent, counts] for intent, counts in world.drops.items()],
    }
    pieces = {canon.put_key(name): canon.encode_item(value) for name, value in fields.items()}
    pieces[canon.put_key("recent")] = _recent(world)
    items = [piece for item in sorted(pieces.items()) for piece in item]
    return b"".join((canon.PREFIX, canon.head(5, len(pieces)), *items))


_RECENT: Final = canon.head(4, 2) + canon.head(2, 32)


def _recent(world: World) -> bytes:
    """The newest intents and their ends, as a list of pairs: thousands, while somebody waits."""
    recent, names = world.recent, canon.NAMES
    newest = islice(reversed(recent), RECENT_KEPT)
    pairs = [_RECENT + intent + names[recent[intent]] for intent in newest]
    pairs.reverse()
    return canon.head(4, len(pairs)) + b"".join(pairs)


_UPGRADES: Final = ("upgraded_seq", "proved_seq", "pinned")


def _upgrades(world: World) -> dict[str, int]:
    """Where the manifest changed, and how many cells are pinned; nothing before it has."""
    return {name: value for name in _UPGRADES if (value := getattr(world, name))}


def promote(world: World, plan: Plan) -> None:
    """The snapshot is durable: what it covers and was not touched since is clean, see `clean`."""
    seq = plan.seq + 1  # of its record, where `fold` has marked the stores
    for name, store in world.stores().items():
        top = plan.tops.get(name, EMPTY)
        if name == "timers":
            world.timers.promote(top, plan.paths.get(name, []), seq)
        elif name == "expiry":
            world.expiry.promote(top, plan.paths.get(name, []), seq)
        else:
            store.promote(top, plan.paths.get(name, []), seq)
    world.nodes.forget_replaced()
    world.nodes.leave_room(sum([store.filter_bytes for store in world.cells.values()]))
    world.nodes.keep(plan.branches)
    world.resident.clear()
    world.resident_bytes = 0
    world.unclean = True


def clean(world: World, most: int) -> bool:
    """Let go of some of what the last snapshot has made clean; False when nothing is left.

    At most so many entries of each store. What a world is does not change by it, only where it is.
    """
    if not world.unclean:
        return False
    if world.timers.clean(most) or world.expiry.clean(most):
        return True
    if any(store.clean(most) for store in world.stores().values()):
        return True
    world.unclean = False
    return False


def load(digest: bytes, blobs: Blobs, runner: Runner, settings: Settings | None = None) -> World:
    """The world of a snapshot document; cells are read when they are needed (K-43)."""
    raw = large.decode(read_blob(blobs, digest))
    if raw.get("$type") != "snapshot@1":
        raise JournalCorrupt("the snapshot has another form than it must")
    world = World(raw["world"], blobs, runner, settings)
    world.seq = raw["seq"]
    world.logical_ns = raw["logical_ns"]
    world.now_ns = raw["now_ns"]
    world.head = raw["head"]
    world.cell_count = raw["cells"]
    world.activate(raw["manifest"])
    world.mount(tops_of(raw))
    world.keys = {
        key: Trust(public, tuple(executors), tuple(effects), revoked)
        for key, (public, executors, effects, revoked) in raw["keys"].items()
    }
    world.revoked = raw["revoked"]
    world.levels = Levels.of(raw.get("flows", {}))
    for name in _UPGRADES:
        setattr(world, name, raw.get(name, 0))
    governance = raw.get("governance", {})
    world.proposals = Proposals.of(governance.get("proposals", {}))
    world.freeze(frozen=governance.get("frozen", False))
    world.synthetic = raw.get("synthetic", False)
    world.drops = dict(raw["drops"])
    for intent, status in raw["recent"]:
        world.recent[intent] = status
    return world
