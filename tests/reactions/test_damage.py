"""A damaged store under the provenance of a world, by the command line (S33, S49)."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import tally
from tests.reactions.noded import COPIER, noded, scene


class Left:
    """The data folder of a world that reacted once, and what its stamps were at each frame."""

    def __init__(self, data: Path, run_id: str, stamps: list[Any]) -> None:
        self.data = data
        self.run_id = run_id
        self.stamps = stamps

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.data, to)
        return to


async def _leave(folder: Path) -> Left:
    async with noded(folder) as node:
        here = await scene(node, folder / "ws", copier=COPIER)
        await here.add()
        here.write("in/a.txt", "1")
        await here.scan()
        (row,) = await here.runs()
        view = await node.watching.projected.now(here.world)
        return Left(folder / ".tally", row["run_id"], view.stamps.entries())


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    return asyncio.run(_leave(tmp_path_factory.mktemp("left")))  # type: ignore[arg-type]


def said(data: Path, *words: str) -> tuple[int, Any]:
    done = tally(*words, "--data", str(data), "-w", "w0", "--json")
    return done.code, json.loads(done.out) if done.out else done.problem


@pytest.mark.clause("F-19")
def test_s49_a_flipped_byte_is_named_and_nothing_is_exported(left: Left, tmp_path: Path) -> None:
    """S49: first all is well; with one byte of the definition's blob flipped, verify names it."""
    assert said(left.data, "provenance", "verify")[0] == 0
    code, told = said(left.data, "provenance", "export", "--run", left.run_id)
    assert (code, len(told["documents"])) == (0, 1)
    dependencies = told["documents"][0]["predicate"]["buildDefinition"]["resolvedDependencies"]
    digest = bytes.fromhex(dependencies[0]["digest"]["sha256"])
    data = left.copy(tmp_path / "flipped")
    with sqlite3.connect(data / "tally.db") as held:
        (body,) = held.execute("SELECT body FROM blob WHERE hash = ?", (digest,)).fetchone()
        body = body[:-1] + bytes((body[-1] ^ 1,))
        held.execute("UPDATE blob SET body = ? WHERE hash = ?", (body, digest))
    held.close()
    code, told = said(data, "provenance", "verify")
    assert code == 1
    assert told["first_broken"]["id"] in (f"sha256:{digest.hex()}", left.run_id)
    code, told = said(data, "provenance", "export", "--run", left.run_id)
    assert (code, told["code"]) == (1, "provenance.broken")


@pytest.mark.clause("F-06")
def test_s33_after_a_torn_tail_the_stamps_are_those_of_what_is_left(
    left: Left, tmp_path: Path
) -> None:
    """S33, the part of the stamps: of a journal cut at any frame they are the fold of the rest.

    That a torn tail is cut at its last valid frame is shown where the journal is tested.
    """

    async def folded(data: Path, upto: int | None) -> tuple[int, list[Any]]:
        async with noded(data.parent) as node:
            world = node.resolve("w0")
            seq = node.feed.head(world) if upto is None else upto
            return seq, (await node.watching.projected.past(world, seq)).stamps.entries()

    base = tmp_path / "again"
    base.mkdir()
    data = left.copy(base / ".tally")
    (data / "workspaces.json").unlink()
    head, whole = asyncio.run(folded(data, None))
    assert whole == left.stamps != []
    for upto in (head // 3, head // 2, head):
        _, part = asyncio.run(folded(data, upto))
        assert [stamp.path for stamp in part] == [stamp.path for stamp in whole][: len(part)]
    assert asyncio.run(folded(data, head))[1] == whole
