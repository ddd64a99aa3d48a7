"""Leaf forms: how the parts of a world stand in the index, so that a snapshot holds them all.

A leaf is small; what may be large (state, bonds, mail) stands beside it in the blob store and is
named by digest.
A small state stands in the leaf itself, so that a cold cell is one read (ADR 0009).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from tallystick.errors import BlobLost
from tallystick.kernel.index import Blobs
from tallystick.kernel.parts import Cell, Fence, Intent, Keyed, Mail, Waiter, bonds_of
from tallystick.model.cells import CellId
from tallystick.model.hot_items import (
    NUMBERS,
    SIZE,
    SIZES,
    TEXTS,
    get,
    key,
    may_digest,
    nat,
    number_of,
    pattern,
    size,
    text,
)
from tallystick.model.records import IntentOpened, Origin, ReceiptSettled, load_record, put_record
from tallystick.model.tuples import make
from tallystick.values import canon, large

LEAF_STATE_MAX: Final = 1024

Beside = dict[bytes, bytes]
Document = Callable[[Mail], bytes]


def read_blob(blobs: Blobs, digest: bytes) -> bytes:
    """The bytes behind a digest; a missing or damaged blob stops the world."""
    data = blobs.get(digest)
    if data is None or sha256(data).digest() != digest:
        name = canon.text_of(digest)
        raise BlobLost(f"blob {name} is missing or damaged", where={"blob": name})
    return data


def _set_beside(value: Any, beside: Beside) -> bytes:
    data = large.encode(value)  # mail of legal size, and many of it
    digest = sha256(data).digest()
    beside[digest] = data
    return digest


# ---- cells ----------------------------------------------------------------------------------


# tidy: the table of one leaf, written out.
def put_cell(cell: Cell, beside: Beside, document: Document, blobs: Blobs) -> bytes:
    """The leaf of a cell; `document` gives the value of a mailbox entry."""
    state = cell.state
    if cell.state_hash is None or cell.size > LEAF_STATE_MAX:
        if state is not None and cell.state_hash is not None:
            beside[cell.state_hash] = state
        state = None
    elif state is None:
        # Spilled: where it was kept meanwhile must not show in the leaf, nor in a root (I20).
        state = read_blob(blobs, cell.state_hash)
    bonds = _bonds(cell)
    mail = None
    if cell.mailbox:
        mail = _set_beside([_put_mail(entry, document) for entry in cell.mailbox], beside)
    own = cell.id.key
    # Every dirty cell is written for a root, so its keys stand in canonical order already.
    return b"".join(
        (
            _KEY,
            canon.OCTETS[len(own)],
            own,
            _SIZE,
            canon.put_int(cell.size),
            _STATE,
            _NULL if state is None else canon.put_bytes(state),
            _STATUS,
            canon.NAMES[cell.status],
            _MAILBOX,
            _put_digest(mail),
            _BORN,
            canon.put_int(cell.born_seq),
            _INFLIGHT,
            _put_digest(None if bonds is None else _set_beside(bonds, beside)),
            _LAST,
            canon.put_int(cell.last_seq),
            _STATE_HASH,
            _put_digest(cell.state_hash),
            _VERSION,
            canon.put_int(cell.state_version),
            _WORKFLOW_HASH,
            _put_digest(cell.workflow_hash),
            _ACTIVE,
            canon.put_int(cell.last_active_ns),
        )
    )


_NULL: Final = b"\xf6"
_KEY: Final = canon.PREFIX + canon.head(5, 12) + canon.put_key("key")
_SIZE: Final = canon.put_key("size")
_STATE: Final = canon.put_key("state")
_STATUS: Final = canon.put_key("status")
_MAILBOX: Final = canon.put_key("mailbox")
_BORN: Final = canon.put_key("born_seq")
_INFLIGHT: Final = canon.put_key("inflight")
_LAST: Final = canon.put_key("last_seq")
_STATE_HASH: Final = canon.put_key("state_hash")
_VERSION: Final = canon.put_key("state_version")
_WORKFLOW_HASH: Final = canon.put_key("workflow_hash")
_ACTIVE: Final = canon.put_key("last_active_ns")


def _put_digest(digest: bytes | None) -> bytes:
    return _NULL if digest is None else b"\x58\x20" + digest


_CELL_KEY: Final = pattern(re.escape(canon.PREFIX + canon.head(5, 12)), size("key"))
_CELL_STATE: Final = pattern(nat("size"), key("state"), rb"(?:\xf6|", get(SIZE), rb")")
_CELL_REST: Final = pattern(
    text("status"),
    may_digest("mailbox"),
    nat("born_seq"),
    may_digest("inflight"),
    nat("last_seq"),
    may_digest("state_hash"),
    nat("state_version"),
    may_digest("workflow_hash"),
    nat("last_active_ns"),
)


# tidy: the table of one leaf, written out.
def load_cell(workflow: str, value: bytes, blobs: Blobs) -> Cell:
    """The cell of a leaf; a state that stands beside it is read when a tick needs it.

    A cold cell pays for this, so the leaf is matched, not decoded (ADR 0010).
    """
    found = _CELL_KEY.match(value)
    assert found is not None, "a cell's leaf has one form"
    begin = found.end()
    at = begin + SIZES[found[1]]
    ident = make(CellId, (workflow, value[begin:at]))
    found = _CELL_STATE.match(value, at)
    assert found is not None, "a cell's leaf has one form"
    length, long = found.groups()
    begin = at = found.end()
    state = None
    if long is not None:
        at += SIZES[long]
        state = value[begin:at]
    found = _CELL_REST.fullmatch(value, at)
    assert found is not None, "a cell's leaf has one form"
    status, mail, born, bonds, last, state_hash, version, workflow_hash, active = found.groups()
    cell = Cell(ident, number_of(born))
    cell.state = state
    cell.state_hash = state_hash
    cell.state_version = NUMBERS[version]
    cell.size = NUMBERS[length]
    cell.last_active_ns = number_of(active)
    cell.status = TEXTS[status]
    cell.last_seq = number_of(last)
    cell.workflow_hash = workflow_hash
    _load_beside(cell, bonds, mail, blobs)
    return cell


def _load_beside(cell: Cell, inflight: bytes | None, mailbox: bytes | None, blobs: Blobs) -> None:
    """What a leaf names by digest: bonds and mail."""
    if inflight is not None:
        bonds = large.decode(read_blob(blobs, inflight))
        cell.inflight = bonds_of(bonds["open"])
        cell.keyed = bonds_of(bonds["keyed"])
        cell.callers = bonds_of(bonds["callers"])
        cell.caps = bonds["caps"]
        cell.pin = bonds.get("pin")
    if mailbox is not None:
        for entry in large.decode(read_blob(blobs, mailbox)):
            cell.post(Mail(**entry))


def beside_of(value: bytes) -> list[bytes]:
    """The digests of what stands beside the leaf of a cell; it cannot be opened without them."""
    raw = canon.decode(value)
    state = raw["state_hash"] if raw["state"] is None else None
    return [each for each in (state, raw["inflight"], raw["mailbox"]) if each is not None]


def _bonds(cell: Cell) -> dict[str, Any] | None:
    """What ties a cell to others: open intents, keys, callers, own capabilities, its manifest."""
    if not (cell.inflight or cell.keyed or cell.callers or cell.caps or cell.pin):
        return None
    bonds = {
        "open": list(cell.inflight),
        "keyed": list(cell.keyed),
        "callers": list(cell.callers),
        "caps": cell.caps,
    }
    return bonds if cell.pin is None else {**bonds, "pin": cell.pin}


def _put_mail(mail: Mail, document: Document) -> dict[str, Any]:
    """A mailbox entry that stands alone: a continuation is kept as the document it will be."""
    entry = mail._asdict()
    del entry["continuation"]
    if mail.fits is None:
        del entry["fits"]  # nearly always: the leaf is as short as it was without the field
    if mail.continuation is not None:
        entry["value"] = document(mail)
    return entry


# ---- intents, keys, fence -------------------------------------------------------------------


def put_intent(intent: Intent, _beside: Beside) -> bytes:
    """The leaf of an open intent; parameters too large to stand inline are digests already."""
    return canon.encode(
        {
            "record": canon.PREFIX + put_record(intent.record),
            "seq": intent.seq,
            "manifest": intent.manifest,
            "attempt": intent.attempt,
            "hold": intent.hold,
            "progress": intent.progress,
            "due_ns": intent.due_ns,
            "more": [[list(w.origin), w.issuer_ref] for w in intent.more],
        }
    )


def load_intent(value: bytes) -> Intent:
    """The open intent of a leaf."""
    raw = canon.decode(value)
    record = load_record(canon.decode(raw["record"]))
    assert isinstance(record, IntentOpened), "an intent's leaf holds its opening record"
    intent = Intent(record, raw["seq"], raw["manifest"])
    intent.attempt = raw["attempt"]
    intent.hold = raw["hold"]
    intent.progress = raw["progress"]
    intent.due_ns = raw["due_ns"]
    intent.more = tuple([Waiter(Origin(*origin), ref) for origin, ref in raw["more"]])
    return intent


def put_keyed(entry: Keyed, _beside: Beside) -> bytes:
    """The leaf of a remembered key."""
    settled = None if entry.settled is None else canon.PREFIX + put_record(entry.settled)
    return canon.encode(
        {
            "opened": canon.PREFIX + put_record(entry.opened),
            "seq": entry.seq,
            "manifest": entry.manifest,
            "settled": settled,
            "settled_seq": entry.settled_seq,
        }
    )


def load_keyed(value: bytes) -> Keyed:
    """The remembered key of a leaf."""
    raw = canon.decode(value)
    opened = load_record(canon.decode(raw["opened"]))
    assert isinstance(opened, IntentOpened), "a key's leaf holds the opening record"
    entry = Keyed(opened, raw["seq"], raw["manifest"])
    if raw["settled"] is not None:
        settled = load_record(canon.decode(raw["settled"]))
        assert isinstance(settled, ReceiptSettled), "and the receipt that settled it"
        entry.settled = settled
        entry.settled_seq = raw["settled_seq"]
    return entry


def put_fence(entry: Fence, _beside: Beside) -> bytes:
    """The leaf of a fenced Idempotency-Key."""
    return canon.encode(list(entry))


def load_fence(value: bytes) -> Fence:
    """The fence entry of a leaf."""
    return Fence(*canon.decode(value))
