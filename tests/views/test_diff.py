"""What differs between two worlds, and between two values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallystick.views.diff import census, changes, compared
from tallystick.views.pages import Page
from tests.rig import Rig
from tests.views.worlds import lab
from tests.worlds import GO, go


def whole(left: Rig, right: Rig, looked_max: int) -> list[dict[str, Any]]:
    """Every difference, page by page."""
    found, after = [], None
    while True:
        page = Page(after=after, looked_max=looked_max)
        made = compared(census(left.world, page), census(right.world, page))
        found += made["items"]
        after = made["next"]
        if after is None:
            return found


@pytest.mark.clause("X-08")
@pytest.mark.parametrize("looked_max", [1, 3, 1000])
def test_two_worlds(looked_max: int) -> None:
    """X-08: what was written in one of two worlds is named, whatever the size of a page."""
    left, right = lab(), lab()
    for rig in (left, right):
        for i in range(8):
            rig.send(GO, go(f"c{i}"))
    same = compared(census(left.world), census(right.world))
    assert (same["same"], same["items"], same["manifest"]) == (True, [], None)
    left.send(GO, go("only-left"))
    right.send(GO, go("only-right", "spawn"))
    right.send(GO, go("c3", "ask", 1))
    found = {(d["workflow"], d["key"]): d for d in whole(left, right, looked_max)}
    assert {place: d["change"] for place, d in found.items()} == {
        ("t/lab@1", "only-left"): "removed",
        ("t/lab@1", "only-right"): "added",
        ("t/kid@1", "only-right-kid"): "added",
        ("t/lab@1", "c3"): "changed",
        ("t/watch@1", None): "added",
    }
    assert found["t/lab@1", "c3"]["status"] == ["running", "waiting"]
    assert compared(census(left.world), census(right.world))["same"] is False
    assert json.loads(json.dumps(whole(left, right, looked_max)))


def test_another_manifest_is_named() -> None:
    """Two worlds under different manifests say which."""
    left, right = lab(), lab(lifecycle="entity")
    found = compared(census(left.world), census(right.world))
    assert found["manifest"] is not None
    assert found["manifest"][0] != found["manifest"][1]


CASES = [
    ({"a": 1}, {"a": 1}, []),
    ({"a": 1}, {"a": 2}, [{"path": "/a", "old": 1, "new": 2}]),
    ({"a": 1}, {"b": 1}, [{"path": "/a", "old": 1}, {"path": "/b", "new": 1}]),
    ([1, 2], [1], [{"path": "/1", "old": 2}]),
    ([1], [1, {"x": 0}], [{"path": "/1", "new": {"x": 0}}]),
    ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, [{"path": "/a/0/b", "old": 1, "new": 2}]),
    ({"a/b~": None}, {"a/b~": 0}, [{"path": "/a~1b~0", "old": None, "new": 0}]),
    (None, {"a": 1}, [{"path": "", "old": None, "new": {"a": 1}}]),
    (1, True, [{"path": "", "old": 1, "new": True}]),
]


@pytest.mark.parametrize(("old", "new", "wanted"), CASES)
def test_two_values(old: Any, new: Any, wanted: list[Any]) -> None:
    """Differences are named by path; true is not one, absent is not null."""
    assert changes(old, new) == {"items": wanted, "more": 0}


def test_many_changes_are_counted() -> None:
    """Beyond its bound a comparison says how many it leaves out."""
    assert changes([1] * 5, [2] * 5, most=2)["more"] == 3
