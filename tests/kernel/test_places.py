"""Places: where a node lies is no part of what it is (ADR 0037)."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings

from tallystick.errors import BlobLost
from tallystick.kernel.index import (
    EMPTY,
    NOWHERE,
    Branch,
    Nodes,
    bare,
    branch_bytes,
    lookup,
    name_of,
    parse_node,
    scan,
)
from tallystick.kernel.index_change import change
from tests.kernel.blobs import Shelf
from tests.kernel.test_index import CHANGES, st

PATHS = [sha256(b"%d" % n).digest() for n in range(300)]


def built(shelf: Shelf, paths: list[bytes] = PATHS) -> bytes:
    """The top of an index of these paths."""
    made = change(Nodes(shelf), EMPTY, dict.fromkeys(paths, b"v"))
    shelf.add(made.nodes)
    return made.top


@pytest.mark.clause("K-39")
@settings(max_examples=100)
@given(st.lists(CHANGES, max_size=6))
def test_places_are_no_part_of_a_root(batches: list[dict[bytes, bytes | None]]) -> None:
    """KN-10, ADR 0037: a store that gives places and one that gives none have the same roots."""
    tops = dict.fromkeys((True, False), EMPTY)
    shelves = {placed: Shelf(placed=placed) for placed in tops}
    for batch in batches:
        for placed, shelf in shelves.items():
            made = change(Nodes(shelf), tops[placed], batch)
            shelf.add(made.nodes)
            tops[placed] = made.top
        assert tops[True][:32] == tops[False]
    with_places, without = (dict(scan(Nodes(shelves[way]), tops[way])) for way in (True, False))
    assert with_places == without
    bytes_of = {name[:32]: bare(data) for name, data in shelves[True].held.items()}
    assert bytes_of == shelves[False].held


def test_every_child_is_found_at_its_place() -> None:
    """ADR 0037: the names of all nodes are those that the branches above them tell."""
    shelf = Shelf()
    top = built(shelf)
    reached, waiting = {top}, [top]
    while waiting:
        node = parse_node(shelf.held[waiting.pop()])
        if isinstance(node, Branch):
            kids = {name_of(kid) for way in range(16) if (kid := node.kid(way)) is not None}
            reached |= kids
            waiting += kids
    assert reached == shelf.held.keys()
    places = [int.from_bytes(name[32:], "big") for name in shelf.held]
    assert sorted(places) == list(range(1, len(places) + 1))


@pytest.mark.clause("K-38")
def test_a_damaged_place_is_seen() -> None:
    """F4: any byte of a branch that is another one makes it a damaged node, not a wrong way."""
    shelf = Shelf()
    top = built(shelf, PATHS[:40])
    sound = shelf.held[top]
    node = parse_node(sound)
    assert isinstance(node, Branch)
    assert len(sound) > len(branch_bytes(node)) + 5 * node.bits.bit_count()
    for at in range(len(sound)):
        shelf.held[top] = sound[:at] + bytes((sound[at] ^ 1,)) + sound[at + 1 :]
        with pytest.raises(BlobLost):
            Nodes(shelf).load(top)
    for cut in (1, 4, 5, 9):
        shelf.held[top] = sound[:-cut]
        with pytest.raises(BlobLost):
            Nodes(shelf).load(top)


def test_a_branch_without_places_leads_to_digests() -> None:
    """ADR 0037: what was imported, or written by an older release, is found by digests alone."""
    shelf, plain = Shelf(), Shelf(placed=False)
    top = built(shelf)
    for name, data in shelf.held.items():
        plain.put(name[:32], bare(data))
    node = Nodes(plain).load(top[:32])
    assert isinstance(node, Branch)
    assert node.places == NOWHERE * node.bits.bit_count()
    assert [lookup(Nodes(plain), top[:32], path) for path in PATHS] == [b"v"] * len(PATHS)
