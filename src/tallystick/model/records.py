"""Records: how the closed union of journal entries is written and read (02 section 6).

A reader that meets an unknown type or field stops: folding past it would be a guess.
In a frame a record does not say what goes without saying (ADR 0028): a field that has the value
it nearly always has, the key that its own seal names, the origin that is the frame's own tick.
Leaves of a world's state hold whole records, as `put_record` writes them; both are read.
"""

# tidy: one table of fields and kinds for the whole union.
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tallystick.errors import JournalCorrupt
from tallystick.model.codec import (
    ANY,
    BYTES,
    DIGEST,
    FLAG,
    INT,
    NAME,
    NAT,
    TEXT,
    Kind,
    Shape,
    list_of,
)
from tallystick.model.record_governance import (
    AliasMoved,
    ApplyRefused,
    Approved,
    BundleActivate,
    GrantMinted,
    GrantRevoked,
    KeyRevoked,
    KeyTrusted,
    ProposalFailed,
    Proposed,
    Proved,
    Rejected,
    Shadowed,
)
from tallystick.model.record_parts import (
    Address,
    IdemKey,
    Judged,
    JudgedGrant,
    JudgedRule,
    Origin,
    Source,
    Stamp,
    Target,
)
from tallystick.model.record_types import (
    CellCancelRequested,
    CellFailed,
    CellResumed,
    CellSkipped,
    CellSuspended,
    CellUnpinned,
    Dropped,
    EffectAttempted,
    EventAdmitted,
    IntentApproval,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    IntentReleased,
    Noted,
    ProgressNoted,
    ReceiptSettled,
    Record,
    SnapshotTaken,
    StateMigrated,
    Ticked,
    WorkflowFaulted,
    WorldCreated,
    WorldForked,
    WorldRestored,
)
from tallystick.model.tuples import make as make_tuple

__all__ = [
    "ASKED",
    "DEFAULTS",
    "KIND_OF",
    "WORKFLOW",
    "Address",
    "AliasMoved",
    "ApplyRefused",
    "Approved",
    "BundleActivate",
    "CellCancelRequested",
    "CellFailed",
    "CellResumed",
    "CellSkipped",
    "CellSuspended",
    "CellUnpinned",
    "Dropped",
    "EffectAttempted",
    "EventAdmitted",
    "GrantMinted",
    "GrantRevoked",
    "IdemKey",
    "IntentApproval",
    "IntentAttached",
    "IntentDenied",
    "IntentOpened",
    "IntentReleased",
    "Judged",
    "JudgedGrant",
    "JudgedRule",
    "KeyRevoked",
    "KeyTrusted",
    "Noted",
    "Origin",
    "ProgressNoted",
    "ProposalFailed",
    "Proposed",
    "Proved",
    "ReceiptSettled",
    "Record",
    "Rejected",
    "Shadowed",
    "SnapshotTaken",
    "Source",
    "Stamp",
    "StateMigrated",
    "Target",
    "Ticked",
    "WorkflowFaulted",
    "WorldCreated",
    "WorldForked",
    "WorldRestored",
    "load_judged",
    "load_record",
    "load_records",
    "load_source",
    "placed",
    "put_framed",
    "put_record",
]

# ---- parts ----------------------------------------------------------------------------------

