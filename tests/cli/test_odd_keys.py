"""Cells whose keys no path can hold: each is shown, operated on and exported like any other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Ran, hello, tally

GREETER = "demo/greeter@1"
VISITOR = "demo/visitor@1"
ODD = ["", ".", "..", "a\u00a0b", "two\nlines", "-", "a/b", "\U0001f469\u200d\U0001f52c"]
MORE = """

class Place(Record):
    x: int
    y: int


class Visit(Record):
    at: Place


@app.workflow(key="at", lifecycle="entity")
def visitor(state: Guest | None, event: Visit, ctx: Ctx) -> Guest:
    return Guest(visits=1)
"""


class Folder:
    """A folder with a guest for every odd key, and a visitor whose key is a record."""

    def __init__(self, base: Path) -> None:
        self.base = hello(base)
        app = self.base / "app.py"
        app.write_text(app.read_text() + MORE)
        self.value("world", "create", "main", "--bundle", str(app))
        for key in ODD:
            self.value("send", "demo/Greet@1", json.dumps({"name": key}))
        self.value("send", "demo/Visit@1", '{"at": {"x": 1, "y": 2}}')

    def run(self, *words: str) -> Ran:
        return tally(*words, "--data", str(self.base / ".tally"), "--json")

    def value(self, *words: str) -> Any:
        done = self.run(*words)
        assert done.code == 0, (words, done)
        return done.value


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("odd") / "app")


@pytest.mark.parametrize("key", ODD)
def test_a_cell_with_an_odd_key_is_shown_and_operated_on(here: Folder, key: str) -> None:
    """K-45: what `cell ls` lists, every command about one cell can name."""
    assert here.value("cell", "show", GREETER, key)["key"] == key
    assert here.value("cell", "trace", GREETER, key)["items"][0]["key"] == key
    assert here.value("cell", "suspend", GREETER, key)["seq"]
    assert here.value("cell", "resume", GREETER, key)["seq"]
    ran = here.value("run", GREETER, json.dumps({"name": key}))
    assert ran["cell"]["key"] == key


def test_a_site_holds_every_cell(here: Folder, tmp_path: Path) -> None:
    """09 section 7: no key, be it a record, keeps a world from being exported."""
    told = here.value("world", "export", "--site", "-o", str(tmp_path / "site"))
    assert told["cells"] == len(ODD) + 1
    index = json.loads((tmp_path / "site/data/index.json").read_text("utf-8"))
    kept = [
        json.loads((tmp_path / "site" / name).read_text("utf-8"))
        for path, name in index["files"].items()
        if "/cells/" in path
    ]
    assert sorted(str(cell["key"]) for cell in kept) == sorted([*ODD, "{'x': 1, 'y': 2}"])


@pytest.mark.parametrize(("workflow", "key"), [(GREETER, "5"), (VISITOR, '{"x":1,"y":2}')])
def test_a_cell_outlives_its_workflow(tmp_path: Path, workflow: str, key: str) -> None:
    """X-19: what an upgrade left of a workflow is listed, so it can be looked at and exported."""
    old = Folder(tmp_path / "app")
    old.value("send", "demo/Greet@1", '{"name": "5"}', "--wait", "5")
    before = old.value("cell", "show", workflow, key)
    app = old.base / "app.py"
    name = workflow.removeprefix("demo/").partition("@")[0]
    gone = re.compile(rf"@app\.workflow[^@]*def {name}\([^@]*?\n(?=\n\nclass|\Z)", re.DOTALL)
    text, count = gone.subn("", app.read_text())
    assert count == 1
    app.write_text(text)
    made = old.value("gov", "propose", "--bundle", str(app))["proposal"]
    for verb in ("shadow", "approve", "apply"):
        old.value("gov", verb, made)
    assert workflow in {row["workflow"] for row in old.value("cell", "ls")["items"]}
    shown = old.value("cell", "show", workflow, key)
    assert (shown["key"], shown["state"]) == (before["key"], before["state"])
    assert old.value("trace", workflow, key)["ticks"]
    assert old.value("explain", workflow, key)["status"] == shown["status"]
    assert old.value("cell", "trace", workflow, key)["items"]
    for wrong in ("nobody", "{", "7"):
        refused = old.run("cell", "show", workflow, wrong)
        assert (refused.code, refused.problem["code"]) == (2, "cell.unknown")
    assert old.value("world", "export", "--site", "-o", str(tmp_path / "site"))["cells"]


def test_a_row_is_one_line_whatever_its_key(tmp_path: Path) -> None:
    """04 section 9: a key of somebody else breaks no row, and does nothing to a terminal."""
    base = Folder(tmp_path / "app")
    base.value("send", "demo/Greet@1", json.dumps({"name": "\x1b[2J\x9b1mred"}))
    data = ("--data", str(base.base / ".tally"))
    rows = tally("cell", "ls", *data).out.split("\n")[:-1]
    assert len(rows) == len(ODD) + 2
    assert any("two\\nlines" in row for row in rows)
    tail = tally("journal", "tail", "--limit", "1000", *data).out
    assert "two\\nlines" in tail
    for text in (*rows, *tail.split("\n")):
        assert all(char >= " " and not "\x7f" <= char <= "\x9f" for char in text), ascii(text)
    shown = tally("cell", "show", GREETER, "two\nlines", *data).out
    assert re.search(r"^key +two\\nlines$", shown, re.MULTILINE)
    said = tally("explain", GREETER, "two\nlines", *data).out.splitlines()
    assert said[0].startswith(GREETER + r" two\nlines: ")
