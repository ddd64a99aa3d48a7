"""The index: its root depends on content alone, and a change costs what it touches."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import JournalCorrupt
from tallystick.kernel.index import EMPTY, Branch, Nodes, lookup, name_of, parse_node, scan
from tallystick.kernel.index_change import Written, change
from tallystick.values import canon
from tests.kernel.blobs import Shelf


class Trie:
    """An index over its shelf."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.nodes = Nodes(self.shelf)
        self.top = EMPTY

    @property
    def root(self) -> bytes:
        return self.top[:32]

    def apply(self, changes: dict[bytes, bytes | None]) -> Written:
        """Apply changes; the nodes that are new."""
        made = change(self.nodes, self.top, changes)
        self.shelf.add(made.nodes)
        self.top = made.top
        return made

    def content(self) -> dict[bytes, bytes]:
        return dict(scan(self.nodes, self.top))


# Short alphabets make paths share nibbles, so that branches split and collapse all the time.
NEAR = st.lists(st.sampled_from([0x00, 0x01, 0x10, 0x11]), min_size=4, max_size=4).map(bytes)
CHANGES = st.dictionaries(NEAR, st.one_of(st.none(), st.binary(max_size=3)), max_size=8)


@pytest.mark.clause("K-39")
@settings(max_examples=200)
@given(st.lists(CHANGES, max_size=8))
def test_the_root_is_a_function_of_content(batches: list[dict[bytes, bytes | None]]) -> None:
    """KN-10: any batches of writes and deletes end in the nodes that the content alone gives."""
    trie = Trie()
    model: dict[bytes, bytes] = {}
    for batch in batches:
        trie.apply(batch)
        for path, value in batch.items():
            if value is None:
                model.pop(path, None)
            else:
                model[path] = value
        assert trie.content() == model
        assert list(trie.content()) == sorted(model)
        fresh = Trie()
        fresh.apply(dict(model))
        assert fresh.root == trie.root
    for path in {path for batch in batches for path in batch}:
        assert lookup(trie.nodes, trie.top, path) == model.get(path)


def named(trie: Trie, name: bytes) -> Iterator[bytes]:
    """A node and all that it leads to."""
    node = trie.nodes.load(name)
    yield name
    if isinstance(node, Branch):
        for way in range(16):
            kid = node.kid(way)
            if kid is not None:
                yield from named(trie, name_of(kid))


@pytest.mark.clause("K-39", "K-42")
@settings(max_examples=200)
@given(st.lists(CHANGES, max_size=8))
def test_nothing_is_written_that_the_root_does_not_name(
    batches: list[dict[bytes, bytes | None]],
) -> None:
    """K-42: a branch that a delete takes away again in the same change is not written."""
    trie = Trie()
    for batch in batches:
        before = set(trie.shelf.held)
        made = trie.apply(batch)
        known = set() if trie.top == EMPTY else set(named(trie, trie.top))
        assert trie.shelf.held.keys() - before == made.nodes.keys() <= known
        assert made.branches.keys() <= made.nodes.keys()


@pytest.mark.clause("K-39")
@settings(max_examples=6)
@given(st.integers(0, 2**32))
def test_ten_thousand_cells_in_any_order(seed: int) -> None:
    """KN-10: permutations of 10,000 writes, with deletes of others between, give one root."""
    random = Random(seed)
    cells = [sha256(b"%d" % i).digest() for i in range(10_000)]
    others = [sha256(b"other %d" % i).digest() for i in range(2_000)]
    wanted = {path: path[:8] for path in cells}
    fresh = Trie()
    fresh.apply(dict(wanted))
    work: list[tuple[bytes, bytes | None]] = [*wanted.items(), *((path, b"x") for path in others)]
    random.shuffle(work)
    trie = Trie()
    size = random.choice([500, 2_000, 12_000])
    for start in range(0, len(work), size):
        trie.apply(dict(work[start : start + size]))
    random.shuffle(others)
    trie.apply(dict.fromkeys(others[:700]))
    trie.apply(dict.fromkeys(others[700:]))
    assert trie.root == fresh.root


def test_deleting_everything_leaves_the_empty_root() -> None:
    """KN-10: deletes collapse branches down to nothing."""
    trie = Trie()
    paths = [sha256(b"%d" % i).digest() for i in range(300)]
    trie.apply(dict.fromkeys(paths, b"v"))
    trie.apply(dict.fromkeys(paths))
    assert trie.root == EMPTY
    assert trie.content() == {}


def test_a_change_of_nothing_writes_nothing() -> None:
    """K-42: rewriting equal values and deleting absent paths keeps root and nodes."""
    trie = Trie()
    paths = [sha256(b"%d" % i).digest() for i in range(300)]
    trie.apply(dict.fromkeys(paths, b"v"))
    same: dict[bytes, bytes | None] = dict.fromkeys(paths[:50], b"v")
    same.update(dict.fromkeys([sha256(b"absent %d" % i).digest() for i in range(50)]))
    made = change(trie.nodes, trie.top, same)
    assert made.root == trie.root
    assert made.nodes == {}


