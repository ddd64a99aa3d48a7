"""Hot readers, part two: stamps, intents and receipts (ADR 0010)."""

from __future__ import annotations

from typing import Any, Final

from tallystick.model.hot_items import (
    DEPTH,
    MEMORY_MAX,
    NUMBERS,
    SIZES,
    TEXTS,
    bare,
    digest,
    get,
    key,
    may,
    nat,
    number_of,
    octets,
    pattern,
    size,
    text,
    text_of,
)
from tallystick.model.records import (
    Address,
    IntentOpened,
    Judged,
    Origin,
    ReceiptSettled,
    Record,
    Stamp,
    load_judged,
)
from tallystick.model.tuples import make
from tallystick.values import canon

Taken = tuple[Record, int] | None
"""A record and the place behind it; None when the general reader must look."""

STAMP: Final = may(
    key("stamp"),
    rb"(?:\xa2|(?P<late>\xa3))",  # logical time is said where it is not that of the clock
    nat("now_ns"),
    key("entropy"),
    get(rb".{64}", rb"\x58\x40"),
    rb"(?(late)" + nat("logical_ns") + rb")",
)


def stamp_of(now: bytes, entropy: bytes, logical: bytes | None) -> Stamp:
    """The stamp of the groups of its pattern."""
    now_ns = number_of(now)  # a moment does not come again
    return make(Stamp, (now_ns, now_ns if logical is None else number_of(logical), entropy))


# ---- intents --------------------------------------------------------------------------------

_FACTS: Final = canon.put_key("inputs_digest") + b"\x58\x20"

_OPENED_JUDGED: Final = pattern(
    get(rb"[\xa7-\xab]"), text("effect"), digest("intent"), key("judged")
)
_OPENED_PARAMS: Final = pattern(
    may(
        key("origin"),
        rb"\xa6",
        octets("key"),
        text("kind"),
        nat("index"),
        nat("tick_seq"),
        text("workflow"),
        digest("workflow_hash"),
    ),
    size("params"),
)
_OPENED_REST: Final = pattern(
    key("record", "IntentOpened"),
    text("executor"),
    may(text("issuer_ref")),
    digest("effect_hash"),
    may(nat("timeout_at_ns")),
    may(octets("idempotency_key")),
)


class _Trail:
    """A judgement trail up to its facts, which recurs for an effect while no rule changes."""

    __slots__ = ("judged", "raw")

    def __init__(self, raw: bytes, judged: Judged) -> None:
        self.raw = raw
        self.judged = judged


_TRAILS: Final[dict[bytes, _Trail]] = {}


def _judged(body: bytes, at: int, effect: bytes) -> tuple[Judged, int]:
    """The trail at a place: compared with the last one of its effect, read when it differs."""
    known = _TRAILS.get(effect)
    if known is None or not body.startswith(known.raw, at):
        reader = canon.Reader(body, at)
        judged = load_judged(reader.item(DEPTH))
        behind = reader.pos - 32
        if judged.inputs_digest is not None and body.startswith(_FACTS, behind - len(_FACTS)):
            if len(_TRAILS) >= MEMORY_MAX:
                _TRAILS.clear()
            _TRAILS[effect] = _Trail(body[at:behind], judged)
        return judged, reader.pos
    stop = at + len(known.raw) + 32
    declared, shape, grant, rule, capacity, _ = known.judged
    facts = body[stop - 32 : stop]
    return make(Judged, (declared, shape, grant, rule, capacity, facts)), stop


# tidy: the table of one record, written out.
def opened(body: bytes, at: int) -> Taken:
    """An IntentOpened without hold and flow, its parameters inline.

    Its origin is None where its frame knows it.
    """
    found = _OPENED_JUDGED.match(body, at)
    if found is None:
        return None
    head, effect, intent = found.groups()
    judged, at = _judged(body, found.end(), effect)
    found = _OPENED_PARAMS.match(body, at)
    if found is None:
        return None
    ident, kind, index, seq, workflow, workflow_hash, long = found.groups()
    begin = found.end()
    at = begin + SIZES[long]
    found = _OPENED_REST.match(body, at)
    if found is None:
        return None
    executor, issuer, effect_hash, timeout, idem = found.groups()
    n = 0xA7 + (issuer is not None) + (timeout is not None) + (idem is not None)
    if head[0] != n + (ident is not None):
        return None
    origin = None
    if ident is not None:
        cell = (TEXTS[kind], TEXTS[workflow], workflow_hash, bare(ident))
        origin = make(Origin, (*cell, NUMBERS[seq], NUMBERS[index]))
    fields = (
        intent, TEXTS[effect], effect_hash, TEXTS[executor], origin, judged,
        body[begin:at], None, None if issuer is None else text_of(issuer),
        None if idem is None else bare(idem), None if timeout is None else NUMBERS[timeout],
        None, None,
    )  # fmt: skip
    return make(IntentOpened, fields), found.end()


