"""Lint: each code has a bad sample that it finds and a good one that it leaves alone (AU-15)."""

# tidy: a table of samples.
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.modules.lint import infer, lint
from tallystick.modules.lint_kinds import HELD
from tallystick.workflow.ctx import Ctx
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.test_flows import CHILD, SAGA, program

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

HEAD = """
from tallystick import Bundle, Ctx, Effect, Human, Http, Read, Record, Timer
app = Bundle("t")
class Go(Record): key: str
class Stop(Record): key: str
class Got(Record): n: int
class Work(Effect[Got], executor="work"): n: int
class State(Record): n: int
"""
BODY = (
    HEAD
    + """
@app.workflow(key="key", effects=[Work])
def flow(state: State | None, event: Go | Work.Settled, ctx: Ctx) -> State | None:
    match event:
        case Go():
            ctx.effect(Work(n=1), key="k")
        case Work.Ok():
            ctx.complete()
        case Work.Failed():
            ctx.fail("no")
    return state
"""
)


def codes(source: str) -> list[str]:
    return [finding.code for finding in lint({"app.py": source.encode()})]


CAUGHT = """try:
                ctx.complete()
            except Exception:
                return None"""
STOP = """case Work.Ok():
            ctx.complete()
        case Stop if event.key:"""
SECRET = """def ask(ctx):
    ctx.effect(Work(n=1, api_key='hunter2'), key='k')
class State"""
SWALLOWED = """try:
    await effect(Work(n=1), key='a')
except EffectFailed:
    pass
return Out(text='')"""
SAMPLES = {
    "TL101": BODY + "import os\n",
    "TL102": BODY + "X = hash('a')\n",
    "TL103": BODY + "def f():\n    return [x for x in {1, 2}]\n",
    "TL104": BODY.replace("State(Record): n: int", "State(Record): n: float"),
    "TL105": BODY + "def f():\n    global app\n",
    "TL106": BODY.replace("ctx.complete()", CAUGHT),
    "TL107": BODY.replace("ctx.complete()", "ctx.complete(); statt"),
    "TL201": BODY.replace("ctx.complete()", "ctx.timer('1h')"),
    "TL202": BODY.replace("effects=[Work]", "effects=[Work, Timer]"),
    "TL203": BODY.replace("ctx.complete()", "ctx.read(flow, 'a')"),
    "TL204": BODY.replace(
        'ctx.effect(Work(n=1), key="k")', "ctx.effect((Work(n=1), 1)[0], key='k')"
    ),
    "TL205": BODY.replace(', key="k"', ""),
    "TL206": BODY.replace('        case Work.Failed():\n            ctx.fail("no")\n', ""),
    "TL301": BODY + "SEEN = []\n",
    "TL302": BODY.replace("class State(Record): n: int", "class State(Record): n: object"),
    "TL303": BODY.replace("case Work.Ok():", STOP),
    "TL304": BODY.replace("Go | Work", "Go | Stop | Work").replace("    return state\n", ""),
    "TL305": BODY.replace(
        "ctx.complete()", "ctx.complete()\n            ctx.effect(Work(n=2), key='l')"
    ),
    "TL306": BODY.replace("Work(n=1)", "Work(m=1)"),
    "TL307": BODY.replace("Work(n=1)", "Work(n='one')"),
    "TL308": BODY.replace(" -> State | None:", ":"),
    "TL401": program("sleep('1h')\nreturn Out(text='')"),
    "TL402": program("while True:\n    await sleep('1h')"),
    "TL403": program("await receive(Note)\nreturn Out(text='')"),
    "TL404": program(SWALLOWED),
    "TL503": BODY.replace("n: int\nclass State", "n: int; api_key: str = ''\nclass State").replace(
        "class State", SECRET, 1
    ),
}


UNMATCHED = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): n: int
class Done(Record): n: int
class State(Record): n: int
class Work(Effect[Done], executor="outside"): n: int
@app.workflow(effects=[Work])
def flow(state: State | None, event: Go | Work.Settled | Work.Progress, ctx: Ctx) -> State:
    match event:
        case Go():
            ctx.effect(Work(n=1), key="k")
            return State(n=0)
        case Work.Ok() | Work.Failed():
            return State(n=1)
        case Work.Progress():
            return State(n=2)
