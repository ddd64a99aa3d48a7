"""Candidates and edits tried on the worlds of a running node, over its real journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.here import modules_of
from tallystick.errors import Rejected
from tallystick.executors.base import Executor, Job, Ok, Outcome, Repeat, Report
from tallystick.governance.planning import chosen
from tallystick.governance.whatif import read_edits
from tallystick.kernel.inputs import Activate, Submit
from tallystick.model.bundle import Bundle
from tallystick.model.cells import CellId
from tallystick.model.frames import open_frame
from tallystick.model.records import ReceiptSettled
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.node.proofs import prove_on
from tallystick.node.rehearsal import Rehearsal, shadow_on
from tallystick.node.worlds import ForkOrder
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.node.rig import config

SOURCE = """
from tallystick import Bundle, Ctx, Effect, Flow, Record, effect, receive
app = Bundle("t")
class Go(Record): key: str; n: int
class Got(Record): n: int
class Work(Effect[Got], executor="work"): n: int
class Sum(Record):
    key: str
    total: int = 0

@app.workflow(key="key", effects=[Work])
def sums(state: Sum | None, event: Go | Work.Settled, ctx: Ctx) -> Sum:
    held = state or Sum(key="x")
    match event:
        case Go(n=n):
            ctx.effect(Work(n=n))
            return held.replace(total=held.total + n)
        case Work.Ok(value=Got(n=n)):
            return held.replace(total=held.total + 100 * n)
    return held

@app.workflow(key="key", effects=[Work])
async def flow(ctx: Flow, begin: Go) -> Got:
    got = await effect(Work(n=begin.n))
    await receive(Go)
    return Got(n=got.n)
