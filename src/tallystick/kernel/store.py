"""Stores: the live head of a trie (K-40..K-43).

Reads go delta -> hot cache -> index; writes stage in the delta.
The delta is what is dirty, the hot cache is a bounded set of clean entries, the index is the last
promoted snapshot in the blob store.
Neither cache size nor eviction can change a root, because the root is computed from index and
delta alone.
A delta entry becomes clean only by `promote`, which the driver calls after the snapshot is
durable (I20).
Long before that, `prepare` may merge the delta part by part into a root on the way (`ahead`): the
shape of a trie depends on its content alone, so the snapshot ends at the same root, only sooner.
"""

# tidy: a store and the calendar over one: the live head of a trie on one page.
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

from tallystick.kernel.index import EMPTY, Nodes, lookup, scan, tails
from tallystick.kernel.index_change import Written, change
from tallystick.kernel.presence import Presence

T = TypeVar("T")
CHUNK: Final = 256  # of a calendar are loaded at a time; nobody is served meanwhile
_CHUNKS: Final = 4  # and so many times that are kept over a snapshot
_ROUND: Final = 2**62  # more than any number of entries
ROUNDS: Final = 2  # in a hurry, before each has to be at most half of the one before

Encode = Callable[[T, dict[bytes, bytes]], bytes]
"""Gives an entry's leaf value; what it keeps beside its leaf goes into the second argument."""


_CLEAN: Final[Any] = object()  # in place of an entry that the delta does not hold


def _same(value: bytes, _beside: object = None) -> bytes:
    return value


