"""Changing the index: writes and deletes, and the few nodes that are new after them (K-39).

Theory of operation.
A change is one walk: it goes down with the entries that share a path so far, and comes back with
the reference of what is there now.
The children that it does not touch are copied as the bytes they are, so a branch costs the same
with three of them as with sixteen.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from tallystick.kernel.index import (
    EMPTY,
    NO_HINT,
    NOWHERE,
    REF,
    Branch,
    Leaf,
    Nodes,
    branch_bytes,
    leaf_bytes,
    name_of,
    ref_of,
    with_places,
)
from tallystick.model.tuples import make


class Written(NamedTuple):
    """The outcome of a change: the new top, the nodes that are new, and the branches of these.

    All go by their names; the first 32 bytes of the top's are the root, a digest.
    """

    top: bytes
    nodes: dict[bytes, bytes]
    branches: dict[bytes, Branch]

    @property
    def root(self) -> bytes:
        """The digest of all entries."""
        return self.top[:32]


def change(nodes: Nodes, top: bytes, changes: Mapping[bytes, bytes | None]) -> Written:
    """Apply writes (bytes) and deletes (None); costs what is changed, not what is there."""
    items = [(path.hex(), value) for path, value in sorted(changes.items())]
    if not items:
        return Written(top, {}, {})
    work = _Change(nodes)
    made = work.merged(None if top == EMPTY else ref_of(top), items, 0)
    return Written(EMPTY if made is None else name_of(made), work.written, work.branches)


Items = list[tuple[str, bytes | None]]
_NONE: Final = ("", b"")  # no leaf


class _Change:
    """A change on its way: the nodes it reads, and those it has written."""

    __slots__ = ("_nodes", "branches", "written")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.written: dict[bytes, bytes] = {}
        self.branches: dict[bytes, Branch] = {}

    def merged(self, ref: bytes | None, items: Items, at: int) -> bytes | None:
        """What is there after the changes, all of which share the nibbles before `at`."""
        if ref is None:
            return self._built([item for item in items if item[1] is not None], at)
        node = self._nodes.peek(name_of(ref))  # another takes its place: nobody asks for it again
        if isinstance(node, Branch):
            return self._branch(ref, node, items, at)
        return self._leaf(ref, node, items, at)

    def _leaf(self, ref: bytes, leaf: Leaf, items: Items, at: int) -> bytes | None:
        kept: Items = [item for item in items if item[1] is not None]
        if all(item[0] != leaf.path for item in items):
            if not kept:
                return ref
            kept.append((leaf.path, leaf.value))
            kept.sort()
            hint = bytes.fromhex(leaf.path[-4:])  # a leaf that was the root had none
            return self._built(kept, at, (leaf.path, ref[:32] + hint + ref[REF:]))
        if kept == [(leaf.path, leaf.value)]:
            return ref
        return self._built(kept, at)

    def _branch(self, ref: bytes | None, branch: Branch, items: Items, at: int) -> bytes | None:
        """A branch after the changes; without a reference it is not in the store yet."""
        skip = branch.skip
        shared = _shared(skip, items, at)
        if shared < len(skip):
            return self._split(branch, shared, items, at)
        below = at + len(skip) + 1
        kids: dict[int, bytes | None] = {}
        for way, group in _groups(skip, items, at).items():
            old = branch.kid(way)
            new = self.merged(old, group, below)
            if new != old:
                kids[way] = new
        if ref is not None:
            if not kids:  # deletes of absent paths change nothing: no node is written
                return ref
            self._nodes.replace(name_of(ref))
        return self._put(branch.patched(kids))

    def _split(self, branch: Branch, shared: int, items: Items, at: int) -> bytes | None:
        """Some entry leaves the common nibbles early: the branch moves one level down."""
        skip, bits, joined, places = branch
        way, below = int(skip[shared], 16), at + shared + 1
        groups = _groups(skip[:shared], items, at)
        lower = Branch(skip[shared + 1 :], bits, joined, places)
        kids = {way: self._branch(None, lower, groups.pop(way, []), below)}
        for other, group in groups.items():
            kids[other] = self.merged(None, group, below)
        return self._put(Branch(skip[:shared], 0, b"", b"").patched(kids))

    def _put(self, branch: Branch) -> bytes | None:
        """A branch with any number of children, in the one shape it may have."""
        count = branch.bits.bit_count()
        if count > 1:
            return self._store(branch)
        return self._collapsed(branch) if count else None

    def _collapsed(self, branch: Branch) -> bytes:
        """A branch with one child is that child, which takes over the nibbles on the way to it."""
        ref = branch.joined + branch.places
        name = name_of(ref)
        only = self.branches.pop(name, None)
        if only is not None:
            del self.written[name]  # it was written a moment ago, and nobody will name it
        elif name in self.written:
            return ref
        else:
            node = self._nodes.load(name)
            if isinstance(node, Leaf):
                return ref
            self._nodes.replace(name)
            only = node
        way = "0123456789abcdef"[branch.bits.bit_length() - 1]
        return self._store(only._replace(skip=branch.skip + way + only.skip))

    def _built(self, items: Items, at: int, known: tuple[str, bytes] = _NONE) -> bytes | None:
        """A fresh subtree of writes, sorted by path; the leaf of one may be there already."""
        if not items:
            return None
        first, value = items[0]
        if len(items) == 1:
            if first == known[0]:
                return known[1]
            assert value is not None, "only writes are built"
            return self._store_leaf(bytes.fromhex(first), value)
        last = items[-1][0]
        stop = at
        while first[stop] == last[stop]:
            stop += 1
        bits = 0
        refs: list[bytes] = []
        places: list[bytes] = []
        for way, group in _groups(first[at:stop], items, at).items():
            ref = self._built(group, stop + 1, known)
            assert ref is not None, "a group holds a write"
            bits |= 1 << way
            refs.append(ref[:REF])
            places.append(ref[REF:])
        joined, lying = b"".join(refs), b"".join(places)
        return self._store(make(Branch, (first[at:stop], bits, joined, lying)))

    def _store(self, branch: Branch) -> bytes:
        data = branch_bytes(branch)
        name = digest = sha256(data).digest()
        place = self._nodes.place()
        if place != NOWHERE:
            name = digest + place
            data = with_places(data, branch.places)
        self.written[name] = data
        self.branches[name] = branch
        return digest + NO_HINT + place

    def _store_leaf(self, path: bytes, value: bytes) -> bytes:
        data = leaf_bytes(path, value)
        digest = sha256(data).digest()
        place = self._nodes.place()
        self.written[digest if place == NOWHERE else digest + place] = data
        return digest + path[-2:] + place


def _shared(skip: str, items: Items, at: int) -> int:
    """How much of a branch's skip every write shares; deletes cannot split a branch."""
    shared = len(skip)
    if shared:
        for path, value in items:
            if value is not None:
                while not path.startswith(skip[:shared], at):
                    shared -= 1
    return shared


def _groups(skip: str, items: Items, at: int) -> dict[int, Items]:
    """Changes behind the skip of a branch by the way they take, in order; others are left out."""
    stop = at + len(skip)
    if len(items) == 1:  # nearly every branch far down
        path = items[0][0]
        return {int(path[stop], 16): items} if path.startswith(skip, at) else {}
    groups: dict[int, Items] = {}
    for item in items:
        if item[0].startswith(skip, at):
            groups.setdefault(int(item[0][stop], 16), []).append(item)
    return groups