@pytest.mark.clause("K-42")
def test_a_change_costs_what_it_touches() -> None:
    """KN-12: 200 changed of 20,000 entries write under 3 % of the nodes of a whole index."""
    trie = Trie()
    paths = [sha256(b"%d" % i).digest() for i in range(20_000)]
    whole = len(trie.apply(dict.fromkeys(paths, b"v")).nodes)
    part = len(trie.apply(dict.fromkeys(paths[::100], b"w")).nodes)
    assert 200 <= part < 0.03 * whole


def test_scan_goes_on_behind_a_path() -> None:
    """K-43: a listing can be continued behind any path, present or not."""
    trie = Trie()
    paths = sorted(sha256(b"%d" % i).digest() for i in range(500))
    trie.apply(dict.fromkeys(paths, b"v"))
    for at in (0, 17, 250, 498, 499):
        behind = [path for path, _ in scan(trie.nodes, trie.top, paths[at])]
        assert behind == paths[at + 1 :]
    middle = paths[100][:4] + b"\x00" * 28
    assert [p for p, _ in scan(trie.nodes, trie.top, middle)] == [p for p in paths if p > middle]


@pytest.mark.parametrize("damage", ["missing", "flipped", "swapped"])
def test_a_damaged_node_stops_the_world(damage: str) -> None:
    """K-38, F4: a node that is missing or is not what its digest says is never read as data."""
    trie = Trie()
    paths = [sha256(b"%d" % i).digest() for i in range(50)]
    trie.apply(dict.fromkeys(paths, b"v"))
    held = trie.shelf.held
    top = held[trie.top]
    if damage == "missing":
        del held[trie.top]
    elif damage == "flipped":
        held[trie.top] = top[:-1] + bytes([top[-1] ^ 1])
    else:
        held[trie.top] = next(data for data in held.values() if data != top)
    with pytest.raises(JournalCorrupt) as caught:
        lookup(Nodes(trie.shelf), trie.top, paths[0])
    assert caught.value.exit_code == 4
    assert caught.value.where["blob"] == canon.text_of(trie.root)


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        {"$type": "leaf@2", "path": b"", "value": b""},
        {"$type": "leaf@1", "path": "00", "value": b""},
        {"$type": "branch@1", "bits": 1, "kids": "", "skip": ""},
        {"$type": "leaf@1", "path": bytes(32), "value": b"", "more": 1},
        {"$type": "branch@1", "bits": 3, "kids": bytes(32), "skip": ""},
        {"$type": "branch@1", "bits": 1 << 16, "kids": bytes(32), "skip": ""},
        {"$type": "branch@1", "bits": 1, "kids": bytes(64), "skip": ""},
    ],
)
def test_other_forms_are_refused(raw: object) -> None:
    """K-39: bytes that hash well but are not a node of this form are refused."""
    with pytest.raises(JournalCorrupt):
        parse_node(canon.encode(raw))


@pytest.mark.invariant("I42")
def test_what_was_replaced_is_remembered_up_to_a_bound() -> None:
    """A change of very many branches names no more than the bound; others are read again."""
    nodes = Nodes(Shelf(), most=2**26)
    digests = [number.to_bytes(32, "big") for number in range(33_000)]
    for digest in digests:
        nodes.replace(digest)
    assert not nodes._replaced, "what is not in the cache need not leave it"
    nodes.keep(dict.fromkeys(digests, Branch("", 3, bytes(68), bytes(10))))
    for digest in digests:
        nodes.replace(digest)
    assert len(nodes._replaced) == 32_768
    nodes.forget_replaced()
    assert not nodes._replaced


@pytest.mark.invariant("I42")
def test_old_branches_leave_the_cache_as_new_ones_come() -> None:
    """After a snapshot nobody waits for thousands of them to go: two go for each that is new."""
    nodes = Nodes(Shelf(), most=2**26)
    old, new = ([bytes([kind]) * 30 + n.to_bytes(2, "big") for n in range(100)] for kind in (1, 2))
    nodes.keep(dict.fromkeys(old, Branch("", 3, bytes(68), bytes(10))))
    for digest in old:
        nodes.replace(digest)
    nodes.forget_replaced()
    assert len(nodes._cache) == 100
    for digest in new[:50]:
        nodes.keep({digest: Branch("", 3, bytes(68), bytes(10))})
    assert list(nodes._cache) == new[:50]


def test_a_leaf_that_gets_a_neighbour_is_not_written_again() -> None:
    """11 section 4: a third of all leaves were written a second time, each a page of the log."""
    trie = Trie()
    first, second = bytes(30) + b"ab", bytes(30) + b"cd"
    trie.apply({first: b"one"})
    held = trie.root
    assert len(trie.apply({second: b"two"}).nodes) == 2, "the new leaf, and the branch above both"
    node = trie.nodes.load(trie.top)
    assert isinstance(node, Branch)
    assert node.joined.startswith(held + first[-2:])
    assert trie.content() == {first: b"one", second: b"two"}
    trie.apply({second: None})
    assert trie.root == held
