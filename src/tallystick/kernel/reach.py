"""Reachability: what garbage collection must keep (K-44, I21).

Marking starts from pinned snapshots, from the journal tail behind the oldest of them, and from
what is open; typed `hash` fields and blob edges are followed.
Whatever is not marked here is not named by anything that can still be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.kernel.index import EMPTY, Blobs, Branch, name_of, read_node
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.snapshot import tops_of
from tallystick.model.catalogue import Catalogue
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import (
    BundleActivate,
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    ProgressNoted,
    Proposed,
    Proved,
    ReceiptSettled,
    Record,
    Shadowed,
    Ticked,
)
from tallystick.values import canon, large
from tallystick.values.schema import Schema

EDGE: Final = "blob_edge@1"
INPUTS: Final = "manifest@1"  # what a run read, by pages (08, R5)
ROWS: Final = "rows@1"  # a long list beside the state of a cell of reactions
TREE: Final = "tree@1"  # a directory of a watched workspace (08, R1)
_HASH_TEXT: Final = 71

CatalogueOf = Callable[[bytes], Catalogue]

# What a blob was met as. Each role is followed in its own way: whoever can name a digest in a value
# must not hide from the mark what stands below a node of an index.
_NAMED: Final = 1
_NODE: Final = 2
_MANIFEST: Final = 4
_SNAPSHOT: Final = 8


class Marks:
    """The names that must be kept; each is followed once in each of its roles.

    A name is a digest, and behind it a place where a node has one.
    """

    def __init__(self, blobs: Blobs, catalogue_of: CatalogueOf | None = None) -> None:
        """Without catalogues every hash in a value is a name, of whatever schema it is."""
        self._blobs = blobs
        self._catalogue_of = catalogue_of
        self._manifest = EMPTY
        self.kept: dict[bytes, int] = {}

    def digests(self) -> frozenset[bytes]:
        """All that was marked."""
        return frozenset(self.kept)

    # ---- roots ------------------------------------------------------------------------------

    def snapshot(self, digest: bytes) -> None:
        """Everything that a pinned snapshot reaches."""
        if not self._new(digest, _SNAPSHOT):
            return
        raw = large.decode(read_blob(self._blobs, digest))
        for *held, _votes, end, _code in raw.get("governance", {}).get("proposals", {}).values():
            if end is None:
                self._proposal(held)
        self.manifest(raw["manifest"])
        for name, top in tops_of(raw).items():
            if top[32:]:
                self._new(top[:32], _NODE)  # taken from elsewhere, it lies under its digest
            self._trie(top, self._leaf_marker(name))

    def index(self, top: bytes) -> None:
        """The nodes of an index that a live world still reads."""
        if top != EMPTY:
            self._trie(top, lambda _value: None)

    def tail(self, frames: Iterable[Sealed]) -> None:
        """Everything that journal frames name."""
        for frame in frames:
            for record in open_frame(frame.body)[3]:
                self.record(record)

    def manifest(self, digest: bytes) -> None:
        """A manifest, its definitions and its artifacts."""
        self._manifest = digest
        if not self._new(digest, _MANIFEST):
            return
        self._texts(canon.decode(read_blob(self._blobs, digest)))

    def record(self, record: Record) -> None:
        """What one record names."""
        if isinstance(record, BundleActivate):
            self._any(record.bundle)
            self._any(record.plan)
            self._any(record.report_hash)
            self.manifest(record.to)
        elif isinstance(record, Proposed):
            self._proposed(record)
        elif isinstance(record, Shadowed | Proved):
            self._any(record.report_hash)
        elif isinstance(record, Ticked):
            self._state(record.workflow, record.state, record.after)
            for digest in record.blobs or ():
                self._any(digest)
        elif isinstance(record, EventAdmitted):
            self._any(record.value_hash)
            self._typed(record.schema, record.value or self._read(record.value_hash))
            for target in record.to:
                self._texts_of(target.value)
                self._texts_of(target.init)
        elif isinstance(record, IntentOpened | IntentDenied):
            self._intent(record)
        elif isinstance(record, ReceiptSettled):
            self._large(record.payload, record.payload_hash)
        elif isinstance(record, ProgressNoted):
            self._texts_of(record.payload)

    def _proposed(self, record: Proposed) -> None:
        """A candidate is kept like the active one, which stays the one that readers go by."""
        active = self._manifest
        self._any(record.bundle)
        self._any(record.patch)
        self.manifest(record.manifest)
        self._manifest = active

    def _proposal(self, held: list[Any]) -> None:
        """What an open proposal of a snapshot names: base, bundle, manifest, patch, reports."""
        _, bundle, manifest, patch, _, report, _, proof = held
        for digest in (bundle, patch, report, proof):
            self._any(digest)
        self.manifest(manifest)

    def _intent(self, record: IntentOpened | IntentDenied) -> None:
        self._large(record.params, record.params_hash)

    # ---- tries ------------------------------------------------------------------------------

    def _trie(self, name: bytes, leaf: Callable[[bytes], None]) -> None:
        if not self._new(name, _NODE):
            return
        node = read_node(self._blobs, name)
        if isinstance(node, Branch):
            for way in range(16):
                kid = node.kid(way)
                if kid is not None:
                    self._trie(name_of(kid), leaf)
        else:
            leaf(node.value)

    def _leaf_marker(self, name: str) -> Callable[[bytes], None]:
        if name.startswith("cell:"):
            return lambda value: self._cell(name[5:], value)
        if name in ("intents", "keyed"):
            return self._intent_leaf
        return lambda _value: None

    def _cell(self, workflow: str, value: bytes) -> None:
        raw = canon.decode(value)
        self._any(raw["inflight"])
        pin = self._pin_of(raw["inflight"])
        active = self._manifest
        if pin is not None:
            self.manifest(pin)
        self._state(workflow, raw["state"], raw["state_hash"])
        self._manifest = active
        if raw["mailbox"] is not None:
            self._any(raw["mailbox"])
            for entry in large.decode(read_blob(self._blobs, raw["mailbox"])):
                self._large(entry["value"], entry["value_hash"])
                self._texts_of(entry["init"])

    def _pin_of(self, bonds: bytes | None) -> bytes | None:
        """The manifest of a pinned cell, which must stay as long as the cell."""
        if bonds is None:
            return None
        pin: bytes | None = large.decode(read_blob(self._blobs, bonds)).get("pin")
        return pin

    def _intent_leaf(self, value: bytes) -> None:
        raw = canon.decode(value)
        self._any(raw["manifest"])
        self.manifest(raw["manifest"])
        for name in ("record", "opened", "settled"):
            if raw.get(name) is not None:
                inner = canon.decode(raw[name])
                self._large(inner.get("params"), inner.get("params_hash"))
                self._large(inner.get("payload"), inner.get("payload_hash"))

    # ---- values -----------------------------------------------------------------------------

    def _state(self, workflow: str, inline: bytes | None, digest: bytes | None) -> None:
        """A state that stands inline or by digest: both name what they hold."""
        self._any(digest)
        known = None
        if self._catalogue_of is not None:
            known = self._catalogue_of(self._manifest).workflows.get(workflow)
        data = inline if inline is not None else self._read(digest)
        if data is not None:
            self._hashes(None if known is None else known.state, data)

    def _typed(self, schema: str, data: bytes | None) -> None:
        if data is None:
            return
        known = None
        if self._catalogue_of is not None:
            known = self._catalogue_of(self._manifest).schemas.get(schema)
        self._hashes(known, data)

    def _hashes(self, schema: Schema | None, data: bytes) -> None:
        """The typed hashes of a document; all that look like one where it is of another schema.

        Pinned cells, and events of before an upgrade, are of schemas that are not the active ones.
        """
        try:
            if schema is not None:
                for text in schema.hashes(schema.plain(data)):
                    self._any(canon.raw_of(text))
                return
        except SchemaMismatch:
            pass
        self._texts(canon.decode(data))

    def _large(self, inline: bytes | None, digest: bytes | None) -> None:
        """A value that stands inline or by digest: both name what they hold."""
        self._any(digest)
        self._texts_of(inline if inline is not None else self._read(digest))

    def _texts_of(self, data: bytes | None) -> None:
        if data is None:
            return
        try:
            self._texts(canon.decode(data))
        except NotCanonical:
            return  # an unreadable payload is kept as evidence; it names nothing

    def _texts(self, value: Any) -> None:
        """Every hash in a value whose schema is not at hand: keeping too much is safe."""
        if type(value) is str:
            if len(value) == _HASH_TEXT and value.startswith("sha256:"):
                self._any(canon.raw_of(value))
        elif type(value) is dict:
            for inner in value.values():
                self._texts(inner)
        elif type(value) is list:
            for inner in value:
                self._texts(inner)

    def _read(self, digest: bytes | None) -> bytes | None:
        return None if digest is None else self._blobs.get(digest)

    def _any(self, digest: bytes | None) -> None:
        """Mark a blob; follow it when it is an edge or a definition."""
        if digest is None or not self._new(digest, _NAMED):
            return
        data = self._blobs.get(digest)
        if data is None or not data.startswith(canon.PREFIX):
            return
        try:
            raw = canon.decode(data)
        except NotCanonical:
            return  # content of a user that only begins like a document
        if type(raw) is dict:
            if raw.get("$type") in (EDGE, ROWS) or "$kind" in raw:
                self._texts(raw)
            elif raw.get("$type") == TREE and type(raw.get("entries")) is list:
                self._tree(raw["entries"])
            elif raw.get("$type") == INPUTS:
                self._texts([raw.get("files"), raw.get("outputs")])

    def _tree(self, entries: list[Any]) -> None:
        """The directories that a listing of a workspace's tree names by their raw hashes."""
        for row in entries:
            if type(row) is list and len(row) == 3 and row[1] == "d" and type(row[2]) is bytes:
                self._any(row[2])

    def _new(self, digest: bytes, role: int) -> bool:
        roles = self.kept.get(digest, 0)
        if roles & role:
            return False
        self.kept[digest] = roles | role
        return True
