"""Example 15 by the command line: reaction, playbook and workflow in one trace (AU-29)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tallystick.cli.sources import bundle_at
from tallystick.reactions.bundle import LIMITS, reacting
from tests.cli.runs import tally

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "15-one-world"


def said(data: Path, *words: str, code: int = 0) -> Any:
    done = tally(*words, "--data", str(data), "--json")
    assert done.code == code, done.out + done.err
    return json.loads(done.out) if done.out else done.problem


def test_one_change_of_a_file_is_one_trace(tmp_path: Path) -> None:
    """AU-29: what the README of the example says, command by command."""
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "library"))
    data, here = tmp_path / ".tally", str(folder)
    said(data, "workspace", "add", here, "--bundle", str(folder / "app.py"))
    said(data, "workspace", "trust", here, "--follow")
    (folder / "inbox").mkdir()
    (folder / "inbox/first.txt").write_text("on the shelf\n")
    said(data, "workspace", "scan", here, "--wait", "20")
    assert (folder / "cards/first.txt").read_text() == "card: on the shelf\n"
    shelf = said(data, "cell", "show", "library/shelves@1", "notes")
    assert shelf["state"] == {"titles": ["first.txt"]}
    drawn = tally("trace", "17", "--data", str(data)).out
    order = ["sys/TriggerOffered@1", "sys/Decision@1", "ticked sys/reaction@1"]
    order += ["sys/PlayRequested@1", "asked sys/file.write@1", "ticked library/shelves@1 notes"]
    places = [drawn.index(word) for word in order]
    assert places == sorted(places)
    assert said(data, "replay", "--verify")["ok"]


def test_a_world_keeps_its_bundle(tmp_path: Path) -> None:
    """04 section 9: an app does not replace that of a world that is there; the hint says how."""
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "library"))
    words = ("workspace", "add", str(folder), "--bundle", str(folder / "app.py"))
    said(tmp_path / ".tally", *words)
    why = said(tmp_path / ".tally", *words, code=2)
    assert (why["code"], "--reacts" in why["hint"]) == ("world.exists", True)


def test_a_bundle_that_reacts_holds_both(tmp_path: Path) -> None:
    """AU-29: grants, rules and slots of both stand side by side, also in a built container."""
    app = bundle_at(EXAMPLE / "app.py")
    both = reacting(app).manifest
    assert [row["name"] for row in both["workflows"]] == ["library/shelves@1"]
    assert "sys/workspace@1" in both["module_bindings"]
    assert both["limits"]["events_max"] == LIMITS["events_max"]
    policies = both["authority"]["policies"]
    assert policies == [*app.manifest["authority"]["policies"], "reactions/allow@1"]
    out = tmp_path / "library.tally.zip"
    words = ("--authority", "structural", "--reacts", "-o", str(out), "--json")
    done = tally("bundle", "build", str(EXAMPLE / "app.py"), *words)
    assert done.code == 0, done.err
    assert bundle_at(out).root == reacting(app).root
