"""Receipts over HTTP: only the sealed outcome of this intent and attempt settles (ND-13, AT-13)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tallystick.kernel.inputs import Receipt
from tallystick.kernel.settle import statement_of
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests import orders
from tests.api.rig import Served, serving

W = "/v1/worlds/main"
PAIR = KeyPair(bytes(range(32)))
OUTSIDER = KeyPair(bytes(range(1, 33)))
REVOKED = KeyPair(bytes(range(2, 34)))


async def trust(served: Served, pair: KeyPair, executor: str = "payments") -> None:
    body = {
        "public_key": pair.public.hex(),
        "executors": [executor],
        "effects": [orders.CHARGE],
    }
    assert (await served.http.post(f"{W}/keys", json=body)).status_code == 202


async def opened(served: Served, order_id: str) -> dict[str, Any]:
    """The open effect of a new order."""
    await served.send(order_id)
    rows = (await served.http.get(f"{W}/effects")).json()["items"]
    return next(row for row in rows if row["key"] == order_id)


def sealed(world: str, row: dict[str, Any], pair: KeyPair = PAIR, **more: Any) -> dict[str, Any]:
    """The body of a receipt and a seal over it; `more` is sealed too."""
    fields: dict[str, Any] = {
        "intent": row["intent"],
        "attempt": row["attempts"],
        "effect": row["effect"],
        "status": "ok",
        "payload": canon.encode({"ref": "r"}),
        "executor": "payments",
        "started_ns": 1,
        "ended_ns": 2,
        "usage": None,
        **more,
    }
    receipt = Receipt(
        world=world,
        seal={},
        **{**fields, "intent": canon.raw_of(fields["intent"])},
    )
    seal = pair.sign(statement_of(receipt))
    seal["sig"] = b64encode(seal["sig"]).decode()
    return {**fields, "payload": b64encode(fields["payload"]).decode(), "seal": seal}


async def forgeries(served: Served) -> dict[str, tuple[dict[str, Any], int]]:
    """Twelve receipts that must settle nothing, each with the status it deserves."""
    world = served.node.resolve("main")
    row = await opened(served, "target")
    good = sealed(world, row)
    other = await opened(served, "other")
    unknown = {**row, "intent": "sha256:" + "ab" * 32}
    return {
        "no seal": ({**good, "seal": {}}, 422),
        "bad signature": ({**good, "seal": {**good["seal"], "sig": "AAAA"}}, 422),
        "changed payload": (
            {**good, "payload": b64encode(canon.encode({"ref": "mine"})).decode()},
            422,
        ),
        "changed status": ({**good, "status": "error"}, 422),
        "changed times": ({**good, "ended_ns": 3}, 422),
        "changed usage": ({**good, "usage": {"tokens": 1}}, 422),
        "seal of another intent": ({**good, "intent": other["intent"]}, 422),
        "seal of another world": (sealed("6f9619ff-8b86-4d01-b42d-00cf4fc964ff", row), 422),
        "untrusted key": (sealed(world, row, OUTSIDER), 422),
        "revoked key": (sealed(world, row, REVOKED), 422),
        "kernel": (sealed(world, row, executor="kernel"), 422),
        "stale attempt": (sealed(world, row, attempt=2), 409),
        "another executor": (sealed(world, row, executor="bank"), 422),
        "unknown intent": (sealed(world, unknown), 422),
        "another world in the body": ({**good, "world": "side"}, 403),
    }


@pytest.mark.clause("X-24")
def test_forgeries_change_nothing(tmp_path: Path) -> None:
    """ND-13, AT-13: forged, stale, foreign, revoked and kernel-claiming receipts: root equal."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await trust(served, PAIR)
            await trust(served, REVOKED)
            gone = await served.http.request(
                "DELETE", f"{W}/keys/{REVOKED.key_id}", json={"reason": "lost"}
            )
            assert gone.status_code == 202, gone.text
            bad = await forgeries(served)
            assert len(bad) >= 12
            before = await served.root()
            for name, (body, status) in bad.items():
                got = await served.http.post(f"{W}/receipts", json=body)
                assert (name, got.status_code) == (name, status), got.text
                assert await served.root() == before, name

    asyncio.run(main())


