"""Shares: while several worlds send, a flood of one waits before the node, not inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.errors import SyncFailed, TallyError
from tallystick.kernel.draft import Answer
from tallystick.node import shares
from tallystick.node.calls import Call, outcome_of
from tallystick.node.driver import Ticket
from tallystick.node.shares import Shares, share_of
from tests import orders
from tests.node.rig import Bank, config, placed, running


class Door:
    """Shares before an engine that only keeps what it is given."""

    def __init__(self, loop: asyncio.AbstractEventLoop, commit_s: float = 0.0) -> None:
        self.loop = loop
        self.came = asyncio.Event()
        self.given: list[tuple[str, Call]] = []
        self.hosted: dict[str, Any] = {name: SimpleNamespace(name=name) for name in ("a", "b")}
        self.engine: Any = SimpleNamespace(
            failed=None, worlds=dict(self.hosted), offer=self._offered
        )
        self.shares = Shares(self.engine, SimpleNamespace(least_s=commit_s))  # type: ignore[arg-type]

    def _offered(self, hosted: Any, tickets: list[Ticket], *, ingress: bool) -> None:
        assert ingress
        self.came.set()
        self.given.append((hosted.name, tickets[0].waiter))  # type: ignore[arg-type]

    def send(self, world: str, events: int = 1) -> Call:
        call = Call(self.loop, [Ticket(None) for _ in range(events)])  # type: ignore[arg-type]
        self.shares.offer(world, self.hosted[world], call)
        return call

    def inside(self, world: str) -> int:
        """How many events of a world the engine has not answered."""
        return sum(
            len(call.tickets) for name, call in self.given if name == world and not done(call)
        )

    def answer(self, call: Call) -> None:
        for ticket in call.tickets:
            ticket.answer = Answer("admitted")
            call.told(ticket)


def done(call: Call) -> bool:
    return call.future.done()


def looped(test: Callable[[asyncio.AbstractEventLoop], None]) -> None:
    async def main() -> None:
        test(asyncio.get_running_loop())

    asyncio.run(main())


@pytest.mark.invariant("I40")
def test_a_world_alone_has_no_bound() -> None:
    """AT-27: nobody waits where nobody else is."""

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        for _ in range(50):
            door.send("a")
        assert door.inside("a") == 50

    looped(test)


@pytest.mark.invariant("I40")
def test_a_flood_beside_another_world_waits_outside() -> None:
    """AT-27: a few of a flood are on their way, in its order; the other world's event is at once.

    Control: without the other world all are.
    """

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        first = door.send("b")
        door.answer(first)
        flood = [door.send("a") for _ in range(20)]
        few = share_of(0.0)
        assert door.inside("a") == few < 20
        second = door.send("b")
        assert [call for name, call in door.given if name == "b"] == [first, second]
        door.answer(second)
        for number, call in enumerate(flood):
            assert ("a", call) in door.given, number
            assert door.inside("a") <= few
            door.answer(call)
        assert [call for name, call in door.given if name == "a"] == flood

    looped(test)


@pytest.mark.invariant("I40")
def test_a_flood_steps_aside_while_another_world_waits_for_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AT-27: nothing more of a flood goes in while whoever wants far less is on its way.

    It goes on behind the other's answer, not before it.
    Control: without the other's event each answer lets the next in.
    """
    monkeypatch.setattr(shares, "ASIDE_S", 1e6)
    monkeypatch.setattr(shares, "BUSY_S", 1e6)

    async def main() -> None:
        door = Door(asyncio.get_running_loop())
        door.answer(door.send("b"))
        flood = [door.send("a") for _ in range(20)]
        door.answer(flood[0])
        few = share_of(0.0)
        assert door.inside("a") == few
        one = door.send("b")
        for call in flood[1 : few + 1]:
            door.answer(call)
        assert door.inside("a") == 0
        seen: list[int] = []
        one.future.add_done_callback(lambda _: seen.append(door.inside("a")))
        door.answer(one)
        await asyncio.sleep(0)
        assert seen == [0], "whoever waited for the answer comes first"
        assert door.inside("a") == few

    asyncio.run(main())


def test_a_flood_steps_aside_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """AT-27: where the other's answer does not come, the flood goes on without it."""
    monkeypatch.setattr(shares, "BUSY_S", 1e6)

    async def main() -> None:
        door = Door(asyncio.get_running_loop())
        one = door.send("b")
        flood = [door.send("a") for _ in range(20)]
        async with asyncio.timeout(60):
            for call in flood:
                while ("a", call) not in door.given:
                    door.came.clear()
                    await door.came.wait()
                door.answer(call)
        assert not done(one)

    asyncio.run(main())


