"""Journal rows: pages, one record, the export, and how values are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallystick.errors import Rejected, UnknownName
from tallystick.kernel.inputs import Submit, TakeSnapshot
from tallystick.model.cells import CellId
from tallystick.model.records import KIND_OF
from tallystick.values import canon
from tallystick.views import journal, shown
from tallystick.views.journal import RowFilter, journal_list, journal_show, rows
from tallystick.views.pages import Page
from tests.rig import OUTSIDER, START_NS, Rig
from tests.views.worlds import frames, lab
from tests.worlds import ASK, GO, LAB, go

ROW = ["seq", "kind", "at_ns", "frame", "workflow", "key", "intent", "record"]


def lived() -> Rig:
    """A world with a record of nearly every kind."""
    rig = lab()
    rig.send(GO, go("a", "ask", 2), idem_key=b"k" * 32, tags=("x",))
    rig.settle(rig.jobs.of(ASK)[0], {"a": "yes"})
    rig.settle(rig.jobs.of(ASK)[0], {"a": "again"})
    rig.settle(rig.jobs.of(ASK)[1], {"a": "forged"}, pair=OUTSIDER)
    rig.settle(rig.jobs.of(ASK)[1], b"\x00no document")
    rig.send(GO, go("b", "spoil"))
    rig.send(GO, go("c", "spawn"))
    rig.send(GO, go("d", "undeclared"))
    rig.send(GO, go("e", "big", 20_000))
    rig.operate("suspend", LAB, "a")
    rig.do(TakeSnapshot(rig.clock.sample()))
    return rig


def paged(
    rig: Rig, limit: int, wanted: RowFilter, bounds: tuple[int, int] = (2000, 10**6)
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = None
    while True:
        start = 0 if after is None else int(after)
        page = journal_list(frames(rig, start), Page(limit, after, *bounds), wanted, rig.world.seq)
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


@pytest.mark.clause("K-45", "X-07")
def test_every_record_is_a_row() -> None:
    """K-45, X-07: a row per record, numbered without gap, JSON all through, with its cell."""
    rig = lived()
    found = list(rows(frames(rig)))
    assert [row["seq"] for row in found] == list(range(1, rig.world.seq + 1))
    assert [row["kind"] for row in found] == [KIND_OF[type(r)] for r in rig.records()]
    assert all(list(row) == ROW for row in found)
    assert json.loads(json.dumps(found)) == found
    assert all(row["at_ns"] == START_NS for row in found)
    ticks = [row for row in found if row["kind"] == "tick"]
    assert {(row["workflow"], row["key"]) for row in ticks} >= {(LAB, "a"), (LAB, "c")}
    assert {row["kind"] for row in found} == {*journal.KINDS} - {"progress", "note"}
    frame_of = {row["seq"]: row["frame"] for row in found}
    for frame in frames(rig):
        same = {frame_of[seq] for seq in range(frame.seq, frame.last + 1)}
        assert same == {canon.text_of(frame.hash)}


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_pages_join_to_the_whole(limit: int) -> None:
    """Whatever the page size, also in the middle of a frame: no row is missed or doubled."""
    rig = lived()
    found = paged(rig, limit, RowFilter())
    assert [row["seq"] for row in found] == list(range(1, rig.world.seq + 1))


def test_filters() -> None:
    """Rows by kind, by intent and by cell; a cell's rows hold its mail, ticks and receipts."""
    rig = lived()
    whole = list(rows(frames(rig)))
    ticks = paged(rig, 3, RowFilter(kind="tick"))
    assert [row["seq"] for row in ticks] == [row["seq"] for row in whole if row["kind"] == "tick"]
    intent = rig.jobs.of(ASK)[0].intent
    about = paged(rig, 3, RowFilter(intent=intent))
    assert [row["kind"] for row in about] == ["intent", "receipt", "dropped"]
    cell = paged(rig, 3, RowFilter(cell=CellId(LAB, canon.encode("c"))))
    assert [row["kind"] for row in cell] == [
        "event",
        "tick",
        "intent",
        "event",
        "receipt",
        "tick",
    ]


