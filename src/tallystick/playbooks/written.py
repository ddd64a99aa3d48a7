"""The state of an execution as bytes, and what it holds (07 section 10).

Theory of operation.
A tick changes little of a net: the results and variables of before stand there as they stood.
So each of their rows is written once, and kept as bytes for as long as it is the same object.
While loops go round, the net stands apart as a blob that the state names: it stays as it is, and
an iteration writes the loops alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.playbooks.values import Content
from tallystick.values import canon

EDGE: Final = "blob_edge@1"  # what such a blob names is kept with it
_ROWS: Final = ("ctx", "results")
_HEAD: Final = canon.PREFIX + canon.head(5, 4)
_DOC: Final = canon.put_key("doc")
_NET: Final = canon.put_key("net")
_HELD: Final = canon.put_key("held")
_LOOPS: Final = canon.put_key("loops")
_APART: Final = canon.PREFIX + canon.head(5, 2) + _NET
_TYPE: Final = canon.put_key("$type") + canon.put_text(EDGE)


class Row(NamedTuple):
    """A row that was written: the object itself, its bytes, and the hashes it names."""

    value: Any
    data: bytes
    held: tuple[str, ...]


class Written(NamedTuple):
    """A state: its plain form, its bytes, where its loops begin in them, and the net's blob."""

    state: dict[str, Any]
    data: bytes
    cut: int
    held: dict[str, None]
    blobs: dict[str, bytes]


class Memory:
    """The rows of a net as they were written last."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in _ROWS}

    def net(self, net: Mapping[str, Any], held: dict[str, None]) -> bytes:
        """A net as an item; the hashes it names are added to `held`."""
        parts = [canon.head(5, len(net))]
        for key, name in sorted((canon.put_key(name), name) for name in net):
            parts.append(key)
            value = net[name]
            if name in self._rows:
                parts.append(self._map(name, value, held))
            else:
                parts.append(_inside(value, 2))
                holds(value, held)
        return b"".join(parts)

    def _map(self, name: str, rows: Mapping[str, Any], held: dict[str, None]) -> bytes:
        known = self._rows[name]
        parts = [canon.head(5, len(rows))]
        for key, row in sorted((canon.put_key(row), row) for row in rows):
            kept = known.get(row)
            if kept is None or kept.value is not rows[row]:
                named: dict[str, None] = {}
                holds(rows[row], named)
                kept = known[row] = Row(rows[row], _inside(rows[row], 3), tuple(named))
            held.update(dict.fromkeys(kept.held))
            parts += (key, kept.data)
        return b"".join(parts)


def net_of(state: Mapping[str, Any], content: Content) -> dict[str, Any]:
    """The net of a state: it stands in it, or apart while loops go round."""
    net: dict[str, Any] | None = state["net"]
    return canon.decode(content(state["held"][0]))["net"] if net is None else net


def written(
    doc: str, net: dict[str, Any], loops: dict[str, Any], memory: Memory, before: str | None
) -> Written:
    """The state of a net and its loops; `before` names the blob of the net that was before."""
    held: dict[str, None] = {}
    item = memory.net(net, held)
    holds(loops, held)
    blobs: dict[str, bytes] = {}
    names = sorted(held)
    if loops:
        apart = _APART + item + _TYPE
        name = canon.hash_of(apart)
        names, item = [name], b"\xf6"
        if name != before:
            blobs[name] = apart
    state = {"doc": doc, "net": None if loops else net, "held": names, "loops": loops}
    parts = (_HEAD, _DOC, canon.put_text(doc), _NET, item, _HELD, canon.encode_item(names), _LOOPS)
    data = b"".join(parts)
    return Written(state, data + _inside(loops, 1), len(data), held, blobs)


def _inside(value: Any, depth: int) -> bytes:
    """An item as it stands inside of so many maps: depth counts from the top of a document."""
    for _ in range(depth):
        value = [value]
    return canon.encode_item(value)[depth:]


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
