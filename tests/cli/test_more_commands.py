"""The command line: what it prints, and how it ends."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tallystick import __version__
from tallystick.cli import simulate
from tallystick.cli.main import main, tally
from tallystick.errors import UnknownName

# ---- endings --------------------------------------------------------------------------------


@pytest.fixture
def failing() -> Iterator[dict[str, BaseException]]:
    """A command of the group that raises what a test gives it."""
    given: dict[str, BaseException] = {}

    @click.command("fail")
    @click.option("--json", is_flag=True)
    def fail(**_options: Any) -> None:
        raise given["error"]

    tally.add_command(fail)
    yield given
    del tally.commands["fail"]


def end_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tally", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.clause("K-24")
def test_an_error_of_ours_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: dict[str, BaseException],
):
    """ST-06: code, sentence and hint on the error stream; with --json one problem object."""
    error = UnknownName("no such thing", code="t.unknown", hint="look again")
    failing["error"] = error
    assert end_of(monkeypatch, "fail") == error.exit_code
    assert capsys.readouterr().err == "t.unknown: no such thing\nhint: look again\n"
    assert end_of(monkeypatch, "fail", "--json") == error.exit_code
    assert json.loads(capsys.readouterr().err)["code"] == "t.unknown"


def test_misuse_and_abort_have_their_codes(
    monkeypatch: pytest.MonkeyPatch, failing: dict[str, BaseException]
):
    """ST-06: words that are no command end with 2, an aborted command with 1."""
    assert end_of(monkeypatch, "nonsense") == 2
    failing["error"] = click.Abort()
    assert end_of(monkeypatch, "fail") == 1


@pytest.mark.parametrize("module", ["tallystick", "tallystick.cli.main"])
def test_the_package_is_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str
):
    """ST-11: `python -m tallystick` is `tally`."""
    monkeypatch.setattr(sys, "argv", ["tally", "--version"])
    # pytest rewrites the package of its own plugin, and its importer cannot run a module.
    plain = [each for each in sys.meta_path if type(each).__name__ != "AssertionRewritingHook"]
    monkeypatch.setattr(sys, "meta_path", plain)
    monkeypatch.delitem(sys.modules, module if module.endswith("main") else "none", raising=False)
    runpy.run_module(module, run_name="__main__")
    assert capsys.readouterr().out.strip().endswith(__version__)


# ---- the simulation -------------------------------------------------------------------------


def test_a_campaign_writes_its_report(tmp_path: Path):
    """RL-15, in small: seeds are counted, the report is written, nothing failed."""
    path = tmp_path / "sim.json"
    words = ["--seeds", "4", "--jobs", "1", "--base-seed", "cli", "--report", str(path)]
    done = CliRunner().invoke(simulate.main, words)
    assert done.exit_code == 0, done.output
    told = json.loads(path.read_text())
    assert (told["seeds"], told["failures"]) == (4, [])


@pytest.mark.parametrize(("caught", "code"), [(True, 0), (False, 1)])
def test_the_control_fails_when_a_defect_is_missed(
    monkeypatch: pytest.MonkeyPatch, caught: bool, code: int
):
    """RL-16, in small: a missed defect makes the control fail and is named."""
    row = {"defect": "d", "caught": caught, "seeds": 1, "invariant": "I1", "decisions": 2}
    monkeypatch.setattr(simulate, "catch", lambda name, *_: {**row, "defect": name})
    words = ["--control", "--jobs", "1", "--base-seed", "cli"]
    done = CliRunner().invoke(simulate.main, words)
    assert done.exit_code == code, done.output
    assert ("MISSED" in done.output) == (not caught)


def test_a_failing_seed_is_told_and_shrunk(monkeypatch: pytest.MonkeyPatch):
    """RL-15: a seed that breaks an invariant is named, and the campaign ends with 1."""
    plain = simulate.run_seed  # type: ignore[attr-defined]

    def broken(base: str, index: int) -> Any:
        out = plain(base, index)
        out.invariant, out.message = "I14", "planted"
        return out

    monkeypatch.setattr(simulate, "run_seed", broken)
    done = CliRunner().invoke(simulate.main, ["--seeds", "1", "--jobs", "1"])
    assert done.exit_code == 1
    assert "planted" in done.output
    assert len(simulate._commit()) in (7, 40)
