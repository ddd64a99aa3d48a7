"""House style as a test: the project keeps its rules, and each rule refuses a planted breach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import tidy
from tests.tidy import Finding, Source
from tests.tidy_imports import unused
from tests.tidy_sets import set_fields, set_iteration
from tests.tidy_writes import NEVER, WRITERS, writes_in_workspaces, writing

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "bench", "scripts", "examples")
EXCUSE = "# tidy: a table that reads better whole"


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file of the project, also the scripts without a suffix."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or "_fast" in path.parts or "__pycache__" in path.parts:
                continue
            if path.suffix == ".py" or (not path.suffix and _is_python(path)):
                found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")))
    return tuple(found)


def _is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return file.readline().startswith(b"#!") and b"python" in path.read_bytes()[:64]


def programs() -> dict[str, str]:
    """The texts that start files by name: scripts, the Makefile and the entry points."""
    paths = [ROOT / "pyproject.toml", ROOT / "Makefile", *(ROOT / "scripts").iterdir()]
    return {path.name: path.read_text("utf-8") for path in paths if path.is_file()}


def shown(rule: Callable[[Source], Iterator[Finding]]) -> list[str]:
    """The findings of a rule over the whole project, as an editor can open them."""
    return [f"{s.path}:{line}: {text}" for s in sources() for line, text in rule(s)]


@pytest.mark.parametrize("rule", tidy.RULES, ids=lambda rule: rule.__name__)
def test_project_keeps_the_rule(rule: Callable[[Source], Iterator[Finding]]) -> None:
    """ST-01, ST-07: no file of the project breaks the rule."""
    found = shown(rule)
    assert not found, "\n" + "\n".join(found)


def test_no_pure_room_iterates_a_set() -> None:
    """12 section 2: the order of a set depends on the hash seed, so no result may."""
    fields = set_fields(s for s in sources() if s.pure)
    assert shown(lambda source: set_iteration(source, fields)) == []


def test_only_the_file_executor_writes_in_workspaces() -> None:
    """RX-08: whoever writes files has a place to write to; readers of workspaces have none."""
    assert shown(writes_in_workspaces) == []
    inside = {s.path.removeprefix("src/tallystick/"): s for s in sources()}
    for name in WRITERS:
        assert any(p.startswith(name) and writing(s) for p, s in inside.items()), f"{name} is stale"
    for name in NEVER:
        assert any(path.startswith(name) for path in inside), f"{name} is stale"


@pytest.mark.parametrize(
    "line",
    [
        'open(path, "w")',
        'path.open("r+b")',
        'path.open(mode="ab")',
        "os.open(path, os.O_RDWR | os.O_CLOEXEC)",
        "path.write_bytes(data)",
        "os.replace(one, other)",
        "shutil.rmtree(path)",
        "path.unlink()",
    ],
)
def test_a_writer_in_a_room_that_reads_is_refused(line: str) -> None:
    """RX-08 control: the same line is found in readers of workspaces, and not where it may be."""
    for path in ("reactions/watch.py", "node/lookout.py", "views/why.py", "executors/python.py"):
        assert [at for at, _ in writes_in_workspaces(Source(f"src/tallystick/{path}", line))] == [1]
    for path in ("src/tallystick/executors/file_place.py", "tests/reactions/desk.py"):
        assert list(writes_in_workspaces(Source(path, line))) == []
    for harmless in ('open(path, "rb")', "path.open()", 'text.replace("a", "b")', "rows.remove(1)"):
        assert writing(Source("src/tallystick/reactions/watch.py", harmless)) == []


def test_every_file_is_used() -> None:
    """12 section 2: a file that no one imports and no one starts is dead."""
    found = unused(sources(), programs())
    assert not found, "\n" + "\n".join(found)


def test_pages_carry_no_markup_from_text() -> None:
    """12 section 2: the pages of the node use no innerHTML and no inline handlers."""
    pages = [p for p in (ROOT / "src/tallystick/ui").rglob("*") if p.suffix in {".html", ".js"}]
    assert [finding for p in pages for finding in tidy.ui_text(p.name, p.read_text("utf-8"))] == []


def test_the_rules_see_the_project() -> None:
    """ST-01 control: the rules above ran over rooms, tests and scripts, not over nothing."""
    paths = {source.path for source in sources()}
    assert {"src/tallystick/errors.py", "tests/test_tidy.py", "scripts/build_fast"} <= paths
    assert sum(source.pure for source in sources()) > 50


def function(lines: int, *, excuse: str = "") -> str:
    """A function of so many lines."""
    return (
        "def f():\n"
        + (f"    {excuse}\n" if excuse else "    a = 0\n")
        + "    a = 1\n" * (lines - 2)
    )


NESTED = (
    "def f(a):\n" + "".join(f"{'    ' * n}if a > {n}:\n" for n in range(1, 6)) + " " * 24 + "a()"
)
PLANTED = [
    (tidy.file_size, "src/tallystick/kernel/a.py", "a = 1\n" * 501),
    (tidy.file_size, "src/tallystick/kernel/a.py", f"{EXCUSE}\n" + "a = 1\n" * 500),
    (tidy.file_size, "tests/test_a.py", "a = 1\n" * 301),
    (tidy.file_size, "tests/test_a.py", "# tidy:\n" + "a = 1\n" * 301),
    (tidy.function_size, "tests/test_a.py", function(61)),
    (tidy.function_size, "tests/test_a.py", function(61, excuse=EXCUSE)),
    (tidy.function_size, "tests/test_a.py", function(31)),
    (tidy.line_length, "tests/test_a.py", f"a = '{'x' * 96}'"),
    (tidy.arguments, "tests/test_a.py", "def f(a, b, c, d, e, f): ..."),
    (tidy.arguments, "tests/test_a.py", "class A:\n    def f(self, a, b, c, d, e, f): ..."),
    (tidy.nesting, "tests/test_a.py", NESTED),
    (tidy.names, "src/tallystick/kernel/utils.py", ""),
    (tidy.names, "src/tallystick/core/a.py", ""),
    (tidy.names, "src/tallystick/kernel/tick_helpers.py", ""),
    (tidy.names, "src/tallystick/kernel/a.py", "class WorldManager: ..."),
    (tidy.names, "src/tallystick/kernel/a.py", "def misc(): ..."),
    (tidy.commented_out_code, "tests/test_a.py", "# a = f(1)"),
    (tidy.commented_out_code, "tests/test_a.py", "# if a == 1:"),
    (tidy.commented_out_code, "tests/test_a.py", "# return a"),
    (tidy.commented_out_code, "tests/test_a.py", "# world.fold(record)"),
    (tidy.prints, "src/tallystick/node/a.py", "print('a')"),
    (tidy.bare_except, "tests/test_a.py", "try:\n    a()\nexcept:\n    b()"),
    (tidy.todo_without_issue, "tests/test_a.py", "# TO" + "DO: later"),
    (tidy.room_statement, "src/tallystick/kernel/__init__.py", '"""Owns: a.\nRefuses: b.\n"""'),
    (tidy.room_statement, "src/tallystick/kernel/__init__.py", ""),
    (tidy.time_in_pure_rooms, "src/tallystick/kernel/a.py", "from datetime import datetime"),
    (tidy.time_in_pure_rooms, "src/tallystick/kernel/a.py", "def f(due_at: float): ..."),
    (tidy.time_in_pure_rooms, "src/tallystick/kernel/a.py", "timeout: float | None = None"),
    (tidy.time_in_pure_rooms, "src/tallystick/kernel/a.py", "timeout_ms: int = 5"),
    (tidy.mocks_below_node, "tests/kernel/test_a.py", "from unittest import mock"),
    (tidy.mocks_below_node, "tests/journal/test_a.py", "def test_a(monkeypatch): ..."),
]


@pytest.mark.parametrize(
    ("rule", "path", "text"), PLANTED, ids=lambda x: getattr(x, "__name__", "")
)
def test_rule_refuses_a_planted_breach(
    rule: Callable[[Source], Iterator[Finding]], path: str, text: str
) -> None:
    """ST-01, ST-07 control: a rule that refuses nothing would be an ornament."""
    assert list(rule(Source(path, text)))


SOUND = [
    (tidy.file_size, "src/tallystick/kernel/a.py", f"{EXCUSE}\n" + "a = 1\n" * 499),
    (tidy.file_size, "src/tallystick/kernel/a.py", "a = 1\n" * 300),
    (tidy.function_size, "tests/test_a.py", function(60, excuse=EXCUSE)),
    (tidy.function_size, "tests/test_a.py", f"{EXCUSE}\n@d\n{function(60)}"),
    (tidy.arguments, "tests/test_a.py", "class A:\n    def f(self, a, b, c, d, e, *, f): ..."),
    (tidy.nesting, "tests/test_a.py", "def f(a):\n    if a: ...\n" + "    elif a: ...\n" * 6),
    (tidy.commented_out_code, "tests/test_a.py", "# note: this is a sentence\n# K-18\n# a, b"),
    (tidy.prints, "src/tallystick/cli/a.py", "print('a')"),
    (tidy.todo_without_issue, "tests/test_a.py", "# TO" + "DO #12: later"),
    (tidy.time_in_pure_rooms, "src/tallystick/values/schema/a.py", "import datetime"),
    (tidy.time_in_pure_rooms, "src/tallystick/kernel/a.py", "def f(due_ns: int, rate: float): ..."),
    (tidy.mocks_below_node, "tests/node/test_a.py", "def test_a(monkeypatch): ..."),
    (tidy.mocks_below_node, "tests/kernel/test_a.py", '"""No mocks here."""'),
]


@pytest.mark.parametrize(("rule", "path", "text"), SOUND, ids=lambda x: getattr(x, "__name__", ""))
def test_rule_lets_sound_text_pass(
    rule: Callable[[Source], Iterator[Finding]], path: str, text: str
) -> None:
    """ST-01 control: a rule that refuses everything would be switched off."""
    assert list(rule(Source(path, text))) == []


KERNEL_FILE = "src/tallystick/kernel/a.py"
SET_WALKS = [
    "for a in {1, 2}: ...",
    "b = [a for a in set(c)]",
    "b = {a: 1 for a in c | frozenset(d)}",
    "def f(a: frozenset[str]):\n    for b in a: ...",
    "def f(a):\n    b = set(a)\n    return list(b)",
    "def f(a: set[str]):\n    return ','.join(a)",
    "def f(a: set[str]):\n    return [*a]",
    "A = frozenset({'x'})\ndef f():\n    return tuple(A)",
    "class C:\n    reads: frozenset[str]\ndef f(c):\n    for r in c.reads: ...",
]
SET_USES = [
    "def f(a: set[str]):\n    return sorted(a)",
    "def f(a: set[str], b):\n    return any(x in b for x in a) or b in a or len(a)",
    "def f(a: set[str]):\n    return {x.lower() for x in a}",
    "def f(a: set[str]):\n    return {*a, 'x'}",
    "def f(a: set[str]):\n    for b in sorted(a): ...",
    "def f(a: dict[str, int]):\n    for b in a: ...",
]


@pytest.mark.parametrize("text", SET_WALKS)
def test_walking_a_set_is_found(text: str) -> None:
    """12 section 2 control: each way of giving a set an order is seen."""
    source = Source(KERNEL_FILE, text)
    assert list(set_iteration(source, set_fields([source])))


@pytest.mark.parametrize("text", SET_USES)
def test_asking_a_set_is_allowed(text: str) -> None:
    """12 section 2 control: membership, and walks whose order cannot show, are free."""
    source = Source(KERNEL_FILE, text)
    assert list(set_iteration(source, set_fields([source]))) == []


def test_an_unused_file_is_found() -> None:
    """12 section 2 control: neither imported nor started is dead; a mention in prose is no use."""
    used = Source("src/tallystick/kernel/used.py", "")
    dead = Source("src/tallystick/kernel/dead.py", '"""See tallystick.kernel.dead."""')
    user = Source("src/tallystick/__init__.py", "from tallystick.kernel import used  # not dead.py")
    main = Source("src/tallystick/cli/main.py", "")
    started = {"pyproject.toml": 'tally = "tallystick.cli.main:main"'}
    assert unused([used, dead, user, main], started) == [dead.path]
    assert unused([used, user, main], {}) == [main.path]


def test_markup_from_text_is_found() -> None:
    """12 section 2 control: innerHTML and inline handlers are seen, listeners are not."""
    assert list(tidy.ui_text("a.js", "node.innerHTML = text"))
    assert list(tidy.ui_text("a.html", '<button class="a" onclick="go()">'))
    assert list(tidy.ui_text("a.js", "node.addEventListener('click', go); const on = 1")) == []
