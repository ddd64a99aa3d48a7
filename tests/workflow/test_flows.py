"""Async workflows: state is what was consumed, and the loop adds nothing (AU-07 to AU-11)."""

# tidy: programs and the tables that judge them.
from __future__ import annotations

from itertools import permutations

import pytest

from tallystick.model.records import IntentOpened, Ticked, WorkflowFaulted
from tallystick.testing.answers import error, ok, timeout
from tallystick.values import canon
from tests.workflow.names import loaded

HEAD = """
from tallystick import (Backoff, Bundle, Cancelled, Effect, EffectFailed, Fail, Flow, FlowTimeout,
    Record, Timer, call, checkpoint, effect, gather, outcome, receive, sleep, spawn, start, timeout,
    wait_first)
app = Bundle("t")
class Go(Record): key: str
class Note(Record): key: str; n: int
class Got(Record): n: int
class Out(Record): text: str
class Told(Record): key: str; text: str
class Work(Effect[Got], executor="work"): n: int
class Undo(Effect[Got], executor="undo"): n: int
"""

FLOW = (
    HEAD
    + """
@app.workflow(key="key", effects=[Work, Undo])
async def flow(ctx: Flow, begin: Go) -> Out:
{body}
"""
)


def program(body: str) -> str:
    return FLOW.replace("{body}", "\n".join("    " + line for line in body.splitlines()))


def result(world, app) -> tuple[str, object]:
    """The status of the cell and what it was completed or failed with."""
    last = world.records(Ticked)[-1]
    if last.status == "failed":
        return "failed", last.reason["code"]
    return last.status, None if last.result is None else canon.decode(last.result)


SAGA = program("""\
done = []
async def act(n: int) -> int:
    found = (await effect(Work(n=n), timeout="1m")).n
    done.append(found)
    return found
try:
    one, two = await gather(act(1), act(2))
    async with timeout("2d"):
        note = await receive(Note)
    return Out(text=f"{one} {two} {note.n}")
except (EffectFailed, FlowTimeout, Cancelled) as why:
    for n in reversed(done):
        await effect(Undo(n=n), retry=Backoff(attempts=3))
    raise Fail("undone", str(why))""")


def settle_work(world, app, n: int) -> None:
    """Answer the open request whose parameter is n."""
    for job in world.open(app.Work):
        if canon.decode(job.params)["n"] == n:
            ok(app.Got(n=n)).settle(world, job)
            world.run()
            return
    raise AssertionError(f"no work {n} is open")


@pytest.mark.clause("X-18")
def test_a_saga_completes() -> None:
    """AU-09: answers in any order; the event that was awaited ends it."""
    world, app = loaded(SAGA)
    world.send(app.Go(key="a"))
    settle_work(world, app, 2)
    settle_work(world, app, 1)
    world.send(app.Note(key="a", n=7))
    assert result(world, app) == ("completed", {"text": "1 2 7"})
    world.assert_replays()


def test_a_saga_compensates_in_reverse_after_a_timeout() -> None:
    """AU-09: the limit passes, what was done is undone in reverse, with a retry."""
    world, app = loaded(SAGA)
    world.send(app.Go(key="a"))
    settle_work(world, app, 1)
    settle_work(world, app, 2)
    world.advance("3d")
    world.settle(app.Undo, error("down", retryable=True)).advance("2s")
    world.settle(app.Undo, ok(app.Got(n=2))).settle(app.Undo, ok(app.Got(n=1)))
    assert [params.n for params in world.params(app.Undo)] == [2, 2, 1]
    assert result(world, app) == ("failed", "undone")
    world.assert_replays()


def test_a_crash_in_the_middle_changes_nothing() -> None:
    """AU-07: thrown away and opened again between all deliveries, the flow ends the same."""
    world, app = loaded(SAGA)
    world.send(app.Go(key="a")).crash()
    settle_work(world, app, 1)
    world.crash()
    settle_work(world, app, 2)
    world.crash().send(app.Note(key="a", n=7))
    assert result(world, app) == ("completed", {"text": "1 2 7"})
    world.assert_replays()


ORDERS = {
    "gather": ("return Out(text=str(await gather(w(1), w(2), w(3), w(4))))", "[1, 2, 3, 4]"),
    "first": ("return Out(text=str(await wait_first(w(1), w(2), w(3), w(4))))", None),
    "nested": (
        """a, b = await gather(wait_first(w(1), w(2)), gather(w(3), w(4)))
return Out(text=f'{a} {b}')""",
        None,
    ),
    "timeout": (
        """async with timeout('1h'):
    found = await gather(w(1), w(2), w(3), w(4))
return Out(text=str(found))""",
        "[1, 2, 3, 4]",
    ),
    "tasks": (
        """tasks = [await start(w(n)) for n in (1, 2, 3, 4)]
seen = []
for task in reversed(tasks): seen.append(await task)
return Out(text=str(seen))""",
        "[4, 3, 2, 1]",
    ),
}


