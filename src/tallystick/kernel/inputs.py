"""Inputs: the closed union of what may come to a world from outside (03 section 1).

Each carries a sample of time and chance that the node read; the kernel reads none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Spelling = Literal["native", "sugar", "tagged", "canonical"]


class Sample(NamedTuple):
    """What the node read for one input: wall time and 64 bytes of entropy."""

    now_ns: int
    entropy: bytes


class Submit(NamedTuple):
    """A domain event; `lens` says how `value` is spelled, `canonical` means document bytes."""

    sample: Sample
    schema: str
    value: Any
    lens: Spelling = "sugar"
    key: bytes | None = None
    tags: tuple[str, ...] = ()
    idem_key: bytes | None = None
    origin: str = "external"
    principal: str | None = None


class Receipt(NamedTuple):
    """A terminal outcome as an executor sealed it."""

    world: str
    intent: bytes
    effect: str
    status: str
    payload: bytes
    executor: str
    attempt: int
    started_ns: int
    ended_ns: int
    usage: Mapping[str, int] | None
    seal: Mapping[str, Any]


class Settle(NamedTuple):
    """A sealed receipt; `seal_ok` is the verdict of a check made before, None means not yet."""

    sample: Sample
    receipt: Receipt
    seal_ok: bool | None = None


class Assume(NamedTuple):
    """A receipt that nobody sealed; only a synthetic world takes it."""

    sample: Sample
    intent: bytes
    status: str
    payload: bytes
    usage: Mapping[str, int] | None = None


class Progress(NamedTuple):
    """A progress frame of an open intent; it settles nothing."""

    sample: Sample
    world: str
    intent: bytes
    attempt: int
    seq: int
    kind: str
    payload: bytes
    seal: Mapping[str, Any] | None = None


class Clock(NamedTuple):
    """Time has passed: settle the timers and timeouts that are due."""

    sample: Sample


class Operate(NamedTuple):
    """An operator's verb: suspend resume skip cancel on a cell; release attempt on an intent."""

    sample: Sample
    verb: str
    principal: str
    reason: str
    workflow: str = ""
    key: bytes = b""
    intent: bytes = b""
    force: bool = False
    deadline_ns: int | None = None


class TrustKey(NamedTuple):
    """Trust a public key for executors and effects."""

    sample: Sample
    public_key: bytes
    executors: tuple[str, ...]
    effects: tuple[str, ...]
    principal: str


class RevokeKey(NamedTuple):
    """Stop trusting a key for receipts that come from now on."""

    sample: Sample
    key: str
    principal: str
    reason: str


class RevokeGrant(NamedTuple):
    """Revoke a grant and all that derive from it; `cancel_open` also ends what is out already."""

    sample: Sample
    name: str
    principal: str
    reason: str
    cancel_open: bool = False


class Decide(NamedTuple):
    """A principal's word on an intent that is held for approval: `approve` or `reject`.

    `seal` is over `approval@1` and names its own `at_ns`; `seal_ok` says it was checked before.
    """

    sample: Sample
    intent: bytes
    principal: str
    decision: str
    comment: str | None = None
    seal: Mapping[str, Any] | None = None
    seal_ok: bool | None = None


class Planned(NamedTuple):
    """What an activation does with one open cell: `continue`, `pin` or `migrate`.

    `seq` is the cell's last one when that was decided.
    """

    seq: int
    action: str = "continue"


class Propose(NamedTuple):
    """A candidate bundle for a base; `intent` is the effect of a workflow that asks for it."""

    sample: Sample
    base: bytes
    bundle: bytes
    manifest: bytes
    patch: bytes
    blobs: Mapping[bytes, bytes]
    summary: Mapping[str, Any]
    principal: str
    description: str | None = None
    rebased: str | None = None
    intent: bytes | None = None


class Shadow(NamedTuple):
    """The report of a shadow of a proposal; `blobs` holds it."""

    sample: Sample
    proposal: str
    report_hash: bytes
    complete: bool
    blobs: Mapping[bytes, bytes]
    principal: str
    intent: bytes | None = None


class Prove(NamedTuple):
    """The verdicts on the open cells of a world for a proposal; `blobs` holds the report."""

    sample: Sample
    proposal: str
    report_hash: bytes
    verdicts: Mapping[str, int]
    blobs: Mapping[bytes, bytes]
    principal: str
    intent: bytes | None = None


class Vote(NamedTuple):
    """A principal's word on a proposal: `approve` or `reject`; as `Decide` for intents.

    `report_hash` is the report that was read; without it the newest is meant.
    """

    sample: Sample
    proposal: str
    principal: str
    decision: str
    report_hash: bytes | None = None
    comment: str | None = None
    seal: Mapping[str, Any] | None = None
    seal_ok: bool | None = None
    intent: bytes | None = None


class Fail(NamedTuple):
    """A proposal cannot be applied, for a reason in itself."""

    sample: Sample
    proposal: str
    code: str
    message: str
    principal: str
    intent: bytes | None = None


class MoveAlias(NamedTuple):
    """A name means another world from now on; both worlds are told."""

    sample: Sample
    alias: str
    to: str
    principal: str
    from_: str | None = None


class Activate(NamedTuple):
    """Make another bundle active; `plan` names each open cell at the seq it was proved at.

    `report_hash` is the report that the plan was made from.
    With `proposal` it is that proposal's bundle, and the rules in force must allow it.
    `intent` is the effect of a workflow that asks for it: its own cell does not block it.
    """

    sample: Sample
    bundle: bytes
    manifest: bytes
    expect_manifest: bytes
    blobs: Mapping[bytes, bytes]
    principal: str
    plan: Mapping[tuple[str, bytes], Planned] | None = None
    report_hash: bytes | None = None
    proposal: str | None = None
    intent: bytes | None = None


class TakeSnapshot(NamedTuple):
    """Materialise what is dirty and pin the roots."""

    sample: Sample


Govern = (
    TrustKey
    | RevokeKey
    | RevokeGrant
    | Decide
    | Propose
    | Shadow
    | Prove
    | Vote
    | Fail
    | MoveAlias
    | Activate
)
Rarer = Assume | Progress | Clock | Operate | Govern | TakeSnapshot  # than what every order brings
Input = Submit | Settle | Rarer