_STAMP = Shape(Stamp, {"now_ns": INT, "logical_ns": INT, "entropy": BYTES})
_IDEM = Shape(IdemKey, {"key": BYTES, "digest": DIGEST})
_SOURCE = Shape(
    Source, {"kind": NAME, "principal": TEXT, "workflow": NAME, "key": BYTES, "tick_seq": NAT}
)
_TARGET = Shape(
    Target,
    {
        "workflow": NAME,
        "key": BYTES,
        "create": FLAG,
        "arm": NAME,
        "upcast": NAME,
        "value": BYTES,
        "init": BYTES,
        "caps": ANY,
        "caller": DIGEST,
    },
)
_ORIGIN = Shape(
    Origin,
    {
        "kind": NAME,
        "workflow": NAME,
        "workflow_hash": DIGEST,
        "key": BYTES,
        "tick_seq": NAT,
        "index": NAT,
    },
)
_JUDGED = Shape(
    Judged,
    {
        "declared": NAME,
        "shape": NAME,
        "capability": Shape(
            JudgedGrant, {"slot": NAME, "grant": NAME, "grant_hash": DIGEST}
        ).kind(),
        "policy": Shape(
            JudgedRule, {"policy": NAME, "rule": NAT, "decision": NAME, "id": NAME}
        ).kind(),
        "capacity": NAME,
        "inputs_digest": DIGEST,
    },
)
_ADDRESS = Shape(Address, {"workflow": NAME, "key": BYTES})

_STAMP_K = _STAMP.kind()
_ORIGIN_K = _ORIGIN.kind()

# ---- the codec table ------------------------------------------------------------------------

# The kind of every field name of the union: one name means one thing everywhere.
_FIELDS: Final[dict[str, Kind]] = {
    "schema": NAME, "value": BYTES, "value_hash": DIGEST, "event_hash": DIGEST, "key": BYTES,
    "origin": _ORIGIN_K, "tags": ANY, "idem_key": _IDEM.kind(), "hops": NAT, "stamp": _STAMP_K,
    "workflow": NAME, "workflow_hash": DIGEST, "module_hash": DIGEST, "input_seq": NAT,
    "input_index": NAT, "born_seq": NAT, "before": DIGEST, "after": DIGEST, "state": BYTES,
    "size": NAT, "state_version": NAT, "status": NAME, "reason": TEXT, "result": BYTES,
    "output": DIGEST, "events": NAT, "effects": NAT, "fuel": NAT, "engine": NAME, "ann": BYTES,
    "logs": ANY, "metrics": ANY, "blobs": ANY, "intent": DIGEST, "effect": NAME,
    "effect_hash": DIGEST, "executor": NAME, "judged": _JUDGED.kind(), "params": BYTES,
    "params_hash": DIGEST, "issuer_ref": TEXT, "idempotency_key": BYTES, "timeout_at_ns": NAT,
    "hold": ANY, "flow": ANY, "stage": NAME, "code": NAME, "message": TEXT, "normalised": FLAG,
    "rule": TEXT, "path": TEXT, "cause": TEXT, "attempt": NAT, "source": NAME,
    "started_ns": NAT, "ended_ns": NAT, "outcome": NAME, "payload": BYTES,
    "payload_hash": DIGEST, "usage": ANY, "seal": ANY, "key_id": TEXT, "error": ANY,
    "frame_kind": TEXT, "seq": NAT, "gap": NAT, "action": NAME, "limit": ANY, "world": TEXT,
    "principal": TEXT, "parent": TEXT, "at_seq": NAT, "head": DIGEST, "root": DIGEST,
    "pending": ANY, "backup": TEXT, "deadline_ns": NAT, "public_key": DIGEST,
    "executors": ANY, "name": TEXT, "bundle": DIGEST, "blockers": ANY, "count": NAT,
    "mode": NAME, "proposal": TEXT, "from": DIGEST, "plan": DIGEST, "report_hash": DIGEST,
    "approved_by": ANY, "state_root": DIGEST, "roots": ANY, "manifest": DIGEST, "cells": NAT,
    "dirty": NAT, "what": NAME, "digest": DIGEST, "topic": TEXT, "data": ANY,
    "decision": NAME, "comment": TEXT, "base": DIGEST, "patch": DIGEST, "summary": ANY,
    "description": TEXT, "rebased": TEXT, "complete": FLAG, "voided": ANY, "verdicts": ANY,
    "alias": TEXT, "synthetic": FLAG, "slot": NAME, "cap": NAME, "grant_hash": DIGEST,
}  # fmt: skip

