"""The index: a merkle radix trie whose shape depends on content alone (K-39).

Theory of operation.
A trie maps paths of one fixed length to values.
A leaf holds a path and a value; a branch holds the nibbles that all its paths share (`skip`) and
up to sixteen children.
No branch has fewer than two children, so any order of writes and deletes that ends in the same
entries ends in the same nodes and the same root.
Nodes are immutable blobs named by their digest: a change writes new nodes along its path and
shares the rest, which makes snapshots cost what is dirty and forks cost nothing.

A branch names a child by a reference: its digest and a hint of two bytes.
The hint of a leaf is the end of its path, so that looking for an entry that is not there, as every
new cell does, stops at the branch instead of reading a stranger's leaf; a branch has the hint zero.

Paths are hex text while the trie is worked on: slicing text compares nibbles at C speed.
"""

# tidy: reading, merging and walking one structure; apart they would not be understood.
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple, Protocol

from tallystick.errors import BlobLost, JournalCorrupt, NotCanonical
from tallystick.model.hot_items import NAT, NUMBERS, SIZE, SIZES, TEXTS, get, pattern
from tallystick.model.tuples import make
from tallystick.values import canon

EMPTY: Final = bytes(32)
REF: Final = 34
_NO_HINT: Final = b"\x00\x00"
_ENTRY: Final = 300  # bytes of a cached branch beside its references
_REPLACED_MAX: Final = 32_768
_BITS: Final = {nibble: 1 << way for way, nibble in enumerate("0123456789abcdef")}


class Blobs(Protocol):
    """The content-addressed store as the kernel sees it (K-38): bytes by digest."""

    def get(self, digest: bytes) -> bytes | None:
        """The bytes behind a digest, or None."""
        ...

    def put(self, digest: bytes, data: bytes) -> None:
        """Stage bytes under their digest; durable with the next commit."""
        ...


class Leaf(NamedTuple):
    """One entry: its whole path and its value."""

    path: str
    value: bytes


class Branch(NamedTuple):
    """Sixteen ways on; a child is a reference that is not loaded, or a node, or None."""

    skip: str
    kids: tuple[Child, ...]


Node = Leaf | Branch
Child = bytes | Leaf | Branch | None

_LEAF: Final = canon.PREFIX + canon.head(5, 3) + canon.put_key("path")
_LEAF_TYPE: Final = canon.put_key("$type") + canon.put_text("leaf@1")
_LEAF_VALUE: Final = canon.put_key("value")
_BRANCH: Final = canon.PREFIX + canon.head(5, 4) + canon.put_key("bits")
_KIDS: Final = canon.put_key("kids")
_SKIP: Final = canon.put_key("skip")
_BRANCH_TYPE: Final = canon.put_key("$type") + canon.put_text("branch@1")


def _leaf_bytes(path: bytes, value: bytes) -> bytes:
    octets = canon.OCTETS
    return b"".join(
        (_LEAF, octets[len(path)], path, _LEAF_TYPE, _LEAF_VALUE, octets[len(value)], value)
    )


def _branch_bytes(branch: Stored) -> bytes:
    skip, bits, joined = branch
    return b"".join(
        (
            _BRANCH,
            canon.put_int(bits),
            _KIDS,
            canon.put_bytes(joined),
            _SKIP,
            canon.put_text(skip),
            _BRANCH_TYPE,
        )
    )


class Stored(NamedTuple):
    """A branch as it lies in the store: which of the sixteen ways exist, and their references."""

    skip: str
    bits: int
    joined: bytes

    def kid(self, way: int) -> bytes | None:
        """The reference of one way on, or None."""
        bit = 1 << way
        if not self.bits & bit:
            return None
        at = (self.bits & (bit - 1)).bit_count() * REF
        return self.joined[at : at + REF]

    def opened(self) -> Branch:
        """The same branch with sixteen places, for changing."""
        skip, bits, joined = self
        kids: list[Child] = [None] * 16
        at = 0
        for way in range(16):
            if bits >> way & 1:
                kids[way] = joined[at : at + REF]
                at += REF
        return make(Branch, (skip, tuple(kids)))


