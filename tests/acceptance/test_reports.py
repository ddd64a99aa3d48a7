"""Reports of acceptance tests: what counts is written down, and only what counts."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cases import CASES
from tests.acceptance.kit import report, scaled

FIELDS = {
    "at",
    "command",
    "commit",
    "control",
    "faults",
    "figures",
    "full",
    "machine",
    "name",
    "ok",
    "rows",
    "seed",
    "sizes",
    "src",
}
HASH = re.compile(r"[0-9a-f]{40}")


def problems(found: dict[str, Any]) -> list[str]:
    """Why a report does not count."""
    wrong = sorted(FIELDS ^ found.keys())
    if wrong:
        return [f"fields {wrong}"]
    case = CASES.get(found["at"])
    if case is None or case.name != found["name"]:
        return ["no such case"]
    wrong = []
    if not found["command"].startswith("scripts/accept ") or type(found["seed"]) is not int:
        wrong.append("nobody could run it again")
    if not found["figures"] or found["faults"] or not found["ok"]:
        wrong.append("it found the product wrong, or nothing")
    if found["control"]["planted"] != case.planted or not found["control"]["found"]:
        wrong.append("no control")
    if 'File \\"/' in json.dumps(found):
        wrong.append("it tells where a checkout stands")
    if not (HASH.fullmatch(found["commit"]) and HASH.fullmatch(found["src"])):
        wrong.append("of no commit")
    return wrong


def reports() -> list[Path]:
    return [report.REPORTS / f"{number}.json" for number in CASES]


@pytest.mark.parametrize("path", reports(), ids=lambda path: path.stem)
def test_each_case_has_a_report_that_counts(path: Path) -> None:
    """RL-21: command, seed, figures and a control that found its planted defect."""
    assert problems(json.loads(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"control": {"planted": "ack_before_commit", "found": []}}, "no control"),
        ({"control": {"planted": "another", "found": ["x"]}}, "no control"),
        ({"figures": {}}, "it found the product wrong, or nothing"),
        ({"ok": False}, "it found the product wrong, or nothing"),
        ({"commit": "unknown"}, "of no commit"),
        ({"src": "unknown"}, "of no commit"),
        ({"at": "at-99"}, "no such case"),
        ({"seed": None}, "nobody could run it again"),
        ({"faults": [], "rows": 'File "/home/a.py"'}, "it tells where a checkout stands"),
        ({"more": 1}, "fields ['more']"),
    ],
)
def test_a_report_that_does_not_count_is_found(change: dict[str, Any], said: str) -> None:
    """RL-21 control: without control, figures, seed or commit there is no credit."""
    good = json.loads((report.REPORTS / "at-01.json").read_text("utf-8"))
    assert problems(good | change) == [said]


def test_a_report_does_not_tell_where_its_checkout_stands(tmp_path: Path) -> None:
    """A traceback in it begins at the root of the project."""
    found = {"control": f'File "{report.ROOT}/src/tallystick/kernel/tick.py", line 1'}
    text = report.write("at-00", found, tmp_path).read_text("utf-8")
    assert 'File \\"src/tallystick/kernel/tick.py\\"' in text


def test_the_tree_of_a_report_is_the_tree_of_a_commit() -> None:
    """RL-21: what was tested can be found again in the history, whatever its commit is called."""
    if report.commit() == "unknown":
        pytest.skip("this is no checkout")
    changed = ["git", "status", "--porcelain", "--", "src"]
    there = subprocess.run(changed, capture_output=True, cwd=report.ROOT, check=False)
    if there.stdout:
        assert report.src() != report.src_of("HEAD")
    else:
        assert report.src() == report.src_of("HEAD")


@pytest.mark.parametrize(("cpu", "sync", "busy"), [(0.5, 0.9, 0), (0.45, 0.025, 1), (0.2, 1.0, 1)])
def test_floors_are_not_judged_on_a_machine_that_is_too_busy(cpu: float, sync: float, busy: int):
    """RL-20: floors fall to a quarter and no further; below that a full run is no verdict."""
    assert len(scaled.too_busy({"pace": {"cpu": cpu, "sync": sync, "least": 0.25}})) == busy
