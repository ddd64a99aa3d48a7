"""Fold: the only place where a world changes (D1).

`fold` applies one record and never refuses: whatever a record says was decided when it was made.
It runs no module code and reads no schema, so opening a world costs what its records cost.
An assertion here means that the journal and this code disagree about what may follow what.
The parts: `fold_mail` (stamps, mailboxes, ring), `fold_cells`, `fold_effects`; the rest is below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tallystick.kernel import fold_cells as cells
from tallystick.kernel import fold_effects as effects
from tallystick.kernel import plans
from tallystick.kernel.fold_mail import stamped
from tallystick.kernel.proposals import APPLIED, FAILED, REJECTED
from tallystick.kernel.world import Trust, World
from tallystick.model import records
from tallystick.model.records import Record


def fold(world: World, record: Record) -> None:
    """Apply one record to the world."""
    world.seq += 1
    _FOLDS[type(record)](world, record)


def fold_frame(world: World, records: Iterable[Record], head: bytes) -> None:
    """Fold the records of one frame; the world then stands behind it."""
    world.cause = world.stamp = None
    seq = world.framed_seq = world.seq
    for record in records:  # as `fold` does, without a call for each
        world.seq = seq = seq + 1
        _FOLDS[type(record)](world, record)
    world.head = head
    assert not world.denied, "every denial has its receipt in the same frame"


def _created(world: World, record: records.WorldCreated) -> None:
    stamped(world, record.stamp)


def _forked(world: World, record: records.WorldForked) -> None:
    stamped(world, record.stamp)
    world.id = record.world
    world.freeze(frozen=False)
    world.synthetic = world.synthetic or bool(record.synthetic)
    effects.hold_all(world, "fork", record.pending)


def _restored(world: World, record: records.WorldRestored) -> None:
    stamped(world, record.stamp)
    effects.hold_all(world, "restore", {"*": "suspend"})


def _key_trusted(world: World, record: records.KeyTrusted) -> None:
    stamped(world, record.stamp)
    world.keys[record.key] = Trust(
        record.public_key, tuple(record.executors), tuple(record.effects)
    )


def _key_revoked(world: World, record: records.KeyRevoked) -> None:
    stamped(world, record.stamp)
    known = world.keys.get(record.key)
    if known is not None:
        world.keys[record.key] = known._replace(revoked=True)


def _grant_revoked(world: World, record: records.GrantRevoked) -> None:
    stamped(world, record.stamp)
    world.revoked[record.name] = record.reason


def _activated(world: World, record: records.BundleActivate) -> None:
    stamped(world, record.stamp)
    before = world.manifest
    world.activate(record.to)
    if record.mode != "genesis":
        world.upgraded_seq = world.seq
    if record.mode == "prove":
        world.proved_seq = world.seq
    if record.plan is not None:
        plans.follow(world, record.plan, before)
    if record.proposal is not None:
        world.proposals.ended(record.proposal, APPLIED)


def _proposed(world: World, record: records.Proposed) -> None:
    stamped(world, record.stamp)
    world.proposals.proposed(record)


def _shadowed(world: World, record: records.Shadowed) -> None:
    stamped(world, record.stamp)
    world.proposals.shadowed(record)


def _proved(world: World, record: records.Proved) -> None:
    stamped(world, record.stamp)
    world.proposals.proved(record)


def _approved(world: World, record: records.Approved) -> None:
    stamped(world, record.stamp)
    world.proposals.approved(record, world.seq)


def _rejected(world: World, record: records.Rejected) -> None:
    stamped(world, record.stamp)
    world.proposals.ended(record.proposal, REJECTED)


def _proposal_failed(world: World, record: records.ProposalFailed) -> None:
    stamped(world, record.stamp)
    world.proposals.ended(record.proposal, FAILED, record.code)


def _alias_moved(world: World, record: records.AliasMoved) -> None:
    """The world that has the name works; the one that lost it is frozen."""
    stamped(world, record.stamp)
    world.freeze(frozen=record.to != world.id)


def _snapshot(world: World, record: records.SnapshotTaken) -> None:
    stamped(world, record.stamp)
    world.levels.forget(world.logical_ns)
    for store in world.stores().values():
        store.mark(world.seq)


def _dropped(world: World, record: records.Dropped) -> None:
    stamped(world, record.stamp)
    counts = world.drops.setdefault(record.intent or b"", {})
    counts[record.reason] = counts.get(record.reason, 0) + 1


def _evidence(world: World, record: records.Noted | records.ApplyRefused) -> None:
    stamped(world, record.stamp)


Fold = Callable[[World, Any], None]

_FOLDS: Final[dict[type, Fold]] = {
    records.EventAdmitted: cells.event_admitted,
    records.Ticked: cells.ticked,
    records.WorkflowFaulted: cells.faulted,
    records.StateMigrated: cells.migrated,
    records.CellUnpinned: cells.unpinned,
    records.IntentOpened: effects.opened,
    records.IntentAttached: effects.attached,
    records.IntentDenied: effects.denied,
    records.IntentReleased: effects.released,
    records.IntentApproval: effects.approval,
    records.EffectAttempted: effects.attempted,
    records.ReceiptSettled: effects.settled,
    records.ProgressNoted: effects.progress,
    records.WorldCreated: _created,
    records.WorldForked: _forked,
    records.WorldRestored: _restored,
    records.CellSuspended: cells.suspended,
    records.CellResumed: cells.resumed,
    records.CellSkipped: cells.skipped,
    records.CellCancelRequested: cells.cancel_requested,
    records.CellFailed: cells.cell_failed,
    records.KeyTrusted: _key_trusted,
    records.KeyRevoked: _key_revoked,
    records.GrantMinted: cells.minted,
    records.GrantRevoked: _grant_revoked,
    records.BundleActivate: _activated,
    records.Proposed: _proposed,
    records.Shadowed: _shadowed,
    records.Proved: _proved,
    records.Approved: _approved,
    records.Rejected: _rejected,
    records.ProposalFailed: _proposal_failed,
    records.AliasMoved: _alias_moved,
    records.SnapshotTaken: _snapshot,
    records.ApplyRefused: _evidence,
    records.Dropped: _dropped,
    records.Noted: _evidence,
}
