"""`tally check`: planted bugs are found by the shortest path, and told as tests (AU-28)."""

from __future__ import annotations

import importlib.util
import sys
import time
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tallystick.cli.check import run
from tallystick.errors import TallyError
from tallystick.testing import check_workflow
from tallystick.testing.search import Search
from tallystick.testing.subject import subject_of
from tallystick.testing.told import written
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.test_flows import SAGA

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PAID_ONCE = """
@app.invariant(orders)
def paid_once(cell, trace):
    paid = [each for each in trace if each.kind == "emitted" and each.name == "shop/Paid@1"]
    assert len(paid) <= 1, "paid twice"
"""
TWO = """
from tallystick import Bundle, Ctx, Effect, Record, Timer
app = Bundle("two")
class Left(Record): key: str
class Right(Record): key: str
class Both(Record): left: bool = False; right: bool = False
@app.workflow(key="key")
def both(state: Both | None, event: Left | Right, ctx: Ctx) -> Both:
    now = state or Both()
    now = now.replace(left=True) if isinstance(event, Left) else now.replace(right=True)
    if now.left and now.right:
        ctx.complete()
    return now
"""
RESTLESS = """
from tallystick import Bundle, Ctx, Record, Timer
app = Bundle("restless")
class Go(Record): key: str
class Turns(Record): even: bool = True
@app.workflow(key="key", effects=[Timer])
def turns(state: Turns | None, event: Go | Timer.Settled, ctx: Ctx) -> Turns | None:
    if state is not None and isinstance(event, Go):
        return state
    ctx.timer("1s", corr="turn")
    return Turns() if state is None else state.replace(even=not state.even)
"""


def changed(source: str, *pairs: tuple[str, str]) -> str:
    """The source with each text replaced, which must be there."""
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


REFUSE = (
    '        case Order(phase="charging"), (Charge.Denied(code=code)\n'
    "                                       | Charge.Error(retryable=False, code=code)):\n"
)
PAYS = 'ctx.complete(ref)\n            return state.replace(phase="paid")'
ASKS = "            return ask(Order(order_id=oid, cents=cents), ctx)\n"
GIVES_UP = '            if wait is None: return refuse(state, ctx, "payment.exhausted")\n'
RIGHT = "else now.replace(right=True) if isinstance(event, Right) else now"
TURN = '    ctx.timer("1s", corr="turn")\n'
RACE = """    if state is not None:
        assert event.corr == "turn"
        ctx.complete()
        return state
    ctx.timer("1s", corr="turn")
    ctx.timer("2s", corr="other")
"""
KEYED = 'key=f"charge/{o.retry.attempt}", timeout'
# law, workflow, the defect, its cure, and how many moves the shortest way has
PLANTED = {
    "a denial that nobody handles": (
        "stuck", "orders", 2, ORDER,
        changed(ORDER, (REFUSE, REFUSE.replace("Charge.Denied(code=code)\n", "(\n")
                        .replace("                                       | ", "    ")
                        .replace("((\n", "(").replace("):\n", "):\n"))),
    ),
    "an exception on a path of its own": (
        "fault", "orders", 2, ORDER,
        changed(ORDER, ("return refuse(state, ctx, code)", "return refuse(state, ctx, code[99])")),
    ),
    "retries that never end are counted wrongly": (
        "fault", "orders", 8, ORDER,
        changed(ORDER, (GIVES_UP, "")),
    ),
    "an effect without a key": (
        "doubled", "orders", 2, ORDER,
        changed(ORDER, (KEYED, "timeout"), ("case None, Placed", "case _, Placed")),
    ),
    "an end while the bank still works": (
        "left_open", "orders", 1, ORDER,
        changed(ORDER, (ASKS, "            ctx.complete()\n" + ASKS)),
    ),
    "no fence before the second payment": (
        "invariant paid_once", "orders", 3, ORDER + PAID_ONCE,
        changed(ORDER + PAID_ONCE,
                (ASKS, "            ctx.effect(Charge(token=oid, cents=1), key='again')\n" + ASKS),
                (PAYS, 'return state.replace(phase="charging")')),
    ),
    "what came too early is forgotten": (
        "stuck", "both", 1, TWO,
        changed(TWO, ("isinstance(event, Left) else", "isinstance(event, Left) and not state else"),
                ("else now.replace(right=True)", RIGHT)),
    ),
    "a timer that is set for ever": (
        "ends", "turns", 1,
        changed(RESTLESS, (TURN, f"    if state: ctx.complete()\n    else:\n    {TURN}")),
        RESTLESS,
    ),
    "a state that does not fit": (
        "fault", "orders", 2, ORDER,
        changed(ORDER, ('state.replace(phase="paid")', 'state.replace(phase="gone")')),
    ),
}  # fmt: skip


