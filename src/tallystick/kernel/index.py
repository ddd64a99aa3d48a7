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

# tidy: the form of nodes, reading them and walking them; apart they would not be understood.
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
NO_HINT: Final = b"\x00\x00"
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
    """The nibbles that its paths share, which of sixteen ways on exist, and their references."""

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

    def patched(self, kids: Mapping[int, bytes | None]) -> Branch:
        """The same branch with other children, or none, at some of its ways."""
        skip, bits, joined = self
        pieces: list[bytes] = []
        done, made = 0, bits
        for way in sorted(kids):
            bit = 1 << way
            at = (bits & (bit - 1)).bit_count() * REF
            pieces.append(joined[done:at])
            done = at + REF if bits & bit else at
            kid = kids[way]
            if kid is None:
                made &= ~bit
            else:
                made |= bit
                pieces.append(kid)
        pieces.append(joined[done:])
        return make(Branch, (skip, made, b"".join(pieces)))


Node = Leaf | Branch

_LEAF: Final = canon.PREFIX + canon.head(5, 3) + canon.put_key("path")
_LEAF_TYPE: Final = canon.put_key("$type") + canon.put_text("leaf@1")
_LEAF_VALUE: Final = canon.put_key("value")
_BRANCH: Final = canon.PREFIX + canon.head(5, 4) + canon.put_key("bits")
_KIDS: Final = canon.put_key("kids")
_SKIP: Final = canon.put_key("skip")
_BRANCH_TYPE: Final = canon.put_key("$type") + canon.put_text("branch@1")


def leaf_bytes(path: bytes, value: bytes) -> bytes:
    """A leaf as it lies in the store."""
    octets = canon.OCTETS
    return b"".join(
        (_LEAF, octets[len(path)], path, _LEAF_TYPE, _LEAF_VALUE, octets[len(value)], value)
    )


def branch_bytes(branch: Branch) -> bytes:
    """A branch as it lies in the store."""
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


_HEAD: Final = pattern(SIZE)
_LEAF_FORM: Final = pattern(re.escape(_LEAF) + get(SIZE))
_LEAF_REST: Final = pattern(re.escape(_LEAF_TYPE + _LEAF_VALUE) + get(SIZE))
_BRANCH_FORM: Final = pattern(re.escape(_BRANCH) + get(NAT) + re.escape(_KIDS) + get(SIZE))


def parse_node(data: bytes) -> Node:
    """The node behind its bytes; refuses anything else.

    A node is read for every miss of the cell cache, so its fixed parts are matched, not decoded.
    """
    node = _leaf_of(data) or _branch_of(data)
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


def _branch_of(data: bytes) -> Branch | None:
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
    return make(Branch, (skip, bits, data[begin:stop]))


class Nodes:
    """Reads nodes from the blob store through a cache of branches, bounded in bytes.

    Branches near the root are read for every miss of the cell cache; leaves are read once.
    A branch of many cells has more children, so a bound on their number would grow with them.
    The oldest leave in lots: a plain dictionary needs half the memory of an ordered one, and would
    be slow at giving up one entry at a time.
    Once it is half full, a branch that is used moves to the end.
    """

    __slots__ = ("_all", "_blobs", "_cache", "_half", "_held", "_most", "_old", "_replaced")

    def __init__(self, blobs: Blobs, most: int = 4 * 1024 * 1024) -> None:
        self._blobs = blobs
        self._cache: dict[bytes, Branch] = {}
        self._held = 0  # bytes of it all
        self._all = self._most = most
        self._half = most // 2
        # Branches that a change has replaced: once its root is the one that is read, they are old.
        self._replaced: dict[bytes, None] = {}
        self._old: list[bytes] = []

    def leave_room(self, taken: int) -> None:
        """Hold so many bytes less: what stands before the index is paid from the same purse."""
        self._most = max(self._all // 2, self._all - taken)
        self._half = self._most // 2

    def keep(self, branches: Mapping[bytes, Branch]) -> None:
        """Remember branches that were just written: what is new is asked for next."""
        for digest, branch in branches.items():
            self._keep(digest, branch)

    def _keep(self, digest: bytes, branch: Branch) -> None:
        cache = self._cache
        if digest not in cache:
            self._held += _ENTRY + len(branch.joined)
            # For a new one two old ones go: all at once, after a snapshot, would hold up who asks.
            for _ in range(min(2, len(self._old))):
                self._drop(self._old.pop())
        cache[digest] = branch
        if self._held > self._most:
            for old in list(islice(cache, 1 + len(cache) // 16)):
                self._drop(old)

    def _drop(self, digest: bytes) -> None:
        old = self._cache.pop(digest, None)
        if old is not None:
            self._held -= _ENTRY + len(old.joined)

    def replace(self, digest: bytes) -> None:
        """A change has written another branch in place of this one, which is old from now on."""
        if digest in self._cache and len(self._replaced) < _REPLACED_MAX:
            self._replaced[digest] = None

    def forget_replaced(self) -> None:
        """Let go of the branches of roots that are read no more; one too many is read again."""
        self._old = [*self._old[-_REPLACED_MAX:], *self._replaced]
        self._replaced = {}

    def rehouse(self, blobs: Blobs) -> None:
        """Read from another store that holds the same nodes."""
        self._blobs = blobs

    def load(self, digest: bytes) -> Node:
        """The node of a digest; a missing or damaged one stops the world."""
        cache = self._cache
        known = cache.get(digest)
        if known is not None:
            if self._held > self._half:
                cache[digest] = cache.pop(digest)
            return known
        node = parse_node(self._bytes(digest))
        if isinstance(node, Branch):
            self._keep(digest, node)
        return node

    def peek(self, digest: bytes) -> Node:
        """The same for whoever reads much and needs none of it again: it is not remembered."""
        return self._cache.get(digest) or parse_node(self._bytes(digest))

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
    while type(node) is Branch:
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
        if hint != NO_HINT:  # a leaf, and not this one unless its path ends alike
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


def tails(nodes: Nodes, root: bytes, start: str) -> list[bytes]:
    """The last two bytes of every path that begins with these nibbles, in order of path."""
    found: list[bytes] = []
    if root != EMPTY:
        _gather(nodes, root, "", (start, found))
    return found


def _gather(nodes: Nodes, digest: bytes, done: str, wanted: tuple[str, list[bytes]]) -> None:
    start, found = wanted
    node = nodes.peek(digest)
    if isinstance(node, Leaf):
        if node.path.startswith(start):
            found.append(bytes.fromhex(node.path[-4:]))
        return
    done += node.skip
    for way in range(16):
        kid = node.kid(way)
        reached = done + "0123456789abcdef"[way]
        if kid is None or reached[: len(start)] != start[: len(reached)]:
            continue
        if kid[32:] != NO_HINT and len(reached) >= len(start):
            found.append(kid[32:])  # a leaf, whose hint is all that is asked for
        else:
            _gather(nodes, kid[:32], reached, wanted)
