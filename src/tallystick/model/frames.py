"""Frames: the records that become durable together, in a hash chain (D9).

The hashed body is `{v, world, seq, prev, records}`.
Who wrote a frame and when (epoch, flush time) stand beside the body, not in it: a history does
not depend on its writer.
Numbering is gap-free from 1; `prev` is the hash of the frame before, 32 zero bytes at genesis,
and in a fork the parent's frame hash at the fork point.
"""

# tidy: how a frame is written, read and chained is one form.

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import JournalCorrupt, NotCanonical
from tallystick.model import hot
from tallystick.model.hot_effects import put_opened
from tallystick.model.hot_items import (
    DIGEST,
    NAT,
    NUMBERS,
    TEXT,
    TEXTS,
    get,
    key,
    pattern,
)
from tallystick.model.hot_read import read_records
from tallystick.model.records import (
    ASKED,
    WORKFLOW,
    IntentOpened,
    Record,
    Ticked,
    load_records,
)
from tallystick.model.tuples import make
from tallystick.values import canon, large

GENESIS: Final = bytes(32)

_VERSION: Final = canon.put_key("v") + canon.put_int(1)
_HEAD: Final = canon.PREFIX + canon.head(5, 5) + _VERSION + canon.put_key("seq")
_PREV: Final = canon.put_key("prev") + canon.head(2, 32)
_WORLD: Final = canon.put_key("world")
_RECORDS: Final = canon.put_key("records")
_NAMES: Final = canon.NAMES
_NUMBERS: Final = canon.NUMBERS
_PUT: Final = hot.PUT


class _Starts(dict[str, bytes]):
    """What stands between the chain and the number of records: the world."""

    def __missing__(self, world: str) -> bytes:
        made = _WORLD + _NAMES[world] + _RECORDS
        if len(self) < _STARTS_MAX:
            self[world] = made
        return made


_STARTS_MAX: Final = 4096
_STARTS: Final[dict[str, bytes]] = _Starts()
_LISTS: Final = tuple(canon.head(4, n) for n in range(24))


class Sealed(NamedTuple):
    """A frame as it is stored: its place, its hash and its body."""

    world: str
    seq: int
    last: int
    prev: bytes
    hash: bytes
    body: bytes


class FrameHeader(NamedTuple):
    """What listings show of a frame."""

    world: str
    first_seq: int
    last_seq: int
    prev_hash: bytes
    hash: bytes
    epoch: int
    flushed_ns: int
    records: int


class Damage(NamedTuple):
    """The first place where a chain is broken."""

    seq: int
    what: str


def seal_frame(world: str, seq: int, prev: bytes, records: Sequence[Record]) -> Sealed:
    """Encode and chain the records of one frame; `seq` is the number of the first."""
    body = frame_body(world, seq, prev, records)
    last = seq + len(records) - 1
    return make(Sealed, (world, seq, last, prev, sha256(body).digest(), body))


def frame_body(world: str, seq: int, prev: bytes, records: Sequence[Record]) -> bytes:
    """What is hashed of such a frame."""
    n = len(records)
    assert n, "a frame holds at least one record"
    first = records[0]
    if n == 1:
        put = _PUT[type(first)](first)
        return b"".join((_HEAD, _NUMBERS[seq], _PREV, prev, _STARTS[world], _LISTS[1], put))
    count = _LISTS[n] if n < 24 else canon.head(4, n)
    out = [_HEAD, _NUMBERS[seq], _PREV, prev, _STARTS[world], count]
    if type(first) is Ticked:
        out.append(_PUT[Ticked](first))
        _put_asked(out, records, seq)
    else:
        for record in records:
            out.append(_PUT[type(record)](record))  # noqa: PERF401 - a list of its own costs more
    return b"".join(out)


def _put_asked(out: list[bytes], records: Sequence[Record], seq: int) -> None:
    """What stands behind a tick: its intents do not say again that they are its own (`placed`)."""
    tick = records[0]
    assert type(tick) is Ticked, "its caller has looked"
    index = 0
    record: Any
    for record in records[1:]:
        kind = type(record)
        if kind is IntentOpened:
            own = record[4] == (WORKFLOW, tick[0], tick[2], tick[1], seq, index)
            out.append(put_opened(record, own=own))
        else:
            out.append(_PUT[kind](record))
        index += kind in ASKED


Opened = tuple[str, int, bytes, list[Record]]
"""World, first seq, previous hash and records of a body."""

_OPENING: Final = pattern(
    re.escape(_HEAD),
    get(NAT),
    re.escape(_PREV),
    get(DIGEST),
    key("world"),
    get(rb"\x78\x24.{36}|" + TEXT),  # an id of the usual length is not searched for its end
    key("records"),
    get(rb"[\x81-\x97]|\x98[\x18-\xff]"),
)


_COUNTS: Final = {canon.head(4, n): n for n in range(1, 24)}


