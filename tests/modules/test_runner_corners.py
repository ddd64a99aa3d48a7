"""Corners of the runners: code that is not there, other lanes, and flows run over their history."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tallystick.errors import BadDefinition
from tallystick.model.abi import Halted, TickInput
from tallystick.modules.rebuild import Rebuilt, Recorded
from tallystick.modules.runners import Runners
from tallystick.testing.answers import ok
from tallystick.testing.world import WORLD, TestWorld
from tallystick.values import canon
from tests.modules.wasm_world import STEP, Given, WasmRig, output, says, wat
from tests.workflow.names import loaded
from tests.workflow.test_flows import METER, program
from tests.workflow.test_pure import SOURCE


def given() -> TickInput:
    """One delivery, of which nobody reads more than that it is one."""
    return TickInput(None, STEP, Given(1), None, None)


def test_code_that_cannot_be_opened_is_a_fault() -> None:
    """05 section 3: of the tick and of the first state; who loads it is told what is wrong."""
    world, _ = loaded(SOURCE)
    catalogue = world.driver.world.active.catalogue
    flow = catalogue.workflows["t/flow@1"]
    lost: Any = dataclasses.replace(flow, entrypoint="app:nobody", hash=b"other")
    runner = Runners(world.driver.blobs, library=world.library)
    runner.load(catalogue, flow)
    for found in (
        runner.tick(catalogue, lost, given(), None),
        runner.init(catalogue, lost, given()),
    ):
        assert isinstance(found, Halted)
        assert (found.code, "app:nobody" in found.message) == ("exception", True)
    with pytest.raises(BadDefinition) as caught:
        runner.load(catalogue, lost)
    assert caught.value.code == "module.no_entrypoint"
    assert runner.pure(catalogue, flow.module, "app:nobody", b"", None) == Halted(
        "exception", "the artifact has no app:nobody", 0, "kernel"
    )


def test_a_lane_that_a_node_has_not_is_a_fault() -> None:
    """05 section 1: built-in modules are handed in; without them their ticks have no answer."""
    world, _ = loaded(SOURCE)
    catalogue = world.driver.world.active.catalogue
    play = catalogue.workflows["sys/playbook@1"]
    runner = Runners(world.driver.blobs)
    said = Halted("exception", "this node runs no builtin modules", 0, "kernel")
    assert runner.tick(catalogue, play, given(), None) == said
    assert runner.pure(catalogue, play.module, "any", b"", None) == said
    assert runner.init(catalogue, play, given()) is None
    runner.load(catalogue, play)
    history = Recorded(play.name, b"", WORLD, b"")
    assert runner.rebuilt(catalogue, history) is None


def test_a_pure_function_is_made_once() -> None:
    """K-02: the second call of a function finds it, and gives the same."""
    world, _ = loaded(SOURCE)
    catalogue = world.driver.world.active.catalogue
    runner = Runners(world.driver.blobs, library=world.library)
    module = catalogue.workflows["t/flow@1"].module.replace("code", "pure")
    two = [
        runner.pure(catalogue, module, "app:double", canon.encode({"n": n}), None) for n in (2, 3)
    ]
    assert two == [canon.encode({"n": 4}), canon.encode({"n": 6})]


class Elsewhere:
    """Where modules run that this process should not run."""

    def __init__(self, place: Any) -> None:
        self._place = place
        self.warmed = 0

    def place(self, _artifact: str, _blobs: Any) -> Any:
        return self._place

    def warm(self) -> None:
        self.warmed += 1


@pytest.mark.parametrize(("place", "warmed"), [(None, 0), ("a worker", 1)])
def test_a_worker_is_at_hand_where_one_is_needed(place: Any, warmed: int) -> None:
    """05 section 5: before the first tick, and only for modules that run in one."""
    rig = WasmRig(wat(says(output())))
    library: Any = rig.runner._library  # type: ignore[attr-defined]
    runner: Any = rig.runner
    runner.prepare(rig.world.active.catalogue)
    library.elsewhere = elsewhere = Elsewhere(place)
    runner.prepare(rig.world.active.catalogue)
    assert elsewhere.warmed == warmed
    runner.load(rig.world.active.catalogue, rig.world.active.catalogue.workflows["t/flow@1"])


# ---- flows over their history -------------------------------------------------------------------

BODY = """\
got = (await effect(Work(n=1))).n
ctx.emit(Told(key="a", text="x" * 300))
note = await receive(Note)
return Out(text=f"{got} {note.n}")"""


def recorded(world: TestWorld, app: Any) -> Recorded:
    """The history of the one flow, as its cell holds it."""
    held = world.driver.world
    cell = held.cell(world.ident(app.flow, "a"))
    assert cell is not None
    state = held.state_of(cell) if cell.state is None else cell.state
    assert state is not None
    return Recorded("t/flow@1", cell.id.key, WORLD, state)


def rebuilt(world: TestWorld, app: Any, source: str, upto: int | None = None) -> Rebuilt:
    """The same history under other code."""
    other, _ = loaded(source)
    catalogue = other.driver.world.active.catalogue
    runner = Runners(_Both(other.driver.blobs, world.driver.blobs), library=other.library)
    found = runner.rebuilt(catalogue, recorded(world, app), upto)
    assert found is not None
    return found


class _Both:
    """Code from one store, history from another."""

    def __init__(self, *stores: Any) -> None:
        self._stores = stores

    def get(self, digest: bytes) -> bytes | None:
        return next((data for s in self._stores if (data := s.get(digest)) is not None), None)


@pytest.mark.clause("X-21")
def test_a_history_is_run_again_item_by_item() -> None:
    """AU-11: equal requests to the end, or the first item after which they differ, and which."""
    source = program(BODY)
    world, app = loaded(source)
    world.send(app.Go(key="a")).settle(app.Work, ok(app.Got(n=1)))
    assert rebuilt(world, app, source) == Rebuilt(2)
    first = rebuilt(world, app, source, upto=0)
    assert (first.item, first.on) == (0, "start")
    assert first.asked == ("t/Work@1 {'n': 1}",)
    second = rebuilt(world, app, source, upto=1)
    assert (second.item, second.asked[0][:18]) == (1, "event t/Told@1 {'k")
    assert second.asked[0].endswith("...")
    other = rebuilt(world, app, source.replace("Work(n=1)", "Work(n=2)"))
    assert (other.items, other.item, other.asked) == (1, 0, ("t/Work@1 {'n': 2}",))
    faulty = rebuilt(world, app, source.replace("got = (await", "await gather(1); got = (await"))
    assert faulty.asked == ("fault foreign_await",)
    anew = rebuilt(world, app, source.replace("got = (await", "await checkpoint(begin); (await"))
    assert anew.asked == ("a checkpoint",)


def test_large_and_sealed_items_are_read_back() -> None:
    """AU-08: a history of chunks, with a value that stands beside it, is run again whole."""
    source = METER.replace("{every}", "1000").replace("n: int", "n: int; pad: str = ''", 1)
    world, app = loaded(source)
    world.send(app.Go(key="a"))
    for number in range(70):
        world.send(app.Note(key="a", n=1, pad="x" * 600 if number == 69 else ""))
    assert rebuilt(world, app, source) == Rebuilt(71)


def test_a_reducer_has_no_history() -> None:
    """AU-11: its state is all there is, so there is nothing to run again."""
    world, _ = loaded(SOURCE)
    catalogue = world.driver.world.active.catalogue
    runner = Runners(world.driver.blobs, library=world.library)
    assert runner.rebuilt(catalogue, Recorded("t/flow@1", b"", WORLD, b"")) is None
