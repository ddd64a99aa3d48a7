"""Seals: Ed25519 signatures over statements, one by one or by the batch (D7, D9).

Theory of operation.
A *statement* is a canonical document with a `$type`; whoever checks a seal builds the statement
again from what it knows, so a seal says nothing about fields that it does not cover.
A *single* seal signs the statement's bytes.
A *batch* seal signs `seal_batch@1` {root, size}, where root is the merkle root (RFC 6962) over the
statements, and carries the path from its own leaf to that root: one signature for many receipts.
Leaves and nodes are hashed behind different bytes, and the size is signed too, so no inner node can
pass for a statement and no path for another position.

A check answers true or false and raises for nothing that a stranger can send.
Which keys count for what is not decided here; that is journaled trust (02 section 6).
"""
# tidy: the five statements stand beside the seals that cover them, so one file shows what is signed

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from tallystick.errors import SchemaMismatch
from tallystick.values import canon

SINGLE: Final = "ed25519"
BATCH: Final = "ed25519-merkle"
BATCH_MAX: Final = 65_536

_SINGLE_KEYS: Final = frozenset({"alg", "key", "sig"})
_BATCH_KEYS: Final = frozenset({"alg", "key", "sig", "root", "size", "index", "path"})
_USAGE: Final = ("calls", "tokens", "cents")
_USED_MAX: Final = 1 << 63

# ---- keys -----------------------------------------------------------------------------------


def key_id_of(public: bytes) -> str:
    """The lookup name of a public key: 16 hex digits, never a proof."""
    return sha256(public).hexdigest()[:16]


class KeyPair:
    """A signing key and its public half.

    The seed is 32 bytes; any other length is a programmer's mistake.
    Neither `repr` nor any attribute without an underscore shows the secret.
    """

    __slots__ = ("_signer", "key_id", "public")

    def __init__(self, seed: bytes) -> None:
        assert len(seed) == 32, "an Ed25519 seed has 32 bytes"
        self._signer = SigningKey(seed)
        self.public: bytes = bytes(self._signer.verify_key)
        self.key_id: str = key_id_of(self.public)

    def __repr__(self) -> str:
        return f"KeyPair({self.key_id})"

    def signature(self, data: bytes) -> bytes:
        """The 64 bytes of Ed25519 over the data; the same data gives the same bytes."""
        return self._signer.sign(data).signature

    def sign(self, statement: bytes) -> dict[str, Any]:
        """A single seal over one statement."""
        return {"alg": SINGLE, "key": self.key_id, "sig": self.signature(statement)}


def seal_batch(pair: KeyPair, statements: Sequence[bytes]) -> list[dict[str, Any]]:
    """One batch seal per statement, in order, all under one signature.

    Takes 1 to 65,536 statements.
    """
    size = len(statements)
    assert 1 <= size <= BATCH_MAX, "a batch holds 1 to 65,536 statements"
    levels = _levels(statements)
    root = levels[-1][0]
    sig = pair.signature(batch_statement(root, size))
    return [
        {
            "alg": BATCH,
            "key": pair.key_id,
            "sig": sig,
            "root": root,
            "size": size,
            "index": index,
            "path": _path(levels, index),
        }
        for index in range(size)
    ]


# ---- the tree -------------------------------------------------------------------------------


def _levels(statements: Sequence[bytes]) -> list[list[bytes]]:
    # Pairing from the left and carrying an odd last node up unchanged gives the tree that RFC 6962
    # defines by splitting at the largest power of two below n.
    level = [sha256(b"\x00" + statement).digest() for statement in statements]
    levels = [level]
    while len(level) > 1:
        above = [
            sha256(b"\x01" + level[at] + level[at + 1]).digest()
            for at in range(0, len(level) - 1, 2)
        ]
        if len(level) % 2:
            above.append(level[-1])
        levels.append(above)
        level = above
    return levels


def _path(levels: list[list[bytes]], index: int) -> list[bytes]:
    path: list[bytes] = []
    for level in levels[:-1]:
        beside = index ^ 1
        if beside < len(level):
            path.append(level[beside])
        index >>= 1
    return path