# Where a name is used for something else than its usual kind.
_EXCEPTIONS: Final[dict[tuple[str, str], Kind]] = {
    ("EventAdmitted", "origin"): _SOURCE.kind(),
    ("EventAdmitted", "to"): list_of(_TARGET),
    ("ReceiptSettled", "to"): list_of(_ADDRESS),
    ("BundleActivate", "to"): DIGEST,
    ("Ticked", "reason"): ANY,
    ("StateMigrated", "from"): NAT,
    ("StateMigrated", "to"): NAT,
    ("GrantMinted", "params"): ANY,
    ("KeyTrusted", "key"): TEXT,
    ("KeyTrusted", "effects"): ANY,
    ("KeyRevoked", "key"): TEXT,
    ("IntentReleased", "hold"): TEXT,
    ("AliasMoved", "from"): TEXT,
    ("AliasMoved", "to"): TEXT,
}

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "event": (EventAdmitted,),
    "tick": (Ticked, StateMigrated),
    "intent": (IntentOpened, IntentAttached, IntentReleased, IntentApproval, EffectAttempted),
    "denied": (IntentDenied,),
    "receipt": (ReceiptSettled,),
    "progress": (ProgressNoted,),
    "fault": (WorkflowFaulted,),
    "lifecycle": (
        WorldCreated,
        WorldForked,
        WorldRestored,
        CellSuspended,
        CellResumed,
        CellSkipped,
        CellCancelRequested,
        CellFailed,
        CellUnpinned,
    ),
    "governance": (
        KeyTrusted,
        KeyRevoked,
        GrantMinted,
        GrantRevoked,
        Proposed,
        Shadowed,
        Proved,
        Approved,
        Rejected,
        ProposalFailed,
        ApplyRefused,
        AliasMoved,
    ),
    "activate": (BundleActivate,),
    "snapshot": (SnapshotTaken,),
    "dropped": (Dropped,),
    "note": (Noted,),
}

KIND_OF: Final[dict[type, str]] = {cls: kind for kind, all_ in _KINDS.items() for cls in all_}


# ---- what goes without saying ---------------------------------------------------------------

OK: Final = "ok"
WORKFLOW: Final = "workflow"  # the kind of an origin that is a tick
DEFAULTS: Final[dict[type, dict[str, Any]]] = {
    Ticked: {"events": 0, "input_index": 0, "state_version": 1, "status": "running"},
    IntentOpened: {"origin": None},  # the frame knows it: `frames`
    ReceiptSettled: {"source": "executor", "status": OK, "attempt": 1, "outcome": "delivered"},
}


def _put_stamp(stamp: Stamp) -> bytes:
    """Logical time follows the clock, unless inputs come faster than that."""
    if stamp.logical_ns == stamp.now_ns:
        return _STAMP.put((stamp.now_ns, None, stamp.entropy))
    return _STAMP.put(stamp)


def _load_stamp(raw: Any) -> Any:
    if type(raw) is dict and "logical_ns" not in raw:
        raw = {**raw, "logical_ns": raw.get("now_ns")}
    return _STAMP.load(raw)


def _put_passed(judged: Judged) -> bytes:
    """An opened intent has passed every stage; an older record may say so."""
    if judged.declared == judged.shape == judged.capacity == OK:
        return _JUDGED.put((None, None, judged.capability, judged.policy, None, judged[5]))
    return _JUDGED.put(judged)


def _load_passed(raw: Any) -> Any:
    if type(raw) is dict and not raw.keys() & {"declared", "shape", "capacity"}:
        raw = {**raw, "declared": OK, "shape": OK, "capacity": OK}
    return _JUDGED.load(raw)


