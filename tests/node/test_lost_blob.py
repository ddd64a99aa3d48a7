"""Bytes that the disk has lost: their world stops, and nothing is ever decided on their absence."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import BlobLost, JournalCorrupt, TallyError
from tallystick.journal.base import Append
from tallystick.model.abi import Halted
from tallystick.model.frames import open_frame
from tallystick.model.records import WorkflowFaulted
from tallystick.modules.builtin import Builtin
from tallystick.node.node import Node
from tallystick.playbooks.bundle import play_bundle
from tallystick.values import canon
from tests.playbooks.rig import ended, playing, request, send, until
from tests.playbooks.test_played import HEAD

TEXT = (
    HEAD
    + """workflow:
  - step: first
    spec: {policy: {admit: {rules: [{when: "{{ ctx.approved }}", then: {allow: true}}]}}}
    tool: {kind: noop}
    set_ctx: {size: "{{ workload.rows | length }}"}
"""
)
WORKLOAD = {"rows": [f"row {n}" for n in range(500)]}
LOST = canon.encode(WORKLOAD)
APPROVED = {"execution": "e1", "set": {"approved": True}, "unset": [], "principal": "ana"}
APPROVED["reason"] = "checked"
PLAIN = ("timer", "playbook")


async def lose(node: Node) -> None:
    """Delete the row of the workload, as no part of the node ever would."""
    digest = canon.digest_of(LOST)

    def act(journal: Any) -> None:
        journal._db.execute("DELETE FROM blob WHERE hash=?", (digest,))
        assert journal._db.changes() == 1

    await node.write(act)


async def put_back(node: Node, world: str) -> None:
    """Put the same bytes into the store again, as PUT W/blobs does."""

    def keep(journal: Any) -> None:
        digest = canon.digest_of(LOST)
        journal.append(Append(world, (), journal.head(world), {digest: LOST}))

    await node.write(keep)


async def stopped(node: Node, world: str) -> TallyError:
    """What a stopped world says to whoever sends it something."""
    end = asyncio.get_running_loop().time() + 60
    while world not in node.engine.stopped():
        assert asyncio.get_running_loop().time() < end, "it never stopped"
        await asyncio.sleep(0.01)
    with pytest.raises(TallyError) as caught:
        await send(node, world, "sys/PlayCtxPatch@1", APPROVED)
    return caught.value


async def faults(node: Node, world: str) -> list[WorkflowFaulted]:
    frames = await node.read(lambda reader: list(reader.read(world)))
    records = [record for frame in frames for record in open_frame(frame.body)[3]]
    return [record for record in records if isinstance(record, WorkflowFaulted)]


async def neighbour(node: Node, name: str) -> None:
    """Another world of the same node goes on all the while."""
    known = node.worlds()
    world = known["other"] if "other" in known else await node.create("other", play_bundle())
    await request(node, world, TEXT, name=name, workload={"rows": [1, 2]})
    await send(node, world, "sys/PlayCtxPatch@1", {**APPROVED, "execution": name})
    assert (await ended(node, world, name)).ctx["size"] == 2


async def head(node: Node, world: str) -> bytes:
    return await node.look(world, lambda live: live.head)


async def waiting(node: Node, world: str) -> None:
    """An execution that waits, and whose workload the disk loses then."""
    await request(node, world, TEXT, workload=WORKLOAD)
    await until(node, world, "waiting")
    await node.quiet(world, 60_000)
    await lose(node)


async def goes_on(node: Node, world: str) -> None:
    """What was accepted before the stop is done after it, and nothing of it is a fault."""
    await put_back(node, world)
    found = await ended(node, world)
    assert (found.status, found.ctx["size"]) == ("success", 500)
    assert await faults(node, world) == []
    verdict = await node.ops.verify(world, "replay")
    assert verdict["ok"], verdict
    assert world not in node.engine.stopped()
    assert node.status() == "ok"


@pytest.mark.clause("K-38")
@pytest.mark.invariant("I15")
def test_a_live_world_stops_over_lost_bytes(tmp_path: Path) -> None:
    """F4: under a live node the world stops with a code and a hint, a neighbour goes on, the head
    stays; with the bytes back it goes on by itself, and a replay gives the same root.
    """

    async def main() -> None:
        async with playing(tmp_path, enabled=PLAIN) as (node, world):
            await waiting(node, world)
            await send(node, world, "sys/PlayCtxPatch@1", APPROVED)
            why = await stopped(node, world)
            assert isinstance(why, BlobLost)
            assert (why.code, why.where) == ("journal.blob_lost", {"blob": canon.hash_of(LOST)})
            assert "PUT W/blobs" in why.hint
            assert node.status() == "degraded"
            at = await head(node, world)
            await neighbour(node, "n1")
            assert await head(node, world) == at
            await goes_on(node, world)

    asyncio.run(main())


@pytest.mark.clause("K-38")
def test_a_world_stops_over_bytes_lost_while_it_was_down(tmp_path: Path) -> None:
    """F4: lost between two runs of the node, and still lost in the third: the same answer, the same
    head; put back, the world goes on.
    """

    async def first() -> None:
        async with playing(tmp_path, enabled=PLAIN) as (node, world):
            await waiting(node, world)

    async def again(*, sent: bool) -> bytes:
        async with playing(tmp_path, enabled=PLAIN) as (node, world):
            if not sent:
                await send(node, world, "sys/PlayCtxPatch@1", APPROVED)
            assert (await stopped(node, world)).code == "journal.blob_lost"
            await neighbour(node, f"n{sent}")
            return await head(node, world)

    async def last() -> None:
        async with playing(tmp_path, enabled=PLAIN) as (node, world):
            await stopped(node, world)
            await goes_on(node, world)

    asyncio.run(first())
    one = asyncio.run(again(sent=False))
    assert asyncio.run(again(sent=True)) == one
    asyncio.run(last())


class Swallowing(Builtin):
    """The planted defect: what the disk has lost is a fault of the tick."""

    def tick(self, catalogue: Any, workflow: Any, tick: Any, content: Any) -> Any:
        try:
            return super().tick(catalogue, workflow, tick, content)
        except JournalCorrupt as why:
            return Halted("exception", why.message, 0, "builtin")


def test_control_a_decision_on_absence_diverges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: with lost bytes made a fault, the journal says what no copy with the bytes says."""

    async def main() -> Any:
        monkeypatch.setattr("tests.playbooks.rig.Builtin", Swallowing)
        async with playing(tmp_path, enabled=PLAIN) as (node, world):
            await waiting(node, world)
            await send(node, world, "sys/PlayCtxPatch@1", APPROVED)
            await node.quiet(world, 60_000)
            assert len(await faults(node, world)) == 1
            await put_back(node, world)
            return await node.ops.verify(world, "replay")

    assert not asyncio.run(main())["ok"]
