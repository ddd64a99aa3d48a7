"""Jobs that go out alone to an executor that only computes (ADR 0029)."""

# tidy: one way of performing, and all that it shares with the other.
from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Job, Ok, Outcome, Repeat, Report
from tallystick.journal.base import Append, Head
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.model.frames import open_frame
from tallystick.model.records import IntentOpened, ReceiptSettled, Ticked
from tallystick.node.node import Node
from tallystick.node.watchdog import Watchdog
from tallystick.values import canon
from tallystick.values.seal import receipt_statement, verify
from tests import orders
from tests.node.rig import config, phase, placed, running

KERNEL = "tally-kernel"
ENDED = ("completed", "failed")


class Till:
    """Answers at once, or by waiting when `at_once` gives nothing; keeps who asked it where."""

    name = "payments"
    effects = frozenset({orders.CHARGE})
    repeat: Repeat = "same"
    slots = 64

    def __init__(self, answer: Callable[[Job], Outcome | None]) -> None:
        self._answer = answer
        self.here: list[str] = []
        self.waited: list[str] = []

    def at_once(self, job: Job) -> Outcome | None:
        self.here.append(threading.current_thread().name)
        return self._answer(job)

    async def perform(self, job: Job, report: Report) -> Outcome:
        del job, report
        self.waited.append(threading.current_thread().name)
        return Ok({"ref": "pay"})

    async def cancel(self, job: Job) -> None:
        pass

    async def close(self) -> None:
        pass


def paid(_job: Job) -> Outcome:
    return Ok({"ref": "pay"})


async def ended(node: Node, world: str, name: str) -> list[ReceiptSettled]:
    """Place one order and wait for its end without knocking at the kernel: its sealed receipts."""
    head = node.feed.head(world)
    await node.offer(world, placed(node, name))
    found: list[ReceiptSettled] = []
    async for item in node.feed.subscribe(world, head):
        if item.kind == "frame":
            records = open_frame(item.body.body)[3]
            found += [each for each in records if isinstance(each, ReceiptSettled) and each.seal]
            if any(isinstance(each, Ticked) and each.status in ENDED for each in records):
                break
    return found


async def performed(node: Node, world: str, till: Till) -> list[ReceiptSettled]:
    """The receipts of the first order whose executor was asked at once.

    The node's own duties knock now and then, and then a job goes the other way.
    """
    for number in range(100):
        receipts = await ended(node, world, f"o-{number}")
        if till.here:
            return receipts
    raise AssertionError("no job of a hundred was performed at once")


def go(main: Any) -> Any:
    return asyncio.run(asyncio.wait_for(main, 120))


def _statement(world: str, settled: ReceiptSettled) -> bytes:
    """What the seal of a receipt of a charge covers, built from the journal alone."""
    assert settled.payload is not None
    return receipt_statement(
        world=world,
        intent=canon.text_of(settled.intent),
        effect=orders.CHARGE,
        status=settled.status,
        payload_hash=canon.hash_of(settled.payload),
        executor=settled.executor,
        attempt=settled.attempt,
        started_ns=settled.started_ns,
        ended_ns=settled.ended_ns,
        usage=settled.usage,
    )


@pytest.mark.clause("K-04", "K-27")
def test_a_lone_job_is_performed_by_the_kernels_thread_once(tmp_path: Path) -> None:
    """PB-27: an answer at once is a receipt like any other: sealed, counted, settled once."""

    async def main() -> None:
        till = Till(paid)
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            (receipt,) = await performed(node, world, till)
            assert verify(node.key.pair.public, _statement(world, receipt), receipt.seal)
            assert receipt.source == "executor"
            await ended(node, world, "last")  # what was counted goes out with the next commit
            count = f"{len(till.here) + len(till.waited)}"
            line = 'tally_effect_seconds_count{effect="shop/charge@1",status="ok"} ' + count
            assert line in node.metrics.text()
        assert set(till.here) == {KERNEL}

    go(main())


def test_nothing_is_performed_before_its_intent_is_durable(tmp_path: Path) -> None:
    """D15, K-25: another connection finds the intent in the file before the executor is asked."""
    assert go(_unrecorded(tmp_path, plant=False)) == []


def test_a_job_that_goes_out_before_its_commit_is_found(tmp_path: Path) -> None:
    """The control of the test above: released first, written afterwards."""
    assert go(_unrecorded(tmp_path, plant=True)) != []


async def _unrecorded(folder: Path, *, plant: bool) -> list[str]:
    """The orders whose intent no other connection could see when its executor was asked."""
    missing: list[str] = []

    def look(job: Job) -> Outcome:
        with closing(SqliteReader(node.files.root)) as reader:
            seen = [r for f in reader.read(job.world) for r in open_frame(f.body)[3]]
        if job.intent not in {r.intent for r in seen if isinstance(r, IntentOpened)}:
            missing.append(job.params["token"])
        return Ok({"ref": "pay"})

    till = Till(look)
    async with running(config(folder), till) as node:
        world = await node.create("main", orders.bundle())
        if plant:
            commits = node.engine._commits
            write = commits._commit

            def early(cuts: Any, *, calm: bool) -> None:
                commits._committed(cuts, [_end_of(cut.append) for _, cut in cuts if cut.append])
                write(cuts, calm=calm)

            await node.on_kernel(lambda: _plant(commits, early))
        receipts = await performed(node, world, till)
    assert {each.status for each in receipts} == {"ok"}, "it could look"
    return missing


