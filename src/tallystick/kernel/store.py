"""Stores: the live head of a trie (K-40..K-43).

Reads go delta -> hot cache -> index; writes stage in the delta.
The delta is what is dirty, the hot cache is a bounded set of clean entries, the index is the last
promoted snapshot in the blob store.
Neither cache size nor eviction can change a root, because the root is computed from index and
delta alone.
A delta entry becomes clean only by `promote`, which the driver calls after the snapshot is
durable (I20).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

from tallystick.kernel.index import EMPTY, Nodes, Written, change, lookup, scan

T = TypeVar("T")

Encode = Callable[[T, dict[bytes, bytes]], bytes]
"""Gives an entry's leaf value; what the entry keeps beside its leaf goes into the second argument."""


class Store(Generic[T]):
    """Entries of one kind by path, with a codec to and from leaf values."""

    __slots__ = (
        "_decode",
        "_encode",
        "_hot",
        "_marked",
        "_most",
        "_nodes",
        "_touched",
        "delta",
        "root",
    )

    def __init__(
        self,
        nodes: Nodes,
        encode: Encode[T],
        decode: Callable[[bytes], T],
        *,
        root: bytes = EMPTY,
        cache: int = 4096,
    ) -> None:
        self._nodes = nodes
        self._encode = encode
        self._decode = decode
        self._hot: OrderedDict[bytes, T] = OrderedDict()
        self._most = cache
        # Since the last mark: path -> the mark that it was touched after.
        self._touched: dict[bytes, int] | None = None
        self._marked = 0
        self.root = root
        self.delta: dict[bytes, T | None] = {}

    def get(self, path: bytes) -> T | None:
        """The entry for reading; changing it in place is a defect, use `edit`."""
        delta = self.delta
        if path in delta:
            return delta[path]
        hot = self._hot
        found = hot.get(path)
        if found is not None:
            hot.move_to_end(path)
            return found
        if self.root == EMPTY:
            return None
        value = lookup(self._nodes, self.root, path)
        if value is None:
            return None
        found = self._decode(value)
        self._keep(path, found)
        return found

    def edit(self, path: bytes) -> T | None:
        """The entry for changing in place: from here on it is dirty."""
        if self._touched is not None:
            self._touched[path] = self._marked
        if path in self.delta:
            return self.delta[path]
        found = self.get(path)
        if found is not None:
            self._hot.pop(path, None)
            self.delta[path] = found
        return found

    def put(self, path: bytes, entry: T) -> None:
        """Write an entry."""
        if self._touched is not None:
            self._touched[path] = self._marked
        self._hot.pop(path, None)
        self.delta[path] = entry

    def remove(self, path: bytes) -> None:
        """Delete an entry."""
        if self._touched is not None:
            self._touched[path] = self._marked
        self._hot.pop(path, None)
        if self.root == EMPTY and self._touched is None:
            self.delta.pop(path, None)
        else:
            # A snapshot on its way may hold the entry: the delete must outlive its promotion.
            self.delta[path] = None

    def written(self) -> Written:
        """The root with the delta applied, and the blobs that are new; changes nothing."""
        if not self.delta:
            return Written(self.root, {})
        encode = self._encode
        beside: dict[bytes, bytes] = {}
        changes = {p: None if e is None else encode(e, beside) for p, e in self.delta.items()}
        made = change(self._nodes, self.root, changes)
        made.nodes.update(beside)
        return made

    def mark(self, seq: int) -> None:
        """Begin to note what is touched after the snapshot recorded at `seq` was computed."""
        self._marked = seq
        if self._touched is None:
            self._touched = {}

    def promote(self, root: bytes, paths: list[bytes], seq: int) -> None:
        """The snapshot recorded at `seq` is durable: what was not touched since is clean.

        Snapshots become durable in their order; a later one may have been marked already.
        """
        touched = self._touched or {}
        self.root = root
        for path in paths:
            if path in self.delta and touched.get(path, -1) < seq:
                entry = self.delta.pop(path)
                if entry is not None:
                    self._keep(path, entry)
        if self._marked <= seq:
            self._touched = None

    def entries(self) -> Iterator[tuple[bytes, T]]:
        """Every entry in order of path: for listings and proofs, never for a hot path."""
        changed = sorted(self.delta)
        at = 0
        for path, value in scan(self._nodes, self.root):
            while at < len(changed) and changed[at] < path:
                yield from self._changed(changed[at])
                at += 1
            if at < len(changed) and changed[at] == path:
                yield from self._changed(path)
                at += 1
            else:
                yield path, self._decode(value)
        for path in changed[at:]:
            yield from self._changed(path)

    def paths_after(self, after: bytes, most: int) -> list[bytes]:
        """At most that many paths of the promoted index behind `after`, in order."""
        found: list[bytes] = []
        for path, _ in scan(self._nodes, self.root, after):
            found.append(path)
            if len(found) == most:
                break
        return found

    def _changed(self, path: bytes) -> Iterator[tuple[bytes, T]]:
        entry = self.delta[path]
        if entry is not None:
            yield path, entry

    def _keep(self, path: bytes, entry: T) -> None:
        hot = self._hot
        hot[path] = entry
        if len(hot) > self._most:
            hot.popitem(last=False)


