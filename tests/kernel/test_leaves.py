"""Leaves of cells: what is written is read back, whatever the cell holds."""

from __future__ import annotations

from itertools import product

import pytest

from tallystick.kernel.leaves import LEAF_STATE_MAX, beside_of, load_cell, put_cell
from tallystick.kernel.parts import Cell, Mail
from tallystick.model.cells import CellId
from tallystick.values import canon
from tests.kernel.blobs import Shelf

FIELDS = (
    "id", "born_seq", "status", "state_hash", "state_version", "size", "last_active_ns",
    "last_seq", "workflow_hash", "mailbox", "inflight", "keyed", "callers", "caps",
)  # fmt: skip
LEAF = {
    "key", "state", "state_hash", "state_version", "size", "last_active_ns", "status", "born_seq",
    "last_seq", "workflow_hash", "inflight", "mailbox",
}  # fmt: skip


def document(mail: Mail) -> bytes:
    assert mail.value is not None
    return mail.value


def written(cell: Cell, blobs: Shelf) -> bytes:
    """The leaf of a cell; what stands beside it is in the store."""
    beside: dict[bytes, bytes] = {}
    leaf = put_cell(cell, beside, document, blobs)
    for digest, data in beside.items():
        blobs.put(digest, data)
    return leaf


def check(cell: Cell) -> None:
    """The cell comes back as it was, its state in the leaf or beside it by size alone."""
    blobs = Shelf()
    leaf = written(cell, blobs)
    raw = canon.decode(leaf)
    assert canon.encode(raw) == leaf  # as the general encoder writes it
    assert raw.keys() == LEAF
    again = load_cell(cell.id.workflow, leaf, blobs)
    assert [getattr(again, name) for name in FIELDS] == [getattr(cell, name) for name in FIELDS]
    if cell.size <= LEAF_STATE_MAX:
        assert again.state == cell.state
    else:
        assert again.state is None
        assert cell.state_hash is not None
        assert blobs.get(cell.state_hash) == cell.state


def cell_of(key: bytes, state: bytes | None) -> Cell:
    cell = Cell(CellId("t/flow@1", key), 7)
    cell.state = state
    if state is not None:
        cell.state_hash = canon.digest_of(state)
        cell.size = len(state)
    return cell


@pytest.mark.clause("K-39")
@pytest.mark.parametrize("length", [0, 23, 24, 255, 256, 1024, 1025, 65_535, 65_536, 70_000])
def test_keys_and_states_of_any_length(length: int) -> None:
    """K-39: keys and states at every length of a head come back; large states stand beside."""
    check(cell_of(bytes(length), None))
    check(cell_of(b"k", bytes(length)))


@pytest.mark.clause("K-39")
def test_every_part_there_and_not() -> None:
    """K-39: mail, bonds, hashes and numbers of every width, in every combination."""
    for mail, bonds, hashed, big in product((False, True), repeat=4):
        cell = cell_of(b"k", b"s")
        if mail:
            cell.post(Mail(1, 0, "t/Go@1", None, bytes(64), 5, 0, b"v"))
        if bonds:
            cell.inflight = (bytes(32),)
            cell.caps = {"a": ["b"]}
        if hashed:
            cell.workflow_hash = bytes(range(32))
        if big:
            cell.last_seq = cell.last_active_ns = 2**63 - 1
            cell.state_version = 300
        check(cell)


@pytest.mark.clause("K-43")
def test_what_stands_beside_a_leaf() -> None:
    """K-43: exactly what a cell cannot be opened without: a large state, bonds and mail."""
    for length, bonds in ((1, False), (LEAF_STATE_MAX + 1, False), (1, True)):
        cell = cell_of(b"k", bytes(length))
        if bonds:
            cell.inflight = (bytes(32),)
            cell.post(Mail(1, 0, "t/Go@1", None, bytes(64), 5, 0, b"v"))
        beside: dict[bytes, bytes] = {}
        leaf = put_cell(cell, beside, document, Shelf())
        assert sorted(beside_of(leaf)) == sorted(beside)
        assert len(beside) == 2 * bonds + (length > LEAF_STATE_MAX)


@pytest.mark.clause("K-41")
@pytest.mark.invariant("I20")
def test_a_spilled_state_has_the_same_leaf() -> None:
    """I20: a small state in memory and the same one spilled to the store give one leaf."""
    blobs = Shelf()
    cell = cell_of(b"k", b"state")
    leaf = written(cell, blobs)
    assert cell.state is not None
    assert cell.state_hash is not None
    blobs.put(cell.state_hash, cell.state)
    cell.state = None
    assert written(cell, blobs) == leaf
