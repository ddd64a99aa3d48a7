"""AT-13 receipt-forgery (ND-13, I22): only the sealed outcome of this intent settles it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import ROUTES, Job, Till, receipt

OUTSIDER = KeyPair(bytes(range(1, 33)))
REVOKED = KeyPair(bytes(range(2, 34)))
ELSEWHERE = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def run(bench: Bench) -> dict[str, Any]:
    """Bring fifteen forgeries for one open intent, then the true receipt."""
    with Place(bench.fresh("node"), ROUTES, planted=bench.planted) as place:
        place.start()
        till = Till(place)
        try:
            till.trust()
            till.trust(REVOKED)
            gone, said = place.ask(
                "DELETE", f"/v1/worlds/main/keys/{REVOKED.key_id}", {"reason": "lost"}
            )
            assert gone == 202, said
            till.bill("target", "other")
            target, other = [job for _ in range(2) for job in till.lease(1, wait_ms=30_000)]
            answers = {}
            moved = []
            for name, body in _forgeries(target, other).items():
                before = place.root()["state_root"]
                answers[name] = till.bring(body)[0]
                if place.root()["state_root"] != before:
                    moved.append(name)
            true = till.bring(receipt(target))[0]
        finally:
            till.close()
    return {"answers": answers, "moved": moved, "true": true}


def _forgeries(target: Job, other: Job) -> dict[str, dict[str, Any]]:
    good = receipt(target)
    mine = b64encode(canon.encode({"ref": "mine"})).decode()
    return {
        "no seal": {**good, "seal": {}},
        "bad signature": {**good, "seal": {**good["seal"], "sig": "AAAA"}},
        "changed payload": {**good, "payload": mine},
        "changed status": {**good, "status": "error"},
        "changed times": {**good, "ended_ns": 3},
        "changed usage": {**good, "usage": {"tokens": 1}},
        "seal of another intent": {**good, "intent": other["intent"]},
        "seal of another world": receipt(target, world=ELSEWHERE),
        "untrusted key": receipt(target, pair=OUTSIDER),
        "revoked key": receipt(target, pair=REVOKED),
        "kernel": receipt(target, executor="kernel"),
        "stale attempt": receipt(target, attempt=target["attempt"] + 1),
        "another executor": receipt(target, executor="bank"),
        "unknown intent": receipt({**target, "intent": "sha256:" + "ab" * 32}),
        "another world in the body": {**good, "world": "side"},
    }


def faults(found: dict[str, Any]) -> list[str]:
    """A forgery that was taken, or that moved the state; a true receipt that was not taken."""
    taken = [name for name, status in found["answers"].items() if status < 400]
    wrong = [f"taken: {taken}"] if taken else []
    if found["moved"]:
        wrong.append(f"the state moved: {found['moved']}")
    if found["true"] != 202:
        wrong.append(f"the true receipt was answered with {found['true']}")
    return wrong


CASE = Case(
    number="at-13",
    name="receipt-forgery",
    rows="ND-13 I22",
    run=run,
    faults=faults,
    planted="seals_not_checked",
    small={},
    full={},
)
