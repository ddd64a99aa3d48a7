"""Every invariant that a run can break has a checker that names it, and a test that cites it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROOM = ROOT / "src" / "tallystick" / "testing"
# I1 to I28 are of kernel and node, I29 to I33 of reactions, I34 to I39 of playbooks.
SIMULATED = [f"I{n}" for n in range(1, 40)]
NAMED = re.compile(r'"(I[0-9]+)"|def check_(I[0-9]+)\b')
MARKED = re.compile(r"mark\.invariant\(([^)]*)\)")


def raised(room: Path = ROOM) -> set[str]:
    """The invariants that the code of a room can find broken."""
    texts = [path.read_text("utf-8") for path in sorted(room.glob("*.py"))]
    return {one or other for text in texts for one, other in NAMED.findall(text)}


def cited() -> set[str]:
    """The invariants that some test is marked with."""
    found: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for inside in MARKED.findall(path.read_text("utf-8")):
            found |= set(re.findall(r'"(I[0-9]+)"', inside))
    return found


def test_every_invariant_has_a_checker_and_a_test() -> None:
    """10 section 2: none of I1 to I39 is only words."""
    assert sorted(set(SIMULATED) - raised()) == []
    assert sorted(set(SIMULATED) - cited()) == []


def test_an_invariant_without_a_checker_is_found(tmp_path: Path) -> None:
    """10 section 2, control: a room that never names I7 lacks it."""
    for path in ROOM.glob("*.py"):
        text = path.read_text("utf-8").replace('"I7"', '"I2"')
        (tmp_path / path.name).write_text(text, "utf-8")
    assert set(SIMULATED) - raised(tmp_path) == {"I7"}