def test_worlds_that_are_gone_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """I42: what is kept of worlds is bounded by those that send now, not by those that ever did."""
    now = [100.0]
    monkeypatch.setattr(shares.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]

    def kept(door: Door) -> int:
        return max(len(part) for part in vars(door.shares).values() if isinstance(part, dict))

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        names = [f"w{number}" for number in range(50)]
        for name in names:
            door.hosted[name] = door.engine.worlds[name] = SimpleNamespace(name=name)
        calls = [door.send(name, events) for name in names for events in (1, 2)]
        assert kept(door) == 50
        for call in calls[:50]:
            door.answer(call)
        for name in names[25:]:
            del door.engine.worlds[name]
        for call in calls[50:]:
            door.answer(call)
        now[0] += shares.BUSY_S * 2
        door.answer(door.send("a"))
        assert kept(door) == 1

    looped(test)


@pytest.mark.invariant("I40")
def test_a_flood_goes_on_once_the_other_world_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """AT-27: the bound ends a moment after the last event of the other world."""
    now = [100.0]
    monkeypatch.setattr(shares.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        door.send("b")
        flood = [door.send("a") for _ in range(20)]
        now[0] += shares.BUSY_S * 2
        assert door.inside("a") < 20
        door.answer(flood[0])
        assert door.inside("a") == 19

    looped(test)


def test_floods_of_equal_size_do_not_hinder_each_other() -> None:
    """AT-27: who wants as much as the others may have as much; what is more than that waits."""

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        for _ in range(20):
            door.send("a")
            door.send("b")
        door.send("a")
        assert (door.inside("a"), door.inside("b")) == (20, 20)
        for _ in range(20):
            door.send("b")
        assert door.inside("b") == 21, "as many as the other one wants"

    looped(test)


def test_a_batch_larger_than_the_share_goes_alone() -> None:
    """AT-27: what must be decided together is never kept waiting for ever."""

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        door.answer(door.send("b"))
        first, second = door.send("a", 100), door.send("a", 100)
        assert door.inside("a") == 100
        door.answer(first)
        assert ("a", second) in door.given

    looped(test)


def test_a_slow_disk_has_more_on_its_way() -> None:
    """AT-27: as much as can be decided while a commit syncs, within bounds."""
    assert share_of(0.0) < share_of(0.006) < share_of(1.0) == share_of(100.0)


@pytest.mark.parametrize("how", ["failed", "gone"])
def test_nobody_waits_for_what_is_lost(how: str) -> None:
    """D15: when the journal fails or the world moves, who waits here is told so too."""

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        door.send("b")
        flood = [door.send("a") for _ in range(20)]
        inside = [call for name, call in door.given if name == "a"]
        if how == "failed":
            door.engine.failed = SyncFailed("no")
        else:
            del door.engine.worlds["a"]
        for call in inside:
            door.answer(call)
        assert all(done(call) for call in flood)
        told = outcome_of(flood[-1].tickets[0])
        assert isinstance(told, TallyError)
        assert told.code == ("journal.sync_failed" if how == "failed" else "world.moved")

    looped(test)


def test_closing_hands_on_what_waits() -> None:
    """ND-30: the engine, which ends last, answers everybody."""

    def test(loop: asyncio.AbstractEventLoop) -> None:
        door = Door(loop)
        door.send("b")
        for _ in range(20):
            door.send("a")
        door.shares.close()
        assert door.inside("a") == 20
        door.send("a")
        assert door.inside("a") == 21

    looped(test)


def test_two_busy_worlds_lose_and_reorder_nothing(tmp_path: Path) -> None:
    """AT-27, I1: what waited for its turn is decided in its order and answered."""

    async def main() -> None:
        async with running(config(tmp_path), Bank()) as node:
            worlds = [await node.create(name, orders.bundle()) for name in ("main", "side")]
            sent = [
                node.offer(world, placed(node, f"o-{number}"))
                for number in range(40)
                for world in worlds
            ]
            found = await asyncio.gather(*sent)
            assert all(isinstance(answer, Answer) for (answer,) in found)
            for at in (0, 1):
                seqs = [answer.seq for (answer,) in found[at::2] if isinstance(answer, Answer)]
                assert seqs == sorted(seqs)
                assert len(set(seqs)) == 40

    asyncio.run(main())