class Store(Generic[T]):
    """Entries of one kind by key, with a codec to and from leaf values.

    `path_of` gives the path of a key in the index; it is asked only when the index is.
    One that is `filtered` has paths that are digests, and knows which of them it has not.
    """

    __slots__ = (
        "_absent",
        "_clean_keys",
        "_clean_seq",
        "_decode",
        "_encode",
        "_hot",
        "_last",
        "_marked",
        "_merged",
        "_most",
        "_nodes",
        "_path_of",
        "_presence",
        "_round",
        "_rounds",
        "_touched",
        "ahead",
        "delta",
        "top",
    )

    # tidy: all that a store holds.
    def __init__(
        self,
        nodes: Nodes,
        encode: Encode[T],
        decode: Callable[[bytes], T],
        *,
        top: bytes = EMPTY,
        cache: int = 4096,
        path_of: Callable[[bytes], bytes] = _same,
        filtered: bool = False,
    ) -> None:
        self._nodes = nodes
        self._encode = encode
        self._decode = decode
        self._path_of = path_of
        self._hot: OrderedDict[bytes, T] = OrderedDict()
        self._most = cache
        # Since the last mark: key -> the mark that it was touched after.
        self._touched: dict[bytes, int] | None = None
        self._marked = 0
        # What the last snapshot covers and is still in the delta, and where that was recorded.
        self._clean_keys: list[bytes] = []
        self._clean_seq = 0
        self.top = top  # the name of the root's node
        self._presence = Presence(whole=top == EMPTY) if filtered else None
        self._absent: bytes | None = None  # the last key that the index did not have
        # What of the delta stands in the top `ahead` as it is now, and what is to be merged next.
        self.ahead: bytes | None = None
        self._merged: dict[bytes, None] = {}
        self._round: list[bytes] = []
        self._rounds = 0  # in a hurry
        self._last = 0  # the size of the last of them
        self.delta: dict[bytes, T | None] = {}

    @property
    def root(self) -> bytes:
        """The digest of what the index holds."""
        return self.top[:32]

    def get(self, key: bytes) -> T | None:
        """The entry for reading; changing it in place is a defect, use `edit`."""
        found: T | None = self.delta.get(key, _CLEAN)
        return self._clean(key) if found is _CLEAN else found  # None is struck out

    def _clean(self, key: bytes) -> T | None:
        """The entry of a key that is not dirty."""
        # A new cell is looked for when it is routed and again when it is folded.
        if self.top == EMPTY or key == self._absent:
            return None
        hot = self._hot
        found = hot.get(key)
        if found is not None:
            hot.move_to_end(key)
            return found
        path, presence = self._path_of(key), self._presence
        if presence is not None and presence.lacks(path):
            self._absent = key
            return None
        value = lookup(self._nodes, self.top, path)
        if value is None:
            if presence is not None and not presence.knows(path):
                # What was read just now tells of its neighbours, too.
                presence.learn(path, tails(self._nodes, self.top, path[:2].hex()))
            self._absent = key
            return None
        found = self._decode(value)
        self._keep(key, found)
        return found

    def edit(self, key: bytes) -> T | None:
        """The entry for changing in place: from here on it is dirty."""
        if self._touched is not None:
            self._touched[key] = self._marked
        if self._merged:
            self._merged.pop(key, None)
        found: T | None = self.delta.get(key, _CLEAN)
        if found is not _CLEAN:
            return found
        found = self._clean(key)
        if found is not None:
            self._hot.pop(key, None)
            self.delta[key] = found
        return found

    def put(self, key: bytes, entry: T) -> None:
        """Write an entry."""
        if self._touched is not None:
            self._touched[key] = self._marked
        if self._merged:
            self._merged.pop(key, None)
        self._hot.pop(key, None)
        self.delta[key] = entry

    def remove(self, key: bytes) -> None:
        """Delete an entry."""
        if self._touched is not None:
            self._touched[key] = self._marked
        if self._merged:
            self._merged.pop(key, None)
        self._hot.pop(key, None)
        if self.top == EMPTY and self._touched is None and self.ahead is None:
            self.delta.pop(key, None)
        else:
            # A snapshot on its way may hold the entry: the delete must outlive its promotion.
            self.delta[key] = None

    def take(self, key: bytes) -> T | None:
        """Delete an entry, and give it a last time."""
        if self.top == EMPTY and self._touched is None and self.ahead is None:
            return self.delta.pop(key, None)  # nothing is clean above an empty index
        found = self.get(key)
        self.remove(key)
        return found

    def twin(self, copied: Callable[[T], T]) -> Store[T]:
        """A store with the same entries; what is dirty here is copied by `copied`."""
        made = Store(
            self._nodes,
            self._encode,
            self._decode,
            top=self.top,
            cache=self._most,
            path_of=self._path_of,
        )
        made.delta = {
            key: None if entry is None else copied(entry) for key, entry in self.delta.items()
        }
        made._marked = self._marked
        made._touched = None if self._touched is None else dict(self._touched)
        return made

    def written(self) -> Written:
        """The top with the delta applied, and the blobs that are new; changes nothing."""
        if self.ahead is None:
            return self._changed_by(self.top, self.delta)
        merged = self._merged
        return self._changed_by(self.ahead, [key for key in self.delta if key not in merged])

    def _changed_by(self, top: bytes, keys: Collection[bytes]) -> Written:
        if not keys:
            return Written(top, {}, {})
        encode, path_of, delta = self._encode, self._path_of, self.delta
        beside: dict[bytes, bytes] = {}
        changes = {
            path_of(key): None if (entry := delta[key]) is None else encode(entry, beside)
            for key in keys
        }
        if self._presence is not None:
            self._presence.add(changes)  # before any root holds them, whether one ever will or not
        made = change(self._nodes, top, changes)
        made.nodes.update(beside)
        return made

    def prepare(self, most: int, least: int, *, hurry: bool = False) -> Written | None:
        """Merge at most so many dirty entries into `ahead`; None when fewer than `least` are left.

        In a hurry the rounds end once they no longer become smaller: what is touched again and
        again would else put off the snapshot for ever.
        The caller stages the blobs that are new before it asks anything else.
        Neighbours in the trie go together, so that nearly no node is written twice.
        """
        merged, delta = self._merged, self.delta
        if not self._round:
            size = len(delta) - len(merged)
            if size < least:
                return None
            if hurry:
                if self._rounds >= ROUNDS and 4 * size > 3 * self._last:
                    return None
                self._rounds, self._last = self._rounds + 1, size
            left = (key for key in delta if key not in merged)
            self._round = sorted(left, key=self._path_of, reverse=True)
        keys, self._round = self._round[-most:], self._round[:-most]
        keys = [key for key in keys if key in delta and key not in merged]
        made = self._changed_by(self.top if self.ahead is None else self.ahead, keys)
        self.ahead = made.top
        merged.update(dict.fromkeys(keys))
        return made

    def unprepare(self) -> None:
        """Let what was merged into `ahead` go: the next snapshot merges it anew."""
        self.ahead = None
        self._merged.clear()
        self._round.clear()
        self._rounds = 0

    @property
    def unprepared(self) -> int:
        """How many entries the next snapshot lacks; more than anybody while a round goes on.

        A round goes over all that is dirty in order of path; a small one shares hardly a branch.
        """
        return _ROUND if self._round else len(self.delta) - len(self._merged)

    @property
    def filter_bytes(self) -> int:
        """What the filter before the index takes."""
        return 0 if self._presence is None else self._presence.size

    def mark(self, seq: int) -> None:
        """Begin to note what is touched after the snapshot recorded at `seq` was computed."""
        self._marked = seq
        if self._touched is None:
            self._touched = {}

    def promote(self, top: bytes, keys: list[bytes], seq: int) -> None:
        """The snapshot recorded at `seq` is durable: what was not touched since is clean.

        It leaves the delta with `clean`, some at a time: thousands at once would hold up who asks.
        Until then it is read there, and is what the index holds too.
        Snapshots become durable in their order; a later one may have been marked already.
        """
        self.clean(len(self._clean_keys))
        if self._touched is None:
            self.mark(seq)  # what is touched before it is cleaned is dirty
        self.top = top
        self._absent = None
        self.unprepare()
        self._clean_keys, self._clean_seq = keys[::-1], seq
        self._forget_touched()

    def clean(self, most: int) -> bool:
        """Let so many entries go that the last snapshot has made clean; False when none is left."""
        keys = self._clean_keys
        if not keys:
            return False
        delta, touched, seq = self.delta, self._touched or {}, self._clean_seq
        for key in keys[: -most - 1 : -1]:
            if key in delta and touched.get(key, -1) < seq:
                entry = delta.pop(key)
                if entry is not None:
                    self._keep(key, entry)
        del keys[-most:]
        self._forget_touched()
        return bool(keys)

    def _forget_touched(self) -> None:
        if not self._clean_keys and self._marked <= self._clean_seq:
            self._touched = None

    def entries(self, after: bytes = b"") -> Iterator[tuple[bytes, T]]:
        """Every (path, entry) behind a path, in order: for listings, never for a hot path."""
        places = [(self._path_of(key), key) for key in self.delta]
        changed = sorted(place for place in places if place[0] > after)
        at = 0
        for path, value in scan(self._nodes, self.top, after):
            while at < len(changed) and changed[at][0] < path:
                yield from self._changed(changed[at])
                at += 1
            if at < len(changed) and changed[at][0] == path:
                yield from self._changed(changed[at])
                at += 1
            else:
                yield path, self._decode(value)
        for place in changed[at:]:
            yield from self._changed(place)

    def paths_after(self, after: bytes, most: int) -> list[bytes]:
        """At most that many paths of the promoted index behind `after`, in order."""
        found: list[bytes] = []
        for path, _ in scan(self._nodes, self.top, after):
            found.append(path)
            if len(found) == most:
                break
        return found

    def _changed(self, place: tuple[bytes, bytes]) -> Iterator[tuple[bytes, T]]:
        path, key = place
        entry = self.delta[key]
        if entry is not None:
            yield path, entry

    def _keep(self, key: bytes, entry: T) -> None:
        hot = self._hot
        hot[key] = entry
        if len(hot) > self._most:
            hot.popitem(last=False)


