"""Seals: vectors, every covered field, batches, hostile input."""
# tidy: mostly tables, and one place for all that a forger may try

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import SchemaMismatch
from tallystick.values import canon
from tallystick.values.seal import (
    KeyPair,
    SealCache,
    approval_statement,
    batch_statement,
    bundle_statement,
    checkpoint_statement,
    key_id_of,
    progress_statement,
    receipt_statement,
    seal_batch,
    verify,
)
from tests.values.documents import load

VECTOR = load("seals.json")
PAIR = KeyPair(bytes.fromhex(VECTOR["secret"]))
OTHER = KeyPair(bytes(31) + b"\x01")
RECEIPT: dict[str, Any] = VECTOR["receipt"]
HASH = "sha256:" + "ab" * 32
WORLD = "00000000-0000-4000-8000-000000000000"


@pytest.mark.clause("K-12", "D3")
def test_vector_reproduces() -> None:
    """VA-01: the receipt statement, its seal and the batch have the published bytes."""
    payload = bytes.fromhex(VECTOR["payload"])
    assert canon.decode(payload) == {"key": "o-1", "delivered_at_ns": 1000}
    assert canon.hash_of(payload) == RECEIPT["payload_hash"]
    statement = receipt_statement(**RECEIPT)
    assert len(statement) == VECTOR["statement_bytes"]
    assert sha256(statement).hexdigest() == VECTOR["statement_sha256"]
    assert PAIR.key_id == key_id_of(PAIR.public) == VECTOR["key_id"]
    seal = PAIR.sign(statement)
    assert seal == {
        "alg": "ed25519",
        "key": VECTOR["key_id"],
        "sig": bytes.fromhex(VECTOR["signature"]),
    }
    assert verify(PAIR.public, statement, seal)
    batch = [receipt_statement(**{**RECEIPT, "attempt": n}) for n in VECTOR["batch_attempts"]]
    for index, seal in enumerate(seal_batch(PAIR, batch)):
        assert seal["root"].hex() == VECTOR["batch_root"]
        assert seal["sig"].hex() == VECTOR["batch_signature"]
        assert (seal["alg"], seal["size"], seal["index"]) == ("ed25519-merkle", 3, index)
        assert verify(PAIR.public, batch[index], seal)


# ---- what a seal covers ---------------------------------------------------------------------

CHANGED: dict[str, Any] = {
    "world": WORLD,
    "intent": HASH,
    "effect": "sys/timer.set@2",
    "status": "error",
    "payload_hash": HASH,
    "executor": "timer2",
    "attempt": 2,
    "started_ns": 901,
    "ended_ns": 1000,
    "usage": {"calls": 0, "tokens": 0, "cents": 0},
}
PROGRESS: dict[str, Any] = {
    "world": RECEIPT["world"],
    "intent": RECEIPT["intent"],
    "attempt": 1,
    "seq": 4,
    "kind": "token",
    "payload_hash": RECEIPT["payload_hash"],
}
CHECKPOINT: dict[str, Any] = {
    "world": RECEIPT["world"],
    "seq": 10,
    "head": HASH,
    "root": HASH,
    "manifest": HASH,
    "epoch": 1,
    "at_ns": 5,
}
APPROVAL: dict[str, Any] = {
    "world": RECEIPT["world"],
    "proposal": HASH,
    "intent": None,
    "bundle": HASH,
    "report_hash": None,
    "decision": "approve",
    "principal": "bob",
    "at_ns": 5,
}
STATEMENTS: list[tuple[str, Callable[..., bytes], dict[str, Any]]] = [
    ("receipt@1", receipt_statement, RECEIPT),
    ("progress@1", progress_statement, PROGRESS),
    ("checkpoint@1", checkpoint_statement, CHECKPOINT),
    ("approval@1", approval_statement, APPROVAL),
    ("bundle@1", bundle_statement, {"bundle": HASH}),
]


@pytest.mark.clause("D7")
@pytest.mark.parametrize("field", sorted(CHANGED))
def test_receipt_field_is_covered(field: str) -> None:
    """VA-16: one changed field of a receipt, a foreign world among them, breaks both seals."""
    assert CHANGED.keys() == RECEIPT.keys()
    statement = receipt_statement(**RECEIPT)
    forged = receipt_statement(**{**RECEIPT, field: CHANGED[field]})
    single = PAIR.sign(statement)
    batch = seal_batch(PAIR, [statement, b"another"])[0]
    for seal in (single, batch):
        assert verify(PAIR.public, statement, seal)
        assert not verify(PAIR.public, forged, seal)


