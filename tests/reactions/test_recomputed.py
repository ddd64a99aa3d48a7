"""All that was recorded of reactions comes out again, by one command (RX-06)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.reactions.listed import Listed
from tests.cli.runs import tally
from tests.reactions.noded import noded, scene
from tests.reactions.scenario import planted

MANY = bool(os.environ.get("TALLY_MANY_RUNS"))
FILES, ROUNDS = (100, 5) if MANY else (12, 2)
EACH = """\
reaction: each
target: {kind: file, match: "in/*"}
on: [{files: ["in/*"]}]
reads: {files: ["in/*"]}
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - {name: page, file.write: {path: "out/{{ target.name }}", content: "{{ trigger.input_digest }}"}}
"""
SUM = """\
reaction: sum
on: [{files: ["out/*"], generated: true}]
reads: {files: ["out/*"]}
writes: {files: ["sum.md"]}
cooldown: 0s
actions: [{name: page, file.write: {path: sum.md, content: "{{ trigger.input_digest }}"}}]
"""


async def _leave(folder: Path) -> Path:
    async with noded(folder) as node:
        here = await scene(node, folder / "ws", each=EACH, sum=SUM)
        here.write("in/none", "0")
        await here.add()
        for round_ in range(ROUNDS):
            for i in range(FILES):
                here.write(f"in/{i:03}", f"{round_}")
            await here.scan()
            await here.scan()
        rows = await here.runs()
        assert len(rows) > ROUNDS * FILES
    return folder / ".tally"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return asyncio.run(_leave(tmp_path_factory.mktemp("left")))  # type: ignore[arg-type]


def said(data: Path, *words: str) -> tuple[int, Any]:
    done = tally(*words, "--data", str(data), "-w", "w0", "--json")
    return done.code, json.loads(done.out) if done.out else done.problem


@pytest.mark.clause("F-04", "F-07")
def test_rx06_all_records_come_out_the_same(left: Path) -> None:
    """RX-06: envelopes, decisions, runs and stamps, recomputed by command: equal, exit 0.

    TALLY_MANY_RUNS=1 makes a journal of over 10,000 records.
    """
    code, told = said(left, "reaction", "replay", "--all")
    assert (code, told.get("same"), told.get("first")) == (0, True, None), told
    assert told["triggers"] >= ROUNDS * FILES
    assert told["decisions"] >= ROUNDS * FILES
    assert told["runs"] > ROUNDS * FILES
    assert told["stamps"] >= ROUNDS * FILES
    assert told["records"] > (10_000 if MANY else 100)
    assert said(left, "reaction", "replay")[0] == 2


@pytest.mark.clause("F-07")
def test_rx06_another_input_is_found_out(left: Path, tmp_path: Path) -> None:
    """RX-06 control: another digest over the same files, or a changed tree: named, exit 4."""
    left = Path(shutil.copytree(left, tmp_path / ".tally"))
    with planted(Listed, "digest", lambda *_: "sha256:" + "0" * 64):
        code, told = said(left, "reaction", "replay", "--all")
    assert (code, told["same"], told["first"]["kind"]) == (4, False, "trigger")
    listing = b"\x43001" + b"\x61f" + b"\x58\x20"
    with sqlite3.connect(left / "tally.db") as held:
        found = held.execute("SELECT hash, body FROM blob").fetchall()
        trees = [(name, body) for name, body in found if listing in body and b"tree@1" in body]
        assert trees
        for name, body in trees:
            at = body.index(listing) + len(listing)
            other = body[:at] + bytes((body[at] ^ 1,)) + body[at + 1 :]
            held.execute("UPDATE blob SET body = ? WHERE hash = ?", (other, name))
    held.close()
    code, told = said(left, "reaction", "replay", "--all")
    assert (code, told["code"]) == (4, "journal.blob_damaged")
