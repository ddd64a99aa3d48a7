"""After a start, what was open is taken up in the order it was opened, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tallystick.cli.here import modules_of
from tallystick.executors.base import Executor, Job, Ok, Outcome, Repeat, Report
from tallystick.kernel.inputs import Submit
from tallystick.node import resume
from tallystick.node.config import Config
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.testing.sources import built
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running


@pytest.mark.clause("K-41")
@pytest.mark.parametrize("page", [1, 2, 500])
def test_open_intents_are_listed_in_pages_and_taken_up_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """ND-22: none is left out or taken twice, whatever a page holds; new ones go on meanwhile."""
    monkeypatch.setattr(resume, "PAGE", page)

    async def hang(job: Job) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async def main() -> None:
        names = [f"o-{i}" for i in range(7)]
        async with running(config(tmp_path, node={"drain_s": 0}), Bank(hang)) as node:
            world = await node.create("main", orders.bundle())
            for name in names:
                await node.offer(world, placed(node, name))
        bank = Bank(slots=1)
        async with running(config(tmp_path), bank) as node:
            await node.offer(world, placed(node, "new"))
            for _ in range(2_000):
                if not node.resume.works and await node.quiet(world, 0):
                    break
                await asyncio.sleep(0.05)
            assert await phase(node, world, "new") == "paid"
        asked = [job.params["token"] for job in bank.asked]
        assert [name for name in asked if name != "new"] == names
        assert sorted(asked) == sorted([*names, "new"])

    asyncio.run(asyncio.wait_for(main(), 240))


TWO = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): key: str
class Done(Record): n: int
class Hang(Effect[Done], executor="hang"): n: int
class Work(Effect[Done], executor="work"): n: int
class Seen(Record): worked: bool = False

@app.workflow(key="key", effects=[Hang, Work])
def asks(state: Seen | None, event: Go | Hang.Settled | Work.Settled, ctx: Ctx) -> Seen:
    match event:
        case Go(key=key):
            ctx.effect(Work(n=1) if key == "w" else Hang(n=1))
            return Seen()
        case Work.Ok():
            return Seen(worked=True)
    return Seen()
"""


class Hand:
    """Performs one effect, or hangs."""

    repeat: Repeat = "again"
    slots = 1

    def __init__(self, name: str, *, hangs: bool) -> None:
        self.name = name
        self.effects = frozenset({f"t/{name.capitalize()}@1"})
        self._hangs = hangs
        self.asked = 0

    async def perform(self, job: Job, report: Report) -> Outcome:
        self.asked += 1
        if self._hangs:
            await asyncio.Event().wait()
        return Ok({"n": 1})

    async def cancel(self, job: Job) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def modular(settings: Config, *executors: Executor) -> AsyncIterator[Node]:
    node = await open_node(settings, modules_of(), executors=executors)
    try:
        yield node
    finally:
        await close_node(node)


@pytest.mark.clause("K-41")
def test_an_executor_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """ND-22: behind a start each executor has its own queue; those of one that is full wait."""
    settings = config(tmp_path, node={"drain_s": 0})

    async def first() -> str:
        async with modular(settings, Hand("hang", hangs=True), Hand("work", hangs=True)) as node:
            world = await node.create("main", built(TWO).bundle)
            for key in ("a", "b", "c", "w"):  # the one that is wanted was asked for last
                await node.one(world, Submit(node.clock.sample(), "t/Go@1", {"key": key}))
            return world

    async def again(world: str) -> None:
        work = Hand("work", hangs=False)
        async with modular(settings, Hand("hang", hangs=True), work) as node:
            while not work.asked:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            assert node.resume.works, "two of the three wait for the one that hangs"
        assert work.asked == 1

    world = asyncio.run(asyncio.wait_for(first(), 60))
    asyncio.run(asyncio.wait_for(again(world), 60))