@pytest.mark.clause("D7")
def test_foreign_key_breaks_the_seal() -> None:
    """VA-16: a seal counts for its own key only, also when it claims another key's id."""
    statement = receipt_statement(**RECEIPT)
    for seal in (PAIR.sign(statement), seal_batch(PAIR, [statement])[0]):
        assert not verify(OTHER.public, statement, seal)
        assert not verify(OTHER.public, statement, {**seal, "key": OTHER.key_id})
        assert not verify(PAIR.public, statement, {**seal, "key": OTHER.key_id})


@pytest.mark.clause("D7")
@pytest.mark.parametrize(("name", "build", "fields"), STATEMENTS, ids=[s[0] for s in STATEMENTS])
def test_statement_has_exactly_its_fields(
    name: str, build: Callable[..., bytes], fields: dict[str, Any]
) -> None:
    """VA-16: a statement is canonical, names its type, and holds every field and no other."""
    data = build(**fields)
    assert canon.decode(data) == {"$type": name, **fields}
    assert canon.encode(canon.decode(data)) == data


@pytest.mark.clause("D7")
def test_usage_is_whole_or_null() -> None:
    """VA-16: usage always has its three fields; one that no seal covers is refused."""
    statement = receipt_statement(**{**RECEIPT, "usage": {"tokens": 7}})
    assert canon.decode(statement)["usage"] == {"calls": None, "tokens": 7, "cents": None}
    with pytest.raises(SchemaMismatch) as caught:
        receipt_statement(**{**RECEIPT, "usage": {"tokens": 7, "euros": 1}})
    assert caught.value.code == "value.unknown_field"


@pytest.mark.clause("D7")
@pytest.mark.parametrize("used", [-1, "x", True, 1.5, 1 << 63])
def test_usage_is_counted_in_whole_numbers(used: Any) -> None:
    """BUGS 106: what a budget cannot be charged with is refused before it is sealed."""
    with pytest.raises(SchemaMismatch):
        receipt_statement(**{**RECEIPT, "usage": {"tokens": used}})
    with pytest.raises(SchemaMismatch):
        receipt_statement(**{**RECEIPT, "usage": [used]})


@pytest.mark.clause("D7")
def test_approval_is_of_one_thing() -> None:
    """VA-16: the same hash approved as an intent is another statement than as a proposal."""
    of_intent = {**APPROVAL, "proposal": None, "intent": HASH, "bundle": None}
    of_proposal = {**APPROVAL, "bundle": None}
    assert approval_statement(**of_intent) != approval_statement(**of_proposal)
    for wrong in ({"intent": HASH}, {"proposal": None}):
        with pytest.raises(AssertionError):
            approval_statement(**{**APPROVAL, **wrong})


# ---- batches --------------------------------------------------------------------------------


def root_by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962, as it is written: split at the largest power of two below n."""
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, right = root_by_definition(leaves[:split]), root_by_definition(leaves[split:])
    return sha256(b"\x01" + left + right).digest()


@pytest.mark.clause("D7")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 33, 100, 1000])
def test_root_is_rfc_6962(size: int) -> None:
    """VA-17: the root built level by level is the root of the recursive definition."""
    leaves = [n.to_bytes(4, "big") for n in range(size)]
    assert seal_batch(PAIR, leaves)[0]["root"] == root_by_definition(leaves)


@pytest.mark.clause("D7")
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_every_member_verifies(size: int) -> None:
    """VA-17: each member verifies, a neighbour's statement or seal does not."""
    leaves = [n.to_bytes(4, "big") for n in range(size)]
    seals = seal_batch(PAIR, leaves)
    cache = SealCache()
    for index, seal in enumerate(seals):
        assert cache.verify(PAIR.public, leaves[index], seal)
        if size > 1:
            assert not cache.verify(PAIR.public, leaves[(index + 1) % size], seal)
    assert verify(PAIR.public, leaves[-1], seals[-1])


