"""The types of journal records: a closed union of frozen tuples (02 section 6).

One record is one fact: an event admitted, a tick's outcome, an intent, a receipt, a fault.
State is a fold over records and nothing else, so everything a fold needs stands in them.
Digests are 32 raw bytes; a field that is empty is absent.
How they are written and read is in `records`.
"""

# tidy: the union is one table; splitting it would hide that it is closed.
from __future__ import annotations

from typing import Any, NamedTuple

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
    Origin,
    Source,
    Stamp,
    Target,
)


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


class IntentApproval(NamedTuple):
    """A principal said yes or no to an intent that is held for approval."""

    intent: bytes
    principal: str
    decision: str
    stamp: Stamp
    comment: str | None = None
    seal: Any | None = None


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


class StateMigrated(NamedTuple):
    """The tick before this record began from a state that migrations had carried on.

    It is evidence: what the cell holds now stands in the tick.
    """

    workflow: str
    key: bytes
    from_: int
    to: int
    before: bytes
    after: bytes


class CellUnpinned(NamedTuple):
    """A pinned cell runs under the active manifest from now on; one that ends needs no record."""

    workflow: str
    key: bytes
    reason: str


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
    synthetic: bool | None = None  # a what-if: its receipts are assumed, and it dispatches nothing


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
    | IntentApproval
    | EffectAttempted
    | ReceiptSettled
    | ProgressNoted
    | WorkflowFaulted
    | StateMigrated
    | CellUnpinned
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
    | GrantMinted
    | GrantRevoked
    | ApplyRefused
    | Proposed
    | Shadowed
    | Proved
    | Approved
    | Rejected
    | ProposalFailed
    | AliasMoved
    | BundleActivate
    | SnapshotTaken
    | Dropped
    | Noted
)
