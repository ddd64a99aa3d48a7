"""A second live world that goes on by itself from where the first one stands.

What fold may change is copied, what never changes is shared; blobs are named by their content, so
both may read and stage in one store.
The model checker looks at many futures of one moment this way; a node never does.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import Any, TypeVar

from tallystick.kernel.levels import Levels
from tallystick.kernel.parts import NO_MAIL, Cell, Fence, Intent, Keyed, bonds_of
from tallystick.kernel.world import World

T = TypeVar("T", World, Cell, Intent, Keyed)


# tidy: one line for each thing that a world holds.
def twin(world: World) -> World:
    """A world equal to this one; neither sees what the other folds from here on."""
    made = _copied(world)
    made.cells = {name: store.twin(_cell) for name, store in world.cells.items()}
    made.intents = world.intents.twin(_intent)
    made.keyed = world.keyed.twin(_copied)
    made.fence = world.fence.twin(_fence)
    made.timers = world.timers.twin()
    made.expiry = world.expiry.twin()
    made.keys = dict(world.keys)
    made.revoked = dict(world.revoked)
    made.levels = _levels(world.levels)
    made.proposals = deepcopy(world.proposals)
    made.ring = deque(world.ring)
    made.drops = {intent: dict(counts) for intent, counts in world.drops.items()}
    made.suppressed = dict(world.suppressed)
    made.recent = world.recent.copy()
    made.denied = deque(world.denied)
    made.resident = dict(world.resident)
    return made


def _copied(entry: T) -> T:
    """The same values in an object of its own."""
    kind: Any = type(entry)
    made: T = kind.__new__(kind)
    # A compiled class says by a name of its own what it holds.
    held = getattr(kind, "__mypyc_attrs__", None) or kind.__slots__
    for name in held:
        setattr(made, name, getattr(entry, name))
    return made


def _cell(cell: Cell) -> Cell:
    made = _copied(cell)
    made.mailbox = deque(cell.mailbox) if cell.mailbox else NO_MAIL
    made.inflight = bonds_of(cell.inflight)
    made.keyed = bonds_of(cell.keyed)
    made.callers = bonds_of(cell.callers)
    return made


def _intent(intent: Intent) -> Intent:
    return _copied(intent)


def _fence(fence: Fence) -> Fence:
    return fence


def _levels(levels: Levels) -> Levels:
    made = Levels()
    made.open = dict(levels.open)
    made.queued = dict(levels.queued)
    made.tats = dict(levels.tats)
    made.budgets = dict(levels.budgets)
    made.queue = list(levels.queue)
    return made
