"""The state of an execution as bytes, and what it holds (07 section 10).

Theory of operation.
A tick changes little of a net: the results and variables of before stand there as they stood.
So each of their rows is written once, and kept as bytes for as long as it is the same object.
Who knows which fields have changed has only these written again.
While loops go round, net and document stand apart as a blob that the state names: it stays as it
is, and an iteration writes the loops alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from operator import is_
from typing import Any, Final, NamedTuple

from tallystick.playbooks.loops import inside, loops_of, put_loops
from tallystick.playbooks.values import Content
from tallystick.values import canon

EDGE: Final = "blob_edge@1"  # what such a blob names is kept with it
_ROWS: Final = ("ctx", "results")
_NUMBERS: Final = ("step_runs", "iterations")
_FIXED: Final = ("workload", "parent")
# What of a net never names a hash, so that nobody looks for one.
_PLAIN: Final = frozenset(
    ("ids", "execution", "phase", "status", "last", "principal", "doom", "failures", "ready")
)
_NULL: Final = b"\xf6"
_EMPTY: Final[dict[type, bytes]] = {dict: b"\xa0", list: b"\x80"}
_HEAD: Final = canon.PREFIX + canon.head(5, 4)
_DOC: Final = canon.put_key("doc")
_NET: Final = canon.put_key("net")
_HELD: Final = canon.put_key("held")
_LOOPS: Final = canon.put_key("loops")
_APART: Final = canon.PREFIX + canon.head(5, 3) + _DOC
_TYPE: Final = canon.put_key("$type") + canon.put_text(EDGE)


class Written(NamedTuple):
    """A state: its plain form, its bytes, where its loops begin in them, and the net's blob."""

    state: dict[str, Any]
    data: bytes
    cut: int
    held: dict[str, None]
    blobs: dict[str, bytes]


class Row(NamedTuple):
    """One row of a map; `item` is how it is written, if that is known: it then names no hash."""

    name: str
    value: Any
    item: bytes | None = None


Change = Row | bytes | None
"""What is new in a field of a net: one of its rows, all of it as an item, or look for yourself."""


class Rows:
    """A map that grows by a row at a time: each row is written once, and stands in its order."""

    __slots__ = ("_data", "_depth", "_held", "_keys", "_names", "_values")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        # Side by side and in canonical order: what a row is called, what it is, how it is written.
        self._keys: list[bytes] = []
        self._names: list[str] = []
        self._values: list[Any] = []
        self._data: list[bytes] = []
        self._held: dict[str, dict[str, None]] = {}  # the hashes of a row, if it names any

    def item(self, rows: Mapping[str, Any], held: dict[str, None]) -> bytes:
        """The map as an item; the hashes it names are added to `held`."""
        names, values = self._names, self._values
        if not rows.keys() >= set(names):  # a row was taken out
            for each in (self._keys, names, values, self._data):
                each.clear()
            self._held.clear()
        if len(rows) > len(names):
            known = set(names)
            for name in [name for name in rows if name not in known]:
                self._put(name, rows[name])
        # Nearly all of them are the same objects as before, which is found out in one go.
        if not all(map(is_, values, map(rows.__getitem__, names))):
            for at, name in enumerate(names):
                if values[at] is not rows[name]:
                    self._write(at, rows[name])
        return self._item(held)

    def with_row(self, row: Row, held: dict[str, None]) -> bytes:
        """The map of before as an item, with one row that is new or another one now."""
        self._put(*row)
        return self._item(held)

    def _item(self, held: dict[str, None]) -> bytes:
        for named in self._held.values():
            held.update(named)
        return canon.head(5, len(self._names)) + b"".join(self._data)

    def _put(self, name: str, value: Any, item: bytes | None = None) -> None:
        key = canon.put_key(name)
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            self._keys.insert(at, key)
            self._names.insert(at, name)
            self._values.insert(at, None)
            self._data.insert(at, b"")
        self._write(at, value, item)

    def _write(self, at: int, value: Any, item: bytes | None = None) -> None:
        self._held.pop(self._names[at], None)
        if item is None:
            named: dict[str, None] = {}
            holds(value, named)
            if named:
                self._held[self._names[at]] = named
            item = inside(value, self._depth)
        self._values[at] = value
        self._data[at] = self._keys[at] + item