_HEAD: Final = pattern(SIZE)
_LEAF_FORM: Final = pattern(re.escape(_LEAF) + get(SIZE))
_LEAF_REST: Final = pattern(re.escape(_LEAF_TYPE + _LEAF_VALUE) + get(SIZE))
_BRANCH_FORM: Final = pattern(re.escape(_BRANCH) + get(NAT) + re.escape(_KIDS) + get(SIZE))


def parse_node(data: bytes) -> Leaf | Stored:
    """The node behind its bytes; refuses anything else.

    A node is read for every miss of the cell cache, so its fixed parts are matched, not decoded.
    """
    node = _leaf_of(data) or _stored_of(data)
    if node is None:
        message = "an index node has another form than it must"
        raise JournalCorrupt(message, code="journal.corrupt")
    return node


def _leaf_of(data: bytes) -> Leaf | None:
    found = _LEAF_FORM.match(data)
    if found is None:
        return None
    begin = found.end()
    stop = begin + SIZES[found[1]]
    found = _LEAF_REST.match(data, stop)
    if found is None or found.end() + SIZES[found[1]] != len(data):
        return None
    return make(Leaf, (data[begin:stop].hex(), data[found.end() :]))


def _stored_of(data: bytes) -> Stored | None:
    found = _BRANCH_FORM.match(data)
    if found is None:
        return None
    bits = NUMBERS[found[1]]
    begin = found.end()
    stop = begin + SIZES[found[2]]
    ending = data[stop:]
    if not 0 < bits < 1 << 16 or stop - begin != REF * bits.bit_count():
        return None
    if not (ending.startswith(_SKIP) and ending.endswith(_BRANCH_TYPE)):
        return None
    try:
        skip = TEXTS[ending[len(_SKIP) : -len(_BRANCH_TYPE)]]
    except (NotCanonical, ValueError):
        return None
    return make(Stored, (skip, bits, data[begin:stop]))


