"""Identities: the published vectors, and that no two askings share an intent by accident."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.model.cells import CellId, child_entropy
from tallystick.model.effects import (
    Asked,
    Asker,
    Site,
    dispatch_key,
    event_hash,
    intent_by_key,
    intent_by_position,
)
from tallystick.model.records import IntentAttached, IntentDenied, IntentOpened
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests import worlds
from tests.rig import Rig

GOLDEN = Path(__file__).parent.parent / "golden" / "values" / "identities.json"

WORLD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
KEY = bytes.fromhex("d9d9f7636f2d31")
ASKER = Asker(
    "com.acme/order.step@1",
    "sha256:a8e924d5c99d74dc3f51ab639118aaf6d14ac8f7f54b0e5ebaa2e5f4d5f2b51b",
    KEY,
    2,
)
ASKED = Asked(
    "sys/timer.set@1",
    "sha256:d17a6699bf9edcf191f7956c38b9c2acc0daee5e397c6f8a6b211bac5e66177e",
    "sys/builtin_effects@1",
    "sha256:958bbd0079c9768712e79317788745e84b98c8d93b42f7e4140e4908f2c6d936",
    "timer.set",
    canon.encode({"deliver_at_ns": 1000, "key": "o-1"}),
)
SITE = Site(ASKER.workflow, ASKER.workflow_hash, ASKED)


def position_of(asker: Asker, seq: int, index: int) -> bytes:
    return SITE.position(asker.key, seq, index)


ENTROPY = (
    "38fe2540c1298e5e777bb31c0a65c94364f1f721ee52620558c57f3df7784b16"
    "e11a0195768df8b3165e35b310c8d1524615f11cc0c4958f7b77513f734f4bd5"
)


def golden(name: str) -> str:
    """The digest of the golden preimage with that name."""
    for entry in json.loads(GOLDEN.read_text("utf-8")):
        if entry["name"] == name:
            found: str = entry["sha256"]
            return found
    raise AssertionError(f"no golden vector {name!r}")


@pytest.mark.clause("K-14", "K-47")
@pytest.mark.invariant("I12")
def test_identity_vectors() -> None:
    """MO-05: event hash, K, both intents, dispatch key: the published vectors, byte for byte."""
    value = canon.encode({"order_id": "o-1", "amount_cents": 1250, "note": None})
    intent = intent_by_position(ASKER, ASKED, 7, 0)
    assert canon.encode("o-1") == KEY
    assert event_hash("com.acme/OrderCreated@1", value, None).hex() == golden("event")
    assert position_of(ASKER, 7, 0).hex() == golden("position key")
    assert intent.hex() == golden("intent without a key")
    assert intent.hex() == "30e58828e8e2a4628011073cf1c8f23806ba5f0ebc405aed2326167271e826bf"
    assert (
        intent_by_key(ASKER, ASKED.effect, b"remind-1").hex()
        == "6b6acdba0669a68fdd62eeafc54b0d2d7d348fbf748d1e0dd0341c2c76298a58"
    )
    assert (
        dispatch_key(WORLD, intent).hex()
        == "95e430856be97ecb43d042b41a9ee31c7d4c97085209220e27e3708e9dc502d9"
    )


@pytest.mark.clause("K-28")
def test_child_entropy_vector() -> None:
    """MO-05: 64 bytes derived from parent, cell, seq and index, as published."""
    made = child_entropy(bytes(range(64)), CellId(ASKER.workflow, KEY), 7, 0)
    assert made.hex() == ENTROPY
    assert len(made) == 64


def test_joined_preimages_equal_the_plain_ones() -> None:
    """MO-05: the pieces that are encoded once give the documents that 02 section 5 writes out."""
    first = {
        "origin_workflow": ASKER.workflow,
        "origin_workflow_hash": ASKER.workflow_hash,
        "origin_instance_key": ASKER.key,
        "effect": ASKED.effect,
        "effect_hash": ASKED.effect_hash,
        "requested_idempotency_key": b"",
        "effect_index": 300,
        "emitted_at_seq": 70_000,
    }
    assert position_of(ASKER, 70_000, 300) == canon.digest(first)
    with_key = {"schema": "a/B@1", "value": b"v", "key": b"k"}
    assert event_hash("a/B@1", b"v", b"k") == canon.digest(with_key)
    child = {"parent": b"p", "workflow": "a/b@1", "key": b"k", "seq": 9, "index": 1}
    seed = canon.tagged("stamp@1", child)
    made = child_entropy(b"p", CellId("a/b@1", b"k"), 9, 1)
    assert made == sha256(seed + b"\x00").digest() + sha256(seed + b"\x01").digest()


ORIGINS = st.tuples(
    st.sampled_from(["a/x@1", "a/y@1", "a/x@2"]),
    st.binary(max_size=4),
    st.integers(1, 4),
    st.integers(0, 3),
    st.binary(max_size=2),
)


@pytest.mark.clause("K-14")
@given(ORIGINS, ORIGINS)
def test_intents_are_equal_only_for_equal_origins(one, other) -> None:
    """MO-06: workflow, cell, tick, position and params each make another intent."""

    def intent(origin: tuple[str, bytes, int, int, bytes]) -> bytes:
        workflow, key, seq, index, params = origin
        asker = ASKER._replace(workflow=workflow, key=key)
        return intent_by_position(asker, ASKED._replace(params=params), seq, index)

    assert (intent(one) == intent(other)) == (one == other)


@pytest.mark.clause("K-14")
@pytest.mark.slow
def test_a_million_origins_give_a_million_intents() -> None:
    """MO-06: equal effect and params from 10^6 positions: no two intents share 128 bits.

    100 cells x 100 ticks x 100 positions; half a digest is kept of each to bound the memory.
    """
    seen: set[bytes] = set()
    for cell in range(100):
        key = canon.encode(cell)
        for seq in range(1, 101):
            for index in range(100):
                seen.add(SITE.position(key, seq, index)[:16])
    assert len(seen) == 1_000_000


@pytest.mark.clause("K-47")
@given(
    st.tuples(st.binary(max_size=3), st.integers(0, 3), st.binary(min_size=1, max_size=3)),
    st.tuples(st.binary(max_size=3), st.integers(0, 3), st.binary(min_size=1, max_size=3)),
)
def test_keyed_intents_name_cell_birth_and_key(one, other) -> None:
    """MO-07: with an explicit key the identity is cell, birth, effect and key: nothing else."""

    def intent(of: tuple[bytes, int, bytes]) -> bytes:
        key, born, idem = of
        return intent_by_key(ASKER._replace(key=key, born_seq=born), ASKED.effect, idem)

    assert (intent(one) == intent(other)) == (one == other)
    upgraded = ASKER._replace(workflow_hash="sha256:" + "0" * 64)
    assert intent_by_key(upgraded, "e", b"k") == intent_by_key(ASKER, "e", b"k")


# ---- in a world -----------------------------------------------------------------------------

ASK = "t/Ask@1"
ECHO = "t/echo@1"


# tidy: a world's definitions, in one list.
def asking_world() -> Rig:  # tidy: a table of definitions
    """A workflow that asks for an effect as each event says; null state deletes the cell."""
    documents = [
        worlds.schema("t/Id@1", worlds.TEXT),
        worlds.schema(
            ASK,
            worlds.record(
                id=worlds.TEXT,
                amount=worlds.opt({"dec128": {}}),
                key=worlds.opt(worlds.BYTES),
                gone=worlds.opt({"bool": {}}),
            ),
        ),
        worlds.schema("t/Event@1", worlds.arms(Ask=ASK, Receipt=worlds.RECEIPT)),
        worlds.schema("t/State@1", worlds.record(n=worlds.NAT)),
        worlds.schema("t/Params@1", worlds.record(amount={"dec128": {}})),
        worlds.schema("t/Done@1", worlds.record()),
        worlds.module(),
        worlds.outside(),
        worlds.effect(ECHO, "t/Params@1", "t/Done@1"),
        worlds.workflow(
            "t/asks@1",
            "t/State@1",
            "t/Event@1",
            key_schema="t/Id@1",
            effects_emitted=[ECHO],
            cap_slots={"any": "effect"},
        ),
        worlds.ALLOW,
        worlds.manifest(
            [{"event": ASK, "workflow": "t/asks@1", "key_field": "id"}],
            **worlds.allow_all("sys/effect@1", bindings={"t/asks@1": {"any": "effect"}}),
        ),
    ]

    def asks(state, event, ctx):
        n = 0 if state is None else state["n"]
        value = event["$value"]
        if event["$tag"] != "Ask":
            return {"n": n + 1}
        if value["gone"]:
            return Outcome(None)
        wanted = {"effect": ECHO, "params": {"amount": value["amount"]}, "cap_slot": "any"}
        if value["key"] is not None:
            wanted["idempotency_key"] = value["key"]
        return Outcome({"n": n + 1}, effects=[wanted])

    return Rig(documents, {("t/code@1", "asks"): asks})


def ask(rig: Rig, amount: str, key: bytes | None = None) -> None:
    rig.send(ASK, {"id": "a", "amount": amount, "key": key, "gone": None}, lens="native")


@pytest.mark.clause("K-10", "K-47")
def test_two_spellings_are_one_intent() -> None:
    """MO-07: params are canonical before the hash: 1.50 and 1.5 under one key attach."""
    rig = asking_world()
    ask(rig, "1.50", b"k")
    ask(rig, "1.5", b"k")
    (opened,) = rig.records(IntentOpened)
    (attached,) = rig.records(IntentAttached)
    assert attached.intent == opened.intent
    assert rig.records(IntentDenied) == []
    assert len(rig.jobs.of(ECHO)) == 1


@pytest.mark.clause("K-47")
def test_the_same_key_with_other_params_is_denied() -> None:
    """MO-07, D8: `effect.key_conflict`, and the first intent stays open."""
    rig = asking_world()
    ask(rig, "1", b"k")
    ask(rig, "2", b"k")
    (denied,) = rig.records(IntentDenied)
    assert denied.code == "effect.key_conflict"
    assert len(rig.records(IntentOpened)) == 1
    assert rig.state("t/asks@1", "a") == {"n": 3}


@pytest.mark.clause("K-47", "K-35")
@pytest.mark.invariant("I19")
def test_a_re_created_cell_asks_anew() -> None:
    """MO-07, I19: the same key after delete and re-creation is another intent."""
    rig = asking_world()
    ask(rig, "1", b"k")
    rig.send(ASK, {"id": "a", "amount": None, "key": None, "gone": True}, lens="native")
    assert rig.cell("t/asks@1", "a") is None
    ask(rig, "1", b"k")
    first, second = rig.records(IntentOpened)
    assert first.intent != second.intent
    assert [job.intent for job in rig.jobs.of(ECHO)] == [first.intent, second.intent]
