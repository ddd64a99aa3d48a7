"""Whatever an executor answers or raises is one outcome, and costs nobody else theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed, Job, Ok, Outcome, Report
from tallystick.kernel.inputs import Operate
from tallystick.model.frames import open_frame
from tallystick.model.records import ReceiptSettled
from tallystick.node import dispatch
from tallystick.node.attempt import Shelf
from tallystick.node.node import Node
from tallystick.values import canon
from tests import orders
from tests.node.rig import Bank, config, phase, placed, running
from tests.node.test_at_once import Till, performed

Act = Callable[[Job], Any]


async def receipts(node: Node, world: str) -> list[ReceiptSettled]:
    """What settled effects, in order."""
    frames = await node.read(lambda reader: list(reader.read(world)))
    records = [each for frame in frames for each in open_frame(frame.body)[3]]
    return [each for each in records if isinstance(each, ReceiptSettled)]


def code_of(receipt: ReceiptSettled) -> str:
    told: str = canon.decode(receipt.payload or b"")["code"]
    return told


def odd_first(folder: Path, act: Act) -> str:
    """The code of a first attempt that goes wrong in some way; the second and a neighbour pay."""

    async def odd(job: Job) -> Outcome:
        if job.params["token"] == "odd" and len(bank.asked) < 3:
            answer: Outcome = act(job)
            return answer
        return Ok({"ref": "pay"})

    bank = Bank(odd)

    async def main() -> str:
        async with running(config(folder, node={"drain_s": 0}), bank) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "odd"), placed(node, "even"))
            for name in ("odd", "even"):
                while await phase(node, world, name) != "paid":  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
            (wrong,) = [each for each in await receipts(node, world) if each.status == "error"]
            return code_of(wrong)

    return asyncio.run(asyncio.wait_for(main(), 60))


def at_once(folder: Path, act: Act) -> str:
    """The same for an executor that answers at once, on the kernel's thread."""

    def odd(job: Job) -> Outcome:
        if len(till.here) == 1:
            answer: Outcome = act(job)
            return answer
        return Ok({"ref": "pay"})

    till = Till(odd)

    async def main() -> str:
        async with running(config(folder), till) as node:
            world = await node.create("main", orders.bundle())
            first, second = await performed(node, world, till)
            assert second.status == "ok"
            return code_of(first)

    return asyncio.run(asyncio.wait_for(main(), 60))


def half_a_letter(job: Job) -> Outcome:
    return Failed("not_found", "bank.away", f"no file caf\udce9 for {job.intent.hex()}")


def of_no_kind(job: Job) -> Outcome:
    kind: Any = "surprise"
    return Failed(kind, "bank.odd", "it happens", retry_after_ns=-1)


@pytest.mark.parametrize(
    ("act", "code"), [(half_a_letter, "bank.away"), (of_no_kind, "effect.bad_receipt")]
)
@pytest.mark.parametrize("way", [odd_first, at_once])
def test_a_failure_that_cannot_be_told_as_it_is_is_told_all_the_same(
    tmp_path: Path, way: Callable[[Path, Act], str], act: Act, code: str
) -> None:
    """K-11, I3: the name of a file that is no text, a kind that there is not: one error each."""
    assert way(tmp_path, act) == code


class MuteError(Exception):
    """An exception whose text cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def mute(job: Job) -> Outcome:
    raise MuteError(job.intent)


def a_map(job: Job) -> Any:
    return {"ref": job.params["token"]}


def an_exit(job: Job) -> Outcome:
    raise SystemExit(job.params["token"])


@pytest.mark.parametrize(
    ("act", "code"),
    [(mute, "effect.crash"), (an_exit, "effect.crash"), (a_map, "effect.no_outcome")],
)
@pytest.mark.parametrize("way", [odd_first, at_once])
def test_what_is_no_outcome_is_named_as_one(
    tmp_path: Path, way: Callable[[Path, Act], str], act: Act, code: str
) -> None:
    """04 section 5: an exception without a text, an exit and a plain map end one attempt only."""
    assert way(tmp_path, act) == code


def test_an_executor_that_cancels_itself_has_crashed(tmp_path: Path) -> None:
    """04 section 5: what it waited for was cancelled; the intent is not, and has its outcome."""

    def gives_up(job: Job) -> Outcome:
        raise asyncio.CancelledError(job.intent)

    assert odd_first(tmp_path, gives_up) == "effect.crash"


class Talker(Bank):
    """Tells how far it is before it charges."""

    async def perform(self, job: Job, report: Report) -> Outcome:
        await report("part", {"n": 1})
        return await super().perform(job, report)


def test_what_was_told_on_the_way_is_not_remembered_behind_the_end(tmp_path: Path) -> None:
    """I42: an effect that is cancelled, or runs into its timeout, leaves no credits behind."""

    async def hang(job: Job) -> Outcome:
        if len(bank.asked) == 1:
            await asyncio.Event().wait()
        return Ok({"ref": "pay"})

    bank = Talker(hang)

    async def main() -> None:
        async with running(config(tmp_path, node={"drain_s": 0}), bank) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            while not bank.asked:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            intent = bank.asked[0].intent
            await node.one(
                world, Operate(node.clock.sample(), "cancel", "eva", "no", intent=intent)
            )
            while await phase(node, world, "o-1") != "paid":  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            assert not node.outside._credits

    asyncio.run(asyncio.wait_for(main(), 60))


class Stubborn(Bank):
    """Cannot be closed: it raises, or never comes back."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def close(self) -> None:
        if self.how == "raises":
            raise RuntimeError("no")
        await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_an_executor_that_cannot_be_closed_does_not_keep_the_folder(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K-20: the node stops all the same, what was decided is durable and the next one may start."""
    monkeypatch.setattr(dispatch, "CLOSE_S", 0.2)

    async def main() -> None:
        async with running(config(tmp_path), Stubborn(how)) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            while await phase(node, world, "o-1") != "paid":  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        async with running(config(tmp_path), Bank()) as node:
            assert await phase(node, world, "o-1") == "paid"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_a_job_has_put_it_can_read_though_it_is_empty() -> None:
    """04 section 6: what becomes durable with the receipt is there for the job, also no bytes."""
    shelf = Shelf("w", lambda world, digest: None)
    assert shelf.get(shelf.put(b"")) == b""
