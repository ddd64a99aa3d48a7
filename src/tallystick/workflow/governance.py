"""The effects by which a workflow changes the bundle of its own world (06 section 8).

A workflow acts as the principal `workflow:<its name>`, which must be listed in the manifest with
the scopes it needs; what it may propose is bounded by its grant of the type `governance`.
The one that asks for `Apply` finishes under the code it has, and is told there what became of it.
"""

from __future__ import annotations

from tallystick.values.schema.annotations import Hash, Json, Nat
from tallystick.workflow.effects import Effect
from tallystick.workflow.records import Record


class Proposed(Record, name="sys/GovernanceProposeReceipt@1"):
    """The proposal that was made."""

    proposal: str
    bundle: Hash


class Propose(Effect[Proposed], name="sys/governance.propose@1", cap="governance"):
    """Propose a patch, a bundle that is in the blob store, or an older proposal anew."""

    patch: Json = None
    bundle_ref: Hash | None = None
    rebase: str | None = None
    description: str | None = None


class Shadowed(Record, name="sys/GovernanceShadowReceipt@1"):
    """The report of a shadow."""

    report_hash: Hash
    complete: bool


class Shadow(Effect[Shadowed], name="sys/governance.shadow@1", cap="governance"):
    """Try a proposal on the recorded tail."""

    proposal: str
    tail: Nat | None = None


class Proved(Record, name="sys/GovernanceProveReceipt@1"):
    """How many verdicts of each kind there are."""

    report_hash: Hash
    verdicts: dict[str, Nat]


class Prove(Effect[Proved], name="sys/governance.prove@1", cap="governance"):
    """Ask for a verdict on every open cell."""

    proposal: str
    tail: Nat | None = None


class Approved(Record, name="sys/GovernanceApproveReceipt@1"):
    """What was decided, and how many approvals there are of how many."""

    decision: str
    approvals: Nat
    needed: Nat


class Approve(Effect[Approved], name="sys/governance.approve@1", cap="governance"):
    """Say yes to a proposal."""

    proposal: str
    report_hash: Hash | None = None
    comment: str | None = None


class Applied(Record, name="sys/GovernanceApplyReceipt@1"):
    """`applied`, `refused` with the blockers, or `failed` with a code."""

    status: str
    manifest_hash: Hash
    blockers: Json
    code: str | None


class Apply(Effect[Applied], name="sys/governance.apply@1", cap="governance"):
    """Switch to the bundle of a proposal; the asking cell itself does not block it."""

    proposal: str
    prove: bool | None = None
    on: dict[str, str] | None = None
