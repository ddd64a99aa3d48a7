"""Records of governance: keys, grants, proposals, activations and names (06 section 6)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tallystick.model.record_parts import Stamp


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


class GrantMinted(NamedTuple):
    """An admin gave one cell a grant of its own, beside those that its workflow is bound to.

    It stands in the frame of the event that begins the cell, and is revoked by its name.
    """

    name: str
    slot: str
    cap: str
    params: Any
    grant_hash: bytes
    workflow: str
    key: bytes
    principal: str


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
    proposal: str | None = None


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


class Proposed(NamedTuple):
    """A candidate bundle stands for decision; its id is `p-` and the sequence of this record.

    `base` is the manifest it was made for, `patch` the digest of the document that made it.
    """

    proposal: str
    base: bytes
    bundle: bytes
    manifest: bytes
    patch: bytes
    summary: Any
    principal: str
    stamp: Stamp
    description: str | None = None
    rebased: str | None = None


class Shadowed(NamedTuple):
    """A shadow ran on the live head; approvals of an older report no longer count (`voided`)."""

    proposal: str
    report_hash: bytes
    complete: bool
    principal: str
    stamp: Stamp
    voided: list[str] | None = None


class Proved(NamedTuple):
    """A verdict for each open cell is on record; `verdicts` counts them by kind."""

    proposal: str
    report_hash: bytes
    verdicts: Any
    principal: str
    stamp: Stamp


class Approved(NamedTuple):
    """A principal said yes to this very bundle and this very report."""

    proposal: str
    bundle: bytes
    principal: str
    stamp: Stamp
    report_hash: bytes | None = None
    comment: str | None = None
    seal: Any | None = None


class Rejected(NamedTuple):
    """A principal said no; one is enough, and it is final."""

    proposal: str
    principal: str
    stamp: Stamp
    comment: str | None = None
    seal: Any | None = None


class ProposalFailed(NamedTuple):
    """A proposal cannot be applied, for a reason in itself; it is never tried again."""

    proposal: str
    code: str
    message: str
    principal: str
    stamp: Stamp


class AliasMoved(NamedTuple):
    """A name that meant the world `from` means the world `to`; both journals hold this.

    The one that lost it is frozen: it takes no events and publishes nothing.
    """

    alias: str
    to: str
    principal: str
    stamp: Stamp
    from_: str | None = None