@pytest.mark.clause("X-02", "X-18")
@pytest.mark.parametrize("name", ORDERS)
def test_consumption_order_decides(name: str) -> None:
    """AU-09: under all 24 orders of 4 receipts; the result depends on the order of consumption."""
    body, expected = ORDERS[name]
    before = "async def w(n):\n    return (await effect(Work(n=n))).n\n"
    source = program(before + body)
    for order in permutations((1, 2, 3, 4)):
        world, app = loaded(source)
        world.send(app.Go(key="a"))
        for n in order:
            if world.cell(app.flow, "a").status != "completed":
                try_settle(world, app, n)
        status, value = result(world, app)
        assert status == "completed"
        if expected is not None:
            assert value == {"text": expected}
        elif name == "first":
            assert value == {"text": f"({order[0] - 1}, {order[0]})"}
        else:
            first = next(n for n in order if n in (1, 2))
            assert value == {"text": f"({first - 1}, {first}) [3, 4]"}


MIXED = program("""\
seen = []
async def w(n: int) -> None:
    seen.append(f"w{(await effect(Work(n=n))).n}")
async def r(n: int) -> None:
    seen.append(f"n{(await receive(Note, where=lambda note: note.n == n)).n}")
try:
    async with timeout('1h'):
        await gather(w(1), w(2), r(1), r(2))
except FlowTimeout:
    seen.append("late")
return Out(text=' '.join(seen))""")


@pytest.mark.clause("X-02", "X-18")
@pytest.mark.parametrize("limit", [None, 1, 2, 3])
def test_events_receipts_and_limits_in_every_order(limit: int | None) -> None:
    """AU-09: two events and two receipts in all 24 orders are consumed in that order.

    With a limit that passes after some of them the rest is late, and nothing stays open.
    """
    for order in permutations(("n1", "n2", "w1", "w2")):
        world, app = loaded(MIXED)
        world.send(app.Go(key="a"))
        for step in order[:limit]:
            if step[0] == "n":
                world.send(app.Note(key="a", n=int(step[1])))
            else:
                settle_work(world, app, int(step[1]))
        if limit is not None:
            world.advance("2h")
        late = ["late"] if limit is not None else []
        assert result(world, app) == ("completed", {"text": " ".join([*order[:limit], *late])})
        assert world.open(app.Work) == []


def try_settle(world, app, n: int) -> None:
    """Answer request n if it is still open; one that lost a race has been cancelled."""
    try:
        settle_work(world, app, n)
    except AssertionError:
        assert n not in [1, 2, 3, 4] or len(world.open(app.Work)) < 4


def test_gather_waits_for_all_and_raises_the_first_failure() -> None:
    """AU-09: a failure abandons nothing; with `fail_fast` the others are cancelled."""
    for fast, left in ((False, 1), (True, 0)):
        world, app = loaded(
            program(
                f"await gather(effect(Work(n=1)), effect(Work(n=2)), fail_fast={fast})\n"
                "return Out(text='no')"
            )
            .replace("    await gather", "    try:\n        await gather")
            .replace(
                "    return Out(text='no')",
                "    except EffectFailed as why:\n        raise Fail(why.code)\n"
                "    return Out(text='no')",
            )
        )
        world.send(app.Go(key="a"))
        world.settle(app.Work, error("first.bad"))
        assert len(world.open(app.Work)) == left
        if left:
            world.settle(app.Work, ok(app.Got(n=2)))
        assert result(world, app) == ("failed", "first.bad")
        world.assert_replays()


def test_outcomes_can_be_matched_instead() -> None:
    """AU-09: `outcome` gives the object; a timeout is `Work.Timeout`."""
    world, app = loaded(
        program(
            "match await outcome(Work(n=1), timeout='5s', key='k'):\n"
            "    case Work.Timeout(code=code): return Out(text='late')\n"
            "    case Work.Ok(value=Got(n=n)): return Out(text=str(n))\n"
            "return Out(text='else')"
        )
    )
    world.send(app.Go(key="a")).settle(app.Work, timeout())
    assert result(world, app) == ("completed", {"text": "late"})
    world.assert_replays()


