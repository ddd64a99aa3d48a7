"""Records: the closed union of journal entries (02 section 6).

One record is one fact: an event admitted, a tick's outcome, an intent, a receipt, a fault.
State is a fold over records and nothing else, so everything a fold needs stands in them.
Digests are 32 raw bytes; a field that is empty is absent.
A reader that meets an unknown type or field stops: folding past it would be a guess.
"""

# tidy: the union is one table; splitting it would hide that it is closed.
from __future__ import annotations

from typing import Any, Final, NamedTuple

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

# ---- parts ----------------------------------------------------------------------------------


class Stamp(NamedTuple):
    """What the node sampled for one external input: the only way time and chance come in (D4)."""

    now_ns: int
    logical_ns: int
    entropy: bytes


class IdemKey(NamedTuple):
    """The caller's Idempotency-Key and the digest of what it was sent with."""

    key: bytes
    digest: bytes


class Source(NamedTuple):
    """Where an event came from; `tick_seq` is the cause of one that a tick emitted."""

    kind: str
    principal: str | None = None
    workflow: str | None = None
    key: bytes | None = None
    tick_seq: int | None = None


class Target(NamedTuple):
    """One delivery of an event: the routing outcome, so that opening runs no user code."""

    workflow: str
    key: bytes
    create: bool
    arm: str | None = None
    upcast: str | None = None
    value: bytes | None = None
    init: bytes | None = None
    caps: Any | None = None
    caller: bytes | None = None


class Origin(NamedTuple):
    """Who asked for an effect, and where in its history."""

    kind: str
    workflow: str
    workflow_hash: bytes
    key: bytes
    tick_seq: int
    index: int  # type: ignore[assignment]  # the ABI's word; tuple.index is not used


class JudgedGrant(NamedTuple):
    """The slot and the grant that said yes."""

    slot: str
    grant: str
    grant_hash: bytes


class JudgedRule(NamedTuple):
    """The policy rule that matched, and what it decided."""

    policy: str
    rule: int
    decision: str
    id: str | None = None


class Judged(NamedTuple):
    """The judgement trail (06 section 1): each stage reached, and the digest of the facts (I26)."""

    declared: str
    shape: str | None = None
    capability: JudgedGrant | None = None
    policy: JudgedRule | None = None
    capacity: str | None = None
    inputs_digest: bytes | None = None


class Address(NamedTuple):
    """A cell that a receipt was delivered to."""

    workflow: str
    key: bytes


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

# ---- the union ------------------------------------------------------------------------------


class EventAdmitted(NamedTuple):
    """An event is in the world; `to` is where it went."""

    schema: str
    event_hash: bytes
    origin: Source
    hops: int
    to: tuple[Target, ...]
    value: bytes | None = None
    value_hash: bytes | None = None
    key: bytes | None = None
    tags: list[str] | None = None
    idem_key: IdemKey | None = None
    stamp: Stamp | None = None


class Ticked(NamedTuple):
    """One delivery was handled: state before and after, status, and the digest of the output."""

    workflow: str
    key: bytes
    workflow_hash: bytes
    module_hash: bytes
    input_seq: int
    input_index: int
    born_seq: int
    size: int
    state_version: int
    status: str
    output: bytes
    events: int
    effects: int
    fuel: int
    engine: str
    before: bytes | None = None
    after: bytes | None = None
    state: bytes | None = None
    reason: Any | None = None
    result: bytes | None = None
    ann: bytes | None = None
    logs: Any | None = None
    metrics: Any | None = None
    blobs: Any | None = None


class IntentOpened(NamedTuple):
    """An effect was admitted; it may be published once this record is durable."""

    intent: bytes
    effect: str
    effect_hash: bytes
    executor: str
    origin: Origin
    judged: Judged
    params: bytes | None = None
    params_hash: bytes | None = None
    issuer_ref: str | None = None
    idempotency_key: bytes | None = None
    timeout_at_ns: int | None = None
    hold: Any | None = None
    flow: Any | None = None


