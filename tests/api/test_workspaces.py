"""Workspaces, frames and stamps over HTTP: what is kept about places, and what is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.reacting import PAGER, reacting


def frame(path: str, kind: str, words: str) -> dict[str, Any]:
    """A piece of context for a place, as it is sent."""
    return {"path": path, "type": kind, "content": b64encode(words.encode()).decode()}


def test_a_directory_is_watched_until_it_is_removed(tmp_path: Path) -> None:
    """08 section 13: an absolute path is asked for; what is removed is no workspace any more."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            refused = await here.code("POST", "/workspaces", {"path": "ws"})
            assert refused == (400, "workspace.bad_path")
            status, told = await here.ask("DELETE", f"/workspaces/{here.kept.name}")
            assert (status, told["path"]) == (200, str(here.folder))
            again = await here.code("DELETE", f"/workspaces/{here.kept.name}")
            assert again == (404, "workspace.unknown")
            status, told = await here.ask("GET", "/frames")
            assert (status, told["code"]) == (400, "workspace.which")
            assert "--in" in told["hint"]

    asyncio.run(main())


def test_frames_are_found_by_place_kind_and_freshness(tmp_path: Path) -> None:
    """08 section 9: one head for a place and a type; stale once the bytes below it change."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            await here.done("/frames", frame("in", "note", "about in"))
            await here.done("/frames", frame("in/a.txt", "note", "first"))
            await here.done("/frames", frame("in/a.txt", "note", "second"))
            await here.done("/frames", frame("in/a.txt", "todo", "later"))
            rows = (await here.get("/frames"))["items"]
            keys = [(row["path"], row["type"], row["fresh"]) for row in rows]
            assert keys == [("in", "note", True), ("in/a.txt", "note", True),
                            ("in/a.txt", "todo", True)]  # fmt: skip
            (row,) = (await here.get("/frames?path=in/a.txt&type=note&content=true"))["items"]
            assert (row["content"], row["past"]) == ("second", 2)
            assert row["author"]["kind"] == "human"
            assert (await here.get("/frames?stale=true"))["items"] == []
            here.write("in/a.txt", "two")
            await here.scan()
            assert len((await here.get("/frames?stale=true"))["items"]) == 3
            nowhere = await here.code("POST", "/frames", frame("none", "note", "x"))
            assert nowhere == (404, "frame.no_place")

    asyncio.run(main())


def test_a_frame_whose_content_is_gone_says_so(tmp_path: Path) -> None:
    """10: bytes that left the store under a frame are a 404 with a code, and the list goes on."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            told = await here.done("/frames", frame("in", "note", "words " * 40))
            digest = bytes.fromhex(told["content_id"].removeprefix("sha256:"))
            with sqlite3.connect(here.node.config.data / "tally.db") as held:
                gone = held.execute("DELETE FROM blob WHERE hash = ?", (digest,)).rowcount
            held.close()
            assert gone == 1
            assert await here.code("GET", "/frames?content=true") == (404, "frame.pruned")
            assert len((await here.get("/frames"))["items"]) == 1

    asyncio.run(main())


@pytest.mark.clause("F-10")
def test_stamps_say_who_wrote_what_now_and_then(tmp_path: Path) -> None:
    """08 section 8: each write of a path by its run, also as of a seq; only a stamp is moved."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER) as here:
            before = here.node.feed.head(here.world)
            here.write("in/a.txt", "two")
            await here.scan()
            (stamp,) = (await here.get("/stamps?path=out/page.md"))["items"]
            (run,) = await here.runs()
            assert stamp["run_id"] == run["run_id"]
            assert (await here.get("/stamps?path=in/a.txt"))["items"] == []
            assert (await here.get(f"/stamps?at={before}"))["items"] == []
            here.write("in/a.txt", "three")
            await here.scan()
            whole = (await here.get("/stamps"))["items"]
            assert len(whole) == 2
            first = await here.get("/stamps?limit=1")
            last = await here.get(f"/stamps?limit=1&after={quote(first['next'])}")
            assert ([*first["items"], *last["items"]], last["next"]) == (whole, None)
            unwritten = await here.code("POST", "/stamps/adopt", {"path": "in/a.txt"})
            assert unwritten == (404, "stamp.unknown")
            told = await here.done("/stamps/adopt", {"path": "out/page.md"})
            assert (told["path"], told["verb"]) == ("out/page.md", "adopt")
            states = {row["state"] for row in (await here.get("/stamps"))["items"]}
            assert states == {"adopted"}
            await here.done("/stamps/forget", {"path": "out/page.md"})
            assert (await here.get("/stamps"))["items"] == []

    asyncio.run(main())
