"""What pages print for commands is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.runs import Ran, tally
from tests.cli.sessions import sessions

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
EXPLAIN = re.compile(r"tally explain (\S+@\d+) (\S+)")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of the tutorial with one order; no bank runs, and no node."""
    assert tally("init", str(tmp_path / "shop"), "--template", "orders").code == 0
    data = str(tmp_path / "shop" / ".tally")
    app = str(tmp_path / "shop" / "app.py")
    assert tally("world", "create", "main", "--bundle", app, "--data", data).code == 0
    order = '{"order_id": "o-1", "cents": 1250}'
    assert tally("send", "shop/Placed@1", order, "--wait", "5", "--data", data).code == 0
    return tmp_path / "shop"


def run(shop: Path, *words: str) -> Ran:
    return tally(*words, "--data", str(shop / ".tally"))


def lines_of(command: str) -> list[list[str]]:
    """What the pages print for a command."""
    every = [said for page in PAGES for session in sessions(page) for said in session]
    return [said.lines for said in every if said.command == command]


def test_an_explanation_begins_as_pages_say(shop: Path) -> None:
    """K-23: the cell by its workflow and key, then where it stands."""
    told = run(shop, "explain", "shop/orders@1", "o-1").out.splitlines()
    assert told == ["shop/orders@1 o-1: waiting", "  timer: waits for its time"]
    assert lines_of("tally explain shop/orders@1 o-1") == [told, told]
    every = [said for page in PAGES for session in sessions(page) for said in session]
    shown = [(EXPLAIN.fullmatch(said.command), said.lines) for said in every]
    for found, lines in shown:
        assert found is None or lines[0].startswith(f"{found[1]} {found[2]}: ")


def test_a_damaged_export_is_judged_as_the_page_says(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-23: a verdict with what is wrong, exit 1; and nothing of the file is imported."""
    monkeypatch.chdir(shop)
    assert run(shop, "world", "export", "--bundle", "-o", "bad.export").code == 0
    whole = bytearray(Path("bad.export").read_bytes())
    whole[len(whole) // 2] ^= 1
    Path("bad.export").write_bytes(whole)
    done = run(shop, "verify", "--bundle", "bad.export")
    (lines,) = lines_of("tally verify --bundle bad.export")
    assert (done.err + done.out).splitlines() == lines
    page = (ROOT / "docs" / "how-to" / "prove-what-happened.md").read_text("utf-8")
    assert f"This ends with {done.code}" in page
    assert run(shop, "world", "import", "bad.export", "copy").code == 2


def test_a_look_without_a_node_leaves_the_world_as_it_is(shop: Path) -> None:
    """ND-28: no timer fires while somebody looks, as the page says."""
    head = run(shop, "journal", "head").out
    assert run(shop, "cell", "ls").code == 0
    assert run(shop, "journal", "head").out == head
    page = (ROOT / "docs" / "how-to" / "send-and-see.md").read_text("utf-8")
    assert "Who only looks leaves the world as it is" in page
