"""Secrets at admission: an unknown or forbidden one is denied before anything leaves."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Decide, Planned
from tallystick.model.records import IntentDenied, IntentOpened, ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig, bundle_of, check
from tests.worlds import (
    ALLOW,
    GO,
    LAB,
    allow_all,
    effect,
    go,
    lab_documents,
    lab_function,
    record,
    schema,
)

CALL = "t/call@1"
CODE = ("t/code@1", "lab")
SLOTS = {"cap_slots": {"main": "effect"}, "effects_emitted": [CALL]}
OWN = allow_all("sys/effect@1", bindings={LAB: {"main": "effect"}})
LITERAL = {"$tag": "literal", "$value": "plain"}


def secret(alias: str, version: int = 1) -> dict[str, Any]:
    return {"$tag": "secret", "$value": {"alias": alias, "version": version}}


def definition(name: str, *allowed: str) -> dict[str, Any]:
    return {
        "$kind": "defsecret",
        "name": name,
        "binding_id": "env:KEY",
        "allowed_caps": list(allowed),
    }


HOLD = {
    "$kind": "defpolicy",
    "name": "t/held@1",
    "rules": [{"id": "all", "decision": "require_approval"}],
}


def documents(*definitions: Any) -> list[Any]:
    key = {"ref": "sys/TextOrSecretRef@1"}
    policy = HOLD if HOLD in definitions else ALLOW
    return lab_documents(
        schema("t/Call@1", record(keys={"list": key})),
        effect(CALL, "t/Call@1", "t/Answer@1"),
        *definitions,
        flow=SLOTS,
        **{**OWN, "authority": {**OWN["authority"], "policies": [policy["name"]]}},
    )


def change(rig: Rig, *definitions: Any) -> None:
    """Switch to a bundle with these definitions; the cell that asked goes on."""
    manifest, blobs = bundle_of(documents(*definitions))
    plan = {(LAB, rig.cell(LAB, "a").id.key): Planned(rig.cell(LAB, "a").last_seq)}
    sample = rig.clock.sample()
    rig.do(Activate(sample, manifest, manifest, rig.manifest, blobs, "alice", plan=plan))


def asker(*definitions: Any, keys: list[Any], **more: Any) -> Rig:
    """A world whose cell asks once with these values in places for secrets."""
    wish = {"effect": CALL, "params": {"keys": keys}, "cap_slot": "main", **more}

    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, effects=[wish])

    rig = Rig(documents(*definitions), {CODE: lab_function(wish=run)})
    rig.send(GO, go("a", "wish"))
    return rig


MAY = definition("pay/key@1", "effect")
DENIED = {
    "nobody defines it": ([], [secret("pay/key")], "shape", "secret.unknown", "/keys/0"),
    "another version": ([MAY], [secret("pay/key", 2)], "shape", "secret.unknown", "/keys/0"),
    "the second one": (
        [MAY],
        [secret("pay/key"), secret("x")],
        "shape",
        "secret.unknown",
        "/keys/1",
    ),
    "no grant may": (
        [definition("pay/key@1")],
        [LITERAL, secret("pay/key")],
        "capability",
        "secret.not_allowed",
        "/keys/1",
    ),
    "another grant may": (
        [definition("pay/key@1", "other")],
        [secret("pay/key")],
        "capability",
        "secret.not_allowed",
        "/keys/0",
    ),
}


@pytest.mark.clause("K-04", "K-07", "X-24")
@pytest.mark.parametrize("name", DENIED)
def test_denied(name: str) -> None:
    """06 section 1: stage and code say what is wrong with a secret; nothing leaves."""
    definitions, keys, stage, code, path = DENIED[name]
    rig = asker(*definitions, keys=keys)
    (denied,) = rig.records(IntentDenied)
    assert (denied.stage, denied.code, denied.path) == (stage, code, path)
    assert denied.judged.shape == ("no" if stage == "shape" else "ok")
    assert denied.judged.policy is None
    assert not rig.jobs.all
    assert rig.state(LAB, "a")["log"] == ["wish", "denied:"]
    check(rig)


@pytest.mark.clause("K-04")
@pytest.mark.parametrize("keys", [[], [LITERAL], [secret("pay/key")], [secret("pay/key"), LITERAL]])
def test_allowed(keys: list[Any]) -> None:
    """06 section 5: a known secret under a grant that may use it is admitted, and text too."""
    rig = asker(MAY, keys=keys)
    assert not rig.records(IntentDenied)
    assert len(rig.jobs.all) == 1
    check(rig)


def test_no_yes_stands() -> None:
    """06 section 5: a yes to one secret is no yes to the next, which other params name."""
    keys = [[secret("pay/key")], [secret("pay/other")], [LITERAL]]

    def run(following: Any, value: Any, _ctx: Any) -> Outcome:
        params = {"keys": keys[value["n"]]}
        return Outcome(following, effects=[{"effect": CALL, "params": params}])

    rig = Rig(documents(MAY), {CODE: lab_function(wish=run)})
    for n in range(3):
        rig.send(GO, go("a", "wish", n))
    assert [denied.code for denied in rig.records(IntentDenied)] == ["secret.unknown"]
    assert len(rig.jobs.all) == 2
    check(rig)


def test_key_attaches_first() -> None:
    """06 section 1: a key that is open attaches, also after its secret left the manifest."""
    rig = asker(MAY, keys=[secret("pay/key")], idempotency_key=b"k")
    change(rig)
    rig.send(GO, go("a", "wish"))
    assert len(rig.records(IntentOpened)) == 1
    assert not rig.records(IntentDenied)
    rig.settle(rig.jobs.all[0], {"a": "yes"})
    check(rig)


@pytest.mark.clause("K-04", "K-29")
@pytest.mark.parametrize("stays", [True, False])
def test_a_secret_that_left_while_people_thought_about_it(stays: bool) -> None:
    """06 section 1: what is approved is asked for again, its secrets by today's manifest.

    The control is the same approval under a manifest that still has the secret.
    """
    rig = asker(HOLD, MAY, keys=[secret("pay/key")])
    assert not rig.jobs.all
    change(rig, HOLD, *([MAY, definition("more/key@1")] if stays else []))
    ((held, _),) = rig.world.intents.entries()
    rig.do(Decide(rig.clock.sample(), held, "bob", "approve"))
    rig.run()
    assert len(rig.jobs.all) == stays
    told = [canon.decode(each.payload)["code"] for each in rig.records(ReceiptSettled)]
    assert told == ([] if stays else ["secret.unknown"])
    assert rig.state(LAB, "a")["log"] == (["wish"] if stays else ["wish", "denied:"])
    check(rig)