@pytest.mark.clause("X-24", "K-27")
def test_the_true_receipt_settles_once(tmp_path: Path) -> None:
    """ND-13 control: the sealed one settles; again it is 200 and changes nothing."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await trust(served, PAIR)
            row = await opened(served, "a")
            body = sealed(served.node.resolve("main"), row)
            settled = await served.http.post(f"{W}/receipts", json=body)
            assert (settled.status_code, settled.json()["status"]) == (202, "settled")
            await served.node.quiet(served.node.resolve("main"), 60_000)
            before = await served.root()
            again = await served.http.post(f"{W}/receipts", json=body)
            assert (again.status_code, again.json()["status"]) == (200, "duplicate")
            assert await served.root() == before
            shown = (await served.http.get(f"{W}/effects/{row['intent']}")).json()
            assert (shown["status"], shown["receipt"]["executor"]) == ("ok", "payments")

    asyncio.run(main())


@pytest.mark.clause("N-23")
def test_a_worker_leases_and_settles(tmp_path: Path) -> None:
    """04 section 10: lease, extend, progress, receipt; the same receipt again 200; lost 409."""

    async def main() -> None:
        routes = {"routes": {orders.CHARGE: "pool:gpu"}}
        async with serving(tmp_path, executors=routes) as served:
            await trust(served, PAIR)
            wish = {"worker": "w", "pools": ["gpu"], "max": 5}
            none = await served.http.post("/v1/work/lease", json=wish)
            assert (none.status_code, none.content) == (204, b"")
            await served.send("a")
            got = await served.http.post("/v1/work/lease", json={**wish, "wait_ms": 5000})
            (job,) = got.json()["items"]
            assert job["params"]["cents"] in (5, "5")
            path = f"/v1/work/{job['lease']}"
            longer = await served.http.post(f"{path}/extend", json={"lease_ms": 60_000})
            assert longer.json()["cancel"] is False
            news = {"seq": 1, "kind": "note", "payload": b64encode(canon.encode("x")).decode()}
            assert (await served.http.post(f"{path}/progress", json=news)).status_code == 202
            row = {**job, "attempts": job["attempt"]}
            whole = sealed(job["world"], row)
            body = {k: whole[k] for k in whole if k not in ("intent", "attempt", "effect")}
            forged = {**body, "ended_ns": 9}
            assert (await served.http.post(f"{path}/receipt", json=forged)).status_code == 422
            assert (await served.http.post(f"{path}/receipt", json=body)).status_code == 202
            assert (await served.http.post(f"{path}/receipt", json=body)).status_code == 200
            lost = await served.http.post("/v1/work/0123/extend", json={})
            assert (lost.status_code, lost.json()["code"]) == (409, "work.lease_lost")

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_work_of_another_world_is_not_leased(tmp_path: Path) -> None:
    """AT-27: a worker's token reaches the jobs and leases of its own worlds only."""

    async def main() -> None:
        routes = {"routes": {orders.CHARGE: "pool:gpu"}}
        async with serving(tmp_path, executors=routes, worlds=("main", "other")) as served:
            await served.send("a")
            token = await served.token("work", worlds=["other"])
            headers = {"Authorization": f"Bearer {token}"}
            wish = {"worker": "w", "pools": ["gpu"]}
            got = await served.http.post("/v1/work/lease", json=wish, headers=headers)
            assert got.status_code == 204
            (job,) = (await served.http.post("/v1/work/lease", json=wish)).json()["items"]
            path = f"/v1/work/{job['lease']}/release"
            assert (await served.http.post(path, headers=headers)).status_code == 403
            assert (await served.http.post(path)).status_code == 200

    asyncio.run(main())
