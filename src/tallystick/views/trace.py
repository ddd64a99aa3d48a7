"""The trace of an event: everything that came of it, in order, and a summary by workflow (K-23).

Each row is one step of the walk: the event is admitted and routed, a cell ticks, an effect is
asked for and judged, its receipt settles it, the continuation ticks the cell that asked (K-25).
What came of an event stands behind it, so frames are read from the event on, as far as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.model.frames import Sealed
from tallystick.model.records import KIND_OF, EventAdmitted, IntentOpened, ReceiptSettled, Ticked
from tallystick.values import canon
from tallystick.views import shown
from tallystick.views.causes import CONTINUES, Linked, linked
from tallystick.views.graph import label
from tallystick.views.journal import about, time_of

ROWS_MAX: Final = 2000
_STEPS: Final = {
    "event": "admitted",
    "intent": "asked",
    "denied": "denied",
    "receipt": "settled",
    "progress": "reported",
    "fault": "faulted",
    "dropped": "dropped",
}


def trace(frames: Iterable[Sealed], seq: int, most: int = ROWS_MAX) -> dict[str, Any]:
    """What came of the record at `seq`; the frames begin with the one that holds it.

    Refuses with `journal.unknown_seq` when they do not hold it.
    """
    depths: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    more = 0
    at_ns: int | None = None
    last = 0
    for one in linked(frames):
        last = one.entry.seq
        at_ns = time_of(one.entry.record, at_ns)
        depth = _depth(one, seq, depths)
        if depth is None:
            continue
        depths[last] = depth
        if len(rows) < most:
            rows.append(_row(one, depth, at_ns, depths))
        else:
            more += 1
    if not rows:
        raise UnknownName(
            f"no record {seq} in the frames",
            code="journal.unknown_seq",
            where={"seq": seq},
            hint="sequence numbers run from 1 to the head of the journal",
        )
    return {"seq": seq, "rows": rows, "more": more, "summary": summary(rows), "as_of": last}


def _depth(one: Linked, seq: int, depths: dict[int, int]) -> int | None:
    """How far a record is from the event; None when it did not come of it."""
    if one.entry.seq == seq:
        return 0
    found = [depths[link.cause] for link in one.links if link.cause in depths]
    return min(found) + 1 if found else None


def _row(one: Linked, depth: int, at_ns: int | None, known: dict[int, int]) -> dict[str, Any]:
    record: Any = one.entry.record
    cell, intent = about(record)
    came = next((link for link in one.links if link.cause in known), None)
    row: dict[str, Any] = {
        "seq": one.entry.seq,
        "depth": depth,
        "step": _step(one),
        "kind": KIND_OF[type(record)],
        "at_ns": at_ns,
        "cause": None if came is None else came.cause,
        "how": None if came is None else came.how,
        "label": label(record),
        "workflow": None if cell is None else cell.workflow,
        "key": None if cell is None else shown.key_json(cell.key),
        "intent": None if intent is None else canon.text_of(intent),
        "status": getattr(record, "status", None) or getattr(record, "code", None),
    }
    return row | _more(record)


def _step(one: Linked) -> str:
    kind = KIND_OF[type(one.entry.record)]
    if kind == "tick":
        continued = any(link.how == CONTINUES for link in one.links)
        return "continued" if continued else "ticked"
    return _STEPS.get(kind, kind)


def _more(record: Any) -> dict[str, Any]:
    """What a step shows beyond its place: where an event went, what a tick did (X-22)."""
    match record:
        case EventAdmitted():
            to = [{"workflow": t.workflow, "key": shown.key_json(t.key)} for t in record.to]
            return {"schema": record.schema, "to": to, "event": canon.text_of(record.event_hash)}
        case Ticked():
            return {
                "before": None if record.before is None else canon.text_of(record.before),
                "after": None if record.after is None else canon.text_of(record.after),
                "events": record.events,
                "effects": record.effects,
                "fuel": record.fuel,
            }
        case IntentOpened():
            return {"effect": record.effect, "issuer_ref": record.issuer_ref}
        case ReceiptSettled():
            return {"executor": record.executor, "outcome": record.outcome}
        case _:
            return {}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The trace by workflow and cell: ticks, faults, effects and their ends, and what waits."""
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    open_rows: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["step"] == "asked" and "effect" in row:
            open_rows[row["intent"]] = row
        elif row["step"] == "settled":
            open_rows.pop(row["intent"], None)
        if row["workflow"] is not None and row["step"] != "admitted":
            _count(cells, row)
    waiting = [
        {name: row[name] for name in ("seq", "intent", "effect", "workflow", "key", "issuer_ref")}
        for row in open_rows.values()
    ]
    return {
        "cells": [cells[place] for place in sorted(cells)],
        "waiting": waiting,
        "settled": not waiting,
    }


def _count(cells: dict[tuple[str, str], dict[str, Any]], row: dict[str, Any]) -> None:
    place = (row["workflow"], str(row["key"]))
    empty = {"ticks": 0, "faults": 0, "asked": 0, "denied": 0, "settled": {}, "status": None}
    cell = cells.setdefault(place, {"workflow": row["workflow"], "key": row["key"], **empty})
    match row["step"]:
        case "ticked" | "continued":
            cell["ticks"] += 1
            cell["status"] = row["status"]
        case "faulted":
            cell["faults"] += 1
        case "asked" if "effect" in row:
            cell["asked"] += 1
        case "denied":
            cell["denied"] += 1
        case "settled":
            cell["settled"][row["status"]] = cell["settled"].get(row["status"], 0) + 1
        case _:
            pass


# ---- a picture for a terminal ---------------------------------------------------------------

UPPER: Final = "▔▔▔"
LOWER: Final = "▁▁▁"
_MARKS: Final = {"asked": UPPER, "settled": LOWER, "denied": "⊘  ", "faulted": "✕  "}


def picture(found: dict[str, Any], width: int = 100) -> list[str]:
    """The trace as lines for a terminal: an effect is one bar whose two halves are told apart."""
    lines = []
    for row in found["rows"]:
        mark = _MARKS.get(row["step"], "   ")
        words = [row["label"]]
        if row["step"] == "admitted":
            words += [f"-> {each['workflow']} {_key(each['key'])}" for each in row["to"]]
        elif row["step"] in ("ticked", "continued"):
            words.append(f"{_short(row['before'])} -> {_short(row['after'])} {row['status']}")
        elif row["intent"] is not None:
            words.append(_short(row["intent"]))
        text = f"{row['seq']:>7} {'  ' * min(row['depth'], 12)}{mark} {row['step']} "
        lines.append((text + " ".join(words))[:width].rstrip())
    if found["more"]:
        lines.append(f"{'':>7} {found['more']} more")
    waits = found["summary"]["waiting"]
    return lines + [
        f"{'':>7} waits: {each['effect']} of {each['workflow']} {_key(each['key'])}"
        for each in waits
    ]


def _key(key: Any) -> str:
    return shown.UNKEYED if key is None else str(key)


def _short(text: str | None) -> str:
    return "none" if text is None else text.removeprefix("sha256:")[:8]
