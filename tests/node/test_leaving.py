"""What a node says to those who come too late, to the wrong place, or leave too early."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import NotOwner, Rejected, TallyError, Unavailable
from tallystick.journal.index import FILE
from tallystick.kernel.inputs import Operate
from tallystick.node.calls import Call
from tallystick.node.config import Config
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_log import lines

ELSEWHERE = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 120))


def test_a_stopping_node_takes_no_events_and_says_so(tmp_path: Path) -> None:
    """K-20: `node.stopping` for who sends, `stopping` for who looks; looks are still answered."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.one(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            assert node.status() == "ok"
            node.stopping = True
            assert node.status() == "stopping"
            node.check_lane(world)
            with pytest.raises(Unavailable) as caught:
                await node.one(world, placed(node, "o-2"))
            assert caught.value.code == "node.stopping"
            assert await phase(node, world, "o-1") == "paid"
            assert await phase(node, world, "o-2") is None
            with pytest.raises(Unavailable) as again:
                await node.reruns.run(lambda reader, stop: reader.head(world), 60)
            assert again.value.code == "node.stopping"

    go(main())


def test_a_world_that_is_not_here_is_refused(tmp_path: Path) -> None:
    """K-19: nothing is offered, looked at or read of a world that another node may have."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            with pytest.raises(NotOwner) as caught:
                await node.one(ELSEWHERE, placed(node, "o-1"))
            assert caught.value.where == {"world": ELSEWHERE}
            assert [item async for item in node.feed.subscribe(ELSEWHERE, 0)] == []
            assert node.feed.head(ELSEWHERE) == 0
            assert await node.quiet(ELSEWHERE, 0), "nothing of it is on its way"

    go(main())


def test_readers_of_a_removed_world_end(tmp_path: Path) -> None:
    """K-45: who reads a world that is removed is not left waiting; removing twice is refused."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())

            async def read() -> list[str]:
                return [item.kind async for item in node.feed.subscribe(world, 0)]

            reader = asyncio.create_task(read())
            await node.one(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            await node.remove("main")
            assert set(await reader) == {"frame"}
            with pytest.raises(TallyError) as caught:
                await node.remove("main")
            assert caught.value.code == "world.unknown"
            node.feed.end(world)
            assert node.feed.lag() == 0

    go(main())


def test_what_is_decided_ahead_of_all_may_be_refused(tmp_path: Path) -> None:
    """06 section 10: an input for a world that stands still is refused as any other."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            given = Operate(node.clock.sample(), "suspend", "eva", "why", orders.LEDGER)
            async with node.held(world):
                with pytest.raises(Rejected):
                    await node.now(world, given)
            await node.one(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000), "it goes on"

    go(main())


@pytest.mark.parametrize("fails", [False, True])
def test_who_leaves_does_not_disturb_the_kernels_thread(tmp_path: Path, fails: bool) -> None:
    """K-25: a caller is gone when its answer comes, good or bad; the next one is served."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:

            def act() -> int:
                if fails:
                    raise ValueError("nobody reads this")
                return 1

            asked = asyncio.create_task(node.on_kernel(act))
            await asyncio.sleep(0)
            asked.cancel()
            assert await node.on_kernel(lambda: 2) == 2
            assert asked.cancelled()
            assert node.status() == "ok"

    go(main())


async def _indexed(settings: Config, known: bytes | None = None) -> tuple[bytes, int, int | None]:
    """An event, where it stands, and where the index finds it; a new one unless it is known."""
    async with running(settings, Bank()) as node:
        if known is None:
            await node.create("main", orders.bundle())
            answer = await node.one(node.resolve("main"), placed(node, "o-1"))
            assert answer.event_hash is not None
            known = answer.event_hash
            assert await node.quiet(node.resolve("main"), 60_000)
        world = node.resolve("main")
        found = await node.index.seq_of(world, known.hex())
        with pytest.raises(Rejected) as caught:
            await node.index.seq_of(world, "")
        assert caught.value.code == "intent.ambiguous"
        assert caught.value.hint == "give more digits"
        return known, await node.look(world, lambda live: live.seq), found


def test_a_damaged_index_is_made_again_and_said(tmp_path: Path) -> None:
    """ND-24: an index whose file is damaged answers as before, and the log tells of it."""
    settings = config(tmp_path)
    event, _, place = go(_indexed(settings))
    (tmp_path / ".tally" / FILE).write_bytes(b"no database" * 1000)
    _, head, again = go(_indexed(settings, event))
    assert place == again
    assert place is not None
    assert place < head
    (said,) = [line for line in lines(tmp_path / ".tally") if line["code"] == "index.rebuilt"]
    assert said["level"] == "warning"


def test_readers_who_leave_are_not_remembered(tmp_path: Path) -> None:
    """I42: of a calm world nobody is told for hours, and who came and went leaves nothing there."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            head = node.feed.head(world)

            async def read() -> None:
                async for _ in node.feed.subscribe(world, head):
                    raise AssertionError("nothing happens here")

            for _ in range(20):
                reader = asyncio.create_task(read())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                reader.cancel()
                await asyncio.wait({reader})
            assert node.feed._channels[world].waiters == []

    go(main())


@pytest.mark.invariant("I42")
def test_a_call_that_is_answered_is_no_cycle(tmp_path: Path) -> None:
    """AT-32: what a caller waited with is gone with its answer, and not left to the collector."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.one(world, placed(node, "o-1"))
            assert await node.quiet(world, 60_000)
            gc.collect()
            gc.disable()
            try:
                for number in range(50):
                    await node.one(world, placed(node, f"p-{number}"))
                assert await node.quiet(world, 60_000)
                left = [each for each in gc.get_objects() if isinstance(each, Call)]
            finally:
                gc.enable()
            assert len(left) <= 2, "one may be on its way"

    go(main())