def _end_of(batch: Append) -> Head:
    """Where the journal would end if the batch were there."""
    last = batch.frames[-1]
    return Head(last.last, last.hash, batch.expect.epoch)


def _plant(commits: Any, early: Any) -> None:
    commits._commit = early


def test_what_goes_out_together_is_performed_by_the_io_thread(tmp_path: Path) -> None:
    """Several jobs of one commit share seals there, and the kernel goes on deciding."""

    async def main() -> None:
        till = Till(paid)
        patient = config(tmp_path, journal={"max_wait_ms": 60_000})  # what is ready goes together
        async with running(patient, till) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(3)])
            assert await node.quiet(world, 60_000)
        assert (till.here, till.waited) == (["MainThread"] * 3, [])

    go(main())


def test_an_executor_that_has_to_wait_is_asked_to_perform(tmp_path: Path) -> None:
    """None at once means nothing: the job goes the usual way, and is settled once."""

    async def main() -> None:
        till = Till(lambda job: None)
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            assert [each.status for each in await performed(node, world, till)] == ["ok"]
        assert till.here == [KERNEL]
        assert set(till.waited) == {"MainThread"}

    go(main())


def test_a_raise_at_once_is_an_outcome(tmp_path: Path) -> None:
    """The fence around executors stands on the kernel's thread too: `effect.crash`, tried again."""

    def broken(job: Job) -> Outcome:
        if job.attempt == 1 and len(till.here) == 1:
            raise ValueError("no coins")
        return Ok({"ref": "pay"})

    till = Till(broken)

    async def main() -> None:
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            first, second = await performed(node, world, till)
            assert canon.decode(first.payload or b"")["code"] == "effect.crash"
            assert second.status == "ok"

    go(main())


def test_a_value_that_does_not_fit_is_an_error_of_the_executor(tmp_path: Path) -> None:
    """K-11: the schema of the receipt is asked on this way as on the other."""

    def wrong(job: Job) -> Outcome:
        return Ok({"coins": 1} if len(till.here) == 1 else {"ref": "pay"})

    till = Till(wrong)

    async def main() -> None:
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            first, second = await performed(node, world, till)
            assert canon.decode(first.payload or b"")["code"] == "effect.bad_receipt"
            assert second.status == "ok"

    go(main())


def test_a_usage_that_cannot_be_counted_is_an_error_of_the_executor(tmp_path: Path) -> None:
    """BUGS 106: no seal is made over it, and outcomes that end beside it are settled."""

    def costly(job: Job) -> Outcome:
        usage: Any = {"euros": 1} if job.params["token"] == "o-1" and job.attempt == 1 else None
        return Ok({"ref": "pay"}, usage)

    till = Till(costly)

    async def main() -> None:
        patient = config(tmp_path, journal={"max_wait_ms": 60_000})  # what is ready goes together
        async with running(patient, till) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, *[placed(node, f"o-{i}") for i in range(3)])
            assert await node.quiet(world, 60_000)
            assert [await phase(node, world, f"o-{i}") for i in (0, 2)] == ["paid", "paid"]
            frames = await node.read(lambda reader: list(reader.read(world)))
        records = [each for frame in frames for each in open_frame(frame.body)[3]]
        wrong = [r for r in records if isinstance(r, ReceiptSettled) and r.status == "error"]
        assert [canon.decode(r.payload or b"")["code"] for r in wrong][:1] == ["effect.bad_receipt"]

    go(main())


def test_an_answer_that_never_comes_is_stopped(tmp_path: Path) -> None:
    """The watchdog of ticks bounds it: an error of the effect, and the world goes on."""

    def endless(job: Job) -> Outcome:
        while len(till.here) == 1:
            pass
        return Ok({"ref": "pay"})

    till = Till(endless)

    async def main() -> None:
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            old = node.engine._watchdog
            strict = node.engine._watchdog = Watchdog(0.5)
            strict.start(node.engine._kernel_thread)
            first, second = await performed(node, world, till)
            assert canon.decode(first.payload or b"")["code"] == "effect.too_slow"
            assert second.status == "ok"
            strict.stop()
            node.engine._watchdog = old

    go(main())


def test_a_node_that_drains_begins_nothing_at_once(tmp_path: Path) -> None:
    """Whoever stops or only looks performs nothing on any thread; the intent stays open."""

    async def main() -> None:
        till = Till(paid)
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            node.engine.draining = node.dispatch.stopping = True
            await node.offer(world, placed(node, "a"))
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "a") == "charging"
        assert (till.here, till.waited) == ([], [])
        again = Till(paid)
        async with running(config(tmp_path), again) as node:
            assert await node.quiet(world, 60_000)
            assert await phase(node, world, "a") == "paid"
        assert len(again.here) + len(again.waited) == 1

    go(main())


def test_who_knocks_is_heard_first(tmp_path: Path) -> None:
    """A job whose commit ends while a message waits goes to the io thread: nobody is kept."""

    async def main() -> None:
        till = Till(paid)
        async with running(config(tmp_path), till) as node:
            world = await node.create("main", orders.bundle())
            points = node.hosting.ports.points

            def knock(name: str) -> None:
                if name == "intent.dispatched":
                    node.engine.call(lambda: None)

            points.listener = knock
            await ended(node, world, "a")
            points.listener = None
        assert (till.here, till.waited) == ([], ["MainThread"])

    go(main())
