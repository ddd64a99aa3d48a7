"""What one record changes in the derived index."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import apsw

from tallystick.kernel.fold_flows import QUEUED
from tallystick.model.cells import FAILED, RUNNING, SUSPENDED, CellId
from tallystick.model.records import (
    KIND_OF,
    CellFailed,
    CellResumed,
    CellSuspended,
    EffectAttempted,
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    IntentReleased,
    Origin,
    ReceiptSettled,
    Record,
    Ticked,
    WorkflowFaulted,
    WorldForked,
    WorldRestored,
)
from tallystick.views.journal import about, cause, time_of, touched

Place = tuple[str, int, int | None]
"""World, sequence, and the time of the input before."""

_RECORD: Final = "INSERT OR REPLACE INTO record VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TOUCH: Final = "INSERT OR IGNORE INTO touch VALUES(?, ?, ?, ?)"
_TOUCH_ASKER: Final = (
    "INSERT OR IGNORE INTO touch SELECT world, workflow, key_hash, ? FROM intent"
    " WHERE world=? AND intent=?"
)
_BORN: Final = "INSERT OR IGNORE INTO cell VALUES(?, ?, ?, ?, ?, NULL, 0, ?, 0)"
_TICKED: Final = (
    "UPDATE cell SET status=?, state_hash=?, size=?, last_seq=?"
    " WHERE world=? AND workflow=? AND key_hash=?"
)
_STATUS: Final = "UPDATE cell SET status=?, last_seq=? WHERE world=? AND workflow=? AND key_hash=?"
_GONE: Final = "DELETE FROM cell WHERE world=? AND workflow=? AND key_hash=?"
_INTENT: Final = "INSERT OR REPLACE INTO intent VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OPEN: Final = (
    "UPDATE cell SET inflight=inflight+? WHERE world=? AND workflow=? AND key_hash=?"
    " AND inflight+? >= 0"
)
_SETTLED: Final = "UPDATE intent SET status=?, settled_seq=?, hold=NULL WHERE world=? AND intent=?"


def put_record(db: apsw.Connection, place: Place, record: Record) -> int | None:
    """Apply one record; the time that it and what follows it have."""
    world, seq, before_ns = place
    at_ns = time_of(record, before_ns)
    cell, intent = about(record)
    workflow, key_hash = (None, None) if cell is None else (cell.workflow, _hash(cell.key))
    event = record.event_hash if isinstance(record, EventAdmitted) else None
    kind = KIND_OF[type(record)]
    row = (world, seq, kind, at_ns, workflow, key_hash, intent, event, cause(record))
    db.execute(_RECORD, row)
    for part in touched(record):
        db.execute(_TOUCH, (world, part.workflow, _hash(part.key), seq))
    if intent is not None:
        # News of an effect belongs to the cell that asked, whatever else they are about.
        db.execute(_TOUCH_ASKER, (seq, world, intent))
    change = _CHANGES.get(type(record))
    if change is not None:
        change(db, world, seq, record)
    return at_ns


def _hash(key: bytes) -> bytes:
    return sha256(key).digest()


def _cell(world: str, cell: CellId | Origin | Any) -> tuple[str, str, bytes]:
    return world, cell.workflow, _hash(cell.key)


def _event(db: apsw.Connection, world: str, seq: int, record: EventAdmitted) -> None:
    for target in record.to:
        db.execute(_BORN, (*_cell(world, target), target.key, RUNNING, seq))
    if record.idem_key is not None:
        row = (world, record.idem_key.key, record.idem_key.digest, seq)
        db.execute("INSERT OR REPLACE INTO ingress_key VALUES(?, ?, ?, ?)", row)


def _ticked(db: apsw.Connection, world: str, seq: int, record: Ticked) -> None:
    place = _cell(world, record)
    if record.after is None:
        db.execute(_GONE, place)
        return
    db.execute(_BORN, (*place, record.key, record.status, seq))
    db.execute(_TICKED, (record.status, record.after, record.size, seq, *place))


def _faulted(db: apsw.Connection, world: str, seq: int, record: WorkflowFaulted) -> None:
    status = SUSPENDED if record.action == "suspended" else FAILED
    db.execute(_STATUS, (status, seq, *_cell(world, record)))


def _suspended(db: apsw.Connection, world: str, seq: int, record: CellSuspended) -> None:
    db.execute(_STATUS, (SUSPENDED, seq, *_cell(world, record)))


def _resumed(db: apsw.Connection, world: str, seq: int, record: CellResumed) -> None:
    db.execute(_STATUS, (RUNNING, seq, *_cell(world, record)))


def _failed(db: apsw.Connection, world: str, seq: int, record: CellFailed) -> None:
    db.execute(_STATUS, (FAILED, seq, *_cell(world, record)))


def _opened(db: apsw.Connection, world: str, seq: int, record: IntentOpened) -> None:
    place = _cell(world, record.origin)
    hold = None if record.hold is None else str(record.hold.get("kind", "held"))
    about_it = (world, record.intent, record.effect, *place[1:], "open", hold)
    db.execute(_INTENT, (*about_it, seq, None, record.timeout_at_ns, 1))
    db.execute(_OPEN, (1, *place, 1))


def _denied(db: apsw.Connection, world: str, seq: int, record: IntentDenied) -> None:
    place = _cell(world, record.origin)
    about_it = (world, record.intent, record.effect, *place[1:], "denied", None)
    # The same explicit key may be open already: a denial of a second request leaves it alone.
    # A denial frees its key, so it may be denied again: the last asking counts.
    db.execute("DELETE FROM intent WHERE world=? AND intent=? AND status='denied'", about_it[:2])
    db.execute(_INTENT.replace("REPLACE", "IGNORE"), (*about_it, seq, seq, None, 0))


def _settled(db: apsw.Connection, world: str, seq: int, record: ReceiptSettled) -> None:
    query = "SELECT workflow, key_hash, status FROM intent WHERE world=? AND intent=?"
    found = db.execute(query, (world, record.intent)).fetchone()
    # A denial without an error belongs to a request that never opened.
    if found is None or (record.status == "denied" and record.error is None):
        return
    workflow, key_hash, status = found
    db.execute(_SETTLED, (record.status, seq, world, record.intent))
    if status == "open":
        db.execute(_OPEN, (-1, world, workflow, key_hash, -1))


def _attempted(db: apsw.Connection, world: str, _seq: int, record: EffectAttempted) -> None:
    query = "UPDATE intent SET attempts=? WHERE world=? AND intent=?"
    db.execute(query, (record.attempt, world, record.intent))


def _released(db: apsw.Connection, world: str, _seq: int, record: IntentReleased) -> None:
    hold = "capacity" if record.cause == QUEUED else None  # from the people into the queue
    row = (hold, world, record.intent)
    db.execute("UPDATE intent SET hold=? WHERE world=? AND intent=?", row)


def _forked(db: apsw.Connection, world: str, _seq: int, record: WorldForked) -> None:
    modes: dict[str, str] = record.pending
    # What waits for people goes on to wait for them.
    query = (
        "SELECT intent, effect FROM intent WHERE world=? AND status='open'"
        " AND (hold IS NULL OR hold<>'approval')"
    )
    for intent, effect in list(db.execute(query, (world,))):
        if modes.get(effect, modes.get("*")) == "suspend":
            row = ("fork", world, intent)
            db.execute("UPDATE intent SET hold=? WHERE world=? AND intent=?", row)


def _restored(db: apsw.Connection, world: str, _seq: int, _record: WorldRestored) -> None:
    query = (
        "UPDATE intent SET hold='restore' WHERE world=? AND status='open'"
        " AND (hold IS NULL OR hold<>'approval')"
    )
    db.execute(query, (world,))


_CHANGES: Final[dict[type, Any]] = {
    EventAdmitted: _event,
    Ticked: _ticked,
    WorkflowFaulted: _faulted,
    CellSuspended: _suspended,
    CellResumed: _resumed,
    CellFailed: _failed,
    IntentOpened: _opened,
    IntentDenied: _denied,
    ReceiptSettled: _settled,
    EffectAttempted: _attempted,
    IntentReleased: _released,
    WorldForked: _forked,
    WorldRestored: _restored,
}