@pytest.mark.clause("D7")
@pytest.mark.slow
def test_full_batch() -> None:
    """VA-17: all 65,536 members of the largest batch verify; one more is refused."""
    leaves = [n.to_bytes(4, "big") for n in range(65_536)]
    seals = seal_batch(PAIR, leaves)
    cache = SealCache()
    assert all(cache.verify(PAIR.public, leaf, s) for leaf, s in zip(leaves, seals, strict=True))
    assert len(cache) == 1
    assert not cache.verify(PAIR.public, leaves[0], seals[1])
    for leaf, seal in list(zip(leaves, seals, strict=True))[:: 65_535 // 50]:
        assert verify(PAIR.public, leaf, seal)
        assert not verify(PAIR.public, leaf, {**seal, "index": seal["index"] ^ 1})
    with pytest.raises(AssertionError):
        seal_batch(PAIR, [*leaves, b""])
    with pytest.raises(AssertionError):
        seal_batch(PAIR, [])


@pytest.mark.clause("D7")
@settings(deadline=None, max_examples=150)
@given(st.integers(1, 70), st.data())
def test_wrong_place_never_verifies(size: int, data: st.DataObject) -> None:
    """VA-17: a wrong index, size or path, and a swapped leaf, never verify."""
    leaves = [n.to_bytes(2, "big") for n in range(size)]
    seals = seal_batch(PAIR, leaves)
    at = data.draw(st.integers(0, size - 1))
    seal, leaf = seals[at], leaves[at]
    assert verify(PAIR.public, leaf, seal)
    other = data.draw(st.integers(0, 100).filter(lambda n: n != at))
    assert not verify(PAIR.public, leaf, {**seal, "index": other})
    other = data.draw(st.integers(0, 100).filter(lambda n: n != size))
    assert not verify(PAIR.public, leaf, {**seal, "size": other})
    path = list(seal["path"])
    for wrong in ([*path, bytes(32)], [bytes(32), *path], path[:-1], path[1:], path[::-1]):
        if wrong != path:
            assert not verify(PAIR.public, leaf, {**seal, "path": wrong})
    for level in range(len(path)):
        wrong = [*path[:level], bytes(32), *path[level + 1 :]]
        assert not verify(PAIR.public, leaf, {**seal, "path": wrong})
    swapped = data.draw(st.integers(0, size - 1).filter(lambda n: n != at)) if size > 1 else None
    if swapped is not None:
        assert not verify(PAIR.public, leaves[swapped], seal)
        assert not verify(PAIR.public, leaf, seals[swapped])


@pytest.mark.clause("D7")
def test_inner_node_is_no_statement() -> None:
    """VA-17: the two leaf hashes of a batch, given as one statement, do not pass for a member."""
    leaves = [b"one", b"two", b"three", b"four"]
    seals = seal_batch(PAIR, leaves)
    inner = b"".join(sha256(b"\x00" + leaf).digest() for leaf in leaves[:2])
    for size in (1, 2, 3, 4):
        forged = {**seals[0], "size": size, "path": seals[0]["path"][1:]}
        assert not verify(PAIR.public, inner, forged)
        assert not verify(PAIR.public, b"\x01" + inner, forged)


@pytest.mark.clause("D7")
def test_batch_signature_covers_root_and_size() -> None:
    """VA-17: what a batch signs is its own statement, so it never passes for a single seal."""
    leaves = [b"one", b"two"]
    seal = seal_batch(PAIR, leaves)[0]
    signed = batch_statement(seal["root"], 2)
    assert canon.decode(signed) == {"$type": "seal_batch@1", "root": seal["root"], "size": 2}
    single = {"alg": "ed25519", "key": PAIR.key_id, "sig": seal["sig"]}
    assert verify(PAIR.public, signed, single)
    assert not verify(PAIR.public, leaves[0], single)


# ---- hostile input --------------------------------------------------------------------------

SINGLE = PAIR.sign(b"s")
MEMBER = seal_batch(PAIR, [b"s", b"t", b"u"])[1]
JUNK: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    2**63,
    1.0,
    "",
    "ed25519",
    b"",
    bytes(31),
    bytes(32),
    bytes(64),
    bytearray(64),
    [],
    [b""],
    [None],
    (),
    {},
    {1: 2},
]


