"""Quiescence: what stands in the way of changing the manifest (K-20, 06 section 8).

Every blocker is named; nothing is dropped or cancelled to make room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from tallystick.kernel.parts import Cell
from tallystick.kernel.pins import known_workflow
from tallystick.kernel.world import World
from tallystick.model.catalogue import Workflow
from tallystick.model.cells import FAILED
from tallystick.values import canon

NAMED_MAX: Final = 1000
CELL_OPEN: Final = "cell_open"


class Blocker(NamedTuple):
    """One thing that is open: its kind and what a reader needs to find it."""

    kind: str
    detail: dict[str, Any]


def quiescence(world: World) -> list[Blocker]:
    """All blockers; an empty list means the world is quiescent."""
    return list(_blockers(world))


def named(world: World, asking: bytes | None = None) -> tuple[list[Blocker], int]:
    """The first thousand blockers, and how many there are in all.

    `asking` is the intent by which a cell asks for the change itself: that intent and the being
    open of that cell are no blockers, its mail and its other intents are.
    """
    found = _blockers(world) if asking is None else _others(world, asking)
    first = list(islice(found, NAMED_MAX))
    return first, len(first) + sum(1 for _ in found)


def lifecycle_of(workflow: Workflow | None) -> str:
    """The lifecycle of a cell; one whose workflow is gone must have ended."""
    return "process" if workflow is None else workflow.lifecycle


def open_cells(world: World) -> Iterator[Blocker]:
    """The cells that have not ended and are not at rest, however many."""
    return (each for each in _of_cells(world) if each.kind == CELL_OPEN)


def live_cells(world: World) -> Iterator[Cell]:
    """The same cells themselves; the world stands still while they are walked."""
    for name in sorted(world.cells):
        usual = lifecycle_of(world.active.catalogue.workflows.get(name))
        for _, cell in world.cells[name].entries():
            if _is_open(cell, _lifecycle(world, cell, usual)):
                yield cell


def _lifecycle(world: World, cell: Cell, usual: str) -> str:
    return usual if cell.pin is None else lifecycle_of(known_workflow(world, cell))


def _is_open(cell: Cell, lifecycle: str) -> bool:
    return cell.shown_status(lifecycle) != FAILED and not cell.at_rest(lifecycle)


def _others(world: World, asking: bytes) -> Iterator[Blocker]:
    intent = world.intents.get(asking)
    own = None
    if intent is not None:
        own = (intent.record.origin.workflow, intent.record.origin.key.hex())
    for blocker in _blockers(world):
        kind, detail = blocker
        asks = kind == "intent_open" and detail["intent"] == canon.text_of(asking)
        if asks or (kind == "cell_open" and (detail["workflow"], detail["key"]) == own):
            continue
        yield blocker


def _blockers(world: World) -> Iterator[Blocker]:
    yield from _of_cells(world)
    yield from _of_intents(world)


# tidy: three kinds of blocker, listed one after the other.
def _of_cells(world: World) -> Iterator[Blocker]:
    ready = frozenset(world.ring)
    for name in sorted(world.cells):
        usual = lifecycle_of(world.active.catalogue.workflows.get(name))
        for _, cell in world.cells[name].entries():
            lifecycle = _lifecycle(world, cell, usual)
            place = {"workflow": name, "key": cell.id.key.hex()}
            if _is_open(cell, lifecycle):
                yield Blocker(
                    CELL_OPEN,
                    {
                        **place,
                        "status": cell.shown_status(lifecycle),
                        "since_seq": cell.last_seq,
                        "age_ns": max(world.logical_ns - cell.last_active_ns, 0),
                    },
                )
            if cell.mailbox:
                yield Blocker("mailbox", {**place, "events": len(cell.mailbox)})
            if cell.id in ready:
                yield Blocker("ready", place)


def _of_intents(world: World) -> Iterator[Blocker]:
    for path, intent in world.intents.entries():
        origin = intent.record.origin
        yield Blocker(
            "intent_open",
            {
                "intent": canon.text_of(path),
                "effect": intent.record.effect,
                "workflow": origin.workflow,
                "key": origin.key.hex(),
                "hold": intent.hold,
            },
        )