def test_unread_events_wait_and_a_limit_bounds_them() -> None:
    """AU-09: events are kept in order until they are received; over `inbox_max` the tick faults."""
    body = "await sleep('1h')\nfound = [(await receive(Note)).n for _ in range(3)]\n"
    world, app = loaded(program(body + "return Out(text=str(found))"))
    world.send(app.Go(key="a"))
    for n in (3, 1, 2):
        world.send(app.Note(key="a", n=n))
    world.advance("2h")
    assert result(world, app) == ("completed", {"text": "[3, 1, 2]"})
    world.assert_replays()
    small = program(body + "return Out(text='')").replace(
        "effects=", "limits={'inbox_max': 2}, effects="
    )
    world, app = loaded(small)
    world.send(app.Go(key="a"))
    for n in (3, 1, 2):
        world.send(app.Note(key="a", n=n))
    assert [fault.code for fault in world.records(WorkflowFaulted)] == ["inbox_max"]


def test_receive_where_takes_what_fits() -> None:
    """AU-09: a condition passes over other events, which stay unread."""
    world, app = loaded(
        program(
            "two = await receive(Note, where=lambda note: note.n == 2)\n"
            "one = await receive(Note)\n"
            "return Out(text=f'{two.n} {one.n}')"
        )
    )
    world.send(app.Go(key="a")).send(app.Note(key="a", n=1)).send(app.Note(key="a", n=2))
    assert result(world, app) == ("completed", {"text": "2 1"})
    world.assert_replays()


CHILD = (
    HEAD
    + """
@app.workflow(key="key", effects=[Work])
async def kid(ctx: Flow, begin: Note) -> Out:
    if begin.n < 0:
        raise Fail("negative")
    return Out(text=str((await effect(Work(n=begin.n))).n))

@app.workflow(key="key", children=[kid])
async def parent(ctx: Flow, begin: Go) -> Out:
    found = await gather(*[call(kid, f"k{n}", Note(key=f"k{n}", n=n)) for n in (1, 2, 3)])
    await spawn(kid, "bad", Note(key="bad", n=-1))
    return Out(text=" ".join([each["text"] for each in found]))
"""
)


@pytest.mark.clause("X-17", "X-18")
def test_children_are_called_and_joined() -> None:
    """AU-09: three child cells answer out of order; results come in the order of the calls."""
    world, app = loaded(CHILD)
    world.send(app.Go(key="a"))
    for job in reversed(world.open(app.Work)):
        ok(app.Got(n=int(job.key[-1:]))).settle(world, job)
        world.run()
    ended = [r for r in world.records(Ticked) if r.workflow == "t/parent@1" and r.result]
    assert canon.decode(ended[0].result) == {"text": "1 2 3"}
    assert world.cell(app.kid, "bad").status == "failed"
    world.assert_replays()


CANCELS = {
    "sleeping": ("await sleep('1h')\nreturn Out(text='no')", 0),
    "in an effect": ("await effect(Work(n=1))\nreturn Out(text='no')", 0),
    "in back-off": ("await effect(Work(n=1), retry=Backoff())\nreturn Out(text='no')", 1),
    "in tasks": ("await gather(effect(Work(n=1)), sleep('1h'))\nreturn Out(text='no')", 0),
}


@pytest.mark.clause("X-26")
@pytest.mark.parametrize("name", CANCELS)
def test_cancel_reaches_wherever_it_waits(name: str) -> None:
    """AU-10: sleeping, waiting, backing off, in child tasks; nothing stays open."""
    body, failures = CANCELS[name]
    world, app = loaded(program(body))
    world.send(app.Go(key="a"))
    for _ in range(failures):
        world.settle(app.Work, error("down", retryable=True))
    world.cancel(app.flow, "a")
    assert result(world, app) == ("failed", "flow.cancelled")
    assert world.open(app.Work) == []
    world.assert_replays()


@pytest.mark.clause("X-26")
def test_cancel_while_compensating_and_twice() -> None:
    """AU-10: the flow may await while it cleans up; a second cancel does not disturb it."""
    world, app = loaded(SAGA)
    world.send(app.Go(key="a"))
    settle_work(world, app, 1)
    world.cancel(app.flow, "a").cancel(app.flow, "a")
    assert world.cell(app.flow, "a").status == "waiting"
    world.settle(app.Undo, ok(app.Got(n=1)))
    assert result(world, app) == ("failed", "undone")
    world.assert_replays()


@pytest.mark.clause("X-26")
def test_force_ends_a_flow_that_will_not_stop() -> None:
    """AU-10: `--force` runs no code of the flow."""
    body = "while True:\n    try:\n        await sleep('1h')\n    except Cancelled:\n        pass"
    world, app = loaded(program(body))
    world.send(app.Go(key="a")).cancel(app.flow, "a")
    assert world.cell(app.flow, "a").status == "waiting"
    world.cancel(app.flow, "a", force=True)
    assert world.cell(app.flow, "a").status == "failed"
    world.assert_replays()


