"""`crash_everywhere`: the process dies at every place where it can, and nothing is lost or doubled.

A scenario is a function that drives a world.
It runs once undisturbed; then once for every crash point that it passed, dying there.
Callers and executors behave as they should: what was not confirmed is sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.testing.answers import Crash
from tallystick.testing.sources import Built, built
from tallystick.testing.world import TestWorld


class Survived(NamedTuple):
    """How many places a scenario was killed at, and which."""

    crashes: int
    places: tuple[str, ...]


class _Killer:
    """Listens at the points of a world; raises at the one with the given number."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.passed: list[str] = []

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) - 1 == self.number:
            raise Crash(name)


def crash_everywhere(
    app: Any, scenario: Callable[[Any], Any], make: Callable[[Any], Any] | None = None
) -> Survived:
    """Run a scenario on worlds of an app, killed once at each place that it passes.

    Equal are what the scenario returns, or else the state and status of every cell.
    Every intent has at most one settlement, and every journal replays to its root.
    """
    ready, new = built(app), make or _world
    calm, world = _Killer(None), new(ready)
    expected = _played(world, scenario, calm)
    for number in range(len(calm.passed)):
        killer, world = _Killer(number), new(ready)
        seen = _played(world, scenario, killer)
        place = f"killed at {calm.passed[number]} (number {number})"
        assert world.crashes == 1, f"{place}: the world went on"
        assert seen == expected, f"{place}: {seen!r} is not {expected!r}"
        world.assert_replays()
    return Survived(len(calm.passed), tuple(dict.fromkeys(calm.passed)))


def _world(app: Built) -> Any:
    # Not every tick twice: each run is verified as a whole.
    return TestWorld(app, twice=False)


def _played(world: Any, scenario: Callable[[Any], Any], killer: _Killer) -> Any:
    world.points.listener = killer
    said = scenario(world)
    world.points.listener = None
    _settled_once(world)
    return said if said is not None else world.cells()


def _settled_once(world: Any) -> None:
    denied = [record.intent for record in world.records(IntentDenied)]
    settled = [record.intent for record in world.records(ReceiptSettled)]
    for record in world.records(IntentOpened):
        count = settled.count(record.intent) - denied.count(record.intent)
        assert count <= 1, f"{record.effect} was settled {count} times"
