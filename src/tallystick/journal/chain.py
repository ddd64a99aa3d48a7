"""The chain under a glass: every frame's hash and place, every seal, and what frames name.

A frame whose bytes match its hash, and whose hash the next frame names, is what was written.
So records are only read where there is something to check in them: a seal, a key, a blob that they
name, a manifest, a snapshot.
Looking for those by the bytes of their names may find too much, in content of users, and never too
little, as there is one encoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import JournalCorrupt
from tallystick.journal.base import WorldRow
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import (
    BundleActivate,
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    KeyTrusted,
    ReceiptSettled,
    Record,
    SnapshotTaken,
    Ticked,
)
from tallystick.values import canon
from tallystick.values.seal import SealCache, receipt_statement


class Finding(NamedTuple):
    """Something that is not as it was written; `seq` is the first sequence that it touches."""

    seq: int
    where: str
    what: str


def _key(name: str) -> bytes:
    return canon.put_key(name)


_DIGEST: Final = canon.head(2, 32)
_HEADER: Final = re.compile(
    re.escape(canon.PREFIX + canon.head(5, 5) + _key("v") + canon.put_int(1) + _key("seq"))
    + rb"([\x00-\x17]|\x18.|\x19..|\x1a.{4}|\x1b.{8})"
    + re.escape(_key("prev") + _DIGEST)
    + rb"(.{32})"
    + re.escape(_key("world"))
    + rb"(?:([\x60-\x77])|\x78(.))",
    re.DOTALL,
)
_MOST: Final = 2**62
_RECORDS: Final = _key("records")
# Records with something to check in them, by the bytes that only they must hold.
_MARKS: Final = (
    canon.put_text("ReceiptSettled"),
    canon.put_text("KeyTrusted"),
    canon.put_text("BundleActivate"),
    canon.put_text("SnapshotTaken"),
    *(_key(name) + _DIGEST for name in ("value_hash", "params_hash", "payload_hash")),
    _key("blobs") + b"\x81",
)
# A state that a tick left by its hash alone; an inline one follows its hash at once.
_STATE: Final = re.compile(
    re.escape(_key("after") + _DIGEST) + rb".{32}(?!" + re.escape(_key("state")) + rb")", re.DOTALL
)
# `effect`, `intent` and `judged` stand side by side in the record that opens an intent.
_OPENED: Final = re.compile(
    re.escape(_key("effect"))
    + rb"(?:[\x60-\x77]|\x78.)([ -~]{1,255}?)"
    + re.escape(_key("intent") + _DIGEST)
    + rb"(.{32})"
    + re.escape(_key("judged")),
    re.DOTALL,
)
_OPENED_MARK: Final = canon.put_text("IntentOpened")


class Header(NamedTuple):
    """What a body says of its place."""

    world: str
    seq: int
    prev: bytes
    records: int


def header_of(body: bytes) -> Header | None:
    """The place that a body claims, without reading its records; None when it has another form."""
    found = _HEADER.match(body)
    if found is None:
        return None
    seq, prev, short, long = found.groups()
    size = short[0] - 0x60 if short is not None else long[0]
    end = found.end() + size
    at = end + len(_RECORDS)
    if body[end:at] != _RECORDS or not 0x81 <= (head := body[at]) <= 0x9A:
        return None
    wide = {0x98: 1, 0x99: 2, 0x9A: 4}.get(head, 0)
    count = int.from_bytes(body[at + 1 : at + 1 + wide], "big") if wide else head - 0x80
    name = body[found.end() : end].decode("utf-8", "replace")
    number = seq[0] if len(seq) == 1 else int.from_bytes(seq[1:], "big")
    return Header(name, number, prev, count)


class Chain:
    """Takes the frames of a world one by one; keeps counts, findings and what is asked later."""

    def __init__(
        self, line: Sequence[WorldRow], after: tuple[int, bytes], has: Callable[[bytes], bool]
    ) -> None:
        self.seq, self.prev = after
        self.frames = self.records = self.sealed = self.bad_seals = 0
        self.findings: list[Finding] = []
        self.taken: dict[int, bytes] = {}
        self.manifests: dict[bytes, int] = {}
        self.keys: dict[str, bytes] = {}
        self.missing: dict[bytes, int] = {}
        self._has = has
        # Behind a floor, or in the newest part, what came before is known by a snapshot at best.
        self._partial = self.seq > 0
        self._effects: dict[bytes, list[str]] = {}
        self._seals = SealCache()
        # Whose frames stand where: a fork's prefix is its parent's.
        self._owners = [(row.world, row.fork_seq or 0) for row in line]
        self._owner, self._ends = "", self.seq
        while len(self._owners) > 1 and self._owners[-2][1] <= self.seq:
            self._owners.pop()

    def take(self, frame: Sealed) -> bool:
        """Check one frame; False when the chain is broken here and nothing behind it counts."""
        fault = self._fault(frame)
        if fault is not None:
            self.findings.append(Finding(self.seq + 1, "frame", fault))
            return False
        self.frames += 1
        self.records += frame.last - frame.seq + 1
        self.seq, self.prev = frame.last, frame.hash
        body = frame.body
        if _OPENED_MARK in body:
            for effect, intent in _OPENED.findall(body):
                self._effects.setdefault(intent, []).append(effect.decode())
        for mark in _MARKS:
            if mark in body:
                return self._look(frame)
        return _STATE.search(body) is None or self._look(frame)

    def _fault(self, frame: Sealed) -> str | None:
        if sha256(frame.body).digest() != frame.hash:
            return "its bytes do not match its hash"
        says = header_of(frame.body)
        if says is None:
            return "its bytes are no frame that this release knows"
        if self.seq >= self._ends:
            self._own()
        if says.world != self._owner or frame.world != self._owner:
            return "it belongs to another world"
        if says.seq != self.seq + 1 or frame.seq != says.seq:
            return f"sequence {says.seq} follows {self.seq}"
        if says.prev != self.prev or frame.prev != says.prev:
            return "it does not name the frame before"
        if frame.last != says.seq + says.records - 1:
            return "its last sequence does not match its records"
        return None

    def _own(self) -> None:
        """Find out whose frames come next, and up to where."""
        self._owner = self._owners.pop()[0]
        self._ends = self._owners[-1][1] if self._owners else _MOST

    # ---- records ------------------------------------------------------------------------------

    def know(self, keys: Mapping[str, bytes], effects: Mapping[bytes, str]) -> None:
        """What held before the first frame: trusted keys, and the effects of open intents."""
        self.keys.update(keys)
        self._effects.update((intent, [effect]) for intent, effect in effects.items())

    def _look(self, frame: Sealed) -> bool:
        try:
            records = open_frame(frame.body)[3]
        except JournalCorrupt as why:
            self.findings.append(Finding(frame.seq, "frame", why.message))
            return False
        for seq, record in enumerate(records, frame.seq):
            for digest in named_by(record):
                if not self._has(digest):
                    self.missing.setdefault(digest, seq)
            if isinstance(record, ReceiptSettled):
                self._receipt(frame.world, seq, record)
            elif isinstance(record, KeyTrusted):
                self.keys[record.key] = record.public_key
            elif isinstance(record, SnapshotTaken):
                self.taken[seq - 1] = record.root
            elif isinstance(record, BundleActivate):
                self.manifests.setdefault(record.to, seq)
        return True

    def _receipt(self, world: str, seq: int, record: ReceiptSettled) -> None:
        if record.seal is None:
            return  # the kernel's own: the chain covers it
        effects = self._effects.pop(record.intent, [])
        public = self.keys.get(record.key_id or "")
        if self._partial and (not effects or public is None):
            return  # its other half stands before what we look at
        # A rejected receipt was sealed under what its executor claimed, and may be cut short.
        statuses = ("ok", "error") if record.status == "rejected" else (record.status,)
        good = any(
            self._seals.verify(public, statement, dict(record.seal))
            for effect in effects
            for statement in _statements(world, effect, record, statuses)
        )
        self.sealed += 1
        if not good and record.status != "rejected":
            self.bad_seals += 1
            self.findings.append(Finding(seq, "receipt", "its seal is not of a trusted key"))


def _statements(
    world: str, effect: str, record: ReceiptSettled, statuses: Sequence[str]
) -> Iterator[bytes]:
    digest = record.payload_hash
    if record.payload is not None:
        digest = sha256(record.payload).digest()
    usage: Mapping[str, Any] | None = record.usage
    for status in statuses:
        yield receipt_statement(
            world=world,
            intent=canon.text_of(record.intent),
            effect=effect,
            status=status,
            payload_hash=canon.text_of(digest or bytes(32)),
            executor=record.executor,
            attempt=record.attempt,
            started_ns=record.started_ns,
            ended_ns=record.ended_ns,
            usage=usage,
        )


def named_by(record: Record) -> Iterator[bytes]:
    """The blobs that a record cannot be folded without."""
    if isinstance(record, EventAdmitted):
        if record.value is None and record.value_hash is not None:
            yield record.value_hash
    elif isinstance(record, Ticked):
        if record.state is None and record.after is not None:
            yield record.after
        yield from record.blobs or ()
    elif isinstance(record, IntentOpened | IntentDenied):
        if record.params is None and record.params_hash is not None:
            yield record.params_hash
    elif isinstance(record, ReceiptSettled):
        if record.payload is None and record.payload_hash is not None:
            yield record.payload_hash
    elif isinstance(record, BundleActivate):
        yield record.to
