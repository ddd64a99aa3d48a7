"""The parts of journal records: what several types of them hold (02 section 6)."""

from __future__ import annotations

from typing import Any, NamedTuple


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
