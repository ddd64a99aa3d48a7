"""Upgrades of async workflows: the history in the state is the proof."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tallystick.governance.planning import chosen
from tallystick.governance.prove import Prover, Verdict
from tallystick.kernel.inputs import Activate
from tallystick.kernel.quiescence import live_cells
from tallystick.model.records import CellUnpinned, WorkflowFaulted
from tallystick.testing.answers import ok
from tallystick.testing.sources import built
from tallystick.testing.world import TestWorld
from tallystick.values import canon
from tests.workflow.names import loaded, names_of
from tests.workflow.test_flows import METER, program

# AU-11 says a thousand; the suite parks fewer.
PARKED = int(os.environ.get("TALLY_PARKED", "60"))

BASE = """\
got = (await effect(Work(n=1))).n
note = await receive(Note)
return Out(text=f"{got} {note.n}")"""


def verdicts(world: TestWorld, source: str) -> list[Verdict]:
    """The verdicts on every open cell."""
    bundle = built(source).bundle
    live = world.driver.world
    for digest, data in bundle.blobs().items():
        world.driver.blobs.put(digest, data)
    prover = Prover(live.catalogue(bundle.manifest_digest), world.runner.rebuilt)
    found = [prover.at_rest(live, cell) for cell in live_cells(live)]
    assert None not in found, "a flow needs no journal"
    return [each for each in found if each is not None]


def applied(world: TestWorld, source: str, on: dict[str, str] | None = None) -> Any:
    """Activate a source by proof; the names of the new app."""
    plan = chosen(verdicts(world, source), on).plan
    made = built(source)
    now = world.driver.world.manifest
    ids = (made.bundle.root_digest, made.bundle.manifest_digest, now)
    given = Activate(world.clock.sample(), *ids, made.bundle.blobs(), "tester", plan)
    assert world.do(given).kind == "activated"
    world.app, world.bundle = made.app, made.bundle
    world.run()
    return names_of(world)


def parked(count: int) -> tuple[TestWorld, Any]:
    """Cells that wait for a note, with one effect behind them."""
    world, app = loaded(program(BASE), twice=False)
    for n in range(count):
        world.send(app.Go(key=f"c{n}"))
    for n in range(count):
        world.settle(app.Work, ok(app.Got(n=n)), key=f"c{n}")
    return world, app


@pytest.mark.clause("X-21")
def test_edits_before_and_after_the_parked_point() -> None:
    """AU-11: an edit after the parked point is identical, one before it diverges at its item.

    The verdict says what both versions ask for.
    """
    world, _ = parked(PARKED)
    after = verdicts(world, program(BASE.replace('f"{got} {note.n}"', 'f"new {got} {note.n}"')))
    assert len(after) == PARKED
    assert {(v.verdict, v.ok, v.ticks) for v in after} == {("identical", True, 2)}

    before = verdicts(world, program(BASE.replace("Work(n=1)", "Work(n=2)")))
    assert {(v.verdict, v.ok) for v in before} == {("diverges", False)}
    detail = before[0].detail
    assert detail is not None
    assert (detail["item"], detail["field"]) == (0, "effects")
    assert detail["live"] == ["t/Work@1 {'n': 1}"]
    assert detail["shadow"] == ["t/Work@1 {'n': 2}"]

    between = BASE.replace("note = await", "await effect(Undo(n=9))\nnote = await")
    found = verdicts(world, program(between))
    assert {v.detail["item"] for v in found if v.detail is not None} == {1}
    assert found[0].detail is not None
    assert (found[0].detail["live"], found[0].detail["shadow"]) == ([], ["t/Undo@1 {'n': 9}"])


@pytest.mark.clause("X-21")
def test_proved_flows_go_on_with_new_code() -> None:
    """AU-11: cells whose history the new code gives again end with its answer."""
    world, _ = parked(5)
    app = applied(world, program(BASE.replace('f"{got} {note.n}"', 'f"new {got} {note.n}"')))
    for n in range(5):
        world.send(app.Note(key=f"c{n}", n=7))
    results = {n: world.cells()["t/flow@1", world.ident(app.flow, f"c{n}").key] for n in range(5)}
    assert [status for _, status in results.values()] == ["completed"] * 5
    assert b"new 3 7" in results[3][0][0]
    assert world.records(WorkflowFaulted) == []
    world.assert_replays()


@pytest.mark.clause("X-21")
def test_pinned_flows_end_on_old_code() -> None:
    """AU-11, AG-24: a diverging flow that is pinned finishes as it began."""
    world, _ = parked(3)
    source = program(BASE.replace("Work(n=1)", "Work(n=2)").replace('f"{got}', 'f"new {got}'))
    app = applied(world, source, {"diverges": "pin"})
    world.send(app.Go(key="fresh"))
    world.settle(app.Work, ok(app.Got(n=1)), key="fresh")
    for key in ("c0", "c1", "c2", "fresh"):
        world.send(app.Note(key=key, n=7))
    ends = {
        key: world.cells()["t/flow@1", world.ident(app.flow, key).key] for key in ("c1", "fresh")
    }
    assert b"new" not in ends["c1"][0][0]
    assert b"new 1 7" in ends["fresh"][0][0]
    assert world.driver.world.pinned == 0
    world.assert_replays()


@pytest.mark.clause("X-21")
def test_a_pin_is_left_at_the_checkpoint() -> None:
    """AU-11: a pinned flow starts anew on the code of today, with what nobody had read."""
    world, app = loaded(METER.replace("{every}", "3"))
    world.send(app.Go(key="a"))
    world.send(app.Note(key="a", n=1))
    newer = METER.replace("{every}", "2").replace("total += (", "total += 10 * (")
    assert {v.verdict for v in verdicts(world, newer)} == {"identical"}
    odd = newer.replace("    for _", "    ctx.emit(Told(key=ctx.key, text='x'))\n    for _")
    assert {v.verdict for v in verdicts(world, odd)} == {"diverges"}
    app = applied(world, odd, {"diverges": "pin"})
    ident = world.ident(app.flow, "a")
    assert world.driver.world.cell(ident).pin is not None
    world.send(app.Note(key="a", n=1))
    assert world.records(CellUnpinned) == []
    world.send(app.Note(key="a", n=1))
    (left,) = world.records(CellUnpinned)
    assert left.reason == "checkpoint"
    assert world.driver.world.cell(ident).pin is None
    # Three ones under the old code; the next two count tenfold.
    assert len(world.events(app.Told)) == 1
    world.send(app.Note(key="a", n=1))
    world.send(app.Note(key="a", n=1))
    state = canon.decode(world.driver.world.state_of(world.driver.world.cell(ident)))  # type: ignore[arg-type]
    assert canon.decode(state["start"])["$value"]["total"] == 23
    assert len(world.events(app.Told)) == 2
    world.assert_replays()


@pytest.mark.clause("X-20", "X-21")
def test_what_waits_as_a_pin_is_left_is_read_by_the_new_code() -> None:
    """06 section 9: sent to a pinned flow in its own version, and upcast where that has gone on."""
    world, app = loaded(METER.replace("{every}", "2"))
    world.send(app.Go(key="a"))
    newer = METER.replace("{every}", "3").replace(
        "    for _", "    ctx.emit(Told(key=ctx.key, text='x'))\n    for _"
    )
    upcast = (
        "class Weighed(Record): key: str; grams: int\n"
        "@app.upcast(Note, Weighed)\n"
        "def heavier(old: Note) -> Weighed:\n"
        "    return Weighed(key=old.key, grams=old.n * 1000)\n"
    )
    newer = newer.replace("class Got(", upcast + "class Got(")
    newer = newer.replace("receive(Note)).n", "receive(Weighed)).grams")
    app = applied(world, newer, {"diverges": "pin"})
    ident = world.ident(app.flow, "a")
    assert world.driver.world.cell(ident).pin is not None
    for n in (1, 2, 3, 4, 5):
        world.do(world.submit_of(app.Note(key="a", n=n)))
    world.run()
    (left,) = world.records(CellUnpinned)
    assert left.reason == "checkpoint"
    assert world.records(WorkflowFaulted) == []
    state = world.cell(app.flow, "a").state
    assert canon.decode(state["start"])["$value"]["total"] == 1 + 2 + 3000 + 4000 + 5000
    world.assert_replays()
