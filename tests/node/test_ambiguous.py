"""A commit whose outcome was lost is read back, never guessed (04 section 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.journal.base import Ambiguous, Append, Outcome
from tallystick.node.node import Node
from tests import orders
from tests.node.rig import Bank, config, placed, running


def lose(node: Node, act: Callable[..., list[Outcome]]) -> list[int]:
    """Let the next commit end in the dark: `act` is what really becomes of it."""
    real = node.journal.append
    calls: list[int] = []

    def append(*batch: Append) -> list[Outcome]:
        calls.append(len(batch))
        if len(calls) > 1:
            return real(*batch)
        act(real, *batch)
        return [Ambiguous(each.expect) for each in batch]

    node.journal.append = append  # type: ignore[method-assign]  # the store is lost, not the code
    return calls


async def sent(node: Node, world: str) -> tuple[list[Any], int]:
    answers = await node.offer(world, placed(node, "o-1", b"k"))
    assert await node.quiet(world, 50_000)
    cells = await node.look(world, lambda live: live.cell_count)
    return answers, cells


@pytest.mark.clause("X-07")
@pytest.mark.parametrize("landed", [True, False])
def test_what_landed_counts_and_what_did_not_is_sent_once_more(
    tmp_path: Path, landed: bool
) -> None:
    """ND-09 for one process: neither lost nor doubled, whichever way the lost commit went."""

    def act(real: Any, *batch: Append) -> list[Outcome]:
        return real(*batch) if landed else []

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            calls = lose(node, act)
            answers, cells = await sent(node, world)
            assert [a.kind for a in answers] == ["accepted"]
            assert cells == 2
            assert calls[0] == 1
            assert (await node.offer(world, placed(node, "o-1", b"k")))[0].seq == answers[0].seq
        async with running(config(tmp_path), Bank()) as node:
            found = await node.ops.verify(world)
            assert found["ok"], found["first_bad"]
            assert await node.look(world, lambda live: live.cell_count) == 2

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("X-07")
def test_another_head_means_another_owner(tmp_path: Path) -> None:
    """I11: when the journal stands where neither we nor our parent stood, the world is lost."""

    def other(_real: Any, *batch: Append) -> list[Outcome]:
        journal = other.journal  # type: ignore[attr-defined]
        with journal._db as db:
            db.execute("UPDATE world SET head_hash=?, epoch=epoch+1", (bytes(32),))
        return []

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            other.journal = node.journal  # type: ignore[attr-defined]
            lose(node, other)
            (answer,) = await node.offer(world, placed(node, "o-1"))
            assert isinstance(answer, TallyError)
            assert (answer.code, answer.status) == ("world.moved", 503)
            assert node.worlds() == {}, "it is dropped here, and never retried"

    asyncio.run(asyncio.wait_for(main(), 240))