def _start(world: str, seq: int, prev: bytes) -> bytes:
    return b"".join((_HEAD, canon.put_int(seq), _PREV, prev, _STARTS[world]))


# How a tick begins: no other record has so many fields and a key as the first of them.
_TICKS: Final = frozenset([bytes((head,)) + canon.put_key("key") for head in range(0xAC, 0xB8)])


def is_tick(frame: Sealed) -> bool:
    """True for the frame of a tick in its usual form; False may also mean: read it to know."""
    body = frame.body
    start = _start(frame.world, frame.seq, frame.prev)
    at = len(start)
    at += 2 if body.startswith(b"\x98", at) else 1  # behind how many records there are
    return body[at : at + 5] in _TICKS and body.startswith(start)


def next_records(frame: Sealed, seq: int, prev: bytes) -> list[Record] | None:
    """The records of a frame that begins at `seq` behind `prev`; None says: open it to know.

    How such a frame begins is known, so its bytes are compared instead of read.
    """
    body = frame.body
    start = _start(frame.world, seq, prev)
    at = len(start)
    n = _COUNTS.get(body[at : at + 1])
    if n is None or not body.startswith(start):
        return None
    try:
        records, end = read_records(body, at + 1, n, seq)
    except (NotCanonical, JournalCorrupt, ValueError):
        return None
    return records if end == len(body) else None


def open_frame(body: bytes) -> Opened:
    """World, first seq, previous hash and records of a body; refuses anything unknown."""
    found = _OPENING.match(body)
    if found is None:
        return open_plainly(body)
    first, prev, world, count = found.groups()
    n = count[0] - 0x80 if len(count) == 1 else count[1]
    seq = NUMBERS[first]
    try:
        records, at = read_records(body, found.end(), n, seq)
        name = TEXTS[world]
    except (NotCanonical, JournalCorrupt, ValueError):
        return open_plainly(body)  # which says where and why
    if at != len(body) or seq == 0:
        return open_plainly(body)
    return name, seq, prev, records


def open_plainly(body: bytes) -> Opened:
    """As `open_frame`, by the general reader: it decides about all that is not as usual."""
    try:
        raw = large.decode(body)  # what settles together may be many values
    except NotCanonical as why:
        raise JournalCorrupt(
            f"frame body is not canonical: {why.message}",
            code="journal.corrupt",
            where={"offset": why.offset, "cbor": why.code},
        ) from why
    return open_value(raw)


def open_value(raw: Any) -> Opened:
    """World, first seq, previous hash and records of a body that is decoded already."""
    if type(raw) is not dict or raw.keys() != {"v", "world", "seq", "prev", "records"}:
        raise JournalCorrupt("frame body holds other fields than it must", code="record.malformed")
    if raw["v"] != 1:
        raise JournalCorrupt(
            f"frame format {raw['v']!r} is not known",
            code="record.unknown_type",
            hint="a newer release wrote this journal: read it with that release",
        )
    _check_types(raw)
    return raw["world"], raw["seq"], raw["prev"], load_records(raw["records"], raw["seq"])


def _check_types(raw: dict[str, Any]) -> None:
    good = (
        type(raw["world"]) is str
        and type(raw["seq"]) is int
        and raw["seq"] >= 1
        and type(raw["prev"]) is bytes
        and len(raw["prev"]) == 32
        and type(raw["records"]) is list
        and raw["records"]
    )
    if not good:
        raise JournalCorrupt("frame body has a field of the wrong type", code="record.malformed")


def verify_chain(
    frames: Iterable[Sealed],
    *,
    world: str,
    after: tuple[int, bytes] = (0, GENESIS),
    upto: tuple[int, bytes] | None = None,
) -> Damage | None:
    """The first damage of a chain, or None.

    `after` is the last good (seq, hash) before the frames.
    `upto` is a checkpoint's (seq, hash): a chain cut below it, or other than it, is damage.
    """
    seq, prev = after
    seen = upto is None or upto == after
    for frame in frames:
        fault = _fault_of(frame, world, seq, prev)
        if fault is not None:
            return Damage(seq + 1, fault)
        seq, prev = frame.last, frame.hash
        if upto is not None and seq == upto[0]:
            if prev != upto[1]:
                return Damage(frame.seq, "frame differs from the checkpoint")
            seen = True
    if not seen:
        return Damage(seq + 1, "journal ends before the checkpoint")
    return None


def _fault_of(frame: Sealed, world: str, seq: int, prev: bytes) -> str | None:
    if sha256(frame.body).digest() != frame.hash:
        return "frame body does not match its hash"
    try:
        body_world, first, body_prev, records = open_frame(frame.body)
    except JournalCorrupt as why:
        return why.message
    if body_world != world or frame.world != world:
        return "frame belongs to another world"
    if first != seq + 1 or frame.seq != first:
        return f"sequence {first} follows {seq}"
    if body_prev != prev or frame.prev != prev:
        return "frame does not chain to the one before"
    if frame.last != first + len(records) - 1:
        return "frame's last sequence does not match its records"
    return None