# ---- receipts -------------------------------------------------------------------------------

_USAGE: Final = may(get(key("usage")))
_SETTLED_SEAL: Final = pattern(
    get(rb"[\xa7-\xaf]"),
    key("to"),
    rb"(?:\x80|\x81\xa2",
    octets("key"),
    text("workflow"),
    rb")",
    # A seal of another form ends the segment behind its key.
    may(
        get(key("seal")),
        may(rb"\xa3", key("alg", "ed25519"), text("key"), key("sig"), get(rb".{64}", rb"\x58\x40")),
    ),
    STAMP,
    _USAGE,
)
# One signature for many: the leaf's way to the root that was signed.
_BATCH_SEAL: Final = pattern(
    rb"\xa7",
    key("alg", "ed25519-merkle"),
    text("key"),
    key("sig"),
    get(rb".{64}", rb"\x58\x40"),
    key("path"),
    get(rb"[\x80-\x97]"),
    get(rb"(?:\x58\x20.{32})*"),
    digest("root"),
    nat("size"),
    nat("index"),
)
_SETTLED_STAMP: Final = pattern(STAMP, _USAGE)
_SETTLED_PAYLOAD: Final = pattern(
    digest("intent"),
    may(text("key_id")),
    key("record", "ReceiptSettled"),
    may(text("source")),
    may(text("status")),
    may(nat("attempt")),
    may(text("outcome")),
    size("payload"),
)
_SETTLED_REST: Final = pattern(nat("ended_ns"), text("executor"), nat("started_ns"))


def _any(body: bytes, at: int) -> tuple[Any, int]:
    reader = canon.Reader(body, at)
    return reader.item(DEPTH), reader.pos


def _other_seal(body: bytes, at: int) -> tuple[Any, int]:
    """The seal of a batch, or one that only the general reader knows."""
    found = _BATCH_SEAL.match(body, at)
    if found is None:
        return _any(body, at)
    sealer, sig, count, nodes, root, size_, index = found.groups()
    if len(nodes) != 34 * (count[0] - 0x80):
        return _any(body, at)
    path = [nodes[n : n + 32] for n in range(2, len(nodes), 34)]
    seal = {
        "alg": "ed25519-merkle",
        "key": TEXTS[sealer],
        "sig": sig,
        "path": path,
        "root": root,
        "size": NUMBERS[size_],
        "index": NUMBERS[index],
    }
    return seal, found.end()


def _key_of(seal: Any) -> Any:
    """The key that a seal names: it stands for that of the record, if there is none."""
    return seal.get("key") if type(seal) is dict else None


# tidy: the table of one record, written out.
def settled(body: bytes, at: int) -> Taken:
    """A ReceiptSettled without error, its payload inline, with at most one delivery."""
    found = _SETTLED_SEAL.match(body, at)
    if found is None:
        return None
    head, ident, workflow, sealed, sealer, sig, _, now, entropy, logical, used = found.groups()
    at = found.end()
    to = () if ident is None else (make(Address, (TEXTS[workflow], bare(ident))),)
    seal = usage = None
    if sig is not None:
        seal = {"alg": "ed25519", "key": TEXTS[sealer], "sig": sig}
    elif sealed is not None:
        seal, at = _other_seal(body, at)
        found = _SETTLED_STAMP.match(body, at)
        assert found is not None, "all of it may be absent"
        _, now, entropy, logical, used = found.groups()
        at = found.end()
    if used is not None:
        usage, at = _any(body, at)
    found = _SETTLED_PAYLOAD.match(body, at)
    if found is None:
        return None
    intent, key_id, source, status, attempt, outcome, long = found.groups()
    begin = found.end()
    at = begin + SIZES[long]
    found = _SETTLED_REST.match(body, at)
    absent = (sealed is None) + (used is None) + (now is None) + (key_id is None)
    absent += (source is None) + (status is None) + (attempt is None) + (outcome is None)
    if found is None or head[0] != 0xAF - absent:
        return None
    ended, executor, started = found.groups()
    fields = (
        intent, "ok" if status is None else TEXTS[status],
        "executor" if source is None else TEXTS[source], TEXTS[executor],
        1 if attempt is None else NUMBERS[attempt], NUMBERS[started], NUMBERS[ended], to,
        "delivered" if outcome is None else TEXTS[outcome], body[begin:at], None, usage, seal,
        _key_of(seal) if key_id is None else TEXTS[key_id],
        None if now is None else stamp_of(now, entropy, logical), None,
    )  # fmt: skip
    return make(ReceiptSettled, fields), found.end()
