"""The execution graph: ticks, events, effects and receipts, and what led to what (X-23).

A node is a record, an edge is a link between two.
The graph of a focus holds what led to it and what came of it, as far as the frames reach.
Frames come as an argument: the caller knows where the focus stands and how far to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import KIND_OF, EventAdmitted, Record
from tallystick.values import canon
from tallystick.views import shown
from tallystick.views.causes import Linked, linked
from tallystick.views.journal import about, touches

NODES_MAX: Final = 400
DRAWN: Final = frozenset(
    {"event", "tick", "intent", "denied", "receipt", "progress", "fault", "lifecycle", "dropped"}
)


class Focus(NamedTuple):
    """What a graph is about: a record, an intent, or a cell; empty means all."""

    seq: int | None = None
    intent: bytes | None = None
    cell: CellId | None = None

    def holds(self, seq: int, record: Record) -> bool:
        """True for the records that the focus names."""
        if self.seq is not None:
            return seq == self.seq
        if self.intent is not None:
            return getattr(record, "intent", None) == self.intent
        return self.cell is None or touches(record, self.cell)


def graph(
    frames: Iterable[Sealed], focus: Focus | None = None, most: int = NODES_MAX
) -> dict[str, Any]:
    """The graph around a focus: `{nodes, edges, more}`; `more` nodes were left out.

    Nodes come in the order of the journal; the first `most` are kept.
    """
    records = [one for one in linked(frames) if KIND_OF[type(one.entry.record)] in DRAWN]
    wanted = _around(records, focus or Focus())
    kept = [one for one in records if one.entry.seq in wanted]
    left_out = max(len(kept) - most, 0)
    kept = kept[:most]
    places = frozenset(one.entry.seq for one in kept)
    edges = [
        {"from": link.cause, "to": one.entry.seq, "how": link.how}
        for one in kept
        for link in one.links
        if link.cause in places
    ]
    return {"nodes": [node(one) for one in kept], "edges": edges, "more": left_out}


def _around(records: list[Linked], focus: Focus) -> frozenset[int]:
    """The places of the focus, of all that led to it, and of all that came of it."""
    here = [one.entry.seq for one in records if focus.holds(one.entry.seq, one.entry.record)]
    after = dict.fromkeys(here)
    for one in records:  # causes stand before what they lead to, so one pass finds all
        if any(link.cause in after for link in one.links):
            after[one.entry.seq] = None
    before = dict.fromkeys(here)
    for one in reversed(records):
        if one.entry.seq in before:
            before.update((link.cause, None) for link in one.links)
    return frozenset([*after, *before])


def node(one: Linked) -> dict[str, Any]:
    """A record as a node."""
    entry = one.entry
    record: Any = entry.record
    cell, intent = about(entry.record)
    return {
        "seq": entry.seq,
        "kind": KIND_OF[type(record)],
        "label": label(record),
        "workflow": None if cell is None else cell.workflow,
        "key": None if cell is None else shown.key_json(cell.key),
        "intent": None if intent is None else canon.text_of(intent),
        "status": getattr(record, "status", None) or getattr(record, "code", None),
    }


def label(record: Any) -> str:
    """A few words for a record: what it is of."""
    match record:
        case EventAdmitted():
            return record.schema
        case _ if hasattr(record, "effect"):
            return str(record.effect)
    kind = KIND_OF[type(record)]
    match kind:
        case "tick":
            return f"{record.workflow} {shown.key_text(record.key)}"
        case "fault":
            return f"{record.workflow} {record.code}"
        case "receipt":
            return f"{record.status} by {record.executor}"
        case "dropped":
            return f"{record.what} {record.reason}"
        case "progress":
            return f"{record.frame_kind} {record.seq}"
        case _:
            return type(record).__name__


# ---- text -----------------------------------------------------------------------------------

_SHAPES: Final = {
    "event": ("([", "])"),
    "tick": ("[", "]"),
    "intent": ("[/", "/]"),
    "denied": ("[/", "/]"),
    "receipt": ("[\\", "\\]"),
}
_DOT_SHAPES: Final = {
    "event": "ellipse",
    "tick": "box",
    "intent": "trapezium",
    "denied": "trapezium",
    "receipt": "invtrapezium",
}


def mermaid(found: dict[str, Any]) -> str:
    """The graph as a Mermaid flowchart, left to right."""
    lines = ["flowchart LR"]
    for each in found["nodes"]:
        left, right = _SHAPES.get(each["kind"], ("[", "]"))
        lines.append(f'  n{each["seq"]}{left}"{_mermaid_text(_title(each))}"{right}')
    lines += [f"  n{e['from']} -- {e['how']} --> n{e['to']}" for e in found["edges"]]
    if found["more"]:
        lines.append(f'  more["{found["more"]} more"]')
    return "\n".join(lines) + "\n"


def dot(found: dict[str, Any]) -> str:
    """The graph as DOT, left to right."""
    lines = ["digraph tally {", "  rankdir=LR;"]
    for each in found["nodes"]:
        shape = _DOT_SHAPES.get(each["kind"], "box")
        lines.append(f'  n{each["seq"]} [shape={shape}, label="{_dot_text(_title(each))}"];')
    lines += [f'  n{e["from"]} -> n{e["to"]} [label="{e["how"]}"];' for e in found["edges"]]
    if found["more"]:
        lines.append(f'  more [shape=plaintext, label="{found["more"]} more"];')
    return "\n".join([*lines, "}"]) + "\n"


def _title(each: dict[str, Any]) -> str:
    return f"{each['seq']} {each['kind']} {each['label']}"


def _mermaid_text(text: str) -> str:
    """Text for a quoted Mermaid label: what would end it, or mean markup, becomes an entity."""
    return "".join(c if c.isalnum() or c in " /.@_:-" else f"#{ord(c)};" for c in text)


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