"""


def test_an_outcome_is_matched_by_its_own_cases() -> None:
    """AU-15, TL304: outcomes of an effect are taken by their cases; one without is named."""
    assert not [f for f in lint({"app.py": UNMATCHED.encode()}) if f.code == "TL304"]
    for cut, arm in (
        ("Work.Progress", "Work.Progress"),
        ("Work.Ok() | Work.Failed", "Work.Settled"),
    ):
        text = UNMATCHED.replace(f"case {cut}()", "case State()")
        (found,) = [f for f in lint({"app.py": text.encode()}) if f.code == "TL304"]
        assert f"never matches {arm}" in found.message


@pytest.mark.clause("K-05")
@pytest.mark.parametrize("code", SAMPLES)
def test_each_code_finds_its_bad_sample(code: str) -> None:
    """AU-15: the rule speaks on its sample, with a line and a hint."""
    found = lint({"app.py": SAMPLES[code].encode()})
    assert code in [finding.code for finding in found], found
    spoken = next(finding for finding in found if finding.code == code)
    assert spoken.line > 0
    assert spoken.hint


def test_a_name_that_nothing_defines_is_told_with_the_nearest() -> None:
    """AU-15: a slip of the pen is found in its scope, before a tick meets it."""
    source = (
        BODY
        + "def total(amount: int) -> int:\n    def twice() -> int:\n        return amuont * 2\n"
    )
    found = [each for each in lint({"app.py": source.encode()}) if each.code == "TL107"]
    assert [each.message for each in found] == ["nothing defines amuont"]
    assert source.splitlines()[found[0].line - 1] == "        return amuont * 2"
    told = BODY + "def total(amount: int) -> int:\n    return amuont * 2\n"
    (near,) = [each for each in lint({"app.py": told.encode()}) if each.code == "TL107"]
    assert near.hint == "did you mean amount?"


def test_names_of_outer_scopes_comprehensions_and_cases_are_defined() -> None:
    """AU-15 control: every way to bind a name is one."""
    source = BODY + (
        "def f(pairs: list[int], *rest: int, **more: int) -> list[int]:\n"
        "    total = 0\n"
        "    def add(n: int) -> int:\n"
        "        return n + total + len(rest) + len(more)\n"
        "    match pairs:\n"
        "        case [first, *others]:\n"
        "            return [add(each) for each in others if (kept := each) and kept > first]\n"
        "    try:\n"
        "        pass\n"
        "    except ValueError as why:\n"
        "        return [len(str(why))]\n"
        "    return []\n"
    )
    assert "TL107" not in codes(source)


def test_good_samples_are_clean() -> None:
    """AU-15 control: what the samples were made from has no finding of theirs."""
    assert codes(BODY) == []
    assert codes(HELLO) == []
    assert codes(ORDER) == []


def test_a_misspelt_import_says_what_was_meant() -> None:
    """AU-15: the first slip of a newcomer is answered with the name that is closest."""
    found = lint({"app.py": HELLO.replace("import Bundle,", "import Bundel,").encode()})
    assert (found[0].code, found[0].hint) == ("TL101", "did you mean Bundle?")


def test_sagas_and_children_have_no_errors() -> None:
    """AU-15 control: nested functions, tasks and children are followed."""
    for source in (SAGA, CHILD):
        found = lint({"app.py": source.encode()})
        assert [finding for finding in found if finding.error] == []


def test_effects_of_governance_are_known_by_import() -> None:
    """AU-15: what a workflow asks of its own world is declared and seen like any effect."""
    source = (EXAMPLES / "17-self-upgrade" / "app.py").read_bytes()
    (found,) = infer({"app.py": source})
    assert set(found.effects) == {"Propose", "Shadow", "Approve", "Apply"}
    assert found.caps == ("governance",)
    undeclared = source.replace(b", Apply])", b"])")
    assert "TL201" in [each.code for each in lint({"app.py": undeclared})]


def test_a_warning_can_be_allowed_with_a_reason() -> None:
    """AU-15: the comment on the line silences that warning and no other; errors stay."""
    line = "            ctx.effect(Work(n=1))  # tally: allow TL205 the service is idempotent"
    source = BODY.replace('            ctx.effect(Work(n=1), key="k")', line)
    assert codes(source) == []
    assert codes(source.replace("TL205", "TL204")) == ["TL205"]


@pytest.mark.parametrize("folder", sorted(EXAMPLES.glob("*/app.py")), ids=lambda p: p.parent.name)
def test_examples_are_clean(folder: Path) -> None:
    """AU-15, AU-29: no example has a finding."""
    assert lint({"app.py": folder.read_bytes()}) == []


@pytest.mark.clause("K-05")
def test_inference_names_what_code_asks_for() -> None:
    """AU-16: effects, reads and children of a workflow are read from its reach."""
    (orders,) = infer({"app.py": ORDER.encode()})
    assert orders.effects == ("Charge", "Timer")
    kid, parent = infer({"app.py": CHILD.encode()})
    assert kid.effects == ("Work",)
    assert parent.children == ("kid",)
    (saga,) = infer({"app.py": SAGA.encode()})
    assert {"Work", "Undo"} <= set(saga.effects)


@pytest.mark.pure_only
def test_lint_knows_what_a_context_holds() -> None:
    """TL306: the attributes that a context gets when it is made are those that lint allows."""
    anything: Any = None
    assert vars(Ctx(anything, anything, None)).keys() == HELD
