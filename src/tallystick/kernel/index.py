"""The index: a merkle radix trie whose shape depends on content alone (K-39).

Theory of operation.
A trie maps paths of one fixed length to values.
A leaf holds a path and a value; a branch holds the nibbles that all its paths share (`skip`) and
up to sixteen children.
No branch has fewer than two children, so any order of writes and deletes that ends in the same
entries ends in the same nodes and the same root.
Nodes are immutable blobs named by their digest: a change writes new nodes along its path and
shares the rest, which makes snapshots cost what is dirty and forks cost nothing.

A branch names a child by its digest and a hint of two bytes.
The hint of a leaf is the end of its path, so that looking for an entry that is not there, as every
new cell does, stops at the branch instead of reading a stranger's leaf; a branch has the hint zero.

A store may give each node a place, and finds it there without an index of digests (ADR 0037).
The places of its children stand behind the bytes of a branch and are none of them: no digest and no
root knows where anything lies.
So a node goes by its name, a digest and a place, or by its digest alone where it has no place; and
a child by its reference, which is digest, hint and place.

Paths are hex text while the trie is worked on: slicing text compares nibbles at C speed.
"""

# tidy: the form of nodes, reading them and walking them; apart they would not be understood.
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from tallystick.errors import BlobLost, JournalCorrupt, NotCanonical
from tallystick.model.hot_items import NAT, NUMBERS, SIZE, SIZES, TEXTS, get, pattern
from tallystick.model.tuples import make
from tallystick.values import canon

EMPTY: Final = bytes(32)
REF: Final = 34  # of a reference, what a digest covers
PLACE: Final = 5
NOWHERE: Final = bytes(PLACE)
NO_HINT: Final = b"\x00\x00"
_CHECK: Final = 4  # bytes behind places that tell damaged ones
_ENTRY: Final = 300  # bytes of a cached branch beside its references
_REPLACED_MAX: Final = 32_768
_BITS: Final = {nibble: 1 << way for way, nibble in enumerate("0123456789abcdef")}


class Blobs(Protocol):
    """The content-addressed store as the kernel sees it (K-38): bytes by digest, nodes by name."""

    def get(self, name: bytes, /) -> bytes | None:
        """The bytes behind a name, or None."""
        ...

    def put(self, name: bytes, data: bytes, /) -> None:
        """Stage bytes under their name; durable with the next commit."""
        ...

    def place(self) -> bytes:
        """Where the next node is to lie; `NOWHERE` in a store that finds all by their digests."""
        ...


class Leaf(NamedTuple):
    """One entry: its whole path and its value."""

    path: str
    value: bytes


class Branch(NamedTuple):
    """The nibbles that its paths share, which of sixteen ways on exist, and their references.

    These stand in two rows: what a digest covers, and where the children lie.
    """

    skip: str
    bits: int
    joined: bytes
    places: bytes

    def kid(self, way: int) -> bytes | None:
        """The reference of one way on, or None."""
        bit = 1 << way
        if not self.bits & bit:
            return None
        nth = (self.bits & (bit - 1)).bit_count()
        at, lies = nth * REF, nth * PLACE
        return self.joined[at : at + REF] + self.places[lies : lies + PLACE]

    def patched(self, kids: Mapping[int, bytes | None]) -> Branch:
        """The same branch with other children, or none, at some of its ways."""
        skip, bits, joined, places = self
        pieces: list[bytes] = []
        lying: list[bytes] = []
        done, made = 0, bits
        for way in sorted(kids):
            bit = 1 << way
            nth = (bits & (bit - 1)).bit_count()
            pieces.append(joined[done * REF : nth * REF])
            lying.append(places[done * PLACE : nth * PLACE])
            done = nth + 1 if bits & bit else nth
            kid = kids[way]
            if kid is None:
                made &= ~bit
            else:
                made |= bit
                pieces.append(kid[:REF])
                lying.append(kid[REF:])
        pieces.append(joined[done * REF :])
        lying.append(places[done * PLACE :])
        return make(Branch, (skip, made, b"".join(pieces), b"".join(lying)))


