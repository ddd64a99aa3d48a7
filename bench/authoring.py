"""The speeds of authoring (05): metering, async histories, TestWorld, and the model checker.

`nice`d or not, rates are by processor time of this process: a busy machine makes them smaller only
as far as it slows the processor itself.
Each figure is the best of some rounds; the JSON says what was wanted.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.windows import host

from tallystick.model.abi import Ran, TickInput
from tallystick.model.bundle_python import LANE
from tallystick.modules.lane import Compiled, Space
from tallystick.modules.reducers import Reducer
from tallystick.testing.search import Search
from tallystick.testing.sources import built
from tallystick.testing.subject import subject_of
from tallystick.testing.world import TestWorld
from tallystick.workflow.bundle import spec_of
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.names import names_of
from tests.workflow.test_flows import METER

GOALS = {
    "metering": 1.3,
    "async_last_to_first": 1.2,
    "rebuild_items_s": 10_000,
    "testworld_100_ticks_ms": 50,
    "check_moves_s": 3_000,
}
ROUNDS = 5


def best(act: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The shortest time of some rounds, in seconds of the processor."""
    found = float("inf")
    for _ in range(rounds):
        begun = process_time()
        act()
        found = min(found, process_time() - begun)
    return found


class _Unmetered:
    """A namespace whose code was compiled as it stands, without steps and guards."""

    def __init__(self, source: str) -> None:
        self.meter = types.SimpleNamespace(used=0)
        self.module = types.ModuleType("app")
        sys.modules["app"] = self.module
        exec(compile(source, "app.py", "exec"), self.module.__dict__)
        del sys.modules["app"]

    def start(self, budget: int) -> None:
        """Nothing is counted."""

    def find(self, entrypoint: str) -> Any:
        """An object of the module."""
        return getattr(self.module, entrypoint.partition(":")[2])

    def paths(self) -> frozenset[str]:
        """No file is ours."""
        return frozenset()


class _Caught:
    """A runner that keeps the input of the tick it passes on."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.given: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def tick(self, catalogue: Any, workflow: Any, tick: TickInput, content: Any) -> Any:
        """Run it and remember what it was given."""
        self.given.append((catalogue, workflow, tick))
        return self.inner.tick(catalogue, workflow, tick, content)


def metering(times: int) -> float:
    """A tick of the hello program in the lane, in ticks of the same code without a meter."""
    world = TestWorld(built(HELLO), twice=False)
    caught = world.driver.world.runner = _Caught(world.driver.world.runner)
    world.send(names_of(world).Greet(name="Ada"))
    catalogue, workflow, tick = caught.given[-1]
    spaces = [Space(Compiled({"app.py": HELLO.encode()}, LANE)), _Unmetered(HELLO)]
    reducers = [Reducer(s, spec_of(s.find("app:greeter")), "bench") for s in spaces]  # type: ignore[arg-type]
    assert all(isinstance(each.tick(catalogue, workflow, tick), Ran) for each in reducers)

    def run(reducer: Reducer) -> float:
        return best(lambda: [reducer.tick(catalogue, workflow, tick) for _ in range(times)], 9)

    return round(run(reducers[0]) / run(reducers[1]), 3)


def histories(items: int) -> tuple[float, int]:
    """How the last thousand ticks of a long flow compare with the first, and items per second."""
    world = TestWorld(built(METER.replace("{every}", str(items * 2))), twice=False)
    app = names_of(world)
    world.send(app.Go(key="a"))
    span = items // 10

    def some(count: int) -> float:
        begun = process_time()
        for _ in range(count):
            world.do(world.submit_of(app.Note(key="a", n=1)))
        world.run()
        return process_time() - begun

    first = some(span)
    some(items - 2 * span)
    last = some(span)
    world.crash()
    begun = process_time()
    world.send(app.Note(key="a", n=1))
    spent = process_time() - begun
    state = world.cell(app.flow, "a").state
    assert state["n"] == items + 2, "every note was read, the last one after a rebuild"
    return round(last / first, 3), round(items / spent)


def hundred_ticks() -> float:
    """Milliseconds for a world that is made and runs 100 ticks."""
    ready = built(HELLO)

    def run() -> None:
        world = TestWorld(ready, twice=False)
        greet = names_of(world).Greet(name="Ada")
        for _ in range(100):
            world.send(greet)

    return round(best(run) * 1000, 1)


def moves() -> int:
    """Moves of the model checker in a second, over the order and its payment."""
    rates = []
    for _ in range(ROUNDS):
        subject = subject_of(ORDER, "orders")
        begun = process_time()
        report = Search(subject).run(12)
        rates.append(report.moves / (process_time() - begun))
    return round(max(rates))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--items", type=int, default=9_900, help="items of a history; 10,000 is its limit"
    )
    parser.add_argument("--times", type=int, default=2000)
    given = parser.parse_args()
    ratio, rebuilt = histories(given.items)
    found = {
        "metering": metering(given.times),
        "async_last_to_first": ratio,
        "rebuild_items_s": rebuilt,
        "testworld_100_ticks_ms": hundred_ticks(),
        "check_moves_s": moves(),
    }
    print(json.dumps({"host": host(), "goals": GOALS, "found": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
