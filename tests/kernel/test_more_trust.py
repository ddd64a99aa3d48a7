"""Whose seals count: keys of the manifest, keys for one executor or effect, revoked keys."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Progress, RevokeKey, Submit, TrustKey
from tallystick.model.records import Dropped, KeyTrusted
from tallystick.modules.python import Outcome
from tallystick.node.jobs import Published
from tallystick.values import canon
from tallystick.values.seal import KeyPair, progress_statement
from tests.rig import NODE, OUTSIDER, Rig, bundle_of, check, refused
from tests.worlds import ASK, GO, LAB, LAB_ARMS, PROGRESS, ask, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")


def lab(**more: Any) -> Rig:
    def wish(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[ask()])

    arms = {**LAB_ARMS, "Progress": PROGRESS}
    return Rig(lab_documents(lab_arms=arms, **more), {CODE: lab_function(ask=wish)})


def asked(rig: Rig, ident: str = "a") -> Published:
    rig.send(GO, go(ident, "ask"))
    return rig.jobs.all[-1]


def listed(pair: KeyPair, **more: Any) -> dict[str, Any]:
    """The trust section of a manifest that lists one key."""
    return {"executors": [{"public_key": pair.public.hex(), **more}]}


@pytest.mark.clause("D7")
def test_keys_of_the_manifest_are_trusted_from_the_first_frame():
    """D7: a key that the manifest lists seals receipts of its executors, and of no others."""
    rig = lab(trust=listed(OUTSIDER, executors=["outside"], effects=[ASK]))
    assert OUTSIDER.key_id in [record.key for record in rig.records(KeyTrusted)]
    assert rig.settle(asked(rig), {"a": "yes"}, pair=OUTSIDER).kind == "settled"
    assert rig.state(LAB, "a")["log"] == ["ask", "ok:"]
    check(rig)


@pytest.mark.clause("D7")
def test_an_activation_trusts_new_keys_and_leaves_revoked_ones():
    """D7: a listed key is trusted with its bundle; once revoked, no bundle brings it back."""
    rig = lab()
    for executor in ("*", "outside"):
        trust = listed(OUTSIDER, executors=[executor], effects=["*"])
        manifest, blobs = bundle_of(lab_documents(trust=trust))
        sample = rig.clock.sample()
        given = Activate(sample, manifest, manifest, rig.world.manifest, blobs, "alice")
        assert rig.do(given).kind == "activated"
        assert rig.world.keys[OUTSIDER.key_id].revoked is (executor == "outside")
        if executor == "*":
            rig.do(RevokeKey(rig.clock.sample(), OUTSIDER.key_id, "alice", "lost"))
    known = [record for record in rig.records(KeyTrusted) if record.key == OUTSIDER.key_id]
    assert len(known) == 1
    check(rig)


@pytest.mark.clause("D7")
@pytest.mark.parametrize(
    ("executors", "effects", "settled"),
    [
        (("outside",), ("*",), True),
        (("*",), (ASK,), True),
        (("elsewhere",), ("*",), False),
        (("*",), ("t/other@1",), False),
        ((), (), False),
    ],
)
def test_a_seal_counts_for_what_its_key_is_trusted_with(
    executors: tuple[str, ...], effects: tuple[str, ...], settled: bool
):
    """D7: a true seal of a key for another executor or effect changes nothing."""
    rig = lab()
    job = asked(rig)
    trusted = rig.do(TrustKey(rig.clock.sample(), OUTSIDER.public, executors, effects, "alice"))
    assert (trusted.kind, trusted.seq) == ("governed", rig.world.seq)
    answer = rig.settle(job, {"a": "yes"}, pair=OUTSIDER)
    if settled:
        assert answer.kind == "settled"
    else:
        assert (answer.kind, answer.detail) == ("dropped", "untrusted_key")
        assert [record.reason for record in rig.records(Dropped)] == ["untrusted_key"]
        assert rig.state(LAB, "a")["log"] == ["ask"]
    check(rig)


@pytest.mark.clause("D7")
def test_a_revoked_key_counts_for_nothing_any_more():
    """D7: what comes after the revocation is refused, though its seal is true."""
    rig = lab()
    job = asked(rig)
    rig.do(TrustKey(rig.clock.sample(), OUTSIDER.public, ("*",), ("*",), "alice"))
    rig.do(RevokeKey(rig.clock.sample(), OUTSIDER.key_id, "alice", "lost"))
    answer = rig.settle(job, {"a": "yes"}, pair=OUTSIDER)
    assert (answer.kind, answer.detail) == ("dropped", "untrusted_key")
    assert rig.settle(job, {"a": "yes"}).kind == "settled"
    check(rig)


def progress(rig: Rig, job: Published, pair: KeyPair | None, **changed: Any) -> Any:
    """One progress frame; `world` may be another one than the job's."""
    world = changed.get("world", job.world)
    statement = progress_statement(
        world=world,
        intent=canon.text_of(job.intent),
        attempt=job.attempt,
        seq=1,
        kind="text",
        payload_hash=canon.hash_of(b"part"),
    )
    seal = None if pair is None else pair.sign(statement)
    sample = rig.clock.sample()
    return rig.do(Progress(sample, world, job.intent, job.attempt, 1, "text", b"part", seal))


@pytest.mark.clause("K-27")
def test_progress_of_others_is_not_noted():
    """Progress for another world, or sealed by a key without trust, is dropped."""
    rig = lab()
    job = asked(rig)
    other = "0b7e4f7a-6b3c-4a57-9f0e-000000000001"
    assert progress(rig, job, NODE, world=other).detail == "foreign_world"
    assert progress(rig, job, OUTSIDER).detail == "bad_seal"
    rig.do(TrustKey(rig.clock.sample(), OUTSIDER.public, ("elsewhere",), ("*",), "alice"))
    assert progress(rig, job, OUTSIDER).detail == "bad_seal"
    assert progress(rig, job, NODE).kind == "noted"
    check(rig)


@pytest.mark.clause("K-12")
def test_the_canonical_lens_takes_bytes_only():
    """K-12: a plain value under the canonical lens is refused, and the root stays."""
    rig = lab()
    given = Submit(rig.clock.sample(), GO, go("a"), lens="canonical")
    assert refused(rig, given).code == "value.mismatch"
