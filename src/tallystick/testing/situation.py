"""A situation: one cell and all that is open around it, as the model checker knows it again.

Two situations are the same when nothing that could still happen can tell them apart: names of
intents, journal positions and the moment itself are left out, what is left of each wait is not.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from tallystick.kernel.parts import TIMER, Cell
from tallystick.kernel.world import World
from tallystick.testing.laws import Doubles
from tallystick.testing.moves import Asked, Move, due_of, open_requests


class Budget(NamedTuple):
    """What the model may still do: how often each sample was sent, and whether it was stopped."""

    sent: tuple[int, ...]
    stopped: bool
    doubles: Doubles


class Situation:
    """One node of the search; its world is let go once it was looked at."""

    __slots__ = (
        "budget", "content", "depth", "digest", "ended", "move", "next", "now_ns", "number",
        "parent", "records", "world",
    )  # fmt: skip

    def __init__(self, world: World, now_ns: int, budget: Budget, parent: Situation | None) -> None:
        self.world: World | None = world
        self.now_ns = now_ns
        self.budget = budget
        self.parent = parent
        self.move: Move | None = None
        self.records: tuple[Any, ...] = ()
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.content = content_of(world, now_ns)
        self.digest = sha256(
            repr((self.content, budget.sent, budget.stopped, sorted(budget.doubles))).encode()
        ).digest()
        self.number = 0
        self.ended = False
        self.next: list[int] = []

    def path(self) -> list[Situation]:
        """The situations from the start to this one, without the start."""
        found: list[Situation] = []
        at: Situation | None = self
        while at is not None and at.parent is not None:
            found.append(at)
            at = at.parent
        return found[::-1]


def content_of(world: World, now_ns: int) -> bytes:
    """The digest of what a world holds, but for names and positions."""
    cells = [
        (name, key, _cell(world, cell))
        for name in sorted(world.cells)
        for key, cell in sorted(world.cells[name].delta.items())
        if cell is not None
    ]
    asked = [_request(request, now_ns) for request in open_requests(world)]
    levels = world.levels.value(now_ns)
    queue = len(levels.pop("queue", ()))
    # Scalars and tuples of them in a fixed order: their text tells them apart, and costs little.
    return sha256(repr((cells, asked, sorted(levels.items()), queue)).encode()).digest()


def _request(request: Asked, now_ns: int) -> tuple[Any, ...]:
    record = request.intent.record
    if request.effect == TIMER:
        # Its parameters are a moment; what counts of it is how much time is left.
        return (request.cell, TIMER, request.corr, due_of(request.intent) - now_ns)
    bounded = record.timeout_at_ns is not None
    named = (request.cell, request.effect, request.corr, bounded, record.idempotency_key)
    return (*named, record.params or record.params_hash)


def _cell(world: World, cell: Cell) -> tuple[Any, ...]:
    keyed = []
    for ident in cell.keyed:
        known = world.keyed.get(ident)
        assert known is not None, "what a cell remembers is there"
        opened, settled = known.opened, known.settled
        end = None if settled is None else (settled.status, settled.payload or settled.payload_hash)
        params = opened.params or opened.params_hash
        keyed.append((opened.effect, opened.idempotency_key, params, end))
    mail = [(entry.schema, entry.value, entry.value_hash) for entry in cell.mailbox]
    keyed.sort(key=lambda row: (row[0], row[1]))
    return (cell.status, world.state_of(cell), mail, keyed)
