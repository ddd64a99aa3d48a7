"""Journal rows: one record a row, with the cell and the intent it is about (K-45).

A row is what listings, tails and the JSONL export show:
`{"seq", "kind", "at_ns", "frame", "workflow", "key", "intent", "record"}`.
`at_ns` is the time that came with the input: a tick carries none of its own, so it has that of the
last input before it; a reader that starts in the middle says what that was, or has null there.
`frame` is the hash of the frame, so rows of one frame are told from their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tallystick.errors import UnknownName
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import (
    KIND_OF,
    EventAdmitted,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    KeyRevoked,
    KeyTrusted,
    ReceiptSettled,
    Record,
)
from tallystick.values import canon
from tallystick.views import pages, shown
from tallystick.views.pages import Page

KINDS: Final = tuple(sorted(frozenset(KIND_OF.values())))
ROW_BYTES_MAX: Final = 64 * 1024


class Entry(NamedTuple):
    """One record in its place."""

    seq: int
    frame: Sealed
    record: Record


def entries(frames: Iterable[Sealed]) -> Iterator[Entry]:
    """Every record of the frames, with its sequence number."""
    for frame in frames:
        for offset, record in enumerate(open_frame(frame.body)[3]):
            yield Entry(frame.seq + offset, frame, record)


class About(NamedTuple):
    """The cell and the intent that a record is about, where it is about one."""

    cell: CellId | None
    intent: bytes | None


def about(record: Record) -> About:
    """What a record is about.

    An event is about its receiver when it has one, an intent about the cell that asked.
    """
    intent: bytes | None = getattr(record, "intent", None)
    match record:
        case EventAdmitted():
            cell = CellId(*record.to[0][:2]) if len(record.to) == 1 else None
        case IntentOpened() | IntentDenied() | IntentAttached():
            cell = CellId(record.origin.workflow, record.origin.key)
        case ReceiptSettled():
            cell = CellId(*record.to[0]) if record.to else None
        case KeyTrusted() | KeyRevoked():
            cell = None
        case _:
            cell = _own_cell(record)
    return About(cell, intent)


def _own_cell(record: Record) -> CellId | None:
    workflow = getattr(record, "workflow", None)
    key = getattr(record, "key", None)
    return None if workflow is None else CellId(workflow, key or b"")


def row(entry: Entry, at_ns: int | None, most: int | None = shown.SHOWN_MAX) -> dict[str, Any]:
    """One record as a row; values over `most` bytes are named instead of shown."""
    cell, intent = about(entry.record)
    return {
        "seq": entry.seq,
        "kind": KIND_OF[type(entry.record)],
        "at_ns": at_ns,
        "frame": canon.text_of(entry.frame.hash),
        "workflow": None if cell is None else cell.workflow,
        "key": None if cell is None else shown.key_json(cell.key),
        "intent": None if intent is None else canon.text_of(intent),
        "record": shown.record_json(entry.record, most),
    }


def time_of(record: Record, before_ns: int | None) -> int | None:
    """The time of a record: that of its own input, or of the one before."""
    stamp = getattr(record, "stamp", None)
    return before_ns if stamp is None else int(stamp.now_ns)


def rows(
    frames: Iterable[Sealed], at_ns: int | None = None, most: int | None = shown.SHOWN_MAX
) -> Iterator[dict[str, Any]]:
    """Every record of the frames as a row; `at_ns` is the time of the input before them."""
    for entry in entries(frames):
        at_ns = time_of(entry.record, at_ns)
        yield row(entry, at_ns, most)


# ---- pages ----------------------------------------------------------------------------------


class RowFilter(NamedTuple):
    """Which rows a list shows: by kind, cell, intent, workflow; an empty filter shows all."""

    kind: str | None = None
    cell: CellId | None = None
    intent: bytes | None = None
    workflow: str | None = None

    def passes(self, record: Record) -> bool:
        """True when the record is wanted."""
        if self.kind is not None and KIND_OF[type(record)] != self.kind:
            return False
        if self.intent is not None and getattr(record, "intent", None) != self.intent:
            return False
        if self.workflow is not None:
            return any(cell.workflow == self.workflow for cell in touched(record))
        return self.cell is None or touches(record, self.cell)


def touches(record: Record, cell: CellId) -> bool:
    """True when a record is part of a cell's history: made by it, for it, or delivered to it."""
    return cell in touched(record)


