"""Growth by open intents: what an order costs among many that wait for the outside."""

from __future__ import annotations

from typing import Any

from bench.kernel import SAMPLE, Loop, order
from bench.windows import Stopwatch

from tallystick.kernel.inputs import Submit
from tallystick.kernel.machine import advance, submit
from tests import worlds
from tests.rig import Rig

ORDERS = 1_000


def growth(sizes: list[int]) -> list[dict[str, Any]]:
    """Microseconds of an order, from its event to its end, at each number of open intents."""
    rig = Rig(worlds.order_documents(), worlds.FUNCTIONS)
    loop, opened, found = Loop(rig), 0, []
    for size in sizes:
        while opened < size:
            value = worlds.created(f"open-{opened}")
            loop.take(submit(rig.world, Submit(SAMPLE, worlds.CREATED, value)))
            loop.take(advance(rig.world))
            opened += 1
        watch = Stopwatch(10)
        for number in range(min(ORDERS, size)):
            order(loop, size * 10 + number)
            watch.add(1)
        found.append({"open": size, "records": rig.world.seq, **watch.stop().report()})
    return found