@pytest.fixture
def imported(tmp_path: Path):
    """Import source text as a module `app_under_check`, as often as wanted."""
    name = "app_under_check"

    def make(source: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)
        return module

    yield make
    sys.modules.pop(name, None)


def functions_of(text: str) -> list:
    """The test functions of a written file, against the module that is imported now."""
    scope: dict = {}
    exec(text, scope)
    return [value for name, value in scope.items() if name.startswith("test_")]


@cache
def clean(source: str, workflow: str) -> list[str]:
    """The laws that a source breaks, asked once."""
    return [example.law for example in check_workflow(source, workflow).examples]


@pytest.mark.clause("K-47", "K-48")
@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.kit("check_workflow", finds=True)
@pytest.mark.kit("assert_law")
@pytest.mark.kit("assert_law", finds=True)
def test_a_planted_bug_is_found_by_the_shortest_path(what: str, imported) -> None:
    """AU-28: the law, the length of the way, and a test that fails until the bug is mended."""
    law, workflow, length, good, bad = PLANTED[what]
    report = check_workflow(bad, workflow, depth=12 if law == "ends" else length)
    found = {example.law: example for example in report.examples}
    assert law in found, found
    assert len(found[law].moves) == length
    assert not clean(good, workflow)

    only = report._replace(examples=(found[law],))
    text = written([only], "app_under_check")
    imported(bad)
    (failing,) = functions_of(text)
    with pytest.raises(AssertionError):
        failing()
    imported(good)
    (passing,) = functions_of(text)
    passing()


@pytest.mark.clause("K-47")
@pytest.mark.kit("check_workflow")
def test_the_order_is_checked_completely() -> None:
    """AU-28: example 02 ends complete, without a violation, and looks at real histories."""
    report = check_workflow(EXAMPLES / "02-order-payment" / "app.py", "orders")
    assert report.complete
    assert not report.examples
    assert report.nodes > 200
    assert report.moves > report.nodes


def test_what_is_cut_is_said() -> None:
    """AU-28: depth and states bound the search, and a search that was cut is not complete."""
    assert check_workflow(ORDER, "orders", depth=2).cut == ("depth 2",)
    assert check_workflow(ORDER, "orders", states_max=20).cut == ("20 states",)
    assert check_workflow(HELLO, "greeter").complete


def test_an_async_workflow_is_a_tree() -> None:
    """AU-28: histories of a flow never meet; it is looked at to depth 8 and said to be cut."""
    report = check_workflow(SAGA, "flow", states_max=60)
    assert report.cut
    # A compensation that fails and is not tried again is a defect of this program.
    assert {(example.law, "Undo." in example.detail) for example in report.examples} == {
        ("fault", True)
    }


def test_any_timer_may_be_first() -> None:
    """AU-28: with `any`, timers fire in every order, so a race that time hides is seen."""
    source = changed(RESTLESS, (TURN, RACE))
    assert not check_workflow(source, "turns").examples
    (example,) = check_workflow(source, "turns", any_timer=True).examples
    assert example.law == "fault"


@pytest.mark.parametrize(
    ("source", "workflow", "code"),
    [
        (ORDER, "nothing", "ref.workflow"),
        (ORDER + "app.check(orders, events=[])\n", "orders", "check.no_start"),
        (
            ORDER
            + "app.check(orders, events=[Placed(order_id='a', cents=1),"
            + " Placed(order_id='b', cents=1)])\n",
            "orders",
            "check.two_cells",
        ),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(source: str, workflow: str, code: str) -> None:
    """AU-28: no such workflow, samples that begin nothing, samples of two cells."""
    with pytest.raises(TallyError) as caught:
        check_workflow(source, workflow)
    assert caught.value.code == code


def test_the_command_writes_tests_and_ends_with_one(tmp_path: Path) -> None:
    """AU-28: exit 1 with a test file on a violation, 0 and nothing without."""
    path, out = tmp_path / "app.py", tmp_path / "test_found.py"
    options = {"depth": 12, "max_states": 1000, "timers": "due", "write": str(out)}
    path.write_text(ORDER)
    done = run(None, {**options, "workflow": f"{path}:orders"})
    assert (done.code, done.value["tests"], out.exists()) == (0, "", False)
    path.write_text(PLANTED["an end while the bank still works"][4])
    done = run(None, {**options, "workflow": str(path)})
    assert done.code == 1
    assert done.value["checked"][0]["violations"][0]["law"] == "left_open"
    assert "assert_law(world, orders, '', 'left_open')" in out.read_text()


def test_moves_are_fast() -> None:
    """AU-26: `bench/authoring.py` shows 3,000 moves a second; a tenth of it, in time of our own."""
    subject = subject_of(ORDER, "orders")
    began = time.process_time()
    report = Search(subject).run(12)
    assert report.moves / (time.process_time() - began) > 300
