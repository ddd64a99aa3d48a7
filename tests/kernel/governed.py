"""A rig under governance: candidates, reports, votes and activations, in words."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tallystick.kernel.inputs import (
    Activate,
    Fail,
    MoveAlias,
    Propose,
    Prove,
    Shadow,
    TakeSnapshot,
    Vote,
)
from tallystick.kernel.propose import standing
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests.rig import WORLD, Rig, bundle_of
from tests.worlds import GO, TIMER, ask, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")
FAR_NS = 2_000_000_000_000_000_000
BOB = KeyPair(sha256(b"bob").digest())
ALL = ["propose", "approve", "apply"]
PEOPLE = [
    {"id": "alice", "kind": "human", "scopes": ALL},
    {"id": "bob", "kind": "human", "scopes": ALL, "key": "ed25519:" + BOB.public.hex()},
    {"id": "carol", "kind": "human", "scopes": ALL},
    {"id": "eve", "kind": "human", "scopes": ["read"]},
]


def governance(**rules: Any) -> dict[str, Any]:
    """The section that lists the people and these rules."""
    return {"principals": PEOPLE, "rules": rules}


def deeds() -> dict[str, Any]:
    """What the lab's cell can be told to do."""

    def wait(following: Any, _value: Any, _ctx: Any) -> Outcome:
        params = {"deliver_at_ns": FAR_NS, "key": None}
        return Outcome(following, effects=[{"effect": TIMER, "params": params}])

    return {
        "ask": lambda f, *_: Outcome(f, effects=[ask()]),
        "end": lambda f, *_: Outcome(f, status="completed"),
        "wait": wait,
    }


def lab(*more: Any, flow: dict[str, Any] | None = None, **sections: Any) -> Rig:
    """The lab, with these sections in its manifest."""
    made = lab_documents(*more, flow=flow or {"lifecycle": "entity"}, **sections)
    return Rig(made, {CODE: lab_function(**deeds())})


def candidate(number: int = 3, flow: Any = None, **sections: Any) -> tuple[bytes, dict[Any, Any]]:
    """A bundle that differs from the lab by one limit: manifest digest and blobs."""
    limits = {"effects_max": number}
    return bundle_of(lab_documents(flow=flow or {"lifecycle": "entity"}, limits=limits, **sections))


def proposing(rig: Rig, principal: str = "alice", number: int = 3, **more: Any) -> Propose:
    """The input that proposes such a bundle."""
    sections = more.pop("sections", {})
    manifest, blobs = candidate(number, more.pop("flow", None), **sections)
    patch = canon.encode({"number": number})
    blobs[canon.digest_of(patch)] = patch
    to = (rig.world.manifest, manifest, manifest, canon.digest_of(patch))
    made = Propose(rig.clock.sample(), *to, blobs, {"changed": []}, principal)
    return made._replace(**more)


def proposed(rig: Rig, principal: str = "alice", number: int = 3, **more: Any) -> str:
    """Propose it; its id."""
    ident: str = rig.do(proposing(rig, principal, number, **more)).detail["proposal"]
    return ident


def reporting(rig: Rig, ident: str, text: str = "one", **more: Any) -> Shadow:
    """The input that brings a shadow's report."""
    data = canon.encode({"report": text})
    digest = canon.digest_of(data)
    given = Shadow(rig.clock.sample(), ident, digest, True, {digest: data}, "alice")
    return given._replace(**more)


def proving(rig: Rig, ident: str, **more: Any) -> Prove:
    """The input that brings verdicts."""
    data = canon.encode({"report": "proof"})
    digest = canon.digest_of(data)
    verdicts = {"identical": 0}
    given = Prove(rig.clock.sample(), ident, digest, verdicts, {digest: data}, "alice")
    return given._replace(**more)


def voting(rig: Rig, ident: str, who: str = "bob", word: str = "approve", **more: Any) -> Vote:
    """The input that votes."""
    return Vote(rig.clock.sample(), ident, who, word)._replace(**more)


def failing(rig: Rig, ident: str) -> Fail:
    """The input that ends a proposal for a reason in itself."""
    return Fail(rig.clock.sample(), ident, "module.no_entrypoint", "nothing to run", "alice")


def applying(rig: Rig, ident: str, who: str = "carol", **more: Any) -> Activate:
    """The input that applies a proposal."""
    sample = rig.clock.sample()
    given = Activate(sample, b"", b"", rig.world.manifest, {}, who, proposal=ident)
    return given._replace(**more)


def approved(rig: Rig, number: int = 3, **more: Any) -> str:
    """A proposal that has all it needs; its id."""
    ident = proposed(rig, number=number, **more)
    rig.do(reporting(rig, ident))
    rig.do(voting(rig, ident))
    return ident


def state(rig: Rig, ident: str) -> str:
    """Where a proposal stands."""
    found = rig.world.proposals.get(ident)
    assert found is not None
    return standing(rig.world, found)


def play(rig: Rig) -> None:
    """A history with every record of governance; what it does must not change."""
    for number in range(12):
        rig.send(GO, go(f"c{number}", "note"))
    first, second, third = approved(rig, 3), approved(rig, 4), proposed(rig, number=5)
    rig.do(proving(rig, first))
    rig.do(failing(rig, third))
    rig.send(GO, go("c0", "ask"))
    rig.do(applying(rig, first))
    (job,) = rig.jobs.all
    rig.settle(job, {"a": "yes"})
    rig.do(reporting(rig, first, "again"))
    rig.do(voting(rig, first))
    rig.do(applying(rig, first))
    rig.do(applying(rig, second))
    rig.do(voting(rig, second, word="reject"))
    rig.do(TakeSnapshot(rig.clock.sample()))
    other = "6f9619ff-8b86-4d01-b42d-00cf4fc964fe"
    rig.do(MoveAlias(rig.clock.sample(), "prod", other, "alice", WORLD))
    rig.do(MoveAlias(rig.clock.sample(), "prod", WORLD, "alice", other))
    for number in range(12):
        rig.send(GO, go(f"c{number}", "note"))


FUNCTIONS = {CODE: lab_function(**deeds())}