class Memory:
    """The fields of a net as they were written last."""

    __slots__ = ("_fields", "_fixed", "_numbers", "_rows")

    def __init__(self) -> None:
        self._rows = {name: Rows(3) for name in _ROWS}
        self._numbers = {name: Rows(4) for name in _NUMBERS}
        # What never changes once an execution has begun is a map of its own rows.
        self._fixed = {name: Rows(2) for name in _FIXED}
        # The bytes of each field with its key, in canonical order, and the hashes it names.
        self._fields: dict[str, tuple[bytes, dict[str, None]]] = {}

    def net(self, net: Mapping[str, Any], held: dict[str, None]) -> bytes:
        """A net as an item; the hashes it names are added to `held`."""
        self._fields.clear()
        for key, name in _ordered(tuple(net)):
            named: dict[str, None] = {}
            self._fields[name] = (key + self._field(name, net[name], named, None), named)
        return self._item(held)

    def moved(
        self, net: Mapping[str, Any], changed: Mapping[str, Change], held: dict[str, None]
    ) -> bytes:
        """As `net`, where only these fields of it have changed since it was written last."""
        for name, change in changed.items():
            named: dict[str, None] = {}
            if isinstance(change, bytes):
                item = change
            else:
                item = self._field(name, net[name], named, change)
            self._fields[name] = (canon.put_key(name) + item, named)
        return self._item(held)

    def _item(self, held: dict[str, None]) -> bytes:
        parts = [canon.head(5, len(self._fields))]
        for item, named in self._fields.values():
            parts.append(item)
            if named:
                held.update(named)
        return b"".join(parts)

    def _field(self, name: str, value: Any, held: dict[str, None], row: Row | None) -> bytes:
        if value is None:
            return _NULL
        if type(value) is str:
            return canon.put_text(value)
        if name in self._rows:
            rows = self._rows[name]
            return rows.item(value, held) if row is None else rows.with_row(row, held)
        if name in self._fixed:
            item = self._fixed[name].item({name: value}, held)
            return item[1 + len(canon.put_key(name)) :]
        if name == "counts":
            return self._counts(value, row)
        if not value:
            return _EMPTY[type(value)]
        if name not in _PLAIN:
            holds(value, held)
        return inside(value, 2)

    def _counts(self, counts: Mapping[str, Any], row: Row | None) -> bytes:
        """The numbers of a net, also those by step: they name no hash.

        With `row` only the runs of that step are others than before.
        """
        parts = [canon.head(5, len(counts))]
        for key, name in _ordered(tuple(counts)):
            rows, value = self._numbers.get(name), counts[name]
            if rows is None:
                item = canon.NUMBERS[value]
            elif row is not None and name == "step_runs":
                item = rows.with_row(row, {})
            else:
                item = rows.item(value, {})
            parts += (key, item)
        return b"".join(parts)


@lru_cache(maxsize=64)
def _ordered(names: tuple[str, ...]) -> list[tuple[bytes, str]]:
    """Names with their keys, in canonical order."""
    return sorted((canon.put_key(name), name) for name in names)


def whole_of(state: Mapping[str, Any], content: Content) -> dict[str, Any]:
    """A decoded state with document, net and loops as a tick has them in memory."""
    stands = state if state["net"] is not None else canon.decode(content(state["held"][0]))
    return {
        "doc": stands["doc"],
        "net": stands["net"],
        "held": state["held"],
        "loops": loops_of(state["loops"]),
    }


def written(
    doc: str, net: dict[str, Any], loops: dict[str, Any], memory: Memory, before: str | None
) -> Written:
    """The state of a net and its loops; `before` names the blob of the net that was before."""
    held: dict[str, None] = {}
    item = memory.net(net, held)
    holds(loops, held)
    blobs: dict[str, bytes] = {}
    names = sorted(held)
    named = canon.put_text(doc)
    if loops:
        apart = b"".join((_APART, named, _NET, item, _TYPE))
        name = canon.hash_of(apart)
        names, item, named = [name], _NULL, _NULL
        if name != before:
            blobs[name] = apart
    state = {"doc": doc, "net": net, "held": names, "loops": loops}
    data = b"".join((_HEAD, _DOC, named, _NET, item, _HELD, canon.encode_item(names), _LOOPS))
    return Written(state, data + put_loops(loops, {}), len(data), held, blobs)


def written_again(
    doc: str, net: dict[str, Any], memory: Memory, changed: Mapping[str, Change]
) -> Written:
    """The state of a net without loops, of which only some fields have changed since `memory`."""
    held: dict[str, None] = {}
    item = memory.moved(net, changed, held)
    names = sorted(held)
    state = {"doc": doc, "net": net, "held": names, "loops": {}}
    parts = (_HEAD, _DOC, canon.put_text(doc), _NET, item, _HELD, canon.encode_item(names), _LOOPS)
    data = b"".join(parts)
    return Written(state, data + _EMPTY[dict], len(data), held, {})


def holds(value: Any, found: dict[str, None]) -> None:
    """The hashes that a value names: of kept values, of results, of the pages of loops."""
    if type(value) is dict:
        name = value.get("h", value.get("ref") if value.get("kind") == "result_ref" else None)
        if type(name) is str and name.startswith("sha256:"):
            found[name] = None
        for level in value["pages"] if type(value.get("pages")) is list else ():
            for page in level if type(level) is list else ():
                if type(page) is str:
                    found[page] = None
        for inner in value.values():
            holds(inner, found)
    elif type(value) is list:
        for inner in value:
            holds(inner, found)
