"""`assert_no_cross_delivery`: equal requests of many cells, answers in disorder (K-37)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from tallystick.model.records import IntentOpened, ReceiptSettled
from tallystick.values import canon


# tidy: a scenario, told from its start to its end.
def assert_no_cross_delivery(
    world: Any,
    effect: Any,
    start: Callable[[int], Any],
    answer: Callable[[int], Any],
    *,
    seen: Callable[[Any], Any] | None = None,
    keys: int = 1000,
) -> dict[Any, int]:
    """Start many cells and answer them in a shuffled order, each with the number of another.

    `start(n)` is the event that makes cell n, `answer(n)` what a request is told, `seen(key)` the
    number that the cell of a key has kept.
    Every receipt must go to the cell that asked, and every cell must have kept its own number.
    Gives the number that each key was told.
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
    _assert_addresses(world)
    plain = {canon.decode(key): number for key, number in told.items()}
    if seen is not None:
        for key, number in plain.items():
            kept = seen(key)
            assert kept == number, f"the cell {key!r} was told {number} and has seen {kept!r}"
    return plain


def _assert_addresses(world: Any) -> None:
    """Each receipt went to the cell that its intent was opened by, and to no other."""
    origins = {record.intent: record.origin for record in world.records(IntentOpened)}
    for record in world.records(ReceiptSettled):
        origin = origins[record.intent]
        for to in record.to:
            same = (to.workflow, to.key) == (origin.workflow, origin.key)
            assert same, f"a receipt of {origin.workflow} went to {to.workflow}"
