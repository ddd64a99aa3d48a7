"""Collecting beside service: orphans go, nothing that is named goes, whenever it was named."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Job, Ok, Outcome
from tallystick.journal.base import Append
from tallystick.node import collecting
from tallystick.node.driver import Ticket
from tallystick.node.node import Node
from tallystick.node.sweeping import Sweeping
from tests import orders
from tests.node.rig import Bank, config, placed, running

NONE = {"blob_grace": "0s", "snapshots": 1}


async def orphan(node: Node, world: str, text: str) -> bytes:
    """A blob that nothing names."""
    data = text.encode()
    digest = sha256(data).digest()
    await node.write(
        lambda journal: journal.append(Append(world, (), journal.head(world), {digest: data}))
    )
    return digest


async def there(node: Node, world: str, digest: bytes) -> bool:
    return await node.read(lambda reader: reader.blob(world, digest)) is not None


async def order(node: Node, world: str, name: str) -> None:
    await node.offer(world, placed(node, name))
    assert await node.quiet(world, 60_000)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_orphans_go_while_the_node_serves(tmp_path: Path) -> None:
    """ND-26: under load, again and again; afterwards all verifies and replays to the same root."""

    async def main() -> None:
        async with running(config(tmp_path, retention=NONE), Bank()) as node:
            world = await node.create("main", orders.bundle())
            gone = [await orphan(node, world, f"orphan {i}") for i in range(5)]

            async def load() -> None:
                for i in range(60):
                    await node.offer(world, placed(node, f"o-{i}"))
                    if i % 20 == 19:
                        await node.snapshot(world)

            loading = asyncio.create_task(load())
            removed = 0
            while not loading.done():
                removed += (await collecting.collect(node, world, dry_run=False))["removed"]
            await loading
            await order(node, world, "last")
            removed += (await collecting.collect(node, world, dry_run=False))["removed"]
            assert removed >= 5
            assert not any([await there(node, world, digest) for digest in gone])
            left = await collecting.collect(node, world, dry_run=True)
            assert left["removed"] == 0
            assert (await node.ops.verify(world, "replay"))["ok"]
        async with running(config(tmp_path), Bank()) as node:
            assert (await node.ops.verify(world))["ok"]

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-44")
@pytest.mark.parametrize("forgets", [False, True])
def test_what_is_named_between_marking_and_sweep_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """I21: a receipt names an old orphan meanwhile; control: a sweep that forgets the tail."""
    # tidy: one story, told in its order.

    async def main() -> None:
        wanted: list[bytes] = []

        async def act(job: Job) -> Outcome:
            named = f"sha256:{wanted[0].hex()}"
            return Ok({"ref": named if job.params["token"] == "meanwhile" else "plain"})

        async with running(config(tmp_path, retention=NONE), Bank(act)) as node:
            world = await node.create("main", orders.bundle())
            wanted.append(await orphan(node, world, "wanted after all"))
            other = await orphan(node, world, "never wanted")
            await order(node, world, "before")
            begin = Sweeping.begin

            async def slowly(sweeping: Sweeping, older_ns: int) -> Any:
                found = await begin(sweeping, older_ns)
                await order(node, world, "meanwhile")
                return found

            monkeypatch.setattr(Sweeping, "begin", slowly)
            if forgets:
                monkeypatch.setattr(Sweeping, "_follow", lambda *_: 0)
            await collecting.collect(node, world, dry_run=False)
            assert not await there(node, world, other)
            assert await there(node, world, wanted[0]) is not forgets

    asyncio.run(asyncio.wait_for(main(), 240))


def test_what_is_decided_and_not_durable_is_seen(tmp_path: Path) -> None:
    """I21: frames that are only staged count as naming what they name."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            hosted = node.engine.worlds[world]

            def look() -> list[Any]:
                hosted.driver.handle(Ticket(placed(node, "o-1")))
                return node.engine.ahead(hosted)

            assert [each.sealed is not None for each in await node.on_kernel(look)] == [True]
            await order(node, world, "o-2")
            assert await node.on_kernel(lambda: node.engine.ahead(hosted)) == []

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-44")
def test_the_grace_is_measured_by_one_clock(tmp_path: Path) -> None:
    """F6: the wall clock was a year ahead when the node started, and is right again: what was just
    uploaded has its grace all the same.
    """

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            node.clock._offset_ns += 365 * 86_400 * 10**9  # a node does not see a step of the wall
            world = await node.create("main", orders.bundle())
            await order(node, world, "before")
            young = await orphan(node, world, "just uploaded")
            await order(node, world, "after")
            await collecting.collect(node, world, dry_run=False)
            assert await there(node, world, young)

    asyncio.run(asyncio.wait_for(main(), 120))
