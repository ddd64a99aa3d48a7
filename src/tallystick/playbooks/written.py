"""The state of an execution as bytes, and what it holds (07 section 10).

Theory of operation.
A tick changes little of a net: the results and variables of before stand there as they stood.
So each of their rows is written once, and kept as bytes for as long as it is the same object.
While loops go round, net and document stand apart as a blob that the state names: it stays as it
is, and an iteration writes the loops alone.
"""

from __future__ import annotations

from bisect import bisect
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
                self._add(name, rows[name])
        # Nearly all of them are the same objects as before, which is found out in one go.
        if not all(map(is_, values, map(rows.__getitem__, names))):
            for at, name in enumerate(names):
                if values[at] is not rows[name]:
                    self._write(at, rows[name])
        for named in self._held.values():
            held.update(named)
        return canon.head(5, len(rows)) + b"".join(self._data)

    def _add(self, name: str, value: Any) -> None:
        key = canon.put_key(name)
        at = bisect(self._keys, key)
        self._keys.insert(at, key)
        self._names.insert(at, name)
        self._values.insert(at, None)
        self._data.insert(at, b"")
        self._write(at, value)

    def _write(self, at: int, value: Any) -> None:
        named: dict[str, None] = {}
        holds(value, named)
        self._held.pop(self._names[at], None)
        if named:
            self._held[self._names[at]] = named
        self._values[at] = value
        self._data[at] = self._keys[at] + inside(value, self._depth)


class Memory:
    """The rows of a net as they were written last."""

    __slots__ = ("_fixed", "_numbers", "_rows")

    def __init__(self) -> None:
        self._rows = {name: Rows(3) for name in _ROWS}
        self._numbers = {name: Rows(4) for name in _NUMBERS}
        # What never changes once an execution has begun is a map of its own rows.
        self._fixed = {name: Rows(2) for name in _FIXED}

    def net(self, net: Mapping[str, Any], held: dict[str, None]) -> bytes:
        """A net as an item; the hashes it names are added to `held`."""
        parts = [canon.head(5, len(net))]
        for key, name in _ordered(tuple(net)):
            value = net[name]
            if value is None:
                parts += (key, _NULL)
            elif type(value) is str:
                parts += (key, canon.put_text(value))
            elif name in self._rows:
                parts += (key, self._rows[name].item(value, held))
            elif name in self._fixed:
                parts.append(self._fixed[name].item({name: value}, held)[1:])
            elif name == "counts":
                parts += (key, self._counts(value))
            elif not value:
                parts += (key, _EMPTY[type(value)])
            else:
                parts += (key, inside(value, 2))
                if name not in _PLAIN:
                    holds(value, held)
        return b"".join(parts)

    def _counts(self, counts: Mapping[str, Any]) -> bytes:
        """The numbers of a net, also those by step: they name no hash."""
        parts = [canon.head(5, len(counts))]
        for key, name in _ordered(tuple(counts)):
            rows = self._numbers.get(name)
            value = counts[name]
            parts += (key, canon.NUMBERS[value] if rows is None else rows.item(value, {}))
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
