"""`tally serve --until-idle` in this process: what it waits for, what it keeps, what it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Ran, hello, tally
from tests.cli.stand_in import Asked, Said, saying, stand_in
from tests.cli.test_bundle import SOURCES, written

TIMED = """
from tallystick import Bundle, Ctx, Record, Timer

app = Bundle("egg")


class Put(Record):
    egg: str


class Egg(Record):
    done: bool = False


@app.workflow(key="egg", effects=[Timer])
def eggs(state: Egg | None, event: Put | Timer.Settled, ctx: Ctx) -> Egg | None:
    match event:
        case Put():
            ctx.timer("700ms", corr="t")
            return Egg()
        case Timer.Fired():
            ctx.complete("done")
            return Egg(done=True)
    return state
"""


def served(folder: Path, *words: str, verb: str = "serve") -> tuple[Ran, list[dict[str, Any]]]:
    """How the node ended, and what it said, line by line."""
    more = ("--data", str(folder / ".tally"), "--listen", "127.0.0.1:0", "--json")
    done = tally(verb, *words, "--until-idle", "--no-open", *more)
    said = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    return done, said


def boiling(folder: Path, time: str = "700ms") -> tuple[str, ...]:
    """A world in which one egg waits for its timer; answers how to ask about it."""
    data = ("--data", str(folder / ".tally"), "--json")
    (folder / "app.py").write_text(TIMED.replace("700ms", time))
    made = tally("world", "create", "main", "--bundle", str(folder / "app.py"), *data)
    assert made.code == 0, made.err
    assert tally("send", "egg/Put@1", '{"egg": "a"}', *data).code == 0
    return data


@pytest.mark.clause("K-19")
def test_a_timer_that_is_open_is_waited_for(tmp_path: Path) -> None:
    """04 section 9: idle means nothing open and nothing due, so the egg is done at the end."""
    data = boiling(tmp_path)
    done, _ = served(tmp_path)
    assert (done.code, done.value["stopped"]) == (0, "idle")
    shown = tally("cell", "show", "egg/eggs@1", "a", *data).value
    assert (shown["state"], shown["status"]) == ({"done": True}, "completed")


@pytest.mark.clause("X-19")
def test_a_start_changes_no_world(tmp_path: Path) -> None:
    """05 section 1: another bundle than the world's is told and left; only `dev` takes it up."""
    folder = hello(tmp_path / "app")
    app = folder / "app.py"
    served(folder, "--bundle", str(app))
    data = ("--data", str(folder / ".tally"), "--json")
    before = tally("world", "show", "main", *data).value["manifest"]
    app.write_text(app.read_text().replace("guest.visits + 1", "guest.visits + 5"))
    done, said = served(folder, "--bundle", str(app))
    assert (done.code, "world.other_manifest" in [row["code"] for row in said]) == (0, True)
    assert tally("world", "show", "main", *data).value["manifest"] == before
    _, said = served(folder, str(app), verb="dev")
    assert "world.activated" in [row["code"] for row in said]
    assert tally("world", "show", "main", *data).value["manifest"] != before


def test_definitions_without_python_are_developed_too(tmp_path: Path) -> None:
    """05 section 1: a folder of definitions has no sources to lint, and is served as it is."""
    folder = written(tmp_path / "yaml", SOURCES)
    done, said = served(tmp_path, str(folder), verb="dev")
    assert done.code == 0, done.err
    codes = [row["code"] for row in said]
    assert "world.created" in codes
    assert not any(code.startswith("lint.") for code in codes)


def test_a_path_names_the_folder_with_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 8: `serve PATH` takes address and data from the `tally.toml` that lies there."""
    folder = hello(tmp_path / "app")
    (folder / "tally.toml").write_text('[http]\nlisten = "127.0.0.1:0"\n[node]\ndata = "held"\n')
    monkeypatch.chdir(tmp_path)
    done = tally("serve", str(folder), "--until-idle", "--json")
    assert (done.code, done.value["stopped"]) == (0, "idle")
    assert (folder / "held" / "tally.db").exists()
    assert not (tmp_path / ".tally").exists()


def test_traces_go_to_the_collector_before_the_node_is_gone(tmp_path: Path) -> None:
    """04 section 12: with an endpoint in the settings the span of a commit arrives there."""
    boiling(tmp_path, "2s")  # longer than a slow machine needs to begin
    got: list[Asked] = []

    def speak(asked: Asked) -> Said:
        got.append(asked)
        return saying({})

    with stand_in(speak) as url:
        (tmp_path / "tally.toml").write_text(f'[otel]\nendpoint = "{url}"\n')
        done, _ = served(tmp_path)
    assert done.code == 0, done.err
    traces = [asked.value for asked in got if asked.path == "/v1/traces"]
    names = [
        span["name"]
        for trace in traces
        for held in trace["resourceSpans"]
        for scope in held["scopeSpans"]
        for span in scope["spans"]
    ]
    assert "tally.commit" in names