def touched(record: Record) -> list[CellId]:
    """The cells whose history a record is part of."""
    if isinstance(record, EventAdmitted):
        source = record.origin
        found = [CellId(target.workflow, target.key) for target in record.to]
        if source.workflow is not None:
            found.append(CellId(source.workflow, source.key or b""))
        return found
    if isinstance(record, ReceiptSettled):
        return [CellId(*address) for address in record.to]
    cell = about(record).cell
    return [] if cell is None else [cell]


def journal_list(
    frames: Iterable[Sealed],
    page: Page,
    wanted: RowFilter,
    as_of: int,
    at_ns: int | None = None,
) -> dict[str, Any]:
    """A page of rows; the frames begin behind the cursor, or at the frame that holds it.

    The cursor is the sequence number of the last record that was looked at.
    A page ends at its limit, at 2,000 records, or before it would grow too large to send.
    """
    page.checked()
    last = 0 if page.after is None else pages.number_cursor(page.after)
    items: list[dict[str, Any]] = []
    size = 0
    looked = 0
    for entry in entries(frames):
        at_ns = time_of(entry.record, at_ns)
        if entry.seq <= last:
            continue
        if len(items) == page.limit or looked == page.looked_max or size >= page.bytes_max:
            return pages.listed(items, str(last), as_of)
        last, looked = entry.seq, looked + 1
        if wanted.passes(entry.record):
            items.append(row(entry, at_ns))
            size += min(_weight(entry), ROW_BYTES_MAX)
    return pages.listed(items, None, as_of)


def _weight(entry: Entry) -> int:
    """About how many bytes a row takes: its share of the frame's body, twice for JSON."""
    records = entry.frame.last - entry.frame.seq + 1
    return 2 * len(entry.frame.body) // records + 256


def journal_show(frame: Sealed, seq: int, at_ns: int | None = None) -> dict[str, Any]:
    """One record whole, with the frame that holds it and what in it caused the record."""
    for entry in entries([frame]):
        at_ns = time_of(entry.record, at_ns)
        if entry.seq == seq:
            return {**row(entry, at_ns), "cause": cause(entry.record), "in_frame": header(frame)}
    raise UnknownName(
        f"no record {seq} in this frame",
        code="journal.unknown_seq",
        where={"seq": seq},
        hint="sequence numbers run from 1 to the head of the journal",
    )


def cause(record: Record) -> int | None:
    """The sequence number that a record names as its cause (X-22, X-23); none for an input.

    A receipt names an intent instead: `causes` knows where that was opened.
    """
    input_seq = getattr(record, "input_seq", None)
    if input_seq is not None:
        return int(input_seq)
    origin = getattr(record, "origin", None)
    tick_seq = getattr(origin, "tick_seq", None)
    return None if tick_seq is None else int(tick_seq)


def header(frame: Sealed) -> dict[str, Any]:
    """What listings show of a frame; epoch and time of the flush stand beside it."""
    return {
        "world": frame.world,
        "first_seq": frame.seq,
        "last_seq": frame.last,
        "prev_hash": canon.text_of(frame.prev),
        "hash": canon.text_of(frame.hash),
        "records": frame.last - frame.seq + 1,
        "bytes": len(frame.body),
    }


# ---- export ---------------------------------------------------------------------------------


def export_rows(
    world: str,
    frames: Iterable[Sealed],
    span: tuple[int, int],
    cell: tuple[str, str] | None = None,
) -> Iterator[Any]:
    """The JSONL export of a world: a head line, one row per record whole, an end line.

    With `cell`, its workflow and its key as they are shown, only the rows of its history.
    """
    first, last = span
    yield {"tally": "export", "format": 1, "world": world, "from": first, "to": last}
    count, head = 0, None
    at_ns: int | None = None
    for entry in entries(frames):
        at_ns = time_of(entry.record, at_ns)
        if first <= entry.seq <= last and (cell is None or _is_of(entry.record, cell)):
            count += 1
            yield row(entry, at_ns, None)
            head = canon.text_of(entry.frame.hash)
    yield {"end": True, "records": count, "head": head}


def _is_of(record: Record, cell: tuple[str, str]) -> bool:
    return any((part.workflow, shown.key_text(part.key)) == cell for part in touched(record))
