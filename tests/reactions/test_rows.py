"""Long lists beside the state of a cell: the same rows in the same order, and a short state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.kernel.reach import Marks
from tallystick.reactions import rows
from tallystick.reactions.cell import Turn
from tallystick.values import canon
from tests.reactions.scenario import at_desk


def turn_of(blobs: dict[str, bytes]) -> Turn:
    made = Turn(0, 0, "w", blobs.__getitem__, lambda *_: None)
    made.blobs = blobs
    return made


def pushed(turn: Turn, items: Iterable[int], upto: bool = False) -> rows.Rows:
    made = rows.new()
    for item in items:
        rows.push(turn, made, item, item if upto else None)
    return made


@pytest.mark.clause("F-22")
@given(st.lists(st.integers(-3, 40), max_size=12))
def test_rows_come_out_in_the_order_they_went_in(moves: list[int]) -> None:
    """F-22: pushes and pops in any order are those of a plain list, over pages and books."""
    turn, made, plain, n = turn_of({}), rows.new(), [], 0
    for move in moves:
        for _ in range(move * 9 if move > 0 else 0):
            n += 1
            rows.push(turn, made, n)
            plain.append(n)
        for _ in range(min(len(plain), -move * 70)):
            assert rows.pop(turn, made) == plain.pop(0)
        made = canon.decode(canon.encode(made))
        assert made["n"] == len(plain)
    assert list(rows.every(turn, made)) == plain


def test_rows_by_what_they_are_upto_and_without_one() -> None:
    """`since` reads only pages that can matter; the oldest books go; one row can be taken out."""
    turn = turn_of({})
    made = pushed(turn, range(5_000), upto=True)
    read: list[str] = []
    held = dict(turn.blobs)

    class Reads(dict[str, bytes]):
        def __getitem__(self, name: str) -> bytes:
            read.append(name)
            return held[name]

    reading = turn_of({})
    reading._content = Reads().__getitem__
    newest = rows.since(reading, made, 4_990)
    assert newest[-10:] == list(range(4_990, 5_000))
    assert len(read) <= 3, "old books and pages are not read"
    rows.drop_oldest(made, 4_096)
    assert made["n"] == 5_000 - 1_024
    assert list(rows.every(turn, made)) == list(range(1_024, 5_000))
    short = pushed(turn, range(100))
    assert list(rows.every(turn, rows.without(turn, short, 50))) == [
        n for n in range(100) if n != 50
    ]


ONE = """
reaction: one
target: {kind: file, match: "in/*"}
on: [{files: ["in/*"]}]
reads: {files: ["./none"]}
writes: {files: ["out/**"]}
actions: [{name: w, file.write: {path: "out/{{ target.name }}", content: "1"}}]
"""


@pytest.mark.clause("F-22")
def test_a_long_queue_keeps_the_state_short(tmp_path: Path) -> None:
    """F-22: with 92 queued runs the state names a few dozen hashes, and all of them run.

    The control is the list itself: kept in the state it would be far longer than that.
    """
    with at_desk(tmp_path / "w", ONE, replays=False) as desk:
        desk.write("in/none", "")
        desk.begin()
        small = state_bytes(desk)
        for i in range(100):
            desk.write(f"in/{i:03}", "x")
        desk.observe()
        body = desk.workspace()
        assert body["queued"] == 92
        turn = desk.turn()
        queued = [turn.read(held) for held in rows.every(turn, body["queue"]["one"])]
        assert len({row["run_key"] for row in queued}) == 92
        assert state_bytes(desk) < small + 8_000 < len(canon.encode(queued)) / 4
        marks = marked(desk, body)
        lost = [row["trigger"]["blob"] for row in queued if row["trigger"]["blob"] not in marks]
        assert lost == [], "who collects garbage finds every trigger that waits"
        desk.work()
        assert len(list((tmp_path / "w/out").iterdir())) == 100
        assert desk.workspace()["queued"] == 0


def state_bytes(desk: Any) -> int:
    return len(canon.encode(desk.workspace()))


def marked(desk: Any, body: dict[str, Any]) -> set[str]:
    marks = Marks(desk.driver.blobs, desk.world.catalogue)
    marks._texts(body)
    return {canon.text_of(digest) for digest in marks.kept}
