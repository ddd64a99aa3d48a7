"""The filter before the index: it saves looking, and is never wrong about what is there."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel.index import EMPTY, Branch, Nodes, tails
from tallystick.kernel.index_change import change
from tallystick.kernel.presence import Presence
from tallystick.kernel.store import Store
from tests.kernel.blobs import Shelf

# Five regions of eight neighbours each: what one look learns is asked for by others.
PATHS = [bytes([i % 5, 7]) + sha256(bytes([i])).digest()[2:] for i in range(40)]


def put(value: bytes, _beside: dict[bytes, bytes]) -> bytes:
    return value


def same(value: bytes) -> bytes:
    return value


class Filtered:
    """A filtered store and a plain dictionary with the same entries."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.store = self.opened(EMPTY)
        self.model: dict[bytes, bytes] = {}
        self.seq = 0

    def opened(self, top: bytes) -> Store[bytes]:
        return Store(Nodes(self.shelf), put, same, top=top, cache=1, filtered=True)

    def act(self, kind: str, path: bytes) -> None:
        """One step; what is dirty is promoted before the store is opened again."""
        if kind == "put":
            self.store.put(path, path[:1])
            self.model[path] = path[:1]
        elif kind == "remove":
            self.store.remove(path)
            self.model.pop(path, None)
        elif kind != "ask":
            self.promote()
            if kind == "open":
                self.store = self.opened(self.store.top)

    def promote(self) -> None:
        made = self.store.written()
        self.shelf.add(made.nodes)
        self.seq += 1
        keys = list(self.store.delta)
        self.store.mark(self.seq)
        self.store.promote(made.top, keys, self.seq)


KINDS = st.sampled_from(["put", "put", "put", "remove", "promote", "open", "ask"])


@pytest.mark.clause("K-41")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KINDS, st.sampled_from(PATHS)), max_size=40))
def test_a_filtered_store_holds_what_was_put(steps: list[tuple[str, bytes]]) -> None:
    """KN-11: whatever is promoted, opened again or learned, every entry is found, and no other."""
    kept = Filtered()
    for kind, path in steps:
        kept.act(kind, path)
        assert kept.store.get(path) == kept.model.get(path)
    assert {path: kept.store.get(path) for path in PATHS} == {
        path: kept.model.get(path) for path in PATHS
    }


def filled(count: int) -> tuple[Nodes, bytes, list[bytes]]:
    """An index of so many entries."""
    shelf = Shelf()
    paths = [sha256(b"%d" % i).digest() for i in range(count)]
    made = change(Nodes(shelf), EMPTY, dict.fromkeys(paths, b"v"))
    shelf.add(made.nodes)
    return Nodes(shelf), made.top, paths


@pytest.mark.parametrize("start", ["", "7", "0a", "1f3", "00ff"])
def test_the_ends_of_the_paths_of_a_region(start: str) -> None:
    """Every path that begins so is told by its last two bytes, wherever its leaf hangs."""
    nodes, root, paths = filled(3_000)
    wanted = sorted(path for path in paths if path.hex().startswith(start))
    assert tails(nodes, root, start) == [path[-2:] for path in wanted]
    assert tails(nodes, EMPTY, start) == []


def test_a_leaf_whose_path_ends_in_zeros_is_told_too() -> None:
    """Its hint is that of a branch, so it is read."""
    shelf = Shelf()
    paths = [bytes([first]) * 30 + bytes(2) for first in (1, 2)]
    made = change(Nodes(shelf), EMPTY, dict.fromkeys(paths, b"v"))
    shelf.add(made.nodes)
    assert tails(Nodes(shelf), made.top, "0101") == [bytes(2)]


def test_new_entries_are_hardly_ever_looked_for(subtests: pytest.Subtests) -> None:
    """Of 20,000 absent paths at most one in fifty is taken for another; none of those there."""
    nodes, root, paths = filled(20_000)
    whole = Presence(whole=True)
    whole.add(paths)
    learned = Presence(whole=False)
    for region in range(65_536):
        at = region.to_bytes(2, "big")
        learned.learn(at, tails(nodes, root, at.hex()))
    others = [sha256(b"other %d" % i).digest() for i in range(20_000)]
    for name, presence in (("whole", whole), ("learned", learned)):
        with subtests.test(name):
            assert not any(map(presence.lacks, paths))
            assert sum(map(presence.lacks, others)) > 0.98 * len(others)


def test_nothing_is_said_of_a_region_that_is_not_known() -> None:
    """An index that was opened is looked at until it is learned."""
    presence = Presence(whole=False)
    assert not any(map(presence.lacks, PATHS))
    presence.add(PATHS[:1])
    presence.learn(bytes(32), [])
    assert presence.lacks(bytes(32))
    assert not presence.lacks(bytes([0, 1]) + bytes(30))
    assert not any(map(presence.lacks, PATHS))


def test_what_is_on_its_way_is_known_before_it_arrives() -> None:
    """A region that is learned between writing a snapshot and promoting it misses nothing."""
    kept = Filtered()
    kept.act("put", PATHS[0])
    kept.act("open", b"")
    kept.store.put(PATHS[1], b"1")
    made = kept.store.written()
    kept.shelf.add(made.nodes)
    kept.store.mark(2)
    assert PATHS[6][:2] == PATHS[1][:2], "its region is learned while it is not in any root"
    assert kept.store.get(PATHS[6]) is None
    kept.store.promote(made.top, [PATHS[1]], 2)
    assert [kept.store.get(path) for path in PATHS[:3]] == [PATHS[0][:1], b"1", None]


def test_who_looks_in_vain_learns_of_the_neighbours() -> None:
    """An opened store reads for the first new entry of a region, and for no other in it."""
    kept = Filtered()
    for path in PATHS[:30]:
        kept.act("put", path)
    kept.act("open", b"")
    new = [path for path in PATHS[30:] if path[0] == 0]
    read = kept.shelf.reads
    assert kept.store.get(new[0]) is None
    assert kept.shelf.reads > read
    read = kept.shelf.reads
    assert [kept.store.get(path) for path in new] == [None] * 2
    assert kept.shelf.reads == read


def test_a_whole_store_reads_nothing_for_a_new_entry() -> None:
    """What is not there is told without a single node, also right after a snapshot."""
    kept = Filtered()
    for path in PATHS[:30]:
        kept.act("put", path)
    kept.act("promote", b"")
    read = kept.shelf.reads
    assert [kept.store.get(path) for path in PATHS[30:]] == [None] * 10
    assert kept.shelf.reads == read


def test_a_filter_is_paid_from_the_cache_of_branches() -> None:
    """I42: what stands before the index takes no memory of its own; half of the cache stays."""
    nodes = Nodes(Shelf(), most=200_000)
    branches = {
        number.to_bytes(32, "big"): Branch("", 3, bytes(68), bytes(10)) for number in range(2_000)
    }
    for taken, most in ((0, 200_000), (60_000, 140_000), (180_000, 100_000)):
        nodes.leave_room(taken)
        nodes.keep(branches)
        assert 0.9 * most < nodes._held <= most
