"""A name that never moves: to a world that was only assumed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict
from tallystick.governance.whatif import read_edits
from tallystick.node.rollback import settled_since
from tallystick.node.worlds import ForkOrder
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_rollback import forked, moved


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 120))


@pytest.mark.clause("X-08")
def test_a_what_if_takes_no_name_and_no_effect_leaves_it(tmp_path: Path) -> None:
    """AG-32: what was only assumed is never production; it has settled nothing for anybody."""

    async def main() -> None:
        bank = Bank()
        async with running(config(tmp_path), bank) as node:
            old, new = await forked(node)
            first = await node.one(old, placed(node, "b"))
            assert await node.quiet(old, 60_000)
            edit = {"seq": first.seq, "event": {"order_id": "b", "cents": 9}}
            order = ForkOrder(old, "", principal="alice", edits=read_edits([edit]))
            idea = await node.fork(order, "idea")
            with pytest.raises(Conflict) as caught:
                await moved(node, "prod", idea)
            assert (caught.value.code, caught.value.hint) == (
                "world.synthetic", "fork the world itself",
            )  # fmt: skip
            assert node.resolve("prod") == old
            asked = len(bank.asked)
            await node.one(idea, placed(node, "c"))
            assert await node.quiet(idea, 60_000)
            assert await phase(node, idea, "c") == "charging"
            assert len(bank.asked) == asked
            for pair in ((new, old), (old, "nothing")):
                assert await node.read(lambda reader, pair=pair: settled_since(reader, *pair)) == []  # type: ignore[misc]

    go(main())
