"""Every corner of the loop of async workflows (AU-07 to AU-12)."""

from __future__ import annotations

import pytest

from tallystick.model.records import ReceiptSettled, Ticked, WorkflowFaulted
from tallystick.testing.answers import error, ok
from tallystick.workflow.bundle import spec_of
from tallystick.workflow.outside import Spawn
from tallystick.workflow.shape import shape_of
from tests.workflow.names import loaded, names_of
from tests.workflow.test_flows import CHILD, HEAD, program, result

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


def test_what_is_only_known_at_run_time_is_no_event_of_the_definition() -> None:
    """K-03: the events of a flow are the classes that its text names; a function is none."""
    body = "kind = pick()\nawait receive(pick())\nreturn Out(text='no')"
    source = program(body).replace("@app.workflow", "def pick():\n    return Note\n@app.workflow")
    _, app = loaded(source)
    assert list(shape_of(spec_of(app.flow)).arms) == ["Go"]


def test_what_a_flow_counts_is_added_up() -> None:
    """K-28: counts of all items of one tick are one metric."""
    body = """\
ctx.count("seen")
note = await receive(Note)
ctx.count("seen", note.n)
ctx.count("seen")
return Out(text='')"""
    world, app = loaded(program(body))
    world.send(app.Go(key="a")).send(app.Note(key="a", n=5))
    assert [ticked.metrics for ticked in world.records(Ticked)] == [{"seen": 1}, {"seen": 6}]
    world.assert_replays()


STRAY = (
    HEAD.replace("Bundle,", "Bundle, On,", 1)
    + """
@app.workflow(on=[On(Go, key="key"), On(Note, key="key")])
async def flow(ctx: Flow, begin: Go) -> Out:
    await receive(Note)
    return Out(text="")
"""
)


def test_only_its_start_starts_a_flow() -> None:
    """AU-08: an event that is only received makes no flow, even where it makes a cell: a fault."""
    world, app = loaded(STRAY)
    world.send(app.Note(key="a", n=1))
    (fault,) = world.records(WorkflowFaulted)
    assert (fault.code, fault.message) == ("exception", "Note does not start t/flow@1")


def test_a_checkpoint_begins_from_a_start() -> None:
    """AU-08: a value that does not start the flow is no checkpoint: a fault that says so."""
    world, app = loaded(program("await checkpoint(Out(text='x'))"))
    world.send(app.Go(key="a"))
    (fault,) = world.records(WorkflowFaulted)
    assert "a checkpoint from Out, which does not start t/flow@1" in fault.message


def test_a_large_event_stands_beside_the_state() -> None:
    """AU-08: the history names a value of many bytes by hash, and a rebuild reads it back."""
    body = "told = await receive(Told)\nlast = await receive(Note)\nreturn Out(text=told.text[:3])"
    world, app = loaded(program(body))
    world.send(app.Go(key="a")).send(app.Told(key="a", text="abc" * 1000))
    (_, item) = world.cell(app.flow, "a").state["log"]
    assert (item["value"], item["ref"][:7]) == (b"", "sha256:")
    world.crash().send(app.Note(key="a", n=1))
    assert result(world, app) == ("completed", {"text": "abc"})
    world.assert_replays()


def test_progress_that_nobody_awaits_changes_nothing() -> None:
    """K-27: a flow that names the progress of its work is told of it; it settles nothing."""
    source = program("return Out(text=str((await effect(Work(n=1))).n))")
    world, app = loaded(source.replace("begin: Go", "begin: Go | Work.Progress"))
    world.send(app.Go(key="a"))
    before = world.cell(app.flow, "a").state
    world.progress(app.Work, 1, "note", {"part": 1})
    assert world.cell(app.flow, "a").state == before
    world.settle(app.Work, ok(app.Got(n=7)))
    assert result(world, app) == ("completed", {"text": "7"})
    world.assert_replays()


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


LARGE = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): key: str
class Text(Record): text: str
class Fetch(Effect[Text], executor="fetch"): n: int
class Held(Record): size: int = 0
@app.workflow(key="key", effects=[Fetch])
def flow(state: Held | None, event: Go | Fetch.Settled, ctx: Ctx) -> Held:
    match event:
        case Fetch.Ok(value=Text(text=text)):
            return Held(size=len(text))
        case Go():
            ctx.effect(Fetch(n=1), key="k")
    return Held()
"""


@pytest.mark.clause("K-16")
def test_a_large_receipt_is_read_from_the_store() -> None:
    """03 section 6: a payload over the inline size stands by hash, and the code sees it whole."""
    world, app = loaded(LARGE)
    world.send(app.Go(key="a")).settle(app.Fetch, ok(app.Text(text="x" * 100_000)))
    assert world.cell(app.flow, "a").state == app.Held(size=100_000)
    (settled,) = world.records(ReceiptSettled)
    assert settled.payload is None
    world.assert_replays()


VERSIONED = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Go(Record): key: str
class Held(Record): n: int = 1
@app.workflow(key="key", lifecycle="entity")
def flow(state: Held | None, event: Go, ctx: Ctx) -> Held:
    return state or Held()
"""
NEWER = (
    VERSIONED.replace("class Held(Record): n: int = 1", "class Held(Record, version=3): c: int = 1")
    .replace("class Go", "class One(Record): n: int\nclass Two(Record): b: int\nclass Go")
    .replace('"entity")', '"entity", state_version=3)')
    + """
@app.migrate(flow, 1, 2)
def first(old: One) -> Two:
    return Two(b=old.n * 10)
@app.migrate(flow, 2, 3)
def second(old: Two) -> Held:
    return Held(c=old.b + 1)
"""
)


@pytest.mark.clause("X-21")
def test_a_state_goes_through_every_migration() -> None:
    """X-21: from the first version to the third by way of the second, which no workflow has."""
    world, app = loaded(VERSIONED)
    world.send(app.Go(key="a"))
    world.apply(NEWER)
    world.send(app.Go(key="a"))
    newer = names_of(world)
    assert world.cell(newer.flow, "a").state == newer.Held(c=11)
    world.assert_replays()


ACCEPTS = VERSIONED.replace(
    "class Held(Record): n: int = 1", "class Held(Record, version=2): c: int = 7"
).replace('"entity")', '"entity", state_version=2, accepts=(1,))')


@pytest.mark.clause("X-21")
def test_an_older_state_is_read_by_who_accepts_it() -> None:
    """X-21: it comes as it was written, and what it lacks has its default."""
    world, app = loaded(VERSIONED)
    world.send(app.Go(key="a"))
    world.apply(ACCEPTS)
    world.send(app.Go(key="a"))
    newer = names_of(world)
    assert world.cell(newer.flow, "a").state == newer.Held(c=7)
    world.assert_replays()
