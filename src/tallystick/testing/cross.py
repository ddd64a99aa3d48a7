"""`assert_no_cross_delivery`: equal requests of many cells, answers in disorder (K-37)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from tallystick.values import canon


def assert_no_cross_delivery(
    world: Any,
    effect: Any,
    start: Callable[[int], Any],
    answer: Callable[[int], Any],
    *,
    keys: int = 1000,
) -> dict[bytes, int]:
    """Start many cells, answer their open requests in a shuffled order, each with its own number.

    `start(n)` is the event that makes cell n, `answer(n)` what its request is told.
    Gives which number each cell's key was told, for the caller to compare with its states.
    """
    for number in range(keys):
        world.do(world.submit_of(start(number)))
    world.run()
    jobs = world.open(effect)
    assert len(jobs) == keys, f"{len(jobs)} of {keys} cells asked"
    told: dict[bytes, int] = {}
    # An order that has nothing to do with that of asking, and is the same on every run.
    for job in sorted(jobs, key=lambda each: sha256(each.intent).digest()):
        number = len(told)
        told[job.key] = number
        answer(number).settle(world, job)
    world.run()
    return {canon.decode(key): number for key, number in told.items()}