class Calendar:
    """What is due when, in order of time: timers, owner timeouts, fence expiry.

    The path is the due time (8 bytes) and an id, so order of path is order of time.
    Promoted entries are loaded in chunks, so a million parked timers cost no memory.
    """

    __slots__ = ("_chunk", "_cursor", "_far", "_heap", "store")

    def __init__(self, nodes: Nodes, top: bytes = EMPTY, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self.store: Store[bytes] = Store(nodes, _same, _same, top=top)
        self._heap: list[bytes] = []
        self._cursor: bytes | None = b"" if top != EMPTY else None
        self._far = False  # what is far off may be in memory without need

    def twin(self) -> Calendar:
        """A calendar with the same entries."""
        made = Calendar.__new__(Calendar)
        made._chunk = self._chunk  # noqa: SLF001 - of its own kind
        made.store = self.store.twin(_same)
        made._heap = list(self._heap)  # noqa: SLF001 - of its own kind
        made._cursor = self._cursor  # noqa: SLF001 - of its own kind
        made._far = False  # noqa: SLF001 - of its own kind
        return made

    def add(self, due_ns: int, ident: bytes) -> None:
        """Enter an id under its time."""
        path = due_ns.to_bytes(8, "big") + ident
        self.store.put(path, b"")
        heappush(self._heap, path)

    def remove(self, due_ns: int, ident: bytes) -> None:
        """Strike an id out; the heap forgets it when it comes up."""
        self.store.remove(due_ns.to_bytes(8, "big") + ident)

    def empty(self) -> bool:
        """True when nothing at all is entered; False may also mean: only what is struck out."""
        return not self._heap and self._cursor is None

    def first(self) -> tuple[int, bytes] | None:
        """The earliest (time, id), or None."""
        path = self._pop()
        if path is None:
            return None
        heappush(self._heap, path)
        return int.from_bytes(path[:8], "big"), path[8:]

    def due(self, upto_ns: int, most: int) -> list[tuple[int, bytes]]:
        """At most that many entries due at or before a time, earliest first; removes nothing."""
        found: list[tuple[int, bytes]] = []
        taken: list[bytes] = []
        while len(found) < most:
            path = self._pop()
            if path is None:
                break
            taken.append(path)
            due_ns = int.from_bytes(path[:8], "big")
            if due_ns > upto_ns:
                break
            found.append((due_ns, path[8:]))
        for path in taken:
            heappush(self._heap, path)
        return found

    def promote(self, top: bytes, paths: list[bytes], seq: int) -> None:
        """As for a store; what is struck out leaves memory, and so does what is far off, later."""
        struck = self.store.delta
        self._heap = [path for path in self._heap if struck.get(path, b"") is not None]
        heapify(self._heap)
        self.store.promote(top, paths, seq)
        self._far = True

    def clean(self, most: int) -> bool:
        """As for a store; at the end, what is clean and far off is left to be loaded when near."""
        if self.store.clean(most):
            return True
        if self._far:
            self._far = False
            self._leave_far()
        return False

    def _leave_far(self) -> None:
        # All that the index holds up to the cursor is in the heap, so it may move back freely.
        heap, kept = sorted(self._heap), _CHUNKS * self._chunk
        if len(heap) > kept and (self._cursor is None or heap[kept] < self._cursor):
            self._cursor = heap[kept]
        if self._cursor is not None:
            dirty, near = self.store.delta, self._cursor
            heap = [path for path in heap if path <= near or path in dirty]
        self._heap = heap

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
        chunk = self.store.paths_after(self._cursor, self._chunk)
        for path in chunk:
            heappush(self._heap, path)
        self._cursor = chunk[-1] if len(chunk) == self._chunk else None
