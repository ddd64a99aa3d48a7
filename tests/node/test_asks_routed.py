"""Who answers questions on a node: people where they are enabled, or whom a route names."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.executors.base import Job, Ok, Outcome, Repeat, Report
from tallystick.node.asks import Reply
from tallystick.node.host import close_node, open_node
from tests.node.rig import config
from tests.node.test_asks import BUNDLE, Desk
from tests.node.test_rehearsal import modules_of, running


def test_nobody_is_asked_where_people_are_not_enabled(tmp_path: Path) -> None:
    """04 section 8: `enabled` without `human` took up asks all the same. They wait unserved, with
    the other effects that nobody performs here, and are asked once a start enables it.
    """

    async def without() -> tuple[str, bytes]:
        settings = config(tmp_path, executors={"enabled": ["timer"]})
        node = await open_node(settings, modules_of())
        try:
            desk = Desk(node, await node.create("main", BUNDLE))
            await desk.wonder("a")
            assert not node.asks.open
            ((_, intent),) = node.dispatch.unserved
            assert (await desk.refused(intent, Reply("eva", "yes"))).code == "ask.not_open"
            return desk.world, intent
        finally:
            await close_node(node)

    async def enabled(world: str, intent: bytes) -> None:
        async with running(tmp_path) as node:
            await node.asks.answer(world, intent, Reply("eva", "yes"))
            assert await Desk(node, world).said("a") == "eva: yes"

    world, intent = asyncio.run(asyncio.wait_for(without(), 60))
    asyncio.run(asyncio.wait_for(enabled(world, intent), 60))


class Clerk:
    """Answers whatever is asked."""

    name = "clerk"
    effects: frozenset[str] = frozenset()
    repeat: Repeat = "keyed"
    slots = 1

    async def perform(self, job: Job, report: Report) -> Outcome:
        said = {"by": "clerk", "choice": "yes", "answer": None, "comment": None, "at_ns": 1}
        return Ok(said)

    async def cancel(self, job: Job) -> None:
        pass

    async def close(self) -> None:
        pass


def test_asks_may_be_led_to_an_executor_of_this_node(tmp_path: Path) -> None:
    """04 section 8: a route has the last word; asks were put to people all the same."""

    async def main() -> None:
        settings = config(tmp_path, executors={"routes": {"sys/human.ask@1": "clerk"}})
        node = await open_node(settings, modules_of(), executors=[Clerk()])
        try:
            desk = Desk(node, await node.create("main", BUNDLE))
            await desk.wonder("a")
            assert await desk.said("a") == "clerk: yes"
            assert not node.asks.open
        finally:
            await close_node(node)

    asyncio.run(asyncio.wait_for(main(), 60))
