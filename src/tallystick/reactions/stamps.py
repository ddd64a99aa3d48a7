"""Stamps: who wrote which bytes where, as the journal tells it (G1, F-10).

Theory of operation.
The intent of a write holds its stamp and is durable before the write, so a fold over records knows
every write of ours before any reader of the disk can see it.
A stamp is bound to the bytes that it announces: it says something about a file only while the file
hashes to its `post_id`, so an edit by anybody else voids it without a word.
The projection is made anew at any time by folding the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tallystick.model.records import EventAdmitted, IntentOpened, ReceiptSettled, Record
from tallystick.reactions.tree import fold
from tallystick.values import canon

WRITE: Final = "sys/file.write@1"
DELETE: Final = "sys/file.delete@1"
MOVED: Final = "sys/StampMoved@1"
INTENDED, COMMITTED, ADOPTED = "intended", "committed", "adopted"
PER_PATH_MAX: Final = 16
_UNDONE: Final = ("auth", "client_error", "conflict", "not_found", "scope")

Blob = Callable[[bytes], bytes | None]


class Stamp(NamedTuple):
    """Who was about to write which bytes; `post_id` None is a deletion."""

    workspace_id: str
    path: bytes
    post_id: str | None
    reaction: str
    run_id: str
    run_key: str
    definition_hash: str
    depth: int
    root_trigger_id: str
    lineage: tuple[str, ...]
    world: str | None = None  # another world's, read from the ledger of a shared directory
    state: str = INTENDED
    intent: bytes = b""

    @property
    def is_live(self) -> bool:
        """False once the file was given to the user."""
        return self.state != ADOPTED


class Stamps:
    """The stamps of a world by path and by content; `note` folds one record into them."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, bytes], list[Stamp]] = {}
        self._by_content: dict[str, dict[tuple[str, bytes], None]] = {}
        self._open: dict[bytes, tuple[str, bytes]] = {}
        self._folding: dict[str, dict[bytes, list[bytes]]] = {}

    def fold_names(self, workspace_id: str) -> None:
        """From now on names of a workspace that differ by case mean one file (R3)."""
        if workspace_id not in self._folding:
            names = self._folding[workspace_id] = {}
            for path in self.paths(workspace_id):
                names.setdefault(fold(path), []).append(path)

    def by_path(self, workspace_id: str, path: bytes) -> tuple[Stamp, ...]:
        """The stamps of a path, newest first; where names fold, of its other spellings too."""
        names = self._folding.get(workspace_id)
        spelled = [path] if names is None else names.get(fold(path), [])
        rows = (self._by_path.get((workspace_id, each), ()) for each in spelled)
        return tuple(stamp for stamps in rows for stamp in reversed(stamps))

    def by_content(self, content_id: str) -> tuple[Stamp, ...]:
        """The live stamps that announce these bytes, at whatever path."""
        places = self._by_content.get(content_id, {})
        found = [stamp for place in places for stamp in self._by_path.get(place, ())]
        return tuple(stamp for stamp in found if stamp.post_id == content_id and stamp.is_live)

    def matching(self, workspace_id: str, path: bytes, content_id: str | None) -> Stamp | None:
        """The newest live stamp of these bytes (None: absence) at this path."""
        for stamp in self.by_path(workspace_id, path):
            if stamp.post_id == content_id and stamp.is_live:
                return stamp
        return None

    def of_reaction(self, workspace_id: str, reaction: str) -> Iterator[bytes]:
        """The paths that a reaction has stamped and that were not given away."""
        for (workspace, path), rows in self._by_path.items():
            if workspace == workspace_id and any(
                s.reaction == reaction and s.is_live for s in rows
            ):
                yield path

    def paths(self, workspace_id: str) -> Iterator[bytes]:
        """Every path of a workspace that has stamps."""
        for workspace, path in self._by_path:
            if workspace == workspace_id:
                yield path

    def entries(self) -> list[Stamp]:
        """Every stamp in a fixed order: what two projections are compared by."""
        return [stamp for place in sorted(self._by_path) for stamp in self._by_path[place]]

    # ---- folding ----------------------------------------------------------------------------

    def note(self, record: Record, blob: Blob) -> None:
        """Fold one record; those that say nothing about files are passed over."""
        if isinstance(record, IntentOpened):
            if record.effect in (WRITE, DELETE):
                self._intended(record, blob)
        elif isinstance(record, ReceiptSettled):
            place = self._open.pop(record.intent, None)
            if place is not None:
                self._settled(place, record)
        elif isinstance(record, EventAdmitted) and record.schema == MOVED:
            data = record.value if record.value is not None else _read(record.value_hash, blob)
            self.moved(canon.decode(data))

    def add(self, stamp: Stamp) -> None:
        """Put one stamp on top of its path; the oldest over the limit goes."""
        place = (stamp.workspace_id, stamp.path)
        rows = self._by_path.setdefault(place, [])
        rows.append(stamp)
        names = self._folding.get(stamp.workspace_id)
        if names is not None and stamp.path not in (held := names.setdefault(fold(stamp.path), [])):
            held.append(stamp.path)
        if len(rows) > PER_PATH_MAX:
            self._forget(place, rows.pop(0))
        if stamp.post_id is not None:
            self._by_content.setdefault(stamp.post_id, {})[place] = None

    def moved(self, told: Mapping[str, Any]) -> None:
        """A person's word about a path: `adopt` gives it to the user, `forget` drops its stamps."""
        place = (told["workspace_id"], raw_path(told["path"]))
        rows = self._by_path.pop(place, [])
        if told["verb"] == "adopt":
            self._by_path[place] = [stamp._replace(state=ADOPTED) for stamp in rows]
            return
        for stamp in rows:
            self._forget(place, stamp)

    def _intended(self, record: IntentOpened, blob: Blob) -> None:
        data = record.params if record.params is not None else _read(record.params_hash, blob)
        params = canon.decode(data)
        if params["stamp"] is None:
            return
        stamp = stamp_of(params["workspace"], params["stamp"])._replace(intent=record.intent)
        self._open[record.intent] = (stamp.workspace_id, stamp.path)
        self.add(stamp)

    def _settled(self, place: tuple[str, bytes], record: ReceiptSettled) -> None:
        rows = self._by_path.get(place, [])
        for at, stamp in enumerate(rows):
            if stamp.intent == record.intent:
                if record.status == "ok":
                    rows[at] = stamp._replace(state=COMMITTED)
                elif _is_undone(record):
                    self._forget(place, rows.pop(at))
                return

    def _forget(self, place: tuple[str, bytes], stamp: Stamp) -> None:
        left = self._by_path.get(place, [])
        if stamp.post_id is not None and all(s.post_id != stamp.post_id for s in left):
            held = self._by_content.get(stamp.post_id, {})
            held.pop(place, None)
            if not held:
                self._by_content.pop(stamp.post_id, None)


def stamp_of(workspace_id: str, told: Mapping[str, Any], world: str | None = None) -> Stamp:
    """The stamp behind its record (`sys/FileStamp@1`)."""
    return Stamp(
        workspace_id,
        raw_path(told["path"]),
        told["post_id"],
        told["reaction"],
        told["run_id"],
        told["run_key"],
        told["definition_hash"],
        told["depth"],
        told["root_trigger_id"],
        tuple(told["lineage"]),
        world,
    )


def _is_undone(record: ReceiptSettled) -> bool:
    """True when the write has surely not happened.

    After a timeout, a cancellation, a failed sync or a receipt that nobody can read the bytes may
    be there: the stamp stays, and says something only where they are (I29).
    """
    if record.status != "error" or record.payload is None:
        return record.status == "denied"
    return canon.decode(record.payload)["kind"] in _UNDONE


def raw_path(path: str) -> bytes:
    """The raw bytes of a path that a write names."""
    return path.encode("utf-8", "surrogateescape")


def _read(digest: bytes | None, blob: Blob) -> bytes:
    data = None if digest is None else blob(digest)
    assert data is not None, "a record's value is inline or in the store"
    return data