@pytest.mark.clause("D7")
@pytest.mark.parametrize("seal", [SINGLE, MEMBER], ids=["single", "batch"])
def test_malformed_seals_are_false(seal: dict[str, Any]) -> None:
    """VA-16: a missing, further or ill-typed field is a bad seal, never an exception."""
    statement = b"s" if seal is SINGLE else b"t"
    cache = SealCache()
    for check in (verify, cache.verify):
        assert check(PAIR.public, statement, seal)
        assert not check(PAIR.public, statement, {**seal, "more": 1})
        for field, right in seal.items():
            without = {name: part for name, part in seal.items() if name != field}
            assert not check(PAIR.public, statement, without)
            for junk in JUNK:
                if junk != right or type(junk) is not type(right):
                    assert not check(PAIR.public, statement, {**seal, field: junk}), (field, junk)
        for junk in JUNK:
            assert not check(PAIR.public, statement, junk)
            assert not check(junk, statement, seal)
            assert not check(PAIR.public, junk, seal)


@pytest.mark.clause("D7")
def test_forgeable_keys_and_signatures_are_false() -> None:
    """VA-16: keys of small order and signatures with a shifted scalar do not verify."""
    order = 2**252 + 27742317777372353535851937790883648493
    sig = SINGLE["sig"]
    shifted = int.from_bytes(sig[32:], "little") + order
    twin = {**SINGLE, "sig": sig[:32] + shifted.to_bytes(32, "little")}
    assert not verify(PAIR.public, b"s", twin)
    for public in (bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"):
        for sig in (bytes(64), b"\x01" + bytes(63)):
            seal = {"alg": "ed25519", "key": key_id_of(public), "sig": sig}
            assert not verify(public, b"s", seal)


@pytest.mark.clause("D7")
@settings(deadline=None, max_examples=200)
@given(st.integers(0, 63), st.integers(1, 255), st.booleans())
def test_any_changed_byte_of_a_signature(at: int, flip: int, batch: bool) -> None:
    """VA-16: one changed byte anywhere in a signature breaks the seal."""
    seal, statement = (MEMBER, b"t") if batch else (SINGLE, b"s")
    sig = bytearray(seal["sig"])
    sig[at] ^= flip
    assert not verify(PAIR.public, statement, {**seal, "sig": bytes(sig)})


# ---- keys and the cache ---------------------------------------------------------------------


@pytest.mark.clause("D7")
def test_secret_is_not_shown() -> None:
    """VA-16: neither repr nor a public attribute of a key pair shows its seed."""
    seed = VECTOR["secret"]
    shown = [repr(PAIR), str(PAIR)]
    shown += [repr(getattr(PAIR, name)) for name in dir(PAIR) if not name.startswith("_")]
    assert not [text for text in shown if seed in text or repr(bytes.fromhex(seed)) in text]
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(AssertionError):
            KeyPair(wrong)


@pytest.mark.clause("D7")
def test_cache_keeps_only_proven_signatures() -> None:
    """VA-17: a bad signature is never remembered, a full cache forgets, answers never change."""
    cache = SealCache(limit=3)
    leaves = [b"one", b"two"]
    bad = {**seal_batch(PAIR, leaves)[0], "sig": bytes(64)}
    assert not cache.verify(PAIR.public, leaves[0], bad)
    assert len(cache) == 0
    for n in range(10):
        batch = [b"%d" % n, b"x"]
        seals = seal_batch(PAIR, batch)
        assert cache.verify(PAIR.public, batch[0], seals[0])
        assert cache.verify(PAIR.public, batch[1], seals[1])
        assert not cache.verify(OTHER.public, batch[1], {**seals[1], "key": OTHER.key_id})
        assert not cache.verify(PAIR.public, batch[1], {**seals[1], "sig": bytes(64)})
        assert len(cache) <= 3
    assert cache.verify(PAIR.public, b"s", SINGLE)


@pytest.mark.parametrize("usage", [None, {"calls": 1, "tokens": 70_000, "cents": None}])
def test_a_receipt_statement_is_the_plain_document(usage: dict[str, Any] | None) -> None:
    """VA-16: the pieces that are encoded once give the document of all fields, byte for byte."""
    fields = {**RECEIPT, "usage": usage, "started_ns": 2**63, "attempt": 300}
    assert receipt_statement(**fields) == canon.encode({"$type": "receipt@1", **fields})
