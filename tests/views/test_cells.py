"""Cells as readers see them: the list, its pages, and one cell whole."""

from __future__ import annotations

import json

import pytest

from tallystick.errors import Rejected, SchemaMismatch, UnknownName
from tallystick.kernel.inputs import TakeSnapshot
from tallystick.model.cells import CellId
from tallystick.values import canon
from tallystick.views import shown
from tallystick.views.cells import CellFilter, cell_id, cell_list, cell_show
from tallystick.views.pages import Page
from tests.rig import Rig
from tests.views.worlds import KID, lab
from tests.worlds import GO, LAB, WATCH, go


def filled() -> Rig:
    rig = lab()
    for i in range(20):
        rig.send(GO, go(f"c{i}", "ask" if i % 4 == 0 else "note", 2))
    return rig


def walked(
    rig: Rig, limit: int, wanted: CellFilter | None = None, looked_max: int = 2000
) -> list[str]:
    """Every key that the pages show, one after the other."""
    found, after = [], None
    while True:
        page = cell_list(rig.world, Page(limit, after, looked_max), wanted)
        assert len(page["items"]) <= limit
        assert page["as_of"] == rig.world.seq
        found += [row["key"] for row in page["items"]]
        after = page["next"]
        if after is None:
            return found


@pytest.mark.clause("K-45")
@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_pages_show_every_cell_once(limit: int) -> None:
    """K-45: whatever the page size, before and after a snapshot, each cell stands there once."""
    rig = filled()
    keys = [f"c{i}" for i in range(20)]
    before = walked(rig, limit)
    assert sorted(before) == sorted(keys)
    rig.do(TakeSnapshot(rig.clock.sample()))
    rig.send(GO, go("late"))
    after = walked(rig, limit)
    assert sorted(after) == sorted([*keys, "late"])
    assert [key for key in after if key != "late"] == before


def test_filters() -> None:
    """A list by workflow and by status shows those and no others."""
    rig = filled()
    rig.send(GO, go("x", "spawn"))
    rig.send(GO, go("bad", "spoil"))
    assert walked(rig, 4, CellFilter(workflow=KID)) == ["x-kid"]
    assert walked(rig, 4, CellFilter(status="failed")) == ["bad"]
    assert sorted(walked(rig, 4, CellFilter(LAB, "waiting"))) == ["c0", "c12", "c16", "c4", "c8"]
    with pytest.raises(Rejected) as refused:
        walked(rig, 4, CellFilter("t/none@1"))
    assert (refused.value.code, refused.value.where["path"]) == ("request.bad_query", "?workflow")


def test_a_filtered_page_is_bounded() -> None:
    """A filter that nothing passes does not walk all cells for one page: it goes on by cursor."""
    rig = filled()
    whole = cell_list(rig.world, Page(5), CellFilter(status="failed"))
    assert whole == {"items": [], "next": None, "as_of": rig.world.seq}
    first = cell_list(rig.world, Page(5, None, 6), CellFilter(status="failed"))
    assert first["items"] == []
    assert first["next"] is not None
    assert walked(rig, 5, CellFilter(status="failed"), 6) == []
    assert len(walked(rig, 5, CellFilter(status="waiting"), 6)) == 5


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (Page(0), "list.bad_limit"),
        (Page(1001), "list.bad_limit"),
        (Page(5, "nothing"), "list.bad_cursor"),
        (Page(5, "!" + "0" * 64), "list.bad_cursor"),
        (Page(5, "t/lab@1!" + "0" * 63), "list.bad_cursor"),
        (Page(5, "t/lab@1!" + "Z" * 64), "list.bad_cursor"),
        (Page(5, "t/lab@1!" + "A" * 64), "list.bad_cursor"),
    ],
)
def test_bad_pages_are_refused(page: Page, code: str) -> None:
    """A limit or a cursor that no list gave out is refused, never guessed at."""
    with pytest.raises(Rejected) as why:
        cell_list(filled().world, page)
    assert why.value.code == code
    assert why.value.hint


@pytest.mark.clause("X-09", "X-10")
def test_one_cell_whole() -> None:
    """04 section 9, X-09, X-10: every field of the shape, the metadata, and what is in flight."""
    rig = filled()
    shape = cell_show(rig.world, CellId(LAB, canon.encode("c4")))
    assert list(shape)[:8] == [
        "world",
        "workflow",
        "key",
        "status",
        "state",
        "state_hash",
        "state_version",
        "workflow_hash",
    ]
    assert shape["key"] == "c4"
    assert shape["status"] == "waiting"
    assert shape["state"] == {"id": "c4", "log": ["ask"]}
    assert shape["about"]["owners"] == ["a team"]
    assert [row["issuer_ref"] for row in shape["inflight"]] == ["q0", "q1"]
    assert list(shape["inflight"][0]) == [
        "intent",
        "effect",
        "opened_seq",
        "timeout_at_ns",
        "attempt",
        "issuer_ref",
        "hold",
    ]
    assert json.loads(json.dumps(shape)) == shape


def test_mail_and_large_states() -> None:
    """What waits in a mailbox is listed; a state over 16 KiB is named, not shown."""
    rig = lab()
    rig.send(GO, go("a", "big", 20_000))
    rig.send(GO, go("a", "note"), run=False)
    shape = cell_show(rig.world, CellId(LAB, canon.encode("a")))
    assert shape["mailbox"] == 1
    assert shape["mail"] == [
        {"seq": rig.world.seq, "schema": GO, "arm": "Go", "intent": None},
    ]
    assert shape["state"]["$blob"] == shape["state_hash"]
    assert shape["state"]["head"].startswith('{"id": "a", "log": ["xxx')


def test_unknown_names() -> None:
    """A cell or workflow that is not there is refused by its code."""
    world = filled().world
    with pytest.raises(UnknownName) as why:
        cell_show(world, CellId(LAB, canon.encode("nobody")))
    assert why.value.code == "cell.unknown"
    with pytest.raises(UnknownName) as why:
        cell_id(world, "t/none@1", "x")
    assert why.value.code == "workflow.unknown"


def test_keys_as_text() -> None:
    """A key in a path is read back to the same bytes; an unkeyed workflow has `-`."""
    world = filled().world
    for text in ("c4", "12", "true", '{"a":1}', "-", "with space/and slash", "ü"):
        ident = cell_id(world, LAB, text)
        assert ident == CellId(LAB, canon.encode(text))
        assert shown.key_text(ident.key) == text
    assert cell_id(world, WATCH, "-") == CellId(WATCH, b"")
    assert shown.key_text(b"") == "-"
    with pytest.raises(SchemaMismatch):
        cell_id(world, WATCH, "x")
