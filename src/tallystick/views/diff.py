"""What differs between two worlds, or between two states (X-08).

Two worlds may live on two threads, or one in the past, so each gives a census of a stretch of its
cells and the two are compared: `census` of one, `census` of the other, then `compared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tallystick.kernel.roots import root_of, state_root
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.values import canon
from tallystick.views import pages, shown
from tallystick.views.cells import places, state_shown, status_of
from tallystick.views.pages import Page

CHANGES_MAX: Final = 200
STATES_MAX: Final = 100


class Counted(NamedTuple):
    """What a census says of one cell."""

    workflow: str
    key: bytes
    status: str
    state_hash: bytes | None
    last_seq: int


class Census(NamedTuple):
    """A stretch of a world's cells by place; `end` is the last place looked at, None for all."""

    seq: int
    manifest: bytes
    root: bytes
    state_root: bytes
    cells: dict[str, Counted]
    end: str | None


def census(world: World, page: Page | None = None) -> Census:
    """The cells of a world behind a cursor: as many as one page may look at."""
    page = page or Page()
    found: dict[str, Counted] = {}
    end = None
    for place, cell in places(world, page.after):
        if len(found) == page.looked_max:
            end = next(reversed(found))
            break
        status = status_of(world, cell)
        found[place] = Counted(*cell.id, status, cell.state_hash, cell.last_seq)
    state = state_root(world)
    return Census(world.seq, world.manifest, root_of(world, state), state, found, end)


def compared(left: Census, right: Census) -> dict[str, Any]:
    """The differences of two censuses taken behind the same cursor, as a page.

    Compared is as far as both reach; `next` goes on from there.
    """
    ends = [end for end in (left.end, right.end) if end is not None]
    upto = min(ends) if ends else None
    items = [
        row
        for place in sorted({**left.cells, **right.cells})
        if upto is None or place <= upto
        for row in _differs(left.cells.get(place), right.cells.get(place))
    ]
    return {
        **pages.listed(items, upto, left.seq),
        "with_as_of": right.seq,
        "same": left.state_root == right.state_root,
        "roots": [_roots(left), _roots(right)],
        "manifest": None
        if left.manifest == right.manifest
        else [canon.text_of(left.manifest), canon.text_of(right.manifest)],
    }


def _roots(side: Census) -> dict[str, str]:
    return {"root": canon.text_of(side.root), "state_root": canon.text_of(side.state_root)}


def _differs(left: Counted | None, right: Counted | None) -> Iterator[dict[str, Any]]:
    one = left or right
    assert one is not None, "a place is of one census or of both"
    if left is not None and right is not None and left[2:4] == right[2:4]:
        return
    yield {
        "workflow": one.workflow,
        "key": shown.key_json(one.key),
        "change": "removed" if right is None else "added" if left is None else "changed",
        "status": [_status(left), _status(right)],
        "state_hash": [_hash(left), _hash(right)],
    }


def _status(counted: Counted | None) -> str | None:
    return None if counted is None else counted.status


def _hash(counted: Counted | None) -> str | None:
    known = None if counted is None else counted.state_hash
    return None if known is None else canon.text_of(known)


def apart(left: Census, right: Census) -> list[CellId]:
    """The cells of two censuses whose states differ, as far as both reach; the first hundred."""
    both = (place for place in sorted(left.cells) if place in right.cells)
    pairs = ((left.cells[place], right.cells[place]) for place in both)
    found = [CellId(*one[:2]) for one, other in pairs if one.state_hash != other.state_hash]
    return found[:STATES_MAX]


def states(world: World, cells: Sequence[CellId]) -> list[Any]:
    """The states of some cells, for readers."""
    known = (world.cell(ident) for ident in cells)
    return [None if cell is None else state_shown(world, cell) for cell in known]


def with_states(
    rows: dict[str, Any], cells: Sequence[CellId], left: list[Any], right: list[Any]
) -> dict[str, Any]:
    """The page of a comparison, with what differs inside the states."""
    found = {
        (ident.workflow, str(shown.key_json(ident.key))): changes(one, other)
        for ident, one, other in zip(cells, left, right, strict=True)
    }
    items = [
        {**row, "diff": found.get((row["workflow"], str(row["key"])))} for row in rows["items"]
    ]
    return {**rows, "items": items}


# ---- two values -----------------------------------------------------------------------------


def changes(old: Any, new: Any, most: int = CHANGES_MAX) -> dict[str, Any]:
    """What differs between two JSON values: `{items: [{path, old, new}], more}`, by path.

    A side that is absent has no entry; lists are compared place by place.
    """
    found = list(_changes("", old, new))
    return {"items": found[:most], "more": max(len(found) - most, 0)}


def _changes(path: str, old: Any, new: Any) -> Iterator[dict[str, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({**old, **new}):
            yield from _member(f"{path}/{_token(name)}", old, new, name)
    elif isinstance(old, list) and isinstance(new, list):
        left, right = dict(enumerate(old)), dict(enumerate(new))
        for place in range(max(len(old), len(new))):
            yield from _member(f"{path}/{place}", left, right, place)
    elif old != new or type(old) is not type(new):
        yield {"path": path, "old": old, "new": new}


def _member(path: str, old: Any, new: Any, name: Any) -> Iterator[dict[str, Any]]:
    if name not in old:
        yield {"path": path, "new": new[name]}
    elif name not in new:
        yield {"path": path, "old": old[name]}
    else:
        yield from _changes(path, old[name], new[name])


def _token(name: str) -> str:
    """A name as one token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
