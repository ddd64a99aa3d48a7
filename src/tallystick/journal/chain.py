"""The chain under a glass: every frame's hash and place, every seal, and what frames name.

A frame whose bytes match its hash, and whose hash the next frame names, is what was written.
Every record is read: one that this release does not know is a finding, not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

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


_HEADER: Final = re.compile(
    re.escape(canon.PREFIX + canon.head(5, 5) + _key("v") + canon.put_int(1) + _key("seq"))
    + rb"([\x00-\x17]|\x18.|\x19..|\x1a.{4}|\x1b.{8})"
    + re.escape(_key("prev") + canon.head(2, 32))
    + rb"(.{32})"
    + re.escape(_key("world"))
    + rb"(?:([\x60-\x77])|\x78(.))",
    re.DOTALL,
)
_MOST: Final = 2**62
_RECORDS: Final = _key("records")


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
    if body[end:at] != _RECORDS or at == len(body) or not 0x81 <= (head := body[at]) <= 0x9A:
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
        self._effects: dict[bytes, str] = {}
        self._seals = SealCache()
        # Whose frames stand where: a fork's prefix is its parent's.
        self._owners = [(row.world, row.fork_seq or 0) for row in line]
        self._owner, self._ends = "", self.seq
        while len(self._owners) > 1 and self._owners[-2][1] <= self.seq:
            self._owners.pop()

    def take(self, frame: Sealed) -> bool:
        """Check one frame; False when the chain is broken here and nothing behind it counts."""
        try:
            world, seq, prev, records = open_frame(frame.body)
            fault = self._fault(frame, (world, seq, prev, len(records)))
        except JournalCorrupt as why:
            records, fault = [], why.message
        if sha256(frame.body).digest() != frame.hash:
            fault = "its bytes do not match its hash"
        if fault is not None:
            self.findings.append(Finding(self.seq + 1, "frame", fault))
            return False
        self.frames += 1
        self.records += len(records)
        self.seq, self.prev = frame.last, frame.hash
        for seq, record in enumerate(records, frame.seq):
            self._look(frame.world, seq, record)
        return True

    def _fault(self, frame: Sealed, says: tuple[str, int, bytes, int]) -> str | None:
        world, seq, prev, count = says
        if self.seq >= self._ends:
            self._own()
        if world != self._owner or frame.world != world:
            return "it belongs to another world"
        if seq != self.seq + 1 or frame.seq != seq:
            return f"sequence {seq} follows {self.seq}"
        if prev != self.prev or frame.prev != prev:
            return "it does not name the frame before"
        if frame.last != seq + count - 1:
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
        self._effects.update(effects)

    def _look(self, world: str, seq: int, record: Record) -> None:
        for digest in named_by(record):
            if not self._has(digest):
                self.missing.setdefault(digest, seq)
        if isinstance(record, IntentOpened):
            self._effects[record.intent] = record.effect
        elif isinstance(record, ReceiptSettled):
            self._receipt(world, seq, record)
        elif isinstance(record, KeyTrusted):
            self.keys[record.key] = record.public_key
        elif isinstance(record, SnapshotTaken):
            self.taken[seq - 1] = record.root
        elif isinstance(record, BundleActivate):
            self.manifests.setdefault(record.to, seq)

    def _receipt(self, world: str, seq: int, record: ReceiptSettled) -> None:
        if record.seal is None:
            return  # the kernel's own: the chain covers it
        effect = self._effects.pop(record.intent, None)
        public = self.keys.get(record.key_id or "")
        if self._partial and (effect is None or public is None):
            return  # its other half stands before what we look at
        # A rejected receipt was sealed under what its executor claimed, and may be cut short.
        statuses = ("ok", "error") if record.status == "rejected" else (record.status,)
        good = effect is not None and any(
            self._seals.verify(public, _statement(world, effect, status, record), record.seal)
            for status in statuses
        )
        self.sealed += 1
        if not good and record.status != "rejected":
            self.bad_seals += 1
            self.findings.append(Finding(seq, "receipt", "its seal is not of a trusted key"))


def _statement(world: str, effect: str, status: str, record: ReceiptSettled) -> bytes:
    """What the seal of a receipt must cover."""
    digest = record.payload_hash
    if record.payload is not None:
        digest = sha256(record.payload).digest()
    return receipt_statement(
        world=world,
        intent=canon.text_of(record.intent),
        effect=effect,
        status=status,
        payload_hash=canon.text_of(digest or bytes(32)),
        executor=record.executor,
        attempt=record.attempt,
        started_ns=record.started_ns,
        ended_ns=record.ended_ns,
        usage=record.usage,
    )


def named_by(record: Record) -> Iterator[bytes]:
    """The blobs that a record cannot be folded without."""
    if isinstance(record, EventAdmitted):
        if record.value is None and record.value_hash is not None:
            yield record.value_hash
    elif isinstance(record, Ticked):
        # A tick that keeps the state only names it: the bytes are with the record that made it.
        if record.state is None and record.after not in (None, record.before):
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