class IntentAttached(NamedTuple):
    """The same explicit key was asked for again: one execution, one more continuation."""

    intent: bytes
    origin: Origin
    issuer_ref: str | None = None


class IntentDenied(NamedTuple):
    """An effect was refused; the receipt with status `denied` follows in the same frame."""

    intent: bytes
    effect: str
    origin: Origin
    judged: Judged
    stage: str
    code: str
    message: str
    effect_hash: bytes | None = None
    params: bytes | None = None
    params_hash: bytes | None = None
    issuer_ref: str | None = None
    idempotency_key: bytes | None = None
    normalised: bool | None = None
    rule: str | None = None
    path: str | None = None


class IntentReleased(NamedTuple):
    """A held intent may be published now."""

    intent: bytes
    hold: str
    cause: str
    stamp: Stamp | None = None


class EffectAttempted(NamedTuple):
    """A further attempt at the outside begins; older attempts' receipts no longer settle."""

    intent: bytes
    attempt: int
    reason: str
    stamp: Stamp | None = None


class ReceiptSettled(NamedTuple):
    """An intent has its one terminal outcome, and the continuation went to `to`."""

    intent: bytes
    status: str
    source: str
    executor: str
    attempt: int
    started_ns: int
    ended_ns: int
    to: tuple[Address, ...]
    outcome: str
    payload: bytes | None = None
    payload_hash: bytes | None = None
    usage: Any | None = None
    seal: Any | None = None
    key_id: str | None = None
    stamp: Stamp | None = None
    error: Any | None = None


class ProgressNoted(NamedTuple):
    """A progress frame that a workflow receives; it settles nothing."""

    intent: bytes
    attempt: int
    seq: int
    frame_kind: str
    payload: bytes
    stamp: Stamp
    gap: int | None = None


class WorkflowFaulted(NamedTuple):
    """A tick ended in a fault: nothing of its output counts."""

    workflow: str
    key: bytes
    input_seq: int
    input_index: int
    code: str
    message: str
    fuel: int
    engine: str
    action: str
    limit: Any | None = None


class WorldCreated(NamedTuple):
    """The first record of a world."""

    world: str
    principal: str
    stamp: Stamp


class WorldForked(NamedTuple):
    """The first record of a fork; open intents follow the pending policy."""

    world: str
    parent: str
    at_seq: int
    head: bytes
    root: bytes
    pending: Any
    principal: str
    stamp: Stamp


class WorldRestored(NamedTuple):
    """A world was restored from a backup; its open intents are held."""

    backup: str
    head: bytes
    principal: str
    stamp: Stamp


class CellSuspended(NamedTuple):
    """An operator, or the node, suspended a cell; its mail waits."""

    workflow: str
    key: bytes
    principal: str
    reason: str
    stamp: Stamp


class CellResumed(NamedTuple):
    """A suspended cell goes on."""

    workflow: str
    key: bytes
    principal: str
    reason: str
    stamp: Stamp


class CellSkipped(NamedTuple):
    """The front entry of a cell's mailbox was dropped by an operator."""

    workflow: str
    key: bytes
    principal: str
    reason: str
    stamp: Stamp
    input_seq: int


class CellCancelRequested(NamedTuple):
    """A cell with an arm for it was asked to cancel."""

    workflow: str
    key: bytes
    principal: str
    reason: str
    stamp: Stamp
    deadline_ns: int | None = None


class CellFailed(NamedTuple):
    """A cell was failed from outside its own code."""

    workflow: str
    key: bytes
    principal: str
    reason: str
    stamp: Stamp | None = None


class KeyTrusted(NamedTuple):
    """A public key counts for these executors and effects from now on."""

    key: str
    public_key: bytes
    executors: list[str]
    effects: list[str]
    principal: str
    stamp: Stamp | None = None


class KeyRevoked(NamedTuple):
    """A key no longer counts for receipts that come after this."""

    key: str
    principal: str
    reason: str
    stamp: Stamp | None = None


class GrantRevoked(NamedTuple):
    """A grant, and all derived from it, no longer counts."""

    name: str
    principal: str
    reason: str
    stamp: Stamp | None = None