def _root_of(statement: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a path leads to, or None when the path does not fit index and size."""
    node = sha256(b"\x00" + statement).digest()
    last = size - 1
    at = 0
    while last:
        # A last node on the left has no sibling on this level and is carried up.
        if index % 2 or index < last:
            if at == len(path):
                return None
            beside = path[at]
            at += 1
            if index % 2:
                node = sha256(b"\x01" + beside + node).digest()
            else:
                node = sha256(b"\x01" + node + beside).digest()
        index >>= 1
        last >>= 1
    return node if at == len(path) else None


# ---- checking -------------------------------------------------------------------------------


def verify(public: object, statement: object, seal: object) -> bool:
    """True when the seal is a well-formed seal of this very statement by this key.

    False for everything else, whatever was sent.
    """
    signed = _signed_bytes(public, statement, seal)
    if signed is None:
        return False
    assert isinstance(public, bytes), "only bytes are a well-formed key"
    return _check(public, signed[0], signed[1])


class SealCache:
    """Checks seals and remembers signatures of batches, so that a batch costs one check.

    Only proven signatures are kept, under (key, root, size, sig); the path is checked every time.
    Bounded: when full it forgets everything and starts again, which costs checks, never answers.
    """

    __slots__ = ("_limit", "_proven")

    def __init__(self, limit: int = 1024) -> None:
        assert limit > 0, "a cache holds at least one entry"
        self._limit = limit
        self._proven: set[tuple[bytes, bytes, bytes]] = set()

    def __len__(self) -> int:
        return len(self._proven)

    def verify(self, public: object, statement: object, seal: object) -> bool:
        """As `verify`, with the memory of this cache."""
        signed = _signed_bytes(public, statement, seal)
        if signed is None:
            return False
        assert isinstance(public, bytes), "only bytes are a well-formed key"
        data, sig = signed
        if data is statement:  # a single seal: each is its own signature, nothing to share
            return _check(public, data, sig)
        entry = (public, data, sig)  # data holds root and size, and nothing else
        if entry in self._proven:
            return True
        if not _check(public, data, sig):
            return False
        if len(self._proven) >= self._limit:
            self._proven.clear()
        self._proven.add(entry)
        return True


def _signed_bytes(public: object, statement: object, seal: object) -> tuple[bytes, bytes] | None:
    """What a well-formed seal claims to have signed, and the signature; None when malformed."""
    if type(public) is not bytes or len(public) != 32:
        return None
    if type(statement) is not bytes or type(seal) is not dict:
        return None
    alg, key, sig = seal.get("alg"), seal.get("key"), seal.get("sig")
    if type(alg) is not str or type(key) is not str or type(sig) is not bytes:
        return None
    if len(sig) != 64 or key != key_id_of(public):
        return None
    if alg == SINGLE:
        return (statement, sig) if seal.keys() == _SINGLE_KEYS else None
    if alg == BATCH and seal.keys() == _BATCH_KEYS:
        claim = _batch_claim(statement, seal)
        return None if claim is None else (claim, sig)
    return None


def _batch_claim(statement: bytes, seal: dict[Any, Any]) -> bytes | None:
    root, size, index, path = seal["root"], seal["size"], seal["index"], seal["path"]
    if type(root) is not bytes or len(root) != 32 or type(path) is not list:
        return None
    # `type is int` refuses booleans, which Python counts among the integers.
    if type(size) is not int or type(index) is not int:
        return None
    if not 0 <= index < size <= BATCH_MAX:
        return None
    if any(type(node) is not bytes or len(node) != 32 for node in path):
        return None
    if _root_of(statement, index, size, path) != root:
        return None
    return batch_statement(root, size)


def _check(public: bytes, data: bytes, sig: bytes) -> bool:
    try:
        VerifyKey(public).verify(data, sig)
    except BadSignatureError:
        return False
    return True


# ---- statements -----------------------------------------------------------------------------
# Every field is always present: an absent value is null, a hash is text, a status is its tag.


def batch_statement(root: bytes, size: int) -> bytes:
    """`seal_batch@1`: what the one signature of a batch covers."""
    return canon.encode({"$type": "seal_batch@1", "root": root, "size": size})


_NULL: Final = b"\xf6"
_RECEIPT: Final = (
    canon.PREFIX
    + canon.head(5, 11)
    + canon.put_key("$type")
    + canon.put_text("receipt@1")
    + canon.put_key("usage")
)
_R_WORLD: Final = canon.put_key("world")
_R_EFFECT: Final = canon.put_key("effect")
_R_INTENT: Final = canon.put_key("intent")
_R_STATUS: Final = canon.put_key("status")
_R_ATTEMPT: Final = canon.put_key("attempt")
_R_ENDED: Final = canon.put_key("ended_ns")
_R_EXECUTOR: Final = canon.put_key("executor")
_R_STARTED: Final = canon.put_key("started_ns")
_R_PAYLOAD: Final = canon.put_key("payload_hash")


def receipt_statement(
    *,
    world: str,
    intent: str,
    effect: str,
    status: str,
    payload_hash: str,
    executor: str,
    attempt: int,
    started_ns: int,
    ended_ns: int,
    usage: Mapping[str, int | None] | None,
) -> bytes:
    """`receipt@1`: the outcome of one intent, signed by a trusted executor key.

    Refuses a usage with anything but calls, tokens and cents.
    """
    # tidy: one line for each covered field, twice
    # The document in canonical order, its keys encoded once: every receipt pays for this.
    held = usage_of(usage)
    return b"".join(
        (
            _RECEIPT,
            _NULL if held is None else canon.encode_item(held),
            _R_WORLD,
            canon.put_key(world),
            _R_EFFECT,
            canon.put_key(effect),
            _R_INTENT,
            canon.put_text(intent),
            _R_STATUS,
            canon.put_key(status),
            _R_ATTEMPT,
            canon.put_int(attempt),
            _R_ENDED,
            canon.put_int(ended_ns),
            _R_EXECUTOR,
            canon.put_key(executor),
            _R_STARTED,
            canon.put_int(started_ns),
            _R_PAYLOAD,
            canon.put_text(payload_hash),
        )
    )


def usage_of(usage: Mapping[str, int | None] | None) -> dict[str, int | None] | None:
    """What a seal says of the usage of an attempt; refuses what is none."""
    if usage is None:
        return None
    if not isinstance(usage, Mapping):
        raise SchemaMismatch("usage is a mapping of calls, tokens and cents")
    for name, used in usage.items():
        if name not in _USAGE:
            # What a seal would not cover must not look covered.
            message = f"usage has calls, tokens and cents, not {name!r}"
            raise SchemaMismatch(message, code="value.unknown_field")
        if used is not None and not (type(used) is int and 0 <= used < _USED_MAX):
            message = f"usage counts {name} by a whole number that is not negative, not {used!r}"
            raise SchemaMismatch(message, code="value.mismatch")
    return {name: usage.get(name) for name in _USAGE}


def progress_statement(
    *, world: str, intent: str, attempt: int, seq: int, kind: str, payload_hash: str
) -> bytes:
    """`progress@1`: one stream frame of an open intent."""
    return canon.encode(
        {
            "$type": "progress@1",
            "world": world,
            "intent": intent,
            "attempt": attempt,
            "seq": seq,
            "kind": kind,
            "payload_hash": payload_hash,
        }
    )


def checkpoint_statement(
    *, world: str, seq: int, head: str, root: str, manifest: str, epoch: int, at_ns: int
) -> bytes:
    """`checkpoint@1`: the journal of a world up to seq, signed by the node key."""
    return canon.encode(
        {
            "$type": "checkpoint@1",
            "world": world,
            "seq": seq,
            "head": head,
            "root": root,
            "manifest": manifest,
            "epoch": epoch,
            "at_ns": at_ns,
        }
    )


def approval_statement(
    *,
    world: str,
    proposal: str | None = None,
    intent: str | None = None,
    bundle: str | None,
    report_hash: str | None,
    decision: str,
    principal: str,
    at_ns: int,
) -> bytes:
    """`approval@1`: a principal's decision on one proposal or on one intent.

    Both fields are written and exactly one of them is set, so a word on an intent can never be
    read as a word on a proposal.
    """
    assert (proposal is None) != (intent is None), "an approval is of a proposal or of an intent"
    return canon.encode(
        {
            "$type": "approval@1",
            "world": world,
            "proposal": proposal,
            "intent": intent,
            "bundle": bundle,
            "report_hash": report_hash,
            "decision": decision,
            "principal": principal,
            "at_ns": at_ns,
        }
    )


def bundle_statement(*, bundle: str) -> bytes:
    """`bundle@1`: the root of a bundle, signed by its publisher."""
    return canon.encode({"$type": "bundle@1", "bundle": bundle})