def _same(value: bytes, _beside: object = None) -> bytes:
    return value


class Calendar:
    """What is due when, in order of time: timers, owner timeouts, fence expiry.

    The path is the due time (8 bytes) and an id, so order of path is order of time.
    Promoted entries are loaded in chunks, so a million parked timers cost no memory.
    """

    __slots__ = ("_cursor", "_heap", "store")

    CHUNK = 1024

    def __init__(self, nodes: Nodes, root: bytes = EMPTY) -> None:
        self.store: Store[bytes] = Store(nodes, _same, _same, root=root)
        self._heap: list[bytes] = []
        self._cursor: bytes | None = b"" if root != EMPTY else None

    def add(self, due_ns: int, ident: bytes) -> None:
        """Enter an id under its time."""
        path = due_ns.to_bytes(8, "big") + ident
        self.store.put(path, b"")
        heappush(self._heap, path)

    def remove(self, due_ns: int, ident: bytes) -> None:
        """Strike an id out; the heap forgets it when it comes up."""
        self.store.remove(due_ns.to_bytes(8, "big") + ident)

    def first(self) -> tuple[int, bytes] | None:
        """The earliest (time, id), or None."""
        for path in self._ordered():
            return int.from_bytes(path[:8], "big"), path[8:]
        return None

    def due(self, upto_ns: int, most: int) -> list[tuple[int, bytes]]:
        """At most that many entries due at or before a time, earliest first; removes nothing."""
        found: list[tuple[int, bytes]] = []
        for path in self._ordered():
            due_ns = int.from_bytes(path[:8], "big")
            if due_ns > upto_ns or len(found) == most:
                break
            found.append((due_ns, path[8:]))
        return found

    def promote(self, root: bytes, paths: list[bytes], seq: int) -> None:
        """As for a store; what is clean now leaves memory and is loaded again when it is near."""
        self.store.promote(root, paths, seq)
        self._heap = sorted(path for path, entry in self.store.delta.items() if entry is not None)
        self._cursor = b"" if root != EMPTY else None

    def _ordered(self) -> Iterator[bytes]:
        """Live paths in order; the heap is left as it was but for what is dead."""
        taken: list[bytes] = []
        try:
            while True:
                path = self._pop()
                if path is None:
                    return
                taken.append(path)
                yield path
        finally:
            for path in taken:
                heappush(self._heap, path)

    def _pop(self) -> bytes | None:
        heap = self._heap
        while True:
            if self._cursor is not None and (not heap or heap[0] > self._cursor):
                self._load()
                continue
            if not heap:
                return None
            path = heappop(heap)
            while heap and heap[0] == path:
                heappop(heap)
            if self.store.get(path) is not None:
                return path

    def _load(self) -> None:
        assert self._cursor is not None, "only called while the index holds more"
        chunk = self.store.paths_after(self._cursor, self.CHUNK)
        for path in chunk:
            heappush(self._heap, path)
        self._cursor = chunk[-1] if len(chunk) == self.CHUNK else None