FAULTS = {
    "foreign_await": "class Odd:\n    def __await__(self):\n        yield 1\nawait Odd()",
    "checkpoint_busy": "await start(sleep('1h'))\nawait checkpoint(begin)",
    "exception": "raise ValueError('a bug')",
    "history_max": "while True: await receive(Note)",
}


@pytest.mark.parametrize("code", FAULTS)
def test_faults_of_a_flow_keep_its_state(code: str) -> None:
    """AU-12: a bug suspends the cell with its code; state and mail are kept."""
    source = program(FAULTS[code] + "\nreturn Out(text='no')")
    world, app = loaded(source.replace("effects=", "limits={'history_max': 3}, effects="))
    world.send(app.Go(key="a"))
    for n in range(3):
        world.send(app.Note(key="a", n=n))
    (fault,) = world.records(WorkflowFaulted)
    assert (fault.code, fault.action) == (code, "suspended")
    assert world.cell(app.flow, "a").status == "suspended"
    world.assert_replays()


METER = (
    HEAD
    + """
class Sum(Record): key: str; total: int
@app.workflow(key="key")
async def flow(ctx: Flow, begin: Go | Sum) -> Out:
    total = 0 if isinstance(begin, Go) else begin.total
    for _ in range({every}):
        total += (await receive(Note)).n
    await checkpoint(Sum(key=ctx.key, total=total))
"""
)


def test_a_checkpoint_starts_anew_with_what_is_unread() -> None:
    """AU-08: same cell, same tick, empty history; events that nobody read come along."""
    world, app = loaded(METER.replace("{every}", "3"))
    world.send(app.Go(key="a"))
    for n in range(1, 11):
        world.send(app.Note(key="a", n=n))
    state = world.cell(app.flow, "a").state
    assert canon.decode(state["start"])["$value"] == {"key": "a", "total": 45}
    assert state["n"] == 2  # the start and the tenth note
    world.assert_replays()


@pytest.mark.clause("X-02")
def test_state_stays_small_and_cost_flat() -> None:
    """AU-08: after 300 items the state holds at most 64; chunks are sealed and read back."""
    world, app = loaded(METER.replace("{every}", "1000"), cache=4096)
    world.send(app.Go(key="a"))
    sizes = []
    for n in range(300):
        world.send(app.Note(key="a", n=1))
        sizes.append(world.records(Ticked)[-1].size if n % 50 == 0 else 0)
    state = world.cell(app.flow, "a").state
    assert state["n"] == 301
    assert len(state["log"]) < 64
    assert state["sealed"] is not None
    assert max(sizes) < 16_384
    world.crash().send(app.Note(key="a", n=1))
    assert world.cell(app.flow, "a").state["n"] == 302
    assert world.records(WorkflowFaulted) == []


def test_a_rebuild_on_other_code_diverges_where_it_differs() -> None:
    """AU-11: an edit after the parked point rebuilds; one before it faults with the item number."""
    source = program("await effect(Work(n=1))\nawait sleep('1h')\nreturn Out(text='a')")
    later = source.replace("text='a'", "text='b'")
    earlier = source.replace("Work(n=1)", "Work(n=2)")
    for candidate, expected in ((later, None), (earlier, "item 0")):
        world, app = loaded(source)
        world.send(app.Go(key="a")).settle(app.Work, ok(app.Got(n=1)))
        other, _ = loaded(candidate)
        found = run_on(world, other)
        assert (found is None) == (expected is None), found
        if expected is not None:
            assert found.code == "nondeterministic"
            assert expected in found.message


def run_on(world, other):
    """Deliver the due timer of one world with the code of another; the fault, if it is one."""
    from tallystick.model.abi import Halted
    from tallystick.modules.runners import Runners

    caught = []

    class Catching:
        """Runs the tick with the other world's code."""

        def tick(self, _catalogue, workflow, tick, content):
            theirs = other.driver.world.active.catalogue
            runner = Runners(other.driver.blobs, library=other.library)
            flow = theirs.workflows[workflow.name]
            caught.append(runner.tick(theirs, flow, tick, content))
            return caught[-1]

        def init(self, *_given):
            return None

    world.driver.world.runner = Catching()
    world.advance("2h")
    return caught[0] if isinstance(caught[0], Halted) else None


def test_intents_are_named_by_ordinal() -> None:
    """AU-03: the correlation of a request is its label and its number in the flow."""
    world, app = loaded(SAGA)
    world.send(app.Go(key="a"))
    assert [r.issuer_ref for r in world.records(IntentOpened)] == ["Work#1", "Work#2"]
