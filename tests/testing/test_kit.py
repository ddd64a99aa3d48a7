"""The tools that users get for testing find what they are for (AU-24 to AU-27)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import SchemaMismatch
from tallystick.testing import (
    TestWorld,
    assert_no_cross_delivery,
    crash_everywhere,
    ok,
    timeout,
)
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.names import loaded, names_of
from tests.workflow.test_flows import SAGA, settle_work


def pays(world):
    """An order is charged, times out, waits and is paid; the jitter of the wait may differ."""
    app = names_of(world)
    world.send(app.Placed(order_id="o1", cents=500))
    world.settle(app.Charge, timeout()).advance("5s")
    world.settle(app.Charge, ok(app.Charged(ref="r")))
    state = world.cell(app.orders, "o1").state
    return state.phase, state.retry.attempt, world.events(app.Paid), len(world.params(app.Charge))


def cells_after_paying(world) -> None:
    """An order is paid; all cells are compared."""
    app = names_of(world)
    world.send(app.Placed(order_id="o1", cents=500))
    world.settle(app.Charge, ok(app.Charged(ref="r")))


def books(world) -> None:
    """Two acts in parallel, then an event."""
    app = names_of(world)
    world.send(app.Go(key="a"))
    settle_work(world, app, 2)
    settle_work(world, app, 1)
    world.send(app.Note(key="a", n=7))


@pytest.mark.clause("K-48", "K-26")
@pytest.mark.parametrize(("source", "scenario"), [(ORDER, pays), (SAGA, books)])
@pytest.mark.kit("crash_everywhere")
def test_a_crash_anywhere_loses_and_doubles_nothing(source: str, scenario) -> None:
    """AU-25: killed before and after every append, dispatch and receipt; equal states."""
    survived = crash_everywhere(source, scenario)
    assert survived.crashes > 20
    assert {"frame.built", "journal.appended", "journal.flushed"} <= set(survived.places)


@pytest.mark.kit("crash_everywhere", finds=True)
def test_a_lost_frame_is_found() -> None:
    """AU-24 control: a world whose crash also loses its last settled state is found."""

    def make(app):
        world = TestWorld(app, twice=False)
        crash = world.crash

        def forgetting():
            crash()
            # The defect: a crash makes work that nobody asked for.
            return world.send(names_of(world).Placed(order_id="ghost", cents=1))

        world.crash = forgetting  # type: ignore[method-assign]
        return world

    with pytest.raises(AssertionError, match="killed at"):
        crash_everywhere(ORDER, cells_after_paying, make)


@pytest.mark.kit("script", finds=True)
def test_settling_what_is_not_open_is_an_error_of_the_test() -> None:
    """AU-24: a receipt for nothing, and a timeout of a request without one, fail the test."""
    world, app = loaded(ORDER)
    with pytest.raises(AssertionError):
        world.settle(app.Charge, ok(app.Charged(ref="r")))
    world.send(app.Placed(order_id="o1", cents=5))
    with pytest.raises(SchemaMismatch):
        world.settle(app.Charge, ok({"wrong": 1}))


@pytest.mark.kit("script")
def test_scripts_answer_in_order() -> None:
    """AU-24: a script plays its answers for the coming requests."""
    world, app = loaded(ORDER)
    world.script(app.Charge, [timeout(), ok(app.Charged(ref="r"))])
    world.send(app.Placed(order_id="o1", cents=5))
    assert world.cell(app.orders, "o1").state.phase == "backoff"
    world.advance("5s")
    assert world.cell(app.orders, "o1").state.phase == "paid"


@pytest.mark.kit("assert_replays", finds=True)
def test_replay_finds_a_changed_journal() -> None:
    """AU-24 control: code that answers otherwise at replay is found."""
    world, app = loaded(HELLO)
    world.send(app.Greet(name="Ada"))
    other = built(HELLO.replace("visits + 1)\n", "visits + 2)\n"))
    planted = other.library.compiled(_root(other.bundle), _Blobs(other.bundle))
    world.library._compiled[_root(world.bundle)] = planted
    with pytest.raises(AssertionError, match="replay differs"):
        world.assert_replays()
    world.library._compiled.clear()


def _root(bundle) -> str:
    (module,) = [d for d in bundle.definitions() if d["$kind"] == "defmodule"]
    return module["runtime"]["artifact"]["root_hash"]


class _Blobs:
    def __init__(self, bundle) -> None:
        self.get = bundle.blobs().get


SAME = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): key: int
class Got(Record): n: int
class Work(Effect[Got], executor="work"): same: int
class Seen(Record): n: int
@app.workflow(key="key", effects=[Work])
def cells(state: Seen | None, event: Go | Work.Settled, ctx: Ctx) -> Seen:
    match event:
        case Go():
            ctx.effect(Work(same=1))
        case Work.Ok(value=Got(n=n)):
            ctx.complete()
            return Seen(n=n)
    return Seen(n=-1)
"""


def same_world(made: type[TestWorld]):
    """A world whose cells all ask the same thing, and how to look at what each has seen."""
    world = made(built(SAME), twice=False)
    app = names_of(world)

    def seen(key: int) -> int:
        return world.cell(app.cells, key).state.n

    def check(keys: int) -> dict[int, int]:
        start, answer = (lambda n: app.Go(key=n)), (lambda n: ok(app.Got(n=n)))
        return assert_no_cross_delivery(world, app.Work, start, answer, seen=seen, keys=keys)

    return check


@pytest.mark.clause("K-37")
@pytest.mark.kit("assert_no_cross_delivery")
def test_each_cell_sees_only_its_own_answer() -> None:
    """AU-27: 1,000 cells ask the same thing; shuffled answers reach the cells that asked."""
    told = same_world(TestWorld)(1000)
    assert len(told) == 1000
    # Nearly every cell is told the number of another: its own would prove nothing.
    assert sum(key != number for key, number in told.items()) > 900


class ByPayload(TestWorld):
    """A planted router: a receipt goes to the cell that its content names."""

    def receipt(self, job, payload: bytes, status: str) -> None:
        named = canon.encode(canon.decode(payload)["n"])
        other = next((each for each in self.published if each.key == named), job)
        super().receipt(other, payload, status)


@pytest.mark.kit("assert_no_cross_delivery", finds=True)
def test_a_router_by_payload_is_found() -> None:
    """AU-27 control: the same test fails when answers are routed by what they say."""
    with pytest.raises(AssertionError, match="was told"):
        same_world(ByPayload)(50)


@pytest.mark.kit("assert_replays")
def test_a_world_of_an_imported_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AU-24: an app that was imported is built from its source, in the lane."""
    (tmp_path / "imported_hello.py").write_text(HELLO)
    monkeypatch.syspath_prepend(str(tmp_path))
    import imported_hello as app  # type: ignore[import-not-found]

    world = TestWorld(app.app)
    world.send(app.Greet(name="Ada"))
    assert world.cell(app.greeter, "Ada").state == app.Guest(visits=1)
    world.assert_replays()