# What a tick asked for: each effect of its output is one of these, in their order.
ASKED: Final = frozenset((IntentOpened, IntentAttached, IntentDenied))
_FRAMED_KINDS: Final[dict[str, Kind]] = {"stamp": Kind(_put_stamp, _load_stamp)}
_FRAMED: Final[dict[tuple[str, str], Kind]] = {
    ("IntentOpened", "judged"): Kind(_put_passed, _load_passed)
}


def _shape_of(cls: Any, *, framed: bool) -> Shape:
    fields: dict[str, Kind] = {}
    for name in cls._fields:
        said = name.rstrip("_")
        fields[said] = _EXCEPTIONS.get((cls.__name__, said)) or _FIELDS[said]
        if framed:
            usual = _FRAMED_KINDS.get(said, fields[said])
            fields[said] = _FRAMED.get((cls.__name__, said), usual)
    defaults = DEFAULTS.get(cls) if framed else None
    return Shape(cls, fields, ("record", cls.__name__), defaults)


_WHOLE_SHAPES: Final[dict[type, Shape]] = {cls: _shape_of(cls, framed=False) for cls in KIND_OF}
_SHAPES: Final[dict[type, Shape]] = {cls: _shape_of(cls, framed=True) for cls in KIND_OF}
_BY_NAME: Final[dict[str, Shape]] = {cls.__name__: shape for cls, shape in _SHAPES.items()}


def put_record(record: Record) -> bytes:
    """The encoded map of a whole record, as a leaf of a world's state holds it."""
    return _WHOLE_SHAPES[type(record)].put(record)


def put_framed(record: Record) -> bytes:
    """The encoded map of a record, a piece of a frame's body."""
    if isinstance(record, ReceiptSettled) and record.seal is not None:
        record = record._replace(key_id=None if names_key(record) else record.key_id)
    return _SHAPES[type(record)].put(record)


def names_key(record: ReceiptSettled) -> bool:
    """True when the seal of a receipt names the key that it was checked with."""
    seal = record.seal
    return type(seal) is dict and seal.get("key") == record.key_id


def load_record(raw: Any) -> Record:
    """The record of a decoded map; an unknown type or field stops reading."""
    name = raw.get("record") if type(raw) is dict else None
    shape = _BY_NAME.get(name) if type(name) is str else None
    if shape is None:
        raise JournalCorrupt(
            f"unknown record type {name!r}",
            code="record.unknown_type",
            hint="a newer release wrote this journal: read it with that release",
        )
    made: Record = shape.load(raw)
    if type(made) is ReceiptSettled and made.key_id is None and type(made.seal) is dict:
        return made._replace(key_id=made.seal.get("key"))
    return made


def load_records(raws: Iterable[Any], seq: int) -> list[Record]:
    """The records of a frame whose first one has the number `seq`."""
    found: list[Record] = []
    record: Any  # an intent lacks its origin until it is placed
    for raw in raws:
        record = load_record(raw)
        kind = type(record)
        found.append(
            placed(record, found, seq) if kind is IntentOpened and record[4] is None else record
        )
    return found


def placed(record: IntentOpened, before: Sequence[Record], seq: int) -> IntentOpened:
    """An intent with its origin: the tick that its frame begins with, at `seq`.

    `before` are the records before it in the frame.
    """
    tick = before[0] if before else None
    if type(tick) is not Ticked:
        raise JournalCorrupt(
            "IntentOpened.origin: missing", code="record.malformed", where={"field": "origin"}
        )
    index = sum(type(each) in ASKED for each in before) if len(before) > 1 else 0
    place = (WORKFLOW, tick.workflow, tick.workflow_hash, tick.key, seq, index)
    return make_tuple(IntentOpened, (*record[:4], make_tuple(Origin, place), *record[5:]))


def load_judged(raw: Any) -> Judged:
    """The judgement trail of the decoded map of an opened intent."""
    made: Judged = _load_passed(raw)
    return made


def load_source(raw: Any) -> Source:
    """The source of an event of a decoded map."""
    made: Source = _SOURCE.load(raw)
    return made