class ApplyRefused(NamedTuple):
    """An activation was refused; the blockers are named, the state root is unchanged."""

    bundle: bytes
    code: str
    blockers: Any
    count: int  # type: ignore[assignment]  # the word of the refusal; tuple.count is not used
    principal: str
    stamp: Stamp


class BundleActivate(NamedTuple):
    """The manifest changes here, atomically."""

    to: bytes
    bundle: bytes
    mode: str
    principal: str
    proposal: str | None = None
    from_: bytes | None = None
    plan: bytes | None = None
    report_hash: bytes | None = None
    approved_by: Any | None = None
    stamp: Stamp | None = None


class SnapshotTaken(NamedTuple):
    """Index roots were pinned; `root` and `state_root` are those of the record before."""

    root: bytes
    state_root: bytes
    roots: Any
    manifest: bytes
    cells: int
    dirty: int
    stamp: Stamp | None = None


class Dropped(NamedTuple):
    """Something arrived that changes nothing; this is the evidence."""

    what: str
    reason: str
    digest: bytes
    size: int
    source: str
    intent: bytes | None = None
    workflow: str | None = None
    key: bytes | None = None
    stamp: Stamp | None = None


class Noted(NamedTuple):
    """A remark for readers; it folds to nothing."""

    topic: str
    data: Any
    workflow: str | None = None
    key: bytes | None = None
    stamp: Stamp | None = None


Record = (
    EventAdmitted
    | Ticked
    | IntentOpened
    | IntentAttached
    | IntentDenied
    | IntentReleased
    | EffectAttempted
    | ReceiptSettled
    | ProgressNoted
    | WorkflowFaulted
    | WorldCreated
    | WorldForked
    | WorldRestored
    | CellSuspended
    | CellResumed
    | CellSkipped
    | CellCancelRequested
    | CellFailed
    | KeyTrusted
    | KeyRevoked
    | GrantRevoked
    | ApplyRefused
    | BundleActivate
    | SnapshotTaken
    | Dropped
    | Noted
)

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
}  # fmt: skip

# Where a name is used for something else than its usual kind.
_EXCEPTIONS: Final[dict[tuple[str, str], Kind]] = {
    ("EventAdmitted", "origin"): _SOURCE.kind(),
    ("EventAdmitted", "to"): list_of(_TARGET),
    ("ReceiptSettled", "to"): list_of(_ADDRESS),
    ("BundleActivate", "to"): DIGEST,
    ("Ticked", "reason"): ANY,
    ("KeyTrusted", "key"): TEXT,
    ("KeyTrusted", "effects"): ANY,
    ("KeyRevoked", "key"): TEXT,
    ("IntentReleased", "hold"): TEXT,
}

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "event": (EventAdmitted,),
    "tick": (Ticked,),
    "intent": (IntentOpened, IntentAttached, IntentReleased, EffectAttempted),
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
    ),
    "governance": (KeyTrusted, KeyRevoked, GrantRevoked, ApplyRefused),
    "activate": (BundleActivate,),
    "snapshot": (SnapshotTaken,),
    "dropped": (Dropped,),
    "note": (Noted,),
}

KIND_OF: Final[dict[type, str]] = {cls: kind for kind, all_ in _KINDS.items() for cls in all_}


def _shape_of(cls: Any) -> Shape:
    fields: dict[str, Kind] = {}
    for name in cls._fields:
        said = name.rstrip("_")
        fields[said] = _EXCEPTIONS.get((cls.__name__, said)) or _FIELDS[said]
    return Shape(cls, fields, constant=("record", cls.__name__))


_SHAPES: Final[dict[type, Shape]] = {cls: _shape_of(cls) for cls in KIND_OF}
_BY_NAME: Final[dict[str, Shape]] = {cls.__name__: shape for cls, shape in _SHAPES.items()}


def put_record(record: Record) -> bytes:
    """The encoded map of a record, a piece of a frame's body."""
    return _SHAPES[type(record)].put(record)


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
    return made
