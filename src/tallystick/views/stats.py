"""Figures of a live world, each bounded in what it looks at.

A count that would walk all cells or intents stops at a bound and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from tallystick.kernel.parts import Cell
from tallystick.kernel.roots import root_of, state_root
from tallystick.kernel.world import World
from tallystick.values import canon
from tallystick.views.cells import status_of

COUNTED_MAX: Final = 2000


def stats(world: World, most: int = COUNTED_MAX) -> dict[str, Any]:
    """Head, cells by status, open effects, readiness and evidence."""
    return {
        "world": world.id,
        "as_of": world.seq,
        "logical_now_ns": world.logical_ns,
        "manifest": canon.text_of(world.manifest),
        "cells": {"all": world.cell_count, **_by_status(world, most)},
        "effects": _by_effect(world, most),
        "ready": len(world.ring),
        "read_only": world.read_only,
        "drops": _drops(world),
        "suppressed": dict(sorted(world.suppressed.items())),
    }


def _cells(world: World) -> Iterator[Cell]:
    for name in sorted(world.cells):
        for _, cell in world.cells[name].entries():
            yield cell


def _by_status(world: World, most: int) -> dict[str, Any]:
    counts: dict[str, int] = {}
    seen = 0
    for cell in islice(_cells(world), most):
        seen += 1
        status = status_of(world, cell)
        counts[status] = counts.get(status, 0) + 1
    return {"counted": seen, "by_status": dict(sorted(counts.items()))}


def _by_effect(world: World, most: int) -> dict[str, Any]:
    counts: dict[str, int] = {}
    seen = held = 0
    oldest: int | None = None
    rows = world.intents.entries()
    for _, intent in islice(rows, most):
        seen += 1
        held += intent.hold is not None
        oldest = intent.seq if oldest is None else min(oldest, intent.seq)
        counts[intent.record.effect] = counts.get(intent.record.effect, 0) + 1
    return {
        "counted": seen,
        "whole": next(rows, None) is None,
        "held": held,
        "oldest_seq": oldest,
        "by_effect": dict(sorted(counts.items())),
    }


def _drops(world: World) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reasons in world.drops.values():
        for reason, count in reasons.items():
            counts[reason] = counts.get(reason, 0) + count
    return dict(sorted(counts.items()))


def world_root(world: World, epoch: int) -> dict[str, Any]:
    """The two roots of a world, and where it stands (04 section 9)."""
    state = state_root(world)
    return {
        "world": world.id,
        "seq": world.seq,
        "logical_now_ns": world.logical_ns,
        "state_root": canon.text_of(state),
        "root": canon.text_of(root_of(world, state)),
        "head": canon.text_of(world.head),
        "manifest": canon.text_of(world.manifest),
        "epoch": epoch,
    }
