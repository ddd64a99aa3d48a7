"""Remote work: a lease is durable, ends, is taken over, and only its holder settles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.kernel.inputs import Progress, Receipt, TrustKey
from tallystick.kernel.settle import statement_of
from tallystick.node.leases import Wish
from tallystick.node.node import Node
from tallystick.node.work import Brought
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests import orders
from tests.node.rig import config, phase, placed, running

WORKER = KeyPair(bytes(range(32)))
WISH = Wish("w-1", ("gpu",), (), 10, 5_000, 60_000)


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 240))


def anywhere(world: str) -> bool:
    return True


def pooled(tmp_path: Path, **work: Any) -> Any:
    return config(tmp_path, executors={"routes": {orders.CHARGE: "pool:gpu"}}, work=work)


async def trusted(node: Node, progress: str | None = None) -> str:
    """A world that trusts the worker's key for charges."""
    world = await node.create("main", orders.bundle(progress=progress))
    given = TrustKey(node.clock.sample(), WORKER.public, ("payments",), (orders.CHARGE,), "alice")
    await node.one(world, given)
    return world


def brought(
    world: str, job: dict[str, Any], pair: KeyPair = WORKER, ref: str = "far away"
) -> Brought:
    receipt = Receipt(
        world=world,
        intent=canon.raw_of(job["intent"]),
        effect=job["effect"],
        status="ok",
        payload=canon.encode({"ref": ref}),
        executor="payments",
        attempt=job["attempt"],
        started_ns=1,
        ended_ns=2,
        usage=None,
        seal={},
    )
    seal = pair.sign(statement_of(receipt))
    return Brought("payments", "ok", receipt.payload, 1, 2, None, seal)


@pytest.mark.clause("N-23")
def test_a_leased_job_is_settled_by_its_holder_once(tmp_path: Path) -> None:
    """A worker leases, brings a sealed receipt, and may bring it again."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o-1"))
            (job,) = await node.work.lease(WISH, anywhere)
            assert job["params"] == {"token": "o-1", "cents": "5"} or job["params"]["cents"] == 5
            lease = node.work.find(job["lease"])
            given = brought(world, job)
            assert (await node.work.receipt(lease, given)).kind == "settled"
            assert (await node.work.receipt(node.work.find(job["lease"]), given)).kind == "seen"
            assert await phase(node, world, "o-1") == "paid"

    go(main())


@pytest.mark.clause("K-27")
def test_progress_of_a_worker_must_fit_the_effect(tmp_path: Path) -> None:
    """BUGS 105: what does not fit is refused and not noted, as if it came from within the node."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node, "shop/ChargeReceipt@1")
            await node.offer(world, placed(node, "o-1"))
            (job,) = await node.work.lease(WISH, anywhere)
            lease = node.work.find(job["lease"])

            async def said(payload: bytes) -> str:
                given = Progress(node.clock.sample(), world, b"", 0, 1, "part", payload)
                return (await node.work.progress(lease, given)).kind

            for wrong in (canon.encode({"coins": 1}), b"part"):
                with pytest.raises(TallyError):
                    await said(wrong)
            assert await said(canon.encode({"ref": "half"})) == "live"

    go(main())


@pytest.mark.clause("N-23")
def test_a_lost_lease_is_taken_over_and_its_receipt_settles_nothing(tmp_path: Path) -> None:
    """ND-16 in one process: the next attempt is journaled; the old holder is too late."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o-1"))
            (first,) = await node.work.lease(WISH._replace(lease_ms=1), anywhere)
            (second,) = await node.work.lease(WISH._replace(worker="w-2"), anywhere)
            assert (first["attempt"], second["attempt"]) == (1, 2)
            with pytest.raises(TallyError) as caught:
                node.work.find(first["lease"])
            assert caught.value.code == "work.lease_lost"
            late = await node.work.deliver(_receipt(world, first))
            assert (late.kind, late.detail) == ("dropped", "stale_attempt")
            lease = node.work.find(second["lease"])
            assert (await node.work.receipt(lease, brought(world, second))).kind == "settled"

    go(main())


def _receipt(world: str, job: dict[str, Any]) -> Receipt:
    given = brought(world, job)
    return Receipt(
        world=world,
        intent=canon.raw_of(job["intent"]),
        effect=job["effect"],
        status=given.status,
        payload=given.payload,
        executor=given.executor,
        attempt=job["attempt"],
        started_ns=1,
        ended_ns=2,
        usage=None,
        seal=given.seal,
    )


@pytest.mark.clause("N-23")
def test_a_lease_survives_a_restart_of_the_node(tmp_path: Path) -> None:
    """The holder settles after a restart, without another attempt."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o-1"))
            (job,) = await node.work.lease(WISH, anywhere)
        async with running(pooled(tmp_path)) as node:
            for _ in range(6_000):
                if node.work.running(world):
                    break
                await asyncio.sleep(0.01)
            lease = node.work.find(job["lease"])
            assert await node.work.lease(WISH._replace(wait_ms=0), anywhere) == []
            assert (await node.work.receipt(lease, brought(world, job))).kind == "settled"
            assert await phase(node, world, "o-1") == "paid"

    go(main())


@pytest.mark.clause("X-24")
def test_a_strange_key_settles_nothing(tmp_path: Path) -> None:
    """ND-13: a receipt sealed by a key that the world does not trust is dropped."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o-1"))
            (job,) = await node.work.lease(WISH, anywhere)
            given = brought(world, job, KeyPair(bytes(32)))
            answer = await node.work.receipt(node.work.find(job["lease"]), given)
            assert (answer.kind, answer.detail) == ("dropped", "untrusted_key")
            assert await phase(node, world, "o-1") == "charging"

    go(main())


@pytest.mark.clause("N-23")
def test_a_receipt_is_remembered_without_its_payload(tmp_path: Path) -> None:
    """I42: ten thousand receipts are remembered to answer them again, but not what they brought."""

    async def main() -> None:
        async with running(pooled(tmp_path)) as node:
            world = await trusted(node)
            await node.offer(world, placed(node, "o" * 40_000))
            (job,) = await node.work.lease(WISH, anywhere)
            given = brought(world, job, ref="r" * 200_000)
            answer = await node.work.receipt(node.work.find(job["lease"]), given)
            assert answer.kind == "settled"
            again = await node.work.receipt(node.work.find(job["lease"]), given)
            assert (again.kind, again.seq) == ("seen", answer.seq)
            other = brought(world, job, ref="r" * 200_001)
            with pytest.raises(TallyError):
                await node.work.receipt(node.work.find(job["lease"]), other)
            (done,) = node.work._done.values()
            assert len(done.brought.payload) + len(done.lease.job.params) < 1_000

    go(main())
