"""Example 15 by the command line: reaction, playbook and workflow in one trace (AU-29)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.sources import bundle_at
from tallystick.model.bundle import build_bundle
from tallystick.playbooks.bundle import playing
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
    # Structural authority has a rule for everything: behind it another one would never be asked.
    assert both["authority"]["policies"] == app.manifest["authority"]["policies"]
    out = tmp_path / "library.tally.zip"
    words = ("--authority", "structural", "--reacts", "-o", str(out), "--json")
    done = tally("bundle", "build", str(EXAMPLE / "app.py"), *words)
    assert done.code == 0, done.err
    assert bundle_at(out).root == reacting(app).root


def test_rules_of_an_app_have_the_first_word() -> None:
    """06 section 3: what is added for reactions and playbooks stands behind what was there."""
    rule = {"id": "no", "when": {"effect": "sys/shell.run@1"}, "decision": "deny"}
    app = build_bundle(
        [
            {"$kind": "defpolicy", "name": "shop/rules@1", "rules": [rule]},
            {
                "$kind": "manifest",
                "air_version": "2",
                "authority": {"grants": [], "policies": ["shop/rules@1"]},
                "limits": {"output_bytes_max": 1024, "logs_max": 5},
            },
        ]
    )
    for more, added in ((playing, "playbooks/allow@1"), (reacting, "reactions/allow@1")):
        both = more(app).manifest
        assert both["authority"]["policies"] == ["shop/rules@1", added]
        assert (both["limits"]["output_bytes_max"], both["limits"]["logs_max"]) == (16 << 20, 5)
        assert {"step", "flow"} <= both["module_bindings"]["sys/playbook@1"]["slots"].keys()


NET = """
apiVersion: tally/v1
kind: Playbook
metadata: {name: greet}
workflow:
  - step: a
    tool: {kind: python, code: "return 7"}
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_app_whose_world_does_not_play_is_told_the_way(tmp_path: Path) -> None:
    """PB-22, 07 section 8: refused before anything is written, and the hint works."""
    app = EXAMPLE / "app.py"
    data = tmp_path / ".tally"
    plain, file = tmp_path / "plain.zip", tmp_path / "greet.yaml"
    file.write_text(NET)
    build = ("bundle", "build", str(app), "--authority", "structural")
    said(data, *build, "-o", str(plain))
    said(data, "world", "create", "main", "--bundle", str(plain))
    why = said(data, "playbook", "run", str(file), "--allow", "python", code=1)
    assert (why["code"], "--plays" in why["hint"]) == ("playbook.unbound", True)
    still = tmp_path / "still.yaml"  # nothing is asked for here, so nothing would be denied
    still.write_text(NET[: NET.index("{kind")] + "{kind: noop}\n")
    assert said(data, "playbook", "run", str(still))["status"] == "success"
    why = said(data, "workspace", "add", str(tmp_path), code=1)
    assert (why["code"], "--reacts" in why["hint"]) == ("workspace.unbound", True)
    assert len(said(data, "playbook", "ls")["items"]) == 1
    assert said(data, "workspace", "ls")["items"] == []
    for way in ("--plays", "--reacts"):
        wider = tmp_path / f"{way}.zip"
        said(data, *build, way, "-o", str(wider))
        proposal = said(data, "gov", "propose", "--bundle", str(wider))["proposal"]
        for verb in ("shadow", "approve", "apply"):
            said(data, "gov", verb, proposal)
        assert said(data, "playbook", "run", str(file), "--allow", "python")["status"] == "success"
    said(data, "workspace", "add", str(tmp_path))
    (tmp_path / "beside").mkdir()
    said(data, "-w", "files", "workspace", "add", str(tmp_path / "beside"))