"""
SUMS, FLOW = "t/sums@1", "t/flow@1"


class Worker:
    """Performs the effect in this process, and counts."""

    name = "work"
    effects = frozenset({"t/Work@1"})
    repeat: Repeat = "again"
    slots = 16

    def __init__(self) -> None:
        self.asked: list[Job] = []

    async def perform(self, job: Job, report: Report) -> Outcome:
        self.asked.append(job)
        return Ok({"n": job.params["n"]})

    async def cancel(self, job: Job) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(base: Path, *executors: Executor) -> AsyncIterator[Node]:
    node = await open_node(config(base), modules_of(), executors=executors)
    try:
        yield node
    finally:
        await close_node(node)


def bundle(source: str = SOURCE) -> Bundle:
    made: Bundle = built(source).bundle
    return made


async def sent(node: Node, world: str, *keys: str) -> None:
    for n, key in enumerate(keys):
        value = {"key": key, "n": n + 1}
        await node.one(world, Submit(node.clock.sample(), "t/Go@1", value))
    assert await node.quiet(world, 60_000)


def on_node(tmp_path: Path, main: Callable[[Node, str, Worker], Awaitable[None]]) -> None:
    async def run() -> None:
        worker = Worker()
        async with running(tmp_path, worker) as node:
            world = await node.create("main", bundle())
            await sent(node, world, "a", "b", "c")
            await main(node, world, worker)

    asyncio.run(asyncio.wait_for(run(), 240))


async def total(node: Node, world: str, key: str) -> int:
    def ask(live: Any) -> int:
        cell = live.cell(CellId(SUMS, canon.encode(key)))
        return int(canon.decode(live.state_of(cell))["total"])

    return await node.look(world, ask)


@pytest.mark.clause("K-21")
def test_shadow_on_a_live_world(tmp_path: Path) -> None:
    """AG-18, AG-19: a shadow of a running world finds the change and touches nothing."""

    async def main(node: Node, world: str, worker: Worker) -> None:
        calls, head = len(worker.asked), await node.look(world, lambda live: live.head)
        same = await shadow_on(node, world, Rehearsal(bundle()))
        assert same.report["divergences"] == []
        assert same.report["horizon"]["inputs"] >= 9
        other = Rehearsal(bundle(SOURCE.replace("100 * n", "10 * n")), "p-9")
        one = await shadow_on(node, world, other)
        two = await shadow_on(node, world, other)
        assert {d["workflow"] for d in one.report["divergences"]} == {SUMS}
        assert one.report["proposal"] == "p-9"
        assert one.report_hash == two.report_hash
        short = await shadow_on(node, world, other, tail=2)
        assert short.report["horizon"]["inputs"] == 2
        assert len(worker.asked) == calls
        assert await node.look(world, lambda live: live.head) == head

    on_node(tmp_path, main)


@pytest.mark.clause("X-21")
def test_proof_by_processes(tmp_path: Path) -> None:
    """AG-23: processes give a verdict for each open cell; the plan of it is applied."""

    async def main(node: Node, world: str, worker: Worker) -> None:
        edit = SOURCE.replace("100 * n", "10 * n").replace("return Got(n=got.n)", "return Got(n=0)")
        tried = Rehearsal(bundle(edit), "p-1")
        proof = await prove_on(node, world, tried)
        by = {(v.cell.workflow, canon.decode(v.cell.key)): v for v in proof.verdicts}
        assert {name for name, v in by.items() if v.verdict == "identical"} == {
            (FLOW, key) for key in "abc"
        }
        detail = by[SUMS, "b"].detail
        assert detail is not None
        assert detail["field"] == "state"
        assert detail["diff"] == [{"path": "$.total", "live": 202, "shadow": 22}]
        assert proof.report["verdicts"] == {"identical": 3, "diverges": 3, "needs_migration": 0}
        again = await prove_on(node, world, tried, known=proof)
        assert again.report_hash == proof.report_hash
        plan = chosen(proof.verdicts, {"diverges": "pin"}).plan
        base = await node.look(world, lambda live: live.manifest)
        new = tried.bundle
        ids = (new.root_digest, new.manifest_digest, base)
        given = Activate(node.clock.sample(), *ids, new.blobs(), "alice", plan)
        assert (await node.one(world, given)).kind == "activated"
        await sent(node, world, "b", "new")
        # A pinned cell counts as it did, a new one by the new code.
        assert await total(node, world, "b") == 202 + 1 + 100
        assert await total(node, world, "new") == 2 + 20

    on_node(tmp_path, main)


# tidy: one story of two worlds.
@pytest.mark.clause("X-08")
def test_what_if(tmp_path: Path) -> None:
    """AG-31: an edited receipt changes what depends on it and nothing else.

    A what-if asks nobody, takes no alias, and the parent goes on as it was.
    """

    async def main(node: Node, world: str, worker: Worker) -> None:
        frames = await node.read(lambda reader: list(reader.read(world)))
        wanted = [
            frame.seq
            for frame in frames
            for record in open_frame(frame.body)[3][:1]
            if isinstance(record, ReceiptSettled) and record.to[0] == (SUMS, canon.encode("b"))
        ]
        calls = len(worker.asked)
        edits = read_edits([{"seq": wanted[0], "receipt": {"status": "ok", "payload": {"n": 7}}}])
        order = ForkOrder(world, "", principal="alice", edits=edits)
        idea = await node.fork(order, "idea")
        assert await total(node, idea, "b") == 702
        assert await total(node, world, "b") == 202
        for key in ("a", "c"):
            assert await total(node, idea, key) == await total(node, world, key)
        assert len(worker.asked) == calls
        await sent(node, idea, "a")
        assert len(worker.asked) == calls
        records = await node.read(lambda r: [open_frame(f.body)[3][0] for f in r.read(idea)])
        assumed = [r for r in records if isinstance(r, ReceiptSettled) and r.source == "whatif"]
        assert assumed
        assert all(r.seal is None for r in assumed)
        odd = read_edits([{"seq": 2, "drop": True}])
        with pytest.raises(Rejected) as bad:
            await node.fork(order._replace(edits=odd), "odd")
        assert bad.value.code == "whatif.bad_edit"

    on_node(tmp_path, main)
