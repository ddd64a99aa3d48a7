"""What people see: tables on a terminal, drawings, proofs that fail, bundles and sites."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tallystick.cli import show
from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tallystick.cli.trace import reasons
from tests.cli.runs import tally
from tests.cli.stand_in import Asked, Said, saying, stand_in
from tests.cli.test_bundle import SOURCES
from tests.cli.test_wrong_words import Folder
from tests.governance.apps import PRINT, SOLD, source

ROW = {
    "seq": 7,
    "kind": "tick",
    "intent": None,
    "record": {},
    "event_type": "step.done",
    "step": "a",
    "iteration": None,
    "token": None,
}
TRACED = next(verb.shape for verb in VERBS if verb.words == "trace")
EXPLAINED = next(verb.shape for verb in VERBS if verb.words == "explain")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("told"))


# ---- tables -----------------------------------------------------------------------------------


def test_a_terminal_gets_a_table_and_a_pipe_gets_rows() -> None:
    """04 section 9: the same words in both; headings only where somebody looks."""
    value = {"items": [{"name": "a", "last_seq": 7}, {"name": "[b]"}], "next": "b"}
    seen = []
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, color_system=None, width=60)
        show.columns("name", "last_seq")(console, value)
        seen.append([line.split() for line in out.getvalue().splitlines()])
    rows = [["a", "7"], ["[b]", "-"], ["more:", "--after", "b"]]
    assert seen == [[["name", "last", "seq"], *rows], rows]


def test_an_answer_that_is_no_object_is_one_line() -> None:
    """K-45: a list, a text or nothing is shown as it is, with its brackets."""
    out = io.StringIO()
    for value in (["a", 1], "[plain]", None):
        show.fields(Console(file=out, width=60), value)
    assert out.getvalue().splitlines() == ['["a", 1]', "[plain]", "-"]


def test_a_long_list_says_how_to_go_on(here: Folder) -> None:
    """K-45: what is behind the limit begins after the cursor that is printed."""
    here.value("send", SOLD, '{"till": "b", "cents": 1}')
    first, last = here.run("cell", "ls", "--limit", "1").out.splitlines()
    assert last.startswith("more: --after ")
    rest = here.value("cell", "ls", "--after", last.removeprefix("more: --after "))
    assert {first.split()[1], *(row["key"] for row in rest["items"])} == {"a", "b"}


def test_a_word_of_a_shape_fits_only_itself() -> None:
    """ND-28: an answer whose constant differs from its shape is a misfit with its place."""
    assert misfit({"kind": "site"}, {"kind": "site"}) is None
    assert misfit({"kind": "site"}, {"kind": "page"}) == "/kind: 'page' is not site"


# ---- proofs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [{"seq": 9, "field": "state"}, None])
def test_roots_that_differ_are_said_aloud(first: dict[str, Any] | None) -> None:
    """ND-28: exit 4, and the first difference when there is one record that shows it."""
    told = {"ok": False, "root": "sha256:1", "first_divergence": first}
    with stand_in(lambda _asked: saying(told)) as url:
        done = tally("replay", "--url", url)
    assert done.code == 4
    wanted = [] if first is None else ['first: {"seq": 9, "field": "state"}']
    assert done.out.splitlines()[3:] == ["NOT EQUAL", *wanted]


@pytest.mark.clause("K-48")
def test_a_law_that_is_broken_is_told_with_its_test(tmp_path: Path) -> None:
    """05 section 7: which law, why, and the shortest history as a test; the answer is no."""
    path = tmp_path / "app.py"
    path.write_bytes(
        source(1).replace(b"if cents > 100:", b"if cents >= 0:\n                1 // 0")
    )
    done = tally("check", str(path), "--depth", "4", "--max-states", "300")
    assert done.code == 1, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("till/till@1: ")
    assert lines[1].startswith("  ")
    assert ": " in lines[1]
    assert any(line.startswith("def test_") for line in lines)


def test_a_cause_is_drawn_as_its_fields_when_asked_for(here: Folder) -> None:
    """K-23: `--format json` without `--json` has no picture: the fields, one a line."""
    assert "▔▔▔ asked" in here.run("trace", "4").out
    lines = here.run("trace", "4", "--format", "json").out.splitlines()
    assert [line.split()[0] for line in lines][:2] == ["seq", "rows"]


def test_a_large_world_that_rests_is_not_told_to_be_busy() -> None:
    """D13: where not every cell was looked at, that is said; nothing keeps the world awake."""
    told = {"quiescent": None, "blockers": [], "as_of": 7}
    assert any(misfit(shape, told) is None for shape in EXPLAINED)
    out = io.StringIO()
    reasons(Console(file=out, width=100), told)
    (line,) = out.getvalue().splitlines()
    assert line == "nothing open was found; there are more cells than are looked at"


LONG = {
    "cell ls": "--after c-9",
    "cell trace demo/greeter@1 Ada": "--after c-9",
    "effect ls": "--after c-9",
    "ask ls": "--after c-9",
    "gov ls": "--after c-9",
    "world diff main other": "--after c-9",
    "playbook show e-1 --events": "--after c-9",
    "stamp ls": "--after c-9",
}


@pytest.mark.parametrize("words", LONG)
def test_every_list_that_goes_on_says_how_and_takes_that(words: str) -> None:
    """K-45: a page is never taken for the whole; what is printed can be typed."""
    asked: list[dict[str, str]] = []

    def speak(each: Asked) -> Said:
        asked.append(each.query)
        return saying({"items": [ROW], "next": None if "after" in each.query else "c-9"})

    with stand_in(speak) as url:
        first = tally(*words.split(), "--url", url)
        last = first.out.splitlines()[-1]
        assert last == f"more: {LONG[words]}", first
        more = last.removeprefix("more: ").split()
        rest = tally(*words.split(), *more, "--url", url)
    assert rest.code == 0, rest.err
    assert "more:" not in rest.out
    assert asked[-1]["after"] == "c-9"


def test_a_tail_from_a_sequence_says_where_it_goes_on(here: Folder) -> None:
    """K-45: a tail that begins somewhere stops at its limit, and names the next sequence."""
    lines = here.run("journal", "tail", "--from", "2", "--limit", "2").out.splitlines()
    assert [line.split()[0] for line in lines] == ["2", "3", "more:"]
    assert lines[-1] == "more: --from 4"
    assert "more:" not in here.run("journal", "tail", "--limit", "2").out


@pytest.mark.parametrize("what", [["4"], ["till/till@1", "a"]])
def test_a_trace_is_drawn_in_every_form_that_it_takes(here: Folder, what: list[str]) -> None:
    """04 section 9: `trace` draws what `graph` draws where Mermaid or DOT is asked for."""
    for form, begins in (("mermaid", "flowchart LR"), ("dot", "digraph tally {")):
        words = (*what, "--format", form)
        assert here.run("trace", *words).out.splitlines()[0] == begins
        assert here.run("trace", *words).out == here.run("graph", *words).out
        told = here.value("trace", *words)
        assert any(misfit(shape, told) is None for shape in TRACED)


@pytest.mark.parametrize("words", ["playbook ls", "frame ls", "key ls"])
def test_a_list_of_the_past_is_asked_for(words: str) -> None:
    """06 section 11: `--at SEQ` on every reading command that a route answers from the past."""
    asked: list[dict[str, str]] = []

    def speak(each: Asked) -> Said:
        asked.append(each.query)
        return saying({"items": [], "next": None})

    with stand_in(speak) as url:
        done = tally(*words.split(), "--at", "7", "--url", url, "--json")
    assert done.code == 0, done.err
    assert asked[-1]["at"] == "7"


def test_reactions_that_could_not_be_loaded_are_told_of() -> None:
    """08 section 13: a file with a mistake is named where reactions are listed, with its hint."""
    place = {"file": ".reactions/a.yaml", "line": 3, "col": 5}
    finding = {**place, "code": "R101", "severity": "error", "message": "no such", "hint": "try b"}
    with stand_in(lambda _: saying({"items": [], "findings": [finding]})) as url:
        done = tally("reaction", "ls", "--url", url)
    assert done.code == 0
    assert done.out.splitlines() == [
        "nothing",
        ".reactions/a.yaml:3:5 error R101 no such",
        "    try b",
    ]


# ---- bundles ----------------------------------------------------------------------------------


@pytest.mark.clause("X-19")
def test_a_bundle_is_judged_and_shown_in_every_form(here: Folder, tmp_path: Path) -> None:
    """X-19: the sources, the container and its unpacked folder hold one bundle."""
    built, folder = tmp_path / "till.tally.zip", tmp_path / "till"
    words = ("--authority", "structural", "-o", str(built))
    here.value("bundle", "build", str(here.app), *words)
    with zipfile.ZipFile(built) as held:
        held.extractall(folder)
    roots = {here.value("bundle", "show", str(each))["bundle"] for each in (built, folder)}
    assert len(roots) == 1
    assert here.value("bundle", "check", str(built))["errors"] == 0
    lines = here.run("bundle", "show", str(built)).out.splitlines()
    assert lines[0] == f"bundle   {roots.pop()}"
    assert any(line.startswith("defworkflow  till/till@1  sha256:") for line in lines)
    assert any("python" in line.split("  ")[0] for line in lines[2:]), "its artifacts, too"
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps([SOURCES[0], {"$kind": "manifest", "air_version": "2"}]))
    assert (
        here.run("bundle", "show", str(bare))
        .out.splitlines()[-1]
        .startswith("defschema  demo/Add@1")
    )


# ---- sites ------------------------------------------------------------------------------------


def test_a_site_holds_the_effects_and_ends_where_it_is_told(here: Folder, tmp_path: Path) -> None:
    """09 section 7: every answer by its request; `--to` cuts the journal, not the world."""
    told = here.value("world", "export", "--site", "-o", str(tmp_path / "site"), "--to", "4")
    assert (told["records"], told["effects"]) == (4, 1)
    index = json.loads((tmp_path / "site/data/index.json").read_text("utf-8"))
    (row,) = here.value("effect", "ls")["items"]
    (name,) = [name for path, name in index["files"].items() if path.endswith(row["intent"])]
    kept = json.loads((tmp_path / "site" / name).read_text("utf-8"))
    assert (kept["effect"], index["to"]) == (PRINT, 4)
