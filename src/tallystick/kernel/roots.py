"""Roots: one digest for everything a world holds (03 section 9).

The state root covers everything but position, so evidence alone never moves it.
The root adds the position: sequence, logical time and the hash of the last frame.
"""

from __future__ import annotations

from typing import Any

from tallystick.kernel.index import EMPTY
from tallystick.kernel.world import World
from tallystick.values import canon


def index_roots(world: World) -> dict[str, bytes]:
    """The root of every store with its delta applied; stores without entries are left out."""
    found: dict[str, bytes] = {}
    for name, store in world.stores().items():
        root = store.written().root
        if root != EMPTY:
            found[name] = root
    return found


def keys_value(world: World) -> dict[str, Any]:
    """The trusted and revoked keys as one value."""
    return {
        key: [trust.public_key, list(trust.executors), list(trust.effects), trust.revoked]
        for key, trust in world.keys.items()
    }


def governance_value(world: World) -> dict[str, Any]:
    """Proposals and being frozen as one value; empty where there is neither."""
    made: dict[str, Any] = {}
    if len(world.proposals):
        made["proposals"] = world.proposals.value()
    if world.frozen:
        made["frozen"] = True
    return made


def state_root_of(world: World, roots: dict[str, bytes]) -> bytes:
    """The state root over given index roots."""
    cells = {name[5:]: root for name, root in roots.items() if name.startswith("cell:")}
    return canon.tagged(
        "state_root@1",
        {
            "manifest": world.manifest,
            "cells": cells,
            "intents": roots.get("intents", EMPTY),
            "keyed": roots.get("keyed", EMPTY),
            "timers": roots.get("timers", EMPTY),
            "fence": roots.get("fence", EMPTY),
            "expiry": roots.get("expiry", EMPTY),
            "flows": world.levels.value(world.logical_ns),
            "keys": keys_value(world),
            "revoked": world.revoked,
            "governance": governance_value(world),
        },
    )


def root_of(world: World, state_root: bytes) -> bytes:
    """The root over a state root and the world's position."""
    return canon.tagged(
        "root@1",
        {
            "state_root": state_root,
            "seq": world.seq,
            "logical_now_ns": world.logical_ns,
            "head": world.head,
        },
    )


def state_root(world: World) -> bytes:
    """The merkle hash of the world's state."""
    return state_root_of(world, index_roots(world))


def root(world: World) -> bytes:
    """State root and position in the journal."""
    return root_of(world, state_root(world))
