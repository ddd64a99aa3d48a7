"""Every corner of the loop of async workflows (AU-07 to AU-12)."""

from __future__ import annotations

import pytest

from tallystick.model.records import WorkflowFaulted
from tallystick.testing.answers import error, ok
from tallystick.workflow.outside import Spawn
from tests.workflow.names import loaded
from tests.workflow.test_flows import CHILD, program, result

# What a flow does, and what it is completed with after its work failed and an hour has passed.
FAILING = {
    "joined after it failed": (
        """\
t = await start(effect(Work(n=1)))
await sleep("1m")
try:
    await t
except EffectFailed:
    return Out(text="late")""",
        ("completed", {"text": "late"}),
    ),
    "fails before its child": (
        """\
await start(sleep("1d"))
try:
    await effect(Work(n=1))
except EffectFailed:
    raise Fail("early")
return Out(text="no")""",
        ("failed", "early"),
    ),
    "first is a failure": (
        """\
try:
    await wait_first(effect(Work(n=1)), sleep("1d"))
except EffectFailed:
    return Out(text="first")""",
        ("completed", {"text": "first"}),
    ),
    "a task is gathered": (
        """\
t = await start(sleep("1m"))
try:
    await gather(t, effect(Work(n=1)))
except EffectFailed:
    return Out(text="gathered")""",
        ("completed", {"text": "gathered"}),
    ),
}


@pytest.mark.clause("X-16")
@pytest.mark.parametrize("name", FAILING)
def test_a_failure_is_heard_where_it_is_awaited(name: str) -> None:
    """AU-09: joined late, gathered, first or alone; what is left behind is cancelled."""
    body, ended = FAILING[name]
    world, app = loaded(program(body))
    world.send(app.Go(key="a")).settle(app.Work, error("down"))
    world.advance("1h")
    assert result(world, app) == ended
    assert world.cell(app.flow, "a").status == ended[0]
    world.assert_replays()


def test_nothing_fails_and_all_are_waited_for() -> None:
    """AU-09: `fail_fast` without a failure gives every result in order."""
    body = """\
found = await gather(effect(Work(n=1)), effect(Work(n=2)), fail_fast=True)
return Out(text=" ".join([str(each.n) for each in found]))"""
    world, app = loaded(program(body))
    world.send(app.Go(key="a"))
    for n, job in enumerate(world.open(app.Work)):
        ok(app.Got(n=n)).settle(world, job)
        world.run()
    assert result(world, app) == ("completed", {"text": "0 1"})
    world.assert_replays()


def test_an_unread_event_that_does_not_fit_is_passed_over() -> None:
    """AU-08: of two unread events the second one fits; the first stays unread."""
    body = """\
await sleep("1m")
two = await receive(Note, lambda note: note.n == 2)
one = await receive(Note)
return Out(text=f"{two.n} {one.n}")"""
    world, app = loaded(program(body))
    world.send(app.Go(key="a")).send(app.Note(key="a", n=1)).send(app.Note(key="a", n=2))
    world.advance("2m")
    assert result(world, app) == ("completed", {"text": "2 1"})
    world.assert_replays()


def test_only_what_can_be_awaited_is_started() -> None:
    """AU-12: a number is no task: a fault with its code, and the cell is suspended."""
    world, app = loaded(program("await gather(1)\nreturn Out(text='no')"))
    world.send(app.Go(key="a"))
    (fault,) = world.records(WorkflowFaulted)
    assert (fault.code, fault.action) == ("foreign_await", "suspended")
    assert "int cannot be awaited" in fault.message


GATHERED = 'found = await gather(*[call(kid, f"k{n}", Note(key=f"k{n}", n=n)) for n in (1, 2, 3)])'
CALLED = CHILD.replace(
    GATHERED,
    """try:
        await call(kid, "bad", Note(key="bad", n=-1))
    except EffectFailed as why:
        return Out(text=f"called {why}")
    found = []""",
)
SPAWNED = CHILD.replace(
    GATHERED,
    """try:
        await spawn(kid, "k", Note(key="k", n=1))
    except EffectFailed as why:
        return Out(text=f"spawned {why}")
    found = []""",
)


@pytest.mark.clause("X-17", "X-18")
def test_a_child_that_fails_raises_where_it_was_called() -> None:
    """AU-09: the failure of a child, and a child that may not be, are errors to catch."""
    world, app = loaded(CALLED)
    world.send(app.Go(key="a"))
    assert "called" in str(result(world, app))
    world.assert_replays()
    world, app = loaded(SPAWNED, denied=[Spawn])
    world.send(app.Go(key="a"))
    assert "spawned" in str(result(world, app))
    world.assert_replays()