class Nodes:
    """Reads nodes from the blob store through a cache of branches, bounded in bytes.

    Branches near the root are read for every miss of the cell cache; leaves are read once.
    A branch of many cells has more children, so a bound on their number would grow with them.
    The oldest leave in lots: a plain dictionary needs half the memory of an ordered one, and would
    be slow at giving up one entry at a time.
    Once it is half full, a branch that is used moves to the end.
    """

    __slots__ = ("_blobs", "_cache", "_half", "_held", "_most", "_replaced")

    def __init__(self, blobs: Blobs, most: int = 4 * 1024 * 1024) -> None:
        self._blobs = blobs
        self._cache: dict[bytes, Stored] = {}
        self._held = 0  # bytes of it all
        self._most = most
        self._half = most // 2
        # Branches that a change has opened: once its root is the one that is read, they are old.
        self._replaced: dict[bytes, None] = {}

    def keep(self, branches: Mapping[bytes, Stored]) -> None:
        """Remember branches that were just written: what is new is asked for next."""
        for digest, branch in branches.items():
            self._keep(digest, branch)

    def _keep(self, digest: bytes, branch: Stored) -> None:
        cache = self._cache
        if digest not in cache:
            self._held += _ENTRY + len(branch.joined)
        cache[digest] = branch
        if self._held > self._most:
            for old in list(islice(cache, 1 + len(cache) // 16)):
                self._drop(old)

    def _drop(self, digest: bytes) -> None:
        old = self._cache.pop(digest, None)
        if old is not None:
            self._held -= _ENTRY + len(old.joined)

    def opened(self, digest: bytes) -> Node:
        """The node of a digest for changing, after which nobody will ask for it as it was."""
        found = self.load(digest)
        if not isinstance(found, Stored):
            return found
        if len(self._replaced) < _REPLACED_MAX:
            self._replaced[digest] = None
        return found.opened()

    def forget_replaced(self) -> None:
        """Let go of the branches of roots that are read no more; one too many is read again."""
        for digest in self._replaced:
            self._drop(digest)
        self._replaced.clear()

    def rehouse(self, blobs: Blobs) -> None:
        """Read from another store that holds the same nodes."""
        self._blobs = blobs

    def load(self, digest: bytes) -> Leaf | Stored:
        """The node of a digest; a missing or damaged one stops the world."""
        cache = self._cache
        known = cache.get(digest)
        if known is not None:
            if self._held > self._half:
                cache[digest] = cache.pop(digest)
            return known
        node = parse_node(self._bytes(digest))
        if isinstance(node, Stored):
            self._keep(digest, node)
        return node

    def value(self, digest: bytes, path: bytes) -> bytes | None:
        """The value of a leaf if it is the one of a path; its bytes up to there are known then."""
        data = self._bytes(digest)
        start = b"".join((_LEAF, canon.OCTETS[len(path)], path, _LEAF_TYPE, _LEAF_VALUE))
        if data.startswith(start):
            found = _HEAD.match(data, len(start))
            if found is not None and found.end() + SIZES[found[0]] == len(data):
                return data[found.end() :]
        leaf = parse_node(data)
        return leaf.value if isinstance(leaf, Leaf) and leaf.path == path.hex() else None

    def _bytes(self, digest: bytes) -> bytes:
        data = self._blobs.get(digest)
        if data is None or sha256(data).digest() != digest:
            name = canon.text_of(digest)
            raise BlobLost(f"index node {name} is missing or damaged", where={"blob": name})
        return data


def lookup(nodes: Nodes, root: bytes, path: bytes) -> bytes | None:
    """The value at a path, or None: one node per level."""
    if root == EMPTY:
        return None
    text = path.hex()
    tail = path[-2:]
    at = 0
    node = nodes.load(root)
    while type(node) is Stored:
        skip, bits, joined = node
        if skip:
            stop = at + len(skip)
            if text[at:stop] != skip:
                return None
            at = stop
        bit = _BITS[text[at]]
        if not bits & bit:
            return None
        begin = (bits & (bit - 1)).bit_count() * REF  # as `kid` finds it
        end = begin + 32
        hint = joined[end : end + 2]
        if hint != _NO_HINT:  # a leaf, and not this one unless its path ends alike
            return nodes.value(joined[begin:end], path) if hint == tail else None
        node = nodes.load(joined[begin:end])
        at += 1
    assert isinstance(node, Leaf), "a walk ends at a leaf"
    return node.value if node.path == text else None


def scan(nodes: Nodes, root: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """All entries with a path greater than `after`, in order of path."""
    if root != EMPTY:
        yield from _scan(nodes, root, "", after.hex())


def _scan(nodes: Nodes, digest: bytes, done: str, after: str) -> Iterator[tuple[bytes, bytes]]:
    node = nodes.load(digest)
    if isinstance(node, Leaf):
        if node.path > after:
            yield bytes.fromhex(node.path), node.value
        return
    done += node.skip
    for way in range(16):
        kid = node.kid(way)
        if kid is None:
            continue
        reached = done + "0123456789abcdef"[way]
        if reached >= after[: len(reached)]:
            yield from _scan(nodes, kid[:32], reached, after)


class Written(NamedTuple):
    """The outcome of a change: the new root, the nodes that are new, and the branches of these."""

    root: bytes
    nodes: dict[bytes, bytes]
    branches: dict[bytes, Stored]


def change(nodes: Nodes, root: bytes, changes: Mapping[bytes, bytes | None]) -> Written:
    """Apply writes (bytes) and deletes (None); costs what is changed, not what is there."""
    items = [(path.hex(), value) for path, value in sorted(changes.items())]
    made = Written(EMPTY, {}, {})
    top = _merge(nodes, None if root == EMPTY else root + _NO_HINT, items, 0)
    return made if top is None else made._replace(root=_store(top, made)[:32])


Items = list[tuple[str, bytes | None]]


def _store(node: Child, made: Written) -> bytes:
    """The reference of a node, which is written if it is not in the store already."""
    if isinstance(node, bytes):
        return node
    assert node is not None, "an empty child has no reference"
    if isinstance(node, Leaf):
        path = bytes.fromhex(node.path)
        data = _leaf_bytes(path, node.value)
        digest = sha256(data).digest()
        made.nodes[digest] = data
        return digest + path[-2:]
    bits = 0
    refs: list[bytes] = []
    for way, kid in enumerate(node.kids):
        if kid is not None:
            bits |= 1 << way
            refs.append(_store(kid, made))
    branch = make(Stored, (node.skip, bits, b"".join(refs)))
    data = _branch_bytes(branch)
    digest = sha256(data).digest()
    made.nodes[digest] = data
    made.branches[digest] = branch
    return digest + _NO_HINT


def _opened(nodes: Nodes, child: Child) -> Node | None:
    """A child as a node that can be changed."""
    if not isinstance(child, bytes):
        return child
    return nodes.opened(child[:32])


def _merge(nodes: Nodes, child: Child, items: Items, at: int) -> Child:
    """The child after the changes, all of which share the nibbles before `at`."""
    if not items:
        return child
    node = _opened(nodes, child)
    if node is None:
        return _build([item for item in items if item[1] is not None], at)
    if isinstance(node, Leaf):
        return _merge_leaf(child, node, items, at)
    shared = _shared(node.skip, items, at)
    if shared < len(node.skip):
        # Some entry leaves the common nibbles early: the branch moves one level down.
        kids: list[Child] = [None] * 16
        kids[int(node.skip[shared], 16)] = Branch(node.skip[shared + 1 :], node.kids)
        node = Branch(node.skip[:shared], tuple(kids))
        return _merge_kids(nodes, node, items, at)
    merged = _merge_kids(nodes, node, items, at)
    # Deletes of absent paths change nothing: keep the digest, write no node.
    return child if merged == node else merged


def _merge_leaf(child: Child, leaf: Leaf, items: Items, at: int) -> Child:
    kept: Items = [item for item in items if item[1] is not None]
    if all(item[0] != leaf.path for item in items):
        if not kept:
            return child
        kept.append((leaf.path, leaf.value))
        kept.sort()
    elif kept == [(leaf.path, leaf.value)]:
        return child
    return _build(kept, at)


def _shared(skip: str, items: Items, at: int) -> int:
    """How much of a branch's skip every write shares; deletes cannot split a branch."""
    shared = len(skip)
    for path, value in items:
        if value is None:
            continue
        while path[at : at + shared] != skip[:shared]:
            shared -= 1
    return shared


def _merge_kids(nodes: Nodes, node: Branch, items: Items, at: int) -> Child:
    stop = at + len(node.skip)
    groups: dict[int, Items] = {}
    if len(items) == 1 and items[0][0][at:stop] == node.skip:  # nearly every branch far down
        groups[int(items[0][0][stop], 16)] = items
    else:
        for item in items:
            if item[0][at:stop] == node.skip:
                groups.setdefault(int(item[0][stop], 16), []).append(item)
    kids = list(node.kids)
    for i, group in groups.items():
        kids[i] = _merge(nodes, kids[i], group, stop + 1)
    return _collapsed(nodes, node.skip, kids)


def _collapsed(nodes: Nodes, skip: str, kids: list[Child]) -> Child:
    alive = [i for i, kid in enumerate(kids) if kid is not None]
    if not alive:
        return None
    if len(alive) > 1:
        return make(Branch, (skip, tuple(kids)))
    only = kids[alive[0]]
    node = _opened(nodes, only)
    if isinstance(node, Branch):
        return Branch(skip + "0123456789abcdef"[alive[0]] + node.skip, node.kids)
    return only


def _build(items: Items, at: int) -> Child:
    """A fresh subtree of writes, sorted by path."""
    if not items:
        return None
    if len(items) == 1:
        path, value = items[0]
        assert value is not None, "only writes are built"
        return make(Leaf, (path, value))
    first, last = items[0][0], items[-1][0]
    stop = at
    while first[stop] == last[stop]:
        stop += 1
    groups: dict[str, Items] = {}
    for item in items:
        groups.setdefault(item[0][stop], []).append(item)
    kids: list[Child] = [None] * 16
    for nibble, group in groups.items():
        kids[int(nibble, 16)] = _build(group, stop + 1)
    return make(Branch, (first[at:stop], tuple(kids)))
