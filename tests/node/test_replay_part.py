"""A part of a history, run again from the middle: its end, its size, and what is no part."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Rejected
from tallystick.node.ops import Span
from tests import orders
from tests.node.rig import Bank, config, placed, running


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 120))


@pytest.mark.clause("X-02")
def test_a_part_of_a_history_is_run_again(tmp_path: Path) -> None:
    """04 section 9: `replay --from --to` runs what stands between; an end before it is refused."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(3)])
            assert await node.quiet(world, 60_000)
            middle, whole = node.feed.head(world), await node.ops.replay(world)
            await node.offer(world, placed(node, "o-4"))
            assert await node.quiet(world, 60_000)
            both = await node.ops.replay(world)
            rest = await node.ops.replay(world, Span(from_seq=middle))
            assert rest["ok"]
            assert (rest["from"], rest["to"]) == (middle, both["to"])
            assert rest["ticks"] == both["ticks"] - whole["ticks"] > 0
            with pytest.raises(Rejected) as caught:
                await node.ops.replay(world, Span(from_seq=middle, to_seq=middle - 1))
            assert caught.value.code == "replay.bad_range"

    go(main())
