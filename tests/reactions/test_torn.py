"""Power is lost under a workspace: the log of the journal is cut anywhere (S33)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tallystick.journal import sqlite
from tallystick.journal.torn import log_of
from tallystick.node.writer import Writer
from tests.reactions.noded import Scene, noded, scene
from tests.reactions.scenario import planted

CUTS = int(os.environ.get("TALLY_CUTS", "4"))
MINE = "a person wrote this"
COPIER = """\
reaction: copier
on: [{files: ["in/*.txt"]}]
reads: {files: ["in/*.txt"]}
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - {name: read, file.read: {paths: ["in/a.txt"]}}
  - {name: page, file.write: {path: "out/page.md", content: "about {{ actions.read.text }}"}}
"""


class Left:
    """A folder as it lay there at two moments of one life, and the bytes of its log between."""

    def __init__(self, folder: Path, calm: int, size: int) -> None:
        self.folder = folder
        self.calm = calm
        self.size = size

    def cut(self, to: Path, at: int) -> Path:
        """A copy whose log ends at a byte, and which knows that it lies elsewhere."""
        shutil.copytree(self.folder, to)
        log = to / ".tally" / "tally.db-wal"
        with log.open("r+b") as file:
            file.truncate(at)
        rows = to / ".tally" / "workspaces.json"
        told = json.loads(rows.read_text("utf-8"))
        rows.write_text(json.dumps([{**row, "folder": str(to / "ws")} for row in told]))
        return to


async def _leave(folder: Path) -> Left:
    # The log grows as it does under load: nobody brings it home while the story is told, nor fills
    # it ahead of the commits (`tests/journal/test_log_ready.py` cuts one that is).
    with (
        planted(Writer, "_tidy", _nothing),
        planted(Writer, "_home", _nothing),
        planted(Writer, "_lengthen", _nothing),
    ):
        return await _live(folder)


def _nothing(_writer: Writer) -> None:
    """What the writer's thread would do between commits is left out."""


async def _live(folder: Path) -> Left:
    async with noded(folder / "live") as node:
        here = await scene(node, folder / "live" / "ws", copier=COPIER)
        here.write("in/a.txt", "1")
        here.write("mine.txt", MINE)
        await here.add()
        here.write("in/a.txt", "2")
        await here.scan()
        calm = (node.folder / "tally.db-wal").stat().st_size
        here.write("in/a.txt", "3")
        await here.scan()
        assert (here.folder / "out/page.md").read_text("utf-8") == "about 3"
        shutil.copytree(folder / "live", folder / "left")
    return Left(folder / "left", calm, (folder / "left/.tally/tally.db-wal").stat().st_size)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return asyncio.run(_leave(tmp_path_factory.mktemp("torn")))


def reports(folder: Path) -> list[dict[str, Any]]:
    """The lines of the node's log about a log that was cut."""
    lines = (folder / ".tally" / "logs" / "node.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["code"] == "journal.tail_cut"]


async def go_on(folder: Path, had: str, word: str) -> list[str]:
    """Open what is left and work on; how its runs ended."""
    async with noded(folder) as node:
        world = node.resolve("w0")
        here = Scene(node, world, folder / "ws")
        here.kept = node.watching.workspaces.of(world)[0]
        page = here.folder / "out/page.md"
        await here.scan()
        assert page.read_text("utf-8") == f"about {had}"
        live = (await node.watching.projected.now(world)).stamps.entries()
        again = await node.watching.projected.past(world, node.feed.head(world))
        assert live == again.stamps.entries()
        here.write("in/a.txt", word)
        await here.scan()
        assert page.read_text("utf-8") == f"about {word}"
        return [row["state"] for row in await here.runs()]


def s33(left: Left, folder: Path, at: int) -> None:
    """The log ends at this byte: the workspace goes on, and it is said once."""
    here = left.cut(folder, at)
    before = len(reports(here))
    assert set(asyncio.run(go_on(here, "3", "4"))) == {"complete"}
    (row,) = reports(here)[before:]
    assert 0 < row["bytes"] <= at
    assert set(asyncio.run(go_on(here, "4", "5"))) == {"complete"}
    assert len(reports(here)) == before + 1, "it was said already"
    assert (here / "ws/mine.txt").read_text("utf-8") == MINE


def cuts(left: Left) -> list[int]:
    """Bytes spread over the last cycle of the reaction, each in the middle of a page."""
    log = log_of(left.folder / ".tally" / "tally.db")
    assert log is not None
    whole, span = 24 + log.page, left.size - left.calm
    found = [left.calm + span * nth // CUTS for nth in range(CUTS - 1)]
    return [*(at - (at - 32) % whole + whole // 2 for at in found), left.size - 1]


@pytest.mark.clause("F-06", "F-08")
@pytest.mark.parametrize("nth", range(CUTS))
def test_s33_a_torn_log_is_cut_and_said_once(left: Left, tmp_path: Path, nth: int) -> None:
    """S33: cut inside any commit of a run: stamps are those of the rest, no user byte is lost.

    `TALLY_CUTS=60` cuts at more places.
    """
    s33(left, tmp_path / "w", cuts(left)[nth])


@pytest.mark.pure_only
def test_s33_a_cut_that_nobody_tells_of_is_found_out(left: Left, tmp_path: Path) -> None:
    """RX-01: where the journal passes over the torn end as SQLite does, S33 fails."""
    with planted(sqlite, "torn_bytes", lambda *_: 0), pytest.raises((AssertionError, ValueError)):
        s33(left, tmp_path / "silent", left.size - 1)


@pytest.mark.pure_only
def test_s33_a_cut_that_is_told_of_twice_is_found_out(left: Left, tmp_path: Path) -> None:
    """RX-01: where what was told is not remembered, S33 fails."""

    def forgets(_journal: object, **_values: object) -> None:
        return None

    with planted(sqlite.SqliteJournal, "set_meta", forgets), pytest.raises(AssertionError):
        s33(left, tmp_path / "twice", left.size - 1)
