"""One watched workspace: commands, holds, breakers, and what it does when the journal refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Rejected
from tallystick.kernel.inputs import Submit
from tallystick.reactions import ids
from tallystick.reactions.observation import Request
from tallystick.reactions.tree import tree_id
from tests.reactions.noded import COPIER, Scene, noded, scene

ASKED = """\
reaction: asked
on: [{command: true}]
writes: {files: ["out/**"]}
actions: [{name: page, file.write: {path: "out/page.md", content: "asked"}}]
"""
CLOCK = """\
reaction: clock
on: [{every: 1s}]
writes: {files: ["out/**"]}
cooldown: 0s
actions: [{name: page, file.write: {path: "out/time.md", content: "it rang"}}]
"""
SHORT = COPIER.replace("cooldown: 0s", "cooldown: 0s\nbreaker: {runs: 1, window: 1h}")


def watched(
    tmp_path: Path, main: Callable[[Scene], Awaitable[None]], add: bool = True, **reactions: str
) -> None:
    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", **reactions)
            if add:
                await here.add()
            await main(here)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_caller_who_leaves_does_not_cost_the_next_one_its_answer(tmp_path: Path) -> None:
    """F-05: of two who ask for a reaction one leaves before it is seen; the other is told."""

    async def main(here: Scene) -> None:
        leaves = asyncio.create_task(here.lookout.command(Request("asked", b"", key="k1")))
        await asyncio.sleep(0)
        leaves.cancel()
        assert len(await here.lookout.command(Request("asked", b"", key="k2"))) >= 1
        await here.scan()
        assert (here.folder / "out/page.md").read_text() == "asked"

    watched(tmp_path, main, asked=ASKED)


def test_version_control_at_work_holds_the_first_look_back(tmp_path: Path) -> None:
    """W7: while git writes, a workspace that was never seen stays unseen, then it is seen whole."""

    async def main(here: Scene) -> None:
        here.write(".git/index.lock", "")
        here.write("a.txt", "half")
        await here.add(trust=False)
        assert not here.lookout.known
        assert await here.outcomes() == []
        here.write("a.txt", "whole")
        (here.folder / ".git/index.lock").unlink()
        await here.until(lambda: here.lookout.known)
        assert b"a.txt" in here.lookout.watcher.known

    watched(tmp_path, main, add=False)


def test_a_schedule_fires_by_itself(tmp_path: Path) -> None:
    """08 section 6: `every` needs no file that changes and nobody who asks."""

    async def main(here: Scene) -> None:
        await here.until((here.folder / "out/time.md").exists)
        assert (here.folder / "out/time.md").read_text() == "it rang"

    watched(tmp_path, main, clock=CLOCK)


def test_an_open_breaker_is_a_number_that_people_see(tmp_path: Path) -> None:
    """08 section 13: a reaction that ran too often lets nothing pass, and its gauge says so."""

    async def main(here: Scene) -> None:
        labels = f'workspace="{here.kept.workspace_id}",world="{here.world}"'
        gauge = f"tally_reaction_breaker_open{{{labels}}}"
        assert f"{gauge} 0" in here.node.metrics.text()
        for number in range(3):
            here.write("in/a.txt", str(number))
            await here.scan()
        await here.until(lambda: f"{gauge} 1" in here.node.metrics.text())

    watched(tmp_path, main, copier=SHORT)


def observed_elsewhere(here: Scene, n: int) -> Submit:
    """What another process would say that looks at the same directory."""
    tree = ids.text(tree_id(here.lookout.watcher.known))
    value: dict[str, Any] = {
        "workspace_id": here.kept.workspace_id, "n": n, "before": tree, "after": tree,
        "stamps_at": 0, "feed_upto": 0, "flags": [], "git_commit": None, "observed_at": 1,
        "triggers": [], "outcomes": [], "blobs": [],
    }  # fmt: skip
    sample = here.node.clock.sample()
    return Submit(sample, "sys/Observed@1", value, lens="native", origin="system")


def test_a_refused_observation_is_made_again_from_what_the_journal_has(tmp_path: Path) -> None:
    """08 section 6, one door: who is behind loses no change, and says nothing twice."""

    async def main(here: Scene) -> None:
        before = here.lookout.n
        others = [observed_elsewhere(here, n) for n in (before + 1, before + 2)]
        await here.node.offer(here.world, *others)
        here.write("in/a.txt", "1")
        await here.until(lambda: b"in/a.txt" in here.lookout.watcher.known)
        assert here.lookout.n > before + 2
        await here.until((here.folder / "out/all.md").exists)
        await here.scan()
        assert len(await here.runs()) == 1

    watched(tmp_path, main, copier=COPIER)


def test_what_cannot_be_taken_now_is_said_and_taken_later(tmp_path: Path) -> None:
    """A world that is being upgraded takes no observation: the fault is told until one lands."""

    async def main(here: Scene) -> None:
        async with here.node.governing._closed(here.world):
            here.write("a.txt", "1")
            await here.until(lambda: here.lookout.fault)
            assert (here.lookout.fault or "").startswith("world.upgrading")
        await here.until(lambda: b"a.txt" in here.lookout.watcher.known)
        await here.until(lambda: here.lookout.fault is None)

    watched(tmp_path, main)


def test_who_asked_of_a_lookout_that_ends_is_told(tmp_path: Path) -> None:
    """A command that no observation has taken ends with the watching, and never waits for ever."""

    async def main(here: Scene) -> None:
        async with here.node.governing._closed(here.world):
            asked = asyncio.create_task(here.lookout.command(Request("asked", b"", key="k")))
            await here.until(lambda: here.lookout.fault)
            await here.node.watching.remove(here.kept)
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert await here.runs() == []

    watched(tmp_path, main, asked=ASKED)


def test_two_workspaces_of_a_world_are_counted_apart(tmp_path: Path) -> None:
    """08 section 13: what became of a trigger is counted once, by the workspace that it is of."""

    async def main(here: Scene) -> None:
        other = Scene(here.node, here.world, tmp_path / "other")
        other.write("a.txt", "1")
        await other.add(trust=False)
        here.write("in/a.txt", "1")
        await here.scan()
        row = 'outcomes_total{code="",outcome="accepted",reaction="copier"}'
        await here.until(lambda: f"{row} 1" in here.node.metrics.text())
        assert len(await here.runs()) == 1
        await other.scan()
        gauges = here.node.metrics.text()
        assert f"{row} 1" in gauges
        for each in (here, other):
            labels = f'workspace="{each.kept.workspace_id}",world="{each.world}"'
            assert f"tally_reaction_queue_depth{{{labels}}} 0" in gauges

    watched(tmp_path, main, copier=COPIER)


def test_a_command_that_no_event_can_hold_is_refused_and_the_watching_goes_on(
    tmp_path: Path,
) -> None:
    """F-05: no document holds its arguments; who asked is told, and the next one is served."""

    async def main(here: Scene) -> None:
        odd = Request("asked", b"", args={"n": 10**30}, key="k1")
        with pytest.raises(Rejected):
            await asyncio.wait_for(here.lookout.command(odd), 20)
        found = await asyncio.wait_for(here.lookout.command(Request("asked", b"", key="k2")), 20)
        assert len(found) == 1

    watched(tmp_path, main, asked=ASKED)


def test_a_directory_of_a_removed_world_is_free(tmp_path: Path) -> None:
    """08 section 3: it belongs to nobody then, nobody watches it, and another world may take it."""

    async def main(here: Scene) -> None:
        node, lookout = here.node, here.lookout
        await node.remove(node.name_of(here.world))
        assert node.watching.lookouts == node.watching.workspaces.rows == {}
        assert all(task.done() for task in lookout._tasks)
        other = await scene(node, here.folder)
        await other.add()
        assert [kept.world for kept in node.watching.workspaces.rows.values()] == [other.world]

    watched(tmp_path, main, asked=ASKED)


def test_a_shared_log_that_cannot_be_read_is_said_and_tried_again(tmp_path: Path) -> None:
    """F4: a disk that refuses a file for a while does not end the watching."""

    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", asked=ASKED)
            await here.add(shared=True)
            log = here.folder / ".tally/stamps.log"
            log.unlink(missing_ok=True)
            log.mkdir()
            here.write("a.txt", "1")
            await here.until(lambda: here.lookout.fault)
            log.rmdir()
            await asyncio.wait_for(here.lookout.scan(), 20)
            assert b"a.txt" in here.lookout.watcher.known

    asyncio.run(asyncio.wait_for(run(), 60))


def test_worlds_that_share_a_directory_both_watch_it(tmp_path: Path) -> None:
    """08 section 3: each of them sees what changes, and one that leaves takes nothing along."""

    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws", copier=COPIER)
            other = await scene(node, tmp_path / "ws")
            await here.add(shared=True)
            await other.add(shared=True, trust=False)
            assert here.kept.workspace_id == other.kept.workspace_id
            here.write("in/a.txt", "1")
            await here.scan()
            assert len(await here.runs()) == 1
            await other.lookout.scan()
            assert b"in/a.txt" in other.lookout.watcher.known
            await node.remove(node.name_of(other.world))
            assert list(node.watching.lookouts) == [here.kept.place]
            here.write("in/b.txt", "2")
            await here.scan()
            assert len(await here.runs()) == 2, "its writes go where they went before"
            assert all(code is None for _, _, code in await here.outcomes())
        async with noded(tmp_path / "data") as node:
            assert list(node.watching.lookouts) == [here.kept.place]

    asyncio.run(asyncio.wait_for(run(), 60))
