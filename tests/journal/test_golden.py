"""Golden journals: what an older release wrote opens and verifies to its pinned roots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.journal.base import Append, Head, SnapshotRow
from tallystick.journal.memory import MemoryJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import open_world, verify
from tallystick.kernel.roots import root, state_root
from tallystick.model.frames import GENESIS, Sealed, open_frame, verify_chain
from tallystick.model.records import KIND_OF, BundleActivate, Ticked
from tallystick.modules.python import PythonRunner
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tests.golden.journals.build import rendered
from tests.journal.test_journal import lease_of
from tests.kernel import governed, mixed, parcels

GOLDEN = Path(__file__).parent.parent / "golden" / "journals"
JOURNALS = sorted(path.stem for path in GOLDEN.glob("*.tally"))
RUNNERS = {
    "governed": PythonRunner(governed.FUNCTIONS),
    "mixed": PythonRunner(mixed.FUNCTIONS),
    "upgraded": PythonRunner(parcels.FUNCTIONS),
}


def imported(name: str) -> tuple[MemoryJournal, str]:
    """A golden file as a journal."""
    raw: Any = canon.decode((GOLDEN / f"{name}.tally").read_bytes())
    world = raw["world"]
    journal = MemoryJournal()
    epoch = lease_of(journal, world).epoch
    frames = [Sealed(world, *frame) for frame in raw["frames"]]
    blobs = {canon.digest_of(data): data for data in raw["blobs"]}
    rows = [SnapshotRow(*row) for row in raw["snapshots"]]
    journal.append(Append(world, frames, Head(0, GENESIS, epoch), blobs, rows))
    return journal, world


def pinned(name: str) -> tuple[str, str]:
    """Root and state root as they stand in the rendered file."""
    *_, whole, state = (GOLDEN / f"{name}.txt").read_text("utf-8").splitlines()
    return whole.removeprefix("root "), state.removeprefix("state_root ")


@pytest.mark.clause("K-19")
@pytest.mark.invariant("I2", "I28")
@pytest.mark.parametrize("name", JOURNALS)
def test_it_opens_to_its_roots(name: str) -> None:
    """MO-23, ST-13: folded from genesis and from its snapshot, the pinned roots come out."""
    journal, world_id = imported(name)
    assert verify_chain(journal.read(world_id), world=world_id) is None
    blobs = StagedBlobs(journal, world_id)
    folded = open_world(world_id, journal.read(world_id), blobs, RUNNERS[name])
    assert (root(folded).hex(), state_root(folded).hex()) == pinned(name)
    assert journal.snapshots(world_id), "a golden journal holds a snapshot"
    assert root(world_at(journal, world_id, RUNNERS[name])).hex() == pinned(name)[0]


@pytest.mark.clause("K-19", "X-02")
@pytest.mark.invariant("I15")
@pytest.mark.parametrize("name", JOURNALS)
def test_it_verifies(name: str) -> None:
    """MO-23: run again, every tick of the golden journal gives the recorded bytes."""
    journal, world_id = imported(name)
    world = open_world(world_id, [], StagedBlobs(journal, world_id), RUNNERS[name])
    verified = verify(world, journal.read(world_id))
    assert verified.first is None
    assert verified.ticks > 20
    assert verified.root.hex() == pinned(name)[0]


@pytest.mark.clause("X-20", "X-21")
@pytest.mark.invariant("I28")
def test_old_definitions_are_kept_by_the_journal_alone() -> None:
    """AG-28: a journal with ten upgrades verifies although no old workflow is active any more.

    Each tick ran under the definitions of its time: as many workflow hashes as there were bundles
    that changed one.
    """
    journal, world_id = imported("upgraded")
    world = open_world(world_id, [], StagedBlobs(journal, world_id), RUNNERS["upgraded"])
    assert verify(world, journal.read(world_id)).first is None
    records = [r for f in journal.read(world_id) for r in open_frame(f.body)[3]]
    assert sum(isinstance(r, BundleActivate) for r in records) == 11
    ran = {r.workflow_hash for r in records if isinstance(r, Ticked)}
    active = {w.hash for w in world.active.catalogue.workflows.values()}
    assert len(ran) >= 6
    assert len(ran & active) <= 1
    assert {"StateMigrated", "WorkflowFaulted"} <= {type(r).__name__ for r in records}


@pytest.mark.parametrize("name", JOURNALS)
def test_the_text_beside_it_is_its_own(name: str) -> None:
    """ST-13: the rendered file shows this journal, record by record."""
    journal, world_id = imported(name)
    bodies = [frame.body for frame in journal.read(world_id)]
    whole, state = (bytes.fromhex(text) for text in pinned(name))
    text = (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert rendered(bodies, (whole, state)) == text


def test_the_golden_journals_hold_most_record_types() -> None:
    """MO-23: control: the golden histories are no toys; what they miss is listed here."""
    found = set()
    for name in JOURNALS:
        journal, world_id = imported(name)
        found |= {type(r).__name__ for f in journal.read(world_id) for r in open_frame(f.body)[3]}
    missing = {
        "CellUnpinned", "EffectAttempted", "GrantMinted", "GrantRevoked", "IntentApproval",
        "IntentReleased", "KeyRevoked", "Noted", "WorldForked", "WorldRestored",
    }  # fmt: skip
    assert {cls.__name__ for cls in KIND_OF} - found <= missing


@pytest.mark.invariant("I10")
def test_a_changed_golden_journal_is_not_folded() -> None:
    """MO-23: control: one flipped byte, and it neither verifies nor opens to another root."""
    journal, world_id = imported("mixed")
    frames = list(journal.read(world_id))
    body = bytearray(frames[3].body)
    body[-1] ^= 1
    frames[3] = frames[3]._replace(body=bytes(body))
    damage = verify_chain(frames, world=world_id)
    assert damage is not None
    assert damage.seq == frames[3].seq
    with pytest.raises(JournalCorrupt):
        open_world(world_id, frames, StagedBlobs(journal, world_id), RUNNERS["mixed"])
