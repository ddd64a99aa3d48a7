"""Lint in its corners: it says what is certain, and is silent where it cannot know (AU-15)."""

from __future__ import annotations

import pytest

from tallystick.modules.fingerprint import fingerprint
from tallystick.modules.lint import infer, lint, unaccepted, unread
from tallystick.modules.lint_fix import fixed
from tests.modules.mistakes import HELLO, PAYS, WAITS
from tests.modules.test_lint import BODY, codes
from tests.workflow.test_flows import CHILD, program

QUIET = {
    "fields from a table": (PAYS, "Paid(n=1)", 'Paid(**{"n": 1})'),
    "changes from a table": (HELLO, "visits=guest.visits + 1)", '**{"visits": 2})'),
    "text that is replaced": (HELLO, "name=event.name", 'name=event.name.replace("a", "b")'),
    "a request with a name": (
        PAYS,
        'ctx.effect(Charge(token=name, cents=1), key="k", timeout="30s")',
        'asked = Charge(token=name, cents=1)\n            ctx.effect(asked, key="k")',
    ),
    "an import inside": (
        HELLO,
        "    guest = state or Guest()",
        "    from decimal import Decimal as Number\n    guest = state or Guest()\n    Number(1)",
    ),
    "all names of the kit": (HELLO, "import Bundle, Ctx, Record", "import *"),
    "a read of something else": (
        HELLO,
        "    guest = state",
        "    class Book:\n        def read(self): return 1\n    Book().read()\n    guest = state",
    ),
    "a call with fewer arguments": (
        HELLO,
        "    guest = state",
        "    call = str\n    call(1)\n    guest = state",
    ),
    "a class of another decorator": (
        HELLO,
        "app =",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass At:\n    x: int\napp =",
    ),
    "words about a record": (HELLO, "    visits: int", '    """Who came."""\n    visits: int'),
    "a state of numbers": (
        HELLO.replace("return guest.replace(visits=guest.visits + 1)", "return 1").replace(
            "guest = state or Guest()", "guest = Guest(visits=state or 0)"
        ),
        "state: Guest | None, event: Greet, ctx: Ctx) -> Guest",
        "state: int | None, event: Greet, ctx: Ctx) -> int",
    ),
    "what may be repeated": (
        PAYS.replace('key="k", ', ""),
        'executor="payments"',
        'executor="payments", idempotent=True',
    ),
    "one of two requests": (
        WAITS,
        'got = await effect(Charge(token=start.name), key="k")',
        (
            'got = await (effect(Charge(token="a"), key="a") if start.name else '
            'effect(Charge(token="b"), key="b"))'
        ),
    ),
    "a loop that is left": (
        WAITS,
        "    await gather(*both)",
        "    await gather(*both)\n    while True:\n        await sleep('1s')\n        break",
    ),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_may_be_right_is_left_alone(name: str) -> None:
    """AU-15 control: nothing is said of code whose meaning the text does not tell."""
    base, good, other = QUIET[name]
    assert good in base
    assert lint({"app.py": base.replace(good, other, 1).encode()}) == []


def test_an_entity_may_wait_for_ever() -> None:
    """AU-15, TL403: only a process is expected to end; an entity that waits is in order."""
    waits = program("await receive(Note)\nreturn Out(text='')")
    assert "TL403" in codes(waits)
    assert "TL403" not in codes(waits.replace("effects=", 'lifecycle="entity", effects='))


def test_a_request_that_is_chosen_and_lost_is_found() -> None:
    """AU-15, TL401: not awaited is not awaited, also behind a choice."""
    lost = "sleep('1h') if begin else sleep('2h')\nreturn Out(text='')"
    assert "TL401" in codes(program(lost))


def test_a_record_is_no_request() -> None:
    """AU-15, TL307: what is asked for is an effect, and a record is told apart."""
    found = lint({"app.py": PAYS.replace("Charge(token=name, cents=1)", "Paid(n=1)").encode()})
    (said,) = [each for each in found if each.code == "TL307"]
    assert said.message == "Paid is a Record and no Effect"
    assert "class Paid(Effect[...]" in said.hint


def test_children_are_declared() -> None:
    """AU-15, TL203: a child that is called and not named in `children` is an error."""
    found = lint({"app.py": CHILD.replace(", children=[kid]", "").encode()})
    (said,) = [each for each in found if each.code == "TL203"]
    assert (said.message, said.hint) == ("parent calls kid undeclared", "add it: children=[kid]")


def test_only_python_is_read() -> None:
    """AU-15: other files of an artifact have no findings, ask for nothing and are no place."""
    files = {"a.txt": b"def f(:", "app.py": HELLO.encode(), "z.json": b"{}"}
    assert lint(files) == []
    assert [each.workflow for each in infer(files)] == ["greeter"]
    assert list(fingerprint(files)) == ["greeter"]
    assert fixed(files) == {}
    refused = {**files, "app.py": HELLO.replace('key="name"', 'key="nmae"').encode()}
    assert [(each.path, each.line) for each in lint(refused)] == [("app.py", 7)]


# ---- fingerprints -----------------------------------------------------------------------------


@pytest.mark.clause("K-20")
def test_other_code_is_told_until_it_is_accepted() -> None:
    """AU-17: TL501 for what changed, came or went; words and layout change nothing."""
    before = fingerprint({"app.py": PAYS.encode()})
    spoken = PAYS.replace("    match event:", '    """What it does."""\n    match event:')
    assert unaccepted({"app.py": spoken.encode()}, before) == []
    other = PAYS.replace("return Paid(n=2)", "return Paid(n=4)")
    (found,) = unaccepted({"app.py": other.encode()}, before)
    assert (found.code, found.line) == ("TL501", 13)
    assert found.message.endswith("code changed")
    came, went = unaccepted({"app.py": HELLO.encode()}, before)
    assert (came.message[:7], came.line) == ("greeter", 8)
    assert (went.message[:3], went.line) == ("run", 1)


@pytest.mark.clause("K-20")
def test_the_waits_of_a_flow_are_told_in_their_order() -> None:
    """AU-17: where a flow waits is part of what a history was written by, line by line."""
    body = 'await sleep("1m")\nnote = await receive(Note)\nreturn Out(text=str(note.n))'
    before = fingerprint({"app.py": program(body).encode()})
    assert before["flow"]["sites"] == ["sleep('1m')", "receive(Note)"]
    turned = "\n".join([body.splitlines()[i] for i in (1, 0, 2)])
    (found,) = unaccepted({"app.py": program(turned).encode()}, before)
    assert "sites" in found.message


@pytest.mark.clause("X-20")
def test_values_that_nobody_reads_any_more_are_told() -> None:
    """AU-17: TL502 for a narrower field and for a version that no upcast reads."""
    before = fingerprint({"app.py": PAYS.encode()})
    assert unread({"app.py": PAYS.encode()}, before) == []
    narrow = PAYS.replace("token: str", "token: int").replace("token=name", "token=1")
    (found,) = unread({"app.py": narrow.encode()}, before)
    assert (found.code, found.line) == ("TL502", 7)
    newer = PAYS.replace("class Go(Record)", "class Go(Record, version=2)")
    (lost,) = unread({"app.py": newer.encode()}, before)
    assert lost.message == "nothing reads demo/Go@1 any more"
    upcast = (
        'class Old(Record, name="demo/Go@1"):\n    name: str\n'
        "@app.upcast(Old, Go)\ndef newer(old: Old) -> Go:\n    return Go(name=old.name)\n"
    )
    assert unread({"app.py": (newer + upcast).encode()}, before) == []


# ---- what lint puts right ---------------------------------------------------------------------

ASKING = BODY.replace("ctx.complete()", "ctx.timer('1h')\n            ctx.read(flow, 'a')")
DECORATED = '@app.workflow(key="key", effects=[Work])'
IMPORTS = "Read, Record, Timer"
FIXES = {
    "a list is made longer": (DECORATED, "effects=[Work, Timer], reads=[flow])"),
    "an empty list is filled": (
        DECORATED.replace("[Work]", "[]"),
        "effects=[Timer, Work], reads=[flow])",
    ),
    "options without a list": ('@app.workflow(key="key")', 'key="key", effects=[Timer, Work], re'),
    "no options": ("@app.workflow()", "@app.workflow(effects=[Timer, Work], reads=[flow])"),
    "no brackets": ("@app.workflow", "@app.workflow(effects=[Timer, Work], reads=[flow])"),
    "a tuple is somebody's idea": (
        DECORATED.replace("[Work]", "(Work,)"),
        "effects=(Work,), reads=[flow])",
    ),
    "nothing is missing": (
        '@app.workflow(key="key", effects=[Work, Timer], reads=[flow])',
        None,
    ),
}


@pytest.mark.clause("K-05")
@pytest.mark.parametrize("name", FIXES)
def test_what_is_asked_for_is_declared(name: str) -> None:
    """AU-15: `--fix` adds what lacks wherever there is a place for it, and nothing else."""
    before, after = FIXES[name]
    source = ASKING.replace(DECORATED, before)
    made = fixed({"app.py": source.encode()})
    if after is None:
        assert made == {}
        return
    text = made["app.py"].decode()
    assert after in text
    assert text.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (IMPORTS, IMPORTS),
        ("Read, Record", "Read, Record, Timer"),
        ("*", "import *\n"),
    ],
)
def test_a_name_of_the_kit_is_imported_once(line: str, after: str) -> None:
    """AU-15: `--fix` imports what it declares, unless it is there by name or by a star."""
    head = "from tallystick import Bundle, Ctx, Effect, Human, Http, "
    whole = f"from tallystick import {line}" if line == "*" else head + line
    source = ASKING.replace(head + IMPORTS, whole)
    text = fixed({"app.py": source.encode()})["app.py"].decode()
    assert text.splitlines()[1] == (whole if after != "Read, Record, Timer" else head + after)


def test_files_that_do_not_parse_stay() -> None:
    """AU-15: and so do those that bring the kit in no way that can be added to."""
    source = ASKING.replace("from tallystick import", "from .kit import")
    made = fixed({"app.py": source.encode(), "bad.py": b"def f(:"})
    assert list(made) == ["app.py"]
    assert made["app.py"].decode().splitlines()[1] == source.splitlines()[1]