Node = Leaf | Branch

_LEAF: Final = canon.PREFIX + canon.head(5, 3) + canon.put_key("path")
_LEAF_TYPE: Final = canon.put_key("$type") + canon.put_text("leaf@1")
_LEAF_VALUE: Final = canon.put_key("value")
_BRANCH: Final = canon.PREFIX + canon.head(5, 4) + canon.put_key("bits")
_KIDS: Final = canon.put_key("kids")
_SKIP: Final = canon.put_key("skip")
_BRANCH_TYPE: Final = canon.put_key("$type") + canon.put_text("branch@1")


def name_of(ref: bytes) -> bytes:
    """The name of a node that a reference leads to."""
    place = ref[REF:]
    return ref[:32] if place == NOWHERE else ref[:32] + place


def ref_of(name: bytes) -> bytes:
    """The reference of a root, which has no hint."""
    return name[:32] + NO_HINT + (name[32:] or NOWHERE)


def leaf_bytes(path: bytes, value: bytes) -> bytes:
    """A leaf as its digest covers it, and as it lies in the store."""
    octets = canon.OCTETS
    return b"".join(
        (_LEAF, octets[len(path)], path, _LEAF_TYPE, _LEAF_VALUE, octets[len(value)], value)
    )


def branch_bytes(branch: Branch) -> bytes:
    """A branch as its digest covers it."""
    skip, bits, joined, _ = branch
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


def with_places(data: bytes, places: bytes) -> bytes:
    """A branch as it lies in a store that gives places."""
    return b"".join((data, places, crc32(places).to_bytes(_CHECK, "big")))


def bare(data: bytes) -> bytes:
    """What the digest of a node covers of the bytes that lie in a store."""
    if data.startswith(_LEAF) or data.endswith(_BRANCH_TYPE):
        return data
    end = data.rfind(_BRANCH_TYPE) + len(_BRANCH_TYPE)
    places, check = data[end:-_CHECK], data[-_CHECK:]
    # Bytes with damaged places are no longer what was put there, whatever stands before them.
    return data[:end] if crc32(places).to_bytes(_CHECK, "big") == check else data


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
    count = bits.bit_count()
    if not 0 < bits < 1 << 16 or stop - begin != REF * count:
        return None
    ending, places = data[stop:], bytes(PLACE * count)
    if not ending.endswith(_BRANCH_TYPE):
        behind = max(0, len(ending) - PLACE * count - _CHECK)
        ending, places = ending[:behind], ending[behind:-_CHECK]
    if not (ending.startswith(_SKIP) and ending.endswith(_BRANCH_TYPE)):
        return None
    try:
        skip = TEXTS[ending[len(_SKIP) : -len(_BRANCH_TYPE)]]
    except (NotCanonical, ValueError):
        return None
    return make(Branch, (skip, bits, data[begin:stop], places))


def read_node(blobs: Blobs, name: bytes) -> Node:
    """The node of a name, for those who walk an index without a world."""
    return parse_node(_read(blobs, name))


def _read(blobs: Blobs, name: bytes) -> bytes:
    data = blobs.get(name)
    if data is None or sha256(bare(data)).digest() != name[:32]:
        text = canon.text_of(name[:32])
        raise BlobLost(f"index node {text} is missing or damaged", where={"blob": text})
    return data


