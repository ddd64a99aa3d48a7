"""Approvals over HTTP: who may decide, what leaves, and what is shown meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.bundle_python import python_bundle
from tallystick.model.manifest_sources import read_sources
from tests import orders
from tests.api.rig import Served, bearer, serving
from tests.node.rig import Bank, phase

W = "/v1/worlds/held"
POLICY = "shop/held@1"


def held_bundle() -> Bundle:
    """The orders, with every charge held for bob."""
    root, artifacts = python_bundle({"orders.py": b"# runs in the process of the test\n"})
    rule: dict[str, Any] = {
        "id": "big",
        "when": {"effect": orders.CHARGE},
        "decision": "require_approval",
        "approval": {"by": ["bob"], "count": 1},
    }
    policy = {"$kind": "defpolicy", "name": POLICY, "rules": [rule]}
    sources = structural_authority(read_sources([*orders.documents(root), policy]))
    assert sources.manifest is not None
    authority = sources.manifest["authority"]
    policies = [POLICY, *(name for name in authority["policies"] if name != POLICY)]
    manifest = {**sources.manifest, "authority": {**authority, "policies": policies}}
    return make_bundle(sources.definitions, manifest, artifacts)


async def charge(served: Served, order: str) -> str:
    """Place an order; the path of its charge, which is held."""
    await served.send(order, world="held")
    found = (await served.http.get(f"{W}/effects?held=true")).json()["items"]
    (row,) = [each for each in found if each["key"] == order]
    assert row["hold"]["kind"] == "approval"
    return f"{W}/effects/{row['intent']}"


async def decide(served: Served, path: str, who: str, *scopes: str, **body: Any) -> tuple[int, Any]:
    token = await served.token(*scopes, principal=who)
    answer = await served.http.post(path, json=body, headers=bearer(token))
    return answer.status_code, answer.json()


# tidy: one story, from the hold to both of its ends.
@pytest.mark.clause("X-06", "D13")
def test_people_decide(tmp_path: Path) -> None:
    """AG-09: without the scope 403, as another 403, as bob 202; the executor is asked once."""

    async def main() -> None:
        bank = Bank()
        async with serving(tmp_path, bank, worlds=()) as served:
            world = await served.node.create("held", held_bundle())
            path = await charge(served, "a")
            status, said = await decide(served, f"{path}/approve", "bob", "operate", "approve")
            assert (status, said["code"]) == (403, "auth.missing_scope")
            status, said = await decide(served, f"{path}/approve", "eve", "decide")
            assert (status, said["code"]) == (403, "policy.not_approver")
            assert not bank.asked
            why = (await served.http.get(f"{path}/why")).json()
            assert why["reason"]["text"] == "held: approval"
            done = await decide(served, f"{path}/approve", "bob", "decide", comment="fine")
            assert done[0] == 202
            assert await served.node.quiet(world, 60_000)
            assert await phase(served.node, world, "a") == "paid"
            assert len(bank.asked) == 1
            status, said = await decide(served, f"{path}/approve", "bob", "decide")
            assert status == 404, "it is settled by now"

            other = await charge(served, "b")
            assert (await decide(served, f"{other}/reject", "bob", "decide"))[0] == 202
            shown = (await served.http.get(other)).json()
            assert shown["status"] == "denied"
            assert shown["receipt"]["payload"]["code"] == "policy.approval_rejected"
            assert len(bank.asked) == 1

    asyncio.run(main())
