"""A trace as words: one line per record, in the order things happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import KIND_OF, Record
from tallystick.values import canon

LINES = {
    "EventAdmitted": "{schema}  to {to}",
    "Ticked": "{workflow}[{key}]  {status}  {events} events, {effects} effects",
    "IntentOpened": "{effect}  {intent}  by {origin}",
    "IntentDenied": "{effect}  denied {code}",
    "ReceiptSettled": "{intent}  {status} from {executor}, {outcome}",
    "EffectAttempted": "{intent}  attempt {attempt}: {reason}",
    "WorkflowFaulted": "{workflow}[{key}]  {code}: {message}",
    "BundleActivate": "manifest {to}  ({mode})",
    "KeyTrusted": "key {key}",
    "WorldCreated": "world {world}",
    "SnapshotTaken": "{cells} cells, {dirty} dirty, state root {state_root}",
}


def lines(frames: Iterable[Sealed]) -> Iterable[dict[str, Any]]:
    """Each record as sequence, kind and a sentence; frames are told apart by their first seq."""
    for frame in frames:
        _, seq, _, records = open_frame(frame.body)
        for i, record in enumerate(records):
            yield {
                "seq": seq + i,
                "frame": frame.seq,
                "kind": KIND_OF[type(record)],
                "record": type(record).__name__,
                "text": _sentence(record),
            }


def _sentence(record: Record) -> str:
    form = LINES.get(type(record).__name__)
    if form is None:
        return ""
    return form.format(**{name: _shown(name, value) for name, value in _fields(record)})


def _fields(record: Record) -> Iterable[tuple[str, Any]]:
    return zip(record._fields, record, strict=True)


def _shown(name: str, value: Any) -> Any:
    if name == "key" and type(value) is bytes:
        return canon.decode(value) if value else "-"
    if type(value) is bytes:
        return value.hex()[:8]
    if name == "origin":
        return f"{value.workflow}[{canon.decode(value.key) if value.key else '-'}]"
    if name == "to" and type(value) is tuple:
        cells = [f"{t.workflow}[{canon.decode(t.key) if t.key else '-'}]" for t in value]
        return ", ".join(cells) or "nobody"
    return value
