"""Seals as they come over the wire: one over many receipts counts, and what is no seal does not."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tallystick.kernel.inputs import Receipt
from tallystick.kernel.settle import statement_of
from tallystick.values import canon
from tallystick.values.seal import seal_batch
from tests.api.rig import serving
from tests.api.test_receipts import PAIR, W, opened, sealed, trust


def over_the_wire(value: Any) -> Any:
    """A part of a seal as JSON has it."""
    return b64encode(value).decode() if isinstance(value, bytes) else value


def batched(world: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The bodies of these receipts under one signature over all of them."""
    bodies = [sealed(world, row) for row in rows]
    receipts = [
        Receipt(
            world=world,
            **{
                **body,
                "intent": canon.raw_of(body["intent"]),
                "payload": canon.encode({"ref": "r"}),
                "seal": {},
            },
        )
        for body in bodies
    ]
    seals = seal_batch(PAIR, [statement_of(receipt) for receipt in receipts])
    for body, seal in zip(bodies, seals, strict=True):
        told = {name: over_the_wire(value) for name, value in seal.items()}
        body["seal"] = {**told, "path": [over_the_wire(node) for node in seal["path"]]}
    return bodies


@pytest.mark.clause("X-24", "K-27")
def test_a_seal_over_many_receipts_settles_each(tmp_path: Path) -> None:
    """ND-13: root and path come as base64; each settles its own intent, none another's."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await trust(served, PAIR)
            rows = [await opened(served, name) for name in ("a", "b", "c")]
            bodies = batched(served.node.resolve("main"), *rows)
            swapped = {**bodies[0], "seal": bodies[1]["seal"]}
            wrong = await served.http.post(f"{W}/receipts", json=swapped)
            assert wrong.status_code == 422
            for body in bodies:
                found = await served.http.post(f"{W}/receipts", json=body)
                assert (found.status_code, found.json()["status"]) == (202, "settled"), found.text

    asyncio.run(main())


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("sig", [7, None, "no base64!", "AAA"])
def test_a_signature_that_is_none_settles_nothing(tmp_path: Path, sig: Any) -> None:
    """ND-13: a number, nothing, or text that is no base64 is a bad seal: 422, and still open."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await trust(served, PAIR)
            row = await opened(served, "a")
            body = sealed(served.node.resolve("main"), row)
            odd = {**body, "seal": {**body["seal"], "sig": sig}}
            found = await served.http.post(f"{W}/receipts", json=odd)
            assert (found.status_code, found.json()["code"]) == (422, "receipt.bad_seal")
            rows = (await served.http.get(f"{W}/effects")).json()["items"]
            assert [each["key"] for each in rows] == ["a"]

    asyncio.run(main())