def test_a_page_is_bounded() -> None:
    """A page ends before it grows too large, and after a bounded number of records."""
    rig = lived()
    small = journal_list(frames(rig), Page(1000, None, 2000, 4000), RowFilter(), rig.world.seq)
    assert 0 < len(small["items"]) < rig.world.seq
    whole = paged(rig, 1000, RowFilter(), (2000, 4000))
    assert [row["seq"] for row in whole] == list(range(1, rig.world.seq + 1))
    none = journal_list(frames(rig), Page(1000, None, 4), RowFilter(kind="fault"), rig.world.seq)
    assert (none["items"], none["next"]) == ([], "4")
    assert len(paged(rig, 1000, RowFilter(kind="fault"), (4, 10**6))) == 1


@pytest.mark.parametrize("after", ["", "-1", "x", "1" * 20, "٣"])
def test_bad_cursors_are_refused(after: str) -> None:
    """A cursor that is no sequence number is refused."""
    with pytest.raises(Rejected) as why:
        journal_list([], Page(5, after), RowFilter(), 0)
    assert why.value.code == "list.bad_cursor"


@pytest.mark.clause("X-22")
def test_one_record() -> None:
    """X-22: a record is shown with its frame's place in the chain and the seq of its cause."""
    rig = lived()
    for frame in frames(rig):
        for seq in range(frame.seq, frame.last + 1):
            found = journal_show(frame, seq, START_NS)
            assert found["seq"] == seq
            assert found["in_frame"]["hash"] == found["frame"]
            if found["kind"] == "tick":
                assert found["cause"] < seq
                assert {"before", "after", "output", "effects"} & set(found["record"])
    with pytest.raises(UnknownName) as why:
        journal_show(frame, frame.last + 1)
    assert why.value.code == "journal.unknown_seq"


def test_how_values_are_shown() -> None:
    """Documents are decoded, digests named, a 32-byte key of a caller stays text."""
    rig = lived()
    found = list(rows(frames(rig)))
    first = next(row["record"] for row in found if row["kind"] == "event")
    assert first["value"] == {"id": "a", "do": "ask", "n": 2}
    assert first["idem_key"]["key"] == "k" * 32
    assert first["tags"] == ["x"]
    assert first["to"][0]["key"] == "a"
    assert first["event_hash"].startswith("sha256:")
    (rejected,) = [r["record"] for r in found if r["record"].get("status") == "rejected"]
    assert rejected["payload"] == {"$bytes": "AG5vIGRvY3VtZW50"}
    trusted = next(r["record"] for r in found if r["record"]["record"] == "KeyTrusted")
    assert len(trusted["public_key"]) == 64
    assert shown.json_of({1: 2**60, "b": b"\xff", "c": [None, True, 1.5]}) == {
        "1": str(2**60),
        "b": "/w==",
        "c": [None, True, 1.5],
    }
    assert shown.document(b"\xff" * 10, most=3) == {"$bytes": "////"}


def test_export_is_whole() -> None:
    """04 section 9: head line, a row per record with its values whole, end line with the head."""
    rig = lived()
    lines = list(journal.export_rows(rig.world.id, frames(rig), (1, rig.world.seq)))
    assert lines[0] == {
        "tally": "export",
        "format": 1,
        "world": rig.world.id,
        "from": 1,
        "to": rig.world.seq,
    }
    head = canon.text_of(rig.world.head)
    assert lines[-1] == {"end": True, "records": rig.world.seq, "head": head}
    assert "$blob" not in json.dumps(lines)
    part = list(journal.export_rows(rig.world.id, frames(rig), (3, 5)))
    assert [row["seq"] for row in part[1:-1]] == [3, 4, 5]


def test_time_is_carried_on() -> None:
    """A tick has the time of the input before it; a reader in the middle says what that was."""
    rig = lab()
    rig.clock.now_ns += 5
    rig.do(Submit(rig.clock.sample(), GO, go("a")))
    at = rig.world.seq
    rig.run()
    assert [row["at_ns"] for row in rows(frames(rig, at))] == [None]
    assert [row["at_ns"] for row in rows(frames(rig, at), START_NS + 5)] == [START_NS + 5]