def _size(branch: Branch) -> int:
    return _ENTRY + len(branch.joined) + len(branch.places)


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
        for name, branch in branches.items():
            self._keep(name, branch)

    def _keep(self, name: bytes, branch: Branch) -> None:
        cache = self._cache
        if name not in cache:
            self._held += _size(branch)
            # For a new one two old ones go: all at once, after a snapshot, would hold up who asks.
            for _ in range(min(2, len(self._old))):
                self._drop(self._old.pop())
        cache[name] = branch
        if self._held > self._most:
            for old in list(islice(cache, 1 + len(cache) // 16)):
                self._drop(old)

    def _drop(self, name: bytes) -> None:
        old = self._cache.pop(name, None)
        if old is not None:
            self._held -= _size(old)

    def replace(self, name: bytes) -> None:
        """A change has written another branch in place of this one, which is old from now on."""
        if name in self._cache and len(self._replaced) < _REPLACED_MAX:
            self._replaced[name] = None

    def forget_replaced(self) -> None:
        """Let go of the branches of roots that are read no more; one too many is read again."""
        self._old = [*self._old[-_REPLACED_MAX:], *self._replaced]
        self._replaced = {}

    def rehouse(self, blobs: Blobs) -> None:
        """Read from another store that holds the same nodes."""
        self._blobs = blobs

    def place(self) -> bytes:
        """Where a node that is about to be written is to lie."""
        return self._blobs.place()

    def load(self, name: bytes) -> Node:
        """The node of a name; a missing or damaged one stops the world."""
        cache = self._cache
        known = cache.get(name)
        if known is not None:
            if self._held > self._half:
                cache[name] = cache.pop(name)
            return known
        node = parse_node(self._bytes(name))
        if isinstance(node, Branch):
            self._keep(name, node)
        return node

    def peek(self, name: bytes) -> Node:
        """The same for whoever reads much and needs none of it again: it is not remembered."""
        return self._cache.get(name) or parse_node(self._bytes(name))

    def value(self, name: bytes, path: bytes) -> bytes | None:
        """The value of a leaf if it is the one of a path; its bytes up to there are known then."""
        data = self._bytes(name)
        start = b"".join((_LEAF, canon.OCTETS[len(path)], path, _LEAF_TYPE, _LEAF_VALUE))
        if data.startswith(start):
            found = _HEAD.match(data, len(start))
            if found is not None and found.end() + SIZES[found[0]] == len(data):
                return data[found.end() :]
        leaf = parse_node(data)
        return leaf.value if isinstance(leaf, Leaf) and leaf.path == path.hex() else None

    def _bytes(self, name: bytes) -> bytes:
        return _read(self._blobs, name)


def lookup(nodes: Nodes, root: bytes, path: bytes) -> bytes | None:
    """The value at a path, or None: one node per level."""
    if root == EMPTY:
        return None
    text = path.hex()
    tail = path[-2:]
    at = 0
    node = nodes.load(root)
    while type(node) is Branch:
        skip, bits, joined, places = node
        if skip:
            stop = at + len(skip)
            if text[at:stop] != skip:
                return None
            at = stop
        bit = _BITS[text[at]]
        if not bits & bit:
            return None
        nth = (bits & (bit - 1)).bit_count()  # as `kid` finds it
        end = nth * REF + 32
        name, place = joined[end - 32 : end], places[nth * PLACE : (nth + 1) * PLACE]
        if place != NOWHERE:
            name += place
        hint = joined[end : end + 2]
        if hint != NO_HINT:  # a leaf, and not this one unless its path ends alike
            return nodes.value(name, path) if hint == tail else None
        node = nodes.load(name)
        at += 1
    assert isinstance(node, Leaf), "a walk ends at a leaf"
    return node.value if node.path == text else None


def scan(nodes: Nodes, root: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """All entries with a path greater than `after`, in order of path."""
    if root != EMPTY:
        yield from _scan(nodes, root, "", after.hex())


def _scan(nodes: Nodes, name: bytes, done: str, after: str) -> Iterator[tuple[bytes, bytes]]:
    node = nodes.load(name)
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
            yield from _scan(nodes, name_of(kid), reached, after)


def tails(nodes: Nodes, root: bytes, start: str) -> list[bytes]:
    """The last two bytes of every path that begins with these nibbles, in order of path."""
    found: list[bytes] = []
    if root != EMPTY:
        _gather(nodes, root, "", (start, found))
    return found


def _gather(nodes: Nodes, name: bytes, done: str, wanted: tuple[str, list[bytes]]) -> None:
    start, found = wanted
    node = nodes.peek(name)
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
        if kid[32:REF] != NO_HINT and len(reached) >= len(start):
            found.append(kid[32:REF])  # a leaf, whose hint is all that is asked for
        else:
            _gather(nodes, name_of(kid), reached, wanted)
