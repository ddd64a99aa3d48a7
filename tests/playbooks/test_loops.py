"""Loops and traces as they are written: short, and read back as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.playbooks.loops import Page, loops_of, put_loops, spans_of
from tallystick.playbooks.trace import DONE, SCHEDULED, events_of, put_trace, put_turn
from tallystick.values import canon

NUMBERS = st.lists(st.integers(0, 90), unique=True, max_size=40)
VALUES = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.none()))
KEPT = st.one_of(
    VALUES.map(lambda value: {"v": value}),
    st.just({"h": "sha256:" + "0" * 64, "n": 2000}),
    st.just({"h": "sha256:" + "1" * 64, "n": 2000, "shell": {"a": 1}}),
)


def loop_of(opened: list[int], page: list[list[Any]]) -> dict[str, Any]:
    """A loop in memory."""
    return {"next": 100, "ok": 3, "failed": 1, "open": opened, "page": page}


def read(item: bytes) -> dict[str, Any]:
    """Encoded loops, read back; their bytes must be canonical."""
    data = canon.PREFIX + item
    raw = canon.decode(data)
    assert canon.encode(raw) == data
    return loops_of(raw)


@pytest.mark.clause("N-22")
@given(NUMBERS, st.dictionaries(st.integers(0, 90), KEPT, max_size=40))
def test_loops_come_back(opened: list[int], rows: dict[int, Any]) -> None:
    """PB-27, PB-15: what is open and every row of a page come back, whatever is missing between."""
    loops = {"r10": loop_of(sorted(opened), [[i, kept] for i, kept in rows.items()])}
    loops["r2"] = loop_of([], [])
    found = read(put_loops(loops, {}))
    assert list(found) == ["r2", "r10"]
    page = sorted(found["r10"].pop("page"), key=lambda row: row[0])
    assert page == sorted(loops["r10"].pop("page"), key=lambda row: row[0])
    assert found["r10"] == loops["r10"]
    assert found["r2"] == loops["r2"]


@given(st.permutations(range(20)), st.integers(0, 20))
def test_a_page_grows_to_the_bytes_of_its_rows(order: list[int], cut: int) -> None:
    """PB-27: results that come in any order, one by one, give the page that the rows give."""
    rows: list[list[Any]] = [[i, {"v": str(i)}] for i in order]
    page = Page(rows[:cut])
    for i, kept in rows[cut:]:
        page.add(i, canon.encode_item(kept["v"]))
    loop = loop_of([], rows)
    assert page.loop(loop) == Page(rows).loop(loop)


def test_what_lies_side_by_side_is_short() -> None:
    """PB-27: control: 32 open iterations are two numbers, 64 results are a byte each."""
    assert spans_of(range(487, 519)) == [487, 32]
    assert spans_of([0, 1, 5]) == [0, 2, 3, 1]
    loop = loop_of(list(range(487, 519)), [[i, {"v": None}] for i in range(400, 464)])
    assert len(put_loops({"r1": loop}, {})) < 64 + 60


def test_a_turn_of_a_loop_is_told_in_a_line() -> None:
    """PB-27: done and scheduled of one loop are one row; anything else is told word by word."""
    done = {"event": DONE, "run": "r1", "iteration": 4}
    begun = {"event": SCHEDULED, "run": "r1", "iteration": 9}
    other = {**begun, "run": "r2"}
    for events in ([done], [done, begun], [begun], [done, other], [done, begun, begun], []):
        assert events_of(put_trace(events)) == events
    assert (
        put_trace([done, begun]) == put_turn("r1", 4, 9) == canon.encode({"events": [["r1", 4, 9]]})
    )
    assert put_trace([done]) == put_turn("r1", 4)
    assert put_trace([done, other]) == canon.encode({"events": [done, other]})
