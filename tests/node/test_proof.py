"""What a node leaves behind can be checked by others: replay, verify, checkpoints."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import NotOwner, TallyError
from tallystick.journal import checkpoints
from tallystick.journal.base import Head
from tallystick.modules.python import Outcome, PythonRunner
from tallystick.node.ops import Span
from tests import orders
from tests.node.rig import Bank, config, placed, running


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 240))


@pytest.mark.clause("K-20")
def test_a_stopped_node_leaves_a_journal_that_proves_itself(tmp_path: Path) -> None:
    """After a clean stop there is a signed checkpoint; replay and verify agree with the root."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(20)])
            assert await node.quiet(world, 60_000)
        assert (tmp_path / ".tally" / "checkpoints.jsonl").read_text().count("\n") == 1
        async with running(config(tmp_path), Bank()) as node:
            again = await node.ops.replay(world)
            assert again["ok"], again
            assert again["root"] == again["expected_root"]
            assert again["ticks"] == 60, "two of each order and one of the ledger"
            for level in ("quick", "full", "replay"):
                found = await node.ops.verify(world, level)
                assert found["ok"], found
                assert found["level"] == level
                assert found["checkpoints"] == 1

    go(main())


def test_snapshots_are_taken_and_signed_under_load(tmp_path: Path) -> None:
    """K-43: with a small interval snapshots come by themselves, each followed by a checkpoint."""

    async def main() -> None:
        settings = config(tmp_path, node={"snapshot_every": 100})
        async with running(settings, Bank()) as node:
            world = await node.create("main", orders.bundle())
            for i in range(160):
                await node.offer(world, placed(node, f"o-{i}"))
            assert await node.quiet(world, 60_000)
            while not await node.read(lambda reader: reader.checkpoints(world)):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            rows = await node.read(lambda reader: reader.snapshots(world))
            assert len(rows) >= 2
            found = await node.ops.verify(world)
            assert found["ok"], found
            # What is signed is the snapshot itself, so that no root is computed for it.
            roots = {row.seq: row.root for row in rows}
            signed = await node.read(lambda reader: reader.checkpoints(world))
            row = next(each for each in signed if each.seq in roots)
            assert row.root == roots[row.seq]
            stand = checkpoints.Stand(bytes(32), row.manifest, row.at_ns)
            other = checkpoints.make(node.key.pair, world, Head(*row[:2], row.epoch), stand)
            await node.write(lambda journal: journal.add_checkpoint(world, other))
            wrong = await node.ops.verify(world)
            assert not wrong["ok"], "a checkpoint that says another root than its snapshot"

    go(main())


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    """K-45: ticks, effects, commits and the state of the node are numbers without payloads."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"secret-name-{i}") for i in range(3)])
            assert await node.quiet(world, 60_000)
            text = node.metrics.text()
            row = f'tally_ticks_total{{outcome="ticked",workflow="{orders.ORDERS}"}}'
            assert f"{row} 6" in text
            assert "secret-name" not in text
            for name in ("tally_commit_seconds_count", "tally_read_only 0", "tally_epoch{"):
                assert name in text
            assert f'tally_effect_attempts_total{{effect="{orders.CHARGE}"}} 3' in text

    go(main())


@pytest.mark.clause("K-43")
def test_an_index_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    """ND-24 with a node: the index finds what the journal holds, also after it was deleted."""

    async def main() -> None:
        places = []
        for _ in range(2):
            async with running(config(tmp_path), Bank()) as node:
                if not node.names:
                    world = await node.create("main", orders.bundle())
                    answer = await node.one(world, placed(node, "o-1"))
                    assert answer.event_hash is not None
                    assert await node.quiet(world, 60_000)
                places.append(await node.index.seq_of(world, answer.event_hash.hex()))
                assert await node.index.seq_of(world, "0" * 64) is None
            (tmp_path / ".tally" / "index.db").unlink()
        assert places == [answer.seq, answer.seq]

    go(main())


@pytest.mark.clause("X-02")
def test_one_workflow_is_run_again_alone(tmp_path: Path) -> None:
    """04 section 9: `replay --workflow` runs its ticks and folds the others as recorded."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(5)])
            assert await node.quiet(world, 60_000)
            whole = await node.ops.replay(world)
            parts = [
                await node.ops.replay(world, Span(workflow=name))
                for name in (orders.ORDERS, orders.LEDGER)
            ]
            assert all(part["ok"] for part in parts)
            assert sum(part["ticks"] for part in parts) == whole["ticks"]
            assert 0 < parts[1]["ticks"] < whole["ticks"]
            assert parts[0]["root"] == whole["root"]
            # Control: code that differs is found in its own workflow, and in no other.
            changed = {**orders.FUNCTIONS, ("shop/code@1", "orders:ledger"): _other}
            node.modules = lambda blobs: PythonRunner(changed)
            assert (await node.ops.replay(world, Span(workflow=orders.ORDERS)))["ok"]
            found = await node.ops.replay(world, Span(workflow=orders.LEDGER))
            assert found["first_divergence"]["workflow"] == orders.LEDGER
            with pytest.raises(TallyError) as caught:
                await node.ops.replay(world, Span(workflow="shop/nothing@1"))
            assert caught.value.code == "workflow.unknown"

    go(main())


def _other(*_given: Any) -> Any:
    return Outcome({"orders": 7, "cents": 7})


def test_a_world_that_is_gone_is_not_signed(tmp_path: Path) -> None:
    """A snapshot is signed a moment after it is durable; its world may be removed by then."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            world = await node.create("main", orders.bundle())
            await node.snapshot(world)
            (row,) = await node.read(lambda reader: reader.snapshots(world))
            await node.remove("main")
            await node.duties._sign(world, (row.seq, bytes(32), row.root, bytes(32)))
            with pytest.raises(NotOwner):
                await node.duties.checkpoint(world)

    go(main())
