"""Documents say what is there: files and rooms exist, generated pages match (ST-10)."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.errors import TallyError

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tallystick"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def named_paths(text: str) -> Iterator[str]:
    """Every file or folder that a page names in code marks."""
    for word in re.findall(r"`([\w./-]+)`", text):
        if re.fullmatch(r"[\w.-]*(/[\w.-]+)*(/|\.(py|md|toml|yaml))|(scripts|docs)/[\w/]+", word):
            yield word


def missing(text: str) -> list[str]:
    """The paths of a page that are neither in the package nor in the project."""
    return [p for p in named_paths(text) if not ((PACKAGE / p).exists() or (ROOT / p).exists())]


def rooms() -> list[str]:
    """The rooms that exist."""
    found = [p.parent.name for p in PACKAGE.glob("*/__init__.py")]
    return sorted(name for name in found if not name.startswith("_"))


def test_architecture_names_what_exists() -> None:
    """ST-10: every room and file that ARCHITECTURE.md names is there."""
    assert len(list(named_paths(ARCHITECTURE))) > 40
    assert missing(ARCHITECTURE) == []


def test_architecture_names_every_room_with_its_invariants() -> None:
    """ST-10: every room that exists has its paragraph; those that hold rules have invariants."""
    heads = re.split(r"^### ", ARCHITECTURE, flags=re.MULTILINE)[1:]
    told = {name: part for part in heads for name in re.findall(r"(\w+)/", part.split("\n")[0])}
    assert [room for room in rooms() if room not in told] == []
    quiet = {"cli", "testing"}
    assert [r for r in rooms() if r not in quiet and "**Invariant**" not in told[r]] == []


def test_architecture_is_short_and_draws_every_layer() -> None:
    """ST-10: at most 250 lines, and the picture has each room that the walk needs."""
    assert len(ARCHITECTURE.splitlines()) <= 250
    picture = ARCHITECTURE.split("```")[1]
    assert [r for r in rooms() if r not in {"cli", "testing"} and f"{r}/" not in picture] == []


def test_a_file_that_is_not_there_is_found() -> None:
    """ST-10 control: a page that names an attic is wrong."""
    assert missing("see `kernel/attic.py`, `attic/` and `kernel/tick.py`") == [
        "kernel/attic.py",
        "attic/",
    ]


@pytest.mark.parametrize("name", sorted(REFERENCE["PAGES"]))
def test_generated_page_is_what_the_code_says(name: str) -> None:
    """ST-10: every record, limit and error code is documented, by generation."""
    text = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert text == REFERENCE["PAGES"][name](), "run: make reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """ST-10: every relative link of a page leads to a file."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    local = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_make_targets_are_real() -> None:
    """ST-10: a page that says `make x` names a target, and a target runs a script that is there."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    said = {
        word
        for page in PAGES
        for code in re.findall(r"`([^`\n]+)`|^(make .*)$", page.read_text("utf-8"), re.MULTILINE)
        for word in re.findall(r"^make ([a-z-]+)", "".join(code))
    }
    assert {"setup", "test", "check", "reference"} <= said
    assert sorted(said - targets) == []
    scripts = re.findall(r"\bscripts/(\w+)", makefile)
    assert len(scripts) > 8
    assert [name for name in scripts if not (ROOT / "scripts" / name).exists()] == []


def test_changelog_keeps_its_form() -> None:
    """ST-15: every release has its line on replay; the newest section is Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert releases[0].startswith("[Unreleased]")
    assert [r.split("\n")[0] for r in releases if "**Replay compatibility**: " not in r] == []
    allowed = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= allowed


def test_bugs_are_told_whole() -> None:
    """RL-21: each bug has number, date, symptom, invariant and what brings it back."""
    text = (ROOT / "BUGS.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[0]][:3] == ["number", "date", "symptom"]
    for number, row in enumerate(rows[2:], 1):
        cells = [cell.strip() for cell in row]
        assert len(cells) == 5
        assert cells[0] == str(number)
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", cells[1])
        assert re.fullmatch(r"-|I\d+(, I\d+)*", cells[3])
        assert all(cells)
        assert _is_there(re.findall(r"`([^`]+)`", cells[4])[0]), f"bug {number}: {cells[4]}"


def test_a_bug_whose_test_went_away_is_found() -> None:
    """RL-21 control: a reproducer that names no file, or no test in it, is none."""
    assert not _is_there("tests/kernel/test_no_such_file.py::test_it")
    assert not _is_there("tests/kernel/test_settle.py::test_no_such_test")


def _is_there(reproducer: str) -> bool:
    """Whether the file of a reproducer stands there and has the test that it names."""
    path, _, test = reproducer.partition("::")
    name = test.partition("[")[0].rpartition("::")[2]
    file = ROOT / path
    return file.is_file() and (not name or f"def {name}(" in file.read_text("utf-8"))


def test_decisions_have_their_parts() -> None:
    """12 section 8: an ADR has context, decision, consequences and what would change our mind."""
    parts = ["Context", "Decision", "Consequences", "What would change our mind"]
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert pages[0].name == "0000-template.md"
    assert [int(page.name[:4]) for page in pages] == list(range(len(pages)))
    for page in pages:
        text = page.read_text("utf-8")
        assert re.match(rf"# ADR {page.name[:4]}: \S", text), page.name
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == parts, page.name


def test_error_tree_is_drawn_whole() -> None:
    """12 section 4: errors.py opens with a drawing of the tree that names every class in it."""
    drawn = (PACKAGE / "errors.py").read_text("utf-8").split('"""')[1]
    classes = [c for c in REFERENCE["error_classes"]() if c.__module__ == TallyError.__module__]
    assert [c.__name__ for c in classes if not re.search(rf"\b{c.__name__}\b", drawn)] == []
