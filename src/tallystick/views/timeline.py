"""The timeline of one cell: its ticks, its effects as bars, and what was done to it (K-45, X-22).

The frames that touch a cell come as an argument, from the derived index or from the journal.
A bar has both halves: when the effect was asked for, and when its receipt came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tallystick.model.cells import CellId
from tallystick.model.envelopes import CANCEL
from tallystick.model.frames import Sealed
from tallystick.model.records import (
    KIND_OF,
    CellCancelRequested,
    Dropped,
    EffectAttempted,
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    ProgressNoted,
    ReceiptSettled,
    Record,
    Ticked,
    WorkflowFaulted,
)
from tallystick.values import canon
from tallystick.views import shown
from tallystick.views.journal import Entry, about, entries, time_of, touches

BARS_MAX: Final = 2000


class Timeline:
    """Gathers what happened to one cell, record by record, in their order."""

    def __init__(self, cell: CellId, most: int = BARS_MAX) -> None:
        self.cell = cell
        self.most = most
        self.ticks: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.bars: dict[bytes, dict[str, Any]] = {}
        self.more = 0
        self.last = 0
        self._inputs: dict[int, dict[str, Any]] = {}
        self._at_ns: int | None = None

    def read(self, frames: Iterable[Sealed], at_ns: int | None = None) -> Timeline:
        """Take in frames; gives itself; `at_ns` is the time of the input before them."""
        self._at_ns = at_ns or self._at_ns
        for entry in entries(frames):
            self._at_ns = time_of(entry.record, self._at_ns)
            self.last = entry.seq
            intent = getattr(entry.record, "intent", None)
            if intent in self.bars or touches(entry.record, self.cell):
                self._take(entry)
        return self

    def _take(self, entry: Entry) -> None:
        match entry.record:
            case EventAdmitted() as record:
                self._inputs[entry.seq] = {"seq": entry.seq, "schema": record.schema}
                self._emitted(entry.seq, record)
            case Ticked() | WorkflowFaulted() as record:
                self._tick(entry.seq, record)
            case IntentOpened() | IntentDenied() as record:
                self._asked(entry.seq, record)
            case ReceiptSettled() as record:
                self._settled(entry.seq, record)
            case ProgressNoted() | EffectAttempted() | Dropped() as record:
                self._beside(entry.seq, record)
            case CellCancelRequested() as record:
                self._inputs[entry.seq] = {"seq": entry.seq, "schema": CANCEL}
                self._mark(entry.seq, record)
            case record:
                self._mark(entry.seq, record)

    def _room(self) -> bool:
        """True while another bar or tick may be shown; else it is only counted."""
        if len(self.ticks) + len(self.bars) < self.most:
            return True
        self.more += 1
        return False

    def _tick(self, seq: int, record: Ticked | WorkflowFaulted) -> None:
        if not self._room():
            return
        made: dict[str, Any] = {
            "seq": seq,
            "at_ns": self._at_ns,
            "input": self._inputs.get(record.input_seq, {"seq": record.input_seq, "schema": None}),
            "fuel": record.fuel,
            "effects": [],
            "events": [],
        }
        self.ticks.append(made | _outcome(record))

    def _emitted(self, seq: int, record: EventAdmitted) -> None:
        if self.ticks and record.origin.tick_seq == self.ticks[-1]["seq"]:
            self.ticks[-1]["events"].append({"seq": seq, "schema": record.schema})

    def _asked(self, seq: int, record: IntentOpened | IntentDenied) -> None:
        text = canon.text_of(record.intent)
        if self.ticks and record.origin.tick_seq == self.ticks[-1]["seq"]:
            self.ticks[-1]["effects"].append({"intent": text, "issuer_ref": record.issuer_ref})
        if not self._room():
            return
        self.bars[record.intent] = {
            "intent": text,
            "effect": record.effect,
            "issuer_ref": record.issuer_ref,
            "opened_seq": seq,
            "opened_ns": self._at_ns,
            "settled_seq": None,
            "settled_ns": None,
            "status": "open",
            "attempts": [],
            "progress": 0,
            "drops": [],
        }

    def _settled(self, seq: int, record: ReceiptSettled) -> None:
        self._inputs[seq] = {"seq": seq, "schema": None, "intent": canon.text_of(record.intent)}
        bar = self.bars.get(record.intent)
        if bar is not None:
            bar["settled_seq"], bar["settled_ns"] = seq, self._at_ns
            bar["status"] = record.status

    def _beside(self, seq: int, record: ProgressNoted | EffectAttempted | Dropped) -> None:
        bar = self.bars.get(record.intent or b"")
        if bar is None:
            self._mark(seq, record)
        elif isinstance(record, EffectAttempted):
            bar["attempts"].append({"seq": seq, "attempt": record.attempt, "reason": record.reason})
        elif isinstance(record, Dropped):
            bar["drops"].append({"seq": seq, "reason": record.reason})
        else:
            bar["progress"] = record.seq

    def _mark(self, seq: int, record: Record) -> None:
        if len(self.marks) >= self.most:
            self.more += 1
            return
        kind = KIND_OF[type(record)]
        row = {"seq": seq, "at_ns": self._at_ns, "kind": kind}
        self.marks.append({**row, "record": shown.record_json(record)})

    def shown(self) -> dict[str, Any]:
        """The timeline as JSON."""
        return {
            "workflow": self.cell.workflow,
            "key": shown.key_json(self.cell.key),
            "ticks": self.ticks,
            "effects": list(self.bars.values()),
            "marks": self.marks,
            "more": self.more,
            "as_of": self.last,
        }


def _outcome(record: Ticked | WorkflowFaulted) -> dict[str, Any]:
    if isinstance(record, WorkflowFaulted):
        fault = {"code": record.code, "message": record.message, "action": record.action}
        return {"before": None, "after": None, "status": None, "fault": fault}
    return {
        "before": None if record.before is None else canon.text_of(record.before),
        "after": None if record.after is None else canon.text_of(record.after),
        "status": record.status,
        "reason": shown.json_of(record.reason),
        "logs": shown.json_of(record.logs),
        "metrics": shown.json_of(record.metrics),
        "fault": None,
    }


def timeline(frames: Iterable[Sealed], cell: CellId, most: int = BARS_MAX) -> dict[str, Any]:
    """What happened to one cell in these frames."""
    return Timeline(cell, most).read(frames).shown()


def last_word(frames: Iterable[Sealed], cell: CellId) -> dict[str, Any] | None:
    """The last record that suspended, failed, faulted or skipped something of a cell."""
    found = None
    for entry in entries(frames):
        done = KIND_OF[type(entry.record)] in ("lifecycle", "fault")
        if done and about(entry.record).cell == cell:
            found = {"seq": entry.seq, **shown.record_json(entry.record)}
    return found
