"""Index nodes: every other form than the two is refused, whatever the bytes are."""

from __future__ import annotations

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.kernel.index import EMPTY, NOWHERE, Nodes, lookup, parse_node
from tallystick.kernel.index_change import change
from tallystick.values import canon
from tests.kernel.blobs import Shelf

LEAF = {"$type": "leaf@1", "path": b"p" * 32, "value": b"v"}
BRANCH = {"$type": "branch@1", "bits": 3, "kids": b"k" * 68, "skip": "0a"}

BAD_LEAVES = [{"value": "text"}, {"path": "text"}, {"path": 5}]
BAD_BRANCHES = [
    {"bits": 0},
    {"bits": 1 << 16},
    {"bits": "3"},
    {"bits": 7},
    {"kids": "text"},
    {"skip": b"0a"},
    {"$type": "branch@2"},
]


@pytest.mark.clause("K-12", "K-39")
@pytest.mark.invariant("I13")
def test_both_forms_are_read() -> None:
    """K-39: a leaf and a branch of the stated form are read."""
    assert parse_node(canon.encode(LEAF)).value == b"v"
    assert parse_node(canon.encode(BRANCH)).kid(1) == b"k" * 34 + NOWHERE


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I13")
@pytest.mark.parametrize("form", [LEAF, BRANCH])
def test_cut_and_longer_nodes_are_refused(form: dict) -> None:
    """I13: a node that is cut anywhere, or has a byte more, is no node."""
    data = canon.encode(form)
    for cut in range(len(data)):
        with pytest.raises(JournalCorrupt):
            parse_node(data[:cut])
    with pytest.raises(JournalCorrupt):
        parse_node(data + b"\x00")


@pytest.mark.clause("K-12")
@pytest.mark.parametrize("changed", BAD_LEAVES + BAD_BRANCHES)
def test_wrong_fields_are_refused(changed: dict) -> None:
    """I13: a field of another type or size makes no node."""
    base = LEAF if changed in BAD_LEAVES else BRANCH
    with pytest.raises(JournalCorrupt):
        parse_node(canon.encode({**base, **changed}))


@pytest.mark.clause("K-39")
def test_a_hint_saves_the_leaf_of_a_stranger() -> None:
    """ADR 0007: looking for what is not there reads no leaf when its path ends otherwise."""
    blobs = Shelf()
    made = change(Nodes(blobs), EMPTY, {b"\x00" * 32: b"a", b"\x10" + b"\x01" * 31: b"b"})
    for digest, data in made.nodes.items():
        blobs.put(digest, data)
    branch_only = Shelf()
    branch_only.put(made.top, made.nodes[made.top])
    assert lookup(Nodes(branch_only), made.top, b"\x10" + b"\x02" * 31) is None
    with pytest.raises(JournalCorrupt):
        lookup(Nodes(branch_only), made.top, b"\x10" + b"\x02" * 29 + b"\x01\x01")
    assert lookup(Nodes(blobs), made.top, b"\x10" + b"\x01" * 31) == b"b"


@pytest.mark.clause("K-39")
def test_a_leaf_of_the_same_end_is_not_mistaken() -> None:
    """K-39: a path that ends like another's, or in zeros, has its own value or none."""
    one, two = b"\x00" * 32, b"\x10" + b"\x01" * 31
    blobs = Shelf()
    made = change(Nodes(blobs), EMPTY, {one: b"a", two: b"b" * 300})
    blobs.add(made.nodes)
    nodes = Nodes(blobs)
    assert lookup(nodes, made.top, one) == b"a"
    assert lookup(nodes, made.top, two) == b"b" * 300
    assert lookup(nodes, made.top, b"\x10" + b"\x02" * 29 + b"\x01\x01") is None
    assert lookup(nodes, made.top, b"\x00" * 29 + b"\x01\x00\x00") is None


@pytest.mark.clause("K-12", "K-39")
@pytest.mark.invariant("I13")
@pytest.mark.parametrize("form", [LEAF, BRANCH])
def test_the_short_way_to_a_leaf_takes_no_other_bytes(form: dict) -> None:
    """I13: behind the digest of a leaf a cut or longer node is refused, a branch has no value."""
    path, data = b"p" * 32, canon.encode(form)
    for other in [*(data[:cut] for cut in range(len(data))), data + b"\x00"]:
        blobs = Shelf()
        blobs.put(canon.digest_of(other), other)
        with pytest.raises(JournalCorrupt):
            Nodes(blobs).value(canon.digest_of(other), path)
    blobs = Shelf()
    blobs.put(canon.digest_of(data), data)
    found = Nodes(blobs).value(canon.digest_of(data), path)
    assert found == (b"v" if form is LEAF else None)


@pytest.mark.clause("K-42", "K-44")
def test_replaced_branches_leave_memory() -> None:
    """K-42: when a root is read no more, its branches are forgotten; what is shared is not lost."""
    blobs = Shelf()
    nodes = Nodes(blobs)
    paths = [canon.digest_of(bytes((n,))) for n in range(200)]
    old = change(nodes, EMPTY, dict.fromkeys(paths, b"old"))
    blobs.add(old.nodes)
    nodes.keep(old.branches)
    new = change(nodes, old.top, {paths[0]: b"new"})
    blobs.add(new.nodes)
    nodes.forget_replaced()
    nodes.keep(new.branches)
    blobs.reads = 0
    assert [lookup(nodes, new.top, path) for path in paths] == [b"new", *[b"old"] * 199]
    assert blobs.reads == len(paths), "every branch is at hand, each leaf is read once"
    blobs.reads = 0
    assert lookup(nodes, old.top, paths[0]) == b"old"
    assert blobs.reads > 1, "the branches of the old root are read again"


@pytest.mark.clause("K-42")
@pytest.mark.invariant("I42")
@pytest.mark.parametrize("entries", [300, 3_000])
def test_the_cache_of_branches_is_bounded_in_bytes(entries: int) -> None:
    """AT-31: branches with more children are held in smaller number; every answer stays right."""
    blobs = Shelf()
    paths = [canon.digest_of(n.to_bytes(4, "big")) for n in range(entries)]
    made = change(Nodes(blobs), EMPTY, {path: path[:4] for path in paths})
    blobs.add(made.nodes)
    most = 20_000
    nodes = Nodes(blobs, most)
    for turn in range(2):
        for path in paths[turn::3]:
            assert lookup(nodes, made.top, path) == path[:4]
            assert nodes._held <= most
    cost = sum(len(branch.joined) for branch in nodes._cache.values())
    assert cost < nodes._held <= cost + 400 * len(nodes._cache), "what is counted is what is held"
    full = [branch.bits.bit_count() for branch in nodes._cache.values()]
    assert len(nodes._cache) * (300 + 34 * sum(full) / len(full)) <= most
