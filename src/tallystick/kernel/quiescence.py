"""Quiescence: what stands in the way of changing the manifest (K-20, 06 section 8).

Every blocker is named; nothing is dropped or cancelled to make room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from tallystick.kernel.world import World
from tallystick.model.cells import FAILED
from tallystick.values import canon

NAMED_MAX: Final = 1000


class Blocker(NamedTuple):
    """One thing that is open: its kind and what a reader needs to find it."""

    kind: str
    detail: dict[str, Any]


def quiescence(world: World) -> list[Blocker]:
    """All blockers; an empty list means the world is quiescent."""
    return list(_blockers(world))


def named(world: World) -> tuple[list[Blocker], int]:
    """The first thousand blockers, and how many there are in all."""
    found = _blockers(world)
    first = list(islice(found, NAMED_MAX))
    return first, len(first) + sum(1 for _ in found)


# tidy: four kinds of blocker, listed one after the other.
def _blockers(world: World) -> Iterator[Blocker]:
    ready = frozenset(world.ring)
    for name in sorted(world.cells):
        workflow = world.active.catalogue.workflows.get(name)
        lifecycle = "process" if workflow is None else workflow.lifecycle
        for _, cell in world.cells[name].entries():
            place = {"workflow": name, "key": cell.id.key.hex()}
            status = cell.shown_status(lifecycle)
            if status != FAILED and not cell.at_rest(lifecycle):
                yield Blocker(
                    "cell_open",
                    {
                        **place,
                        "status": status,
                        "since_seq": cell.last_seq,
                        "age_ns": max(world.logical_ns - cell.last_active_ns, 0),
                    },
                )
            if cell.mailbox:
                yield Blocker("mailbox", {**place, "events": len(cell.mailbox)})
            if cell.id in ready:
                yield Blocker("ready", place)
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
