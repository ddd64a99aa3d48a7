"""What a scan and a question promise of a watched workspace: all of what they saw is journaled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict
from tallystick.node.inquiry import stand_of
from tallystick.node.lookout import Lookout
from tallystick.reactions.observation import Request
from tallystick.reactions.tree import Tree
from tests.node.test_lookout import ASKED, observed_elsewhere, watched
from tests.reactions.noded import Scene, noded, scene


def test_a_scan_is_not_answered_by_a_turn_that_did_not_look(tmp_path: Path) -> None:
    """F-05: a command that is being handled has read nothing of what was written meanwhile."""

    async def main(here: Scene) -> None:
        lookout = here.lookout
        observe, handled, door = lookout._observe, asyncio.Event(), asyncio.Event()

        async def slowly(batch: Any, asked: list[Request]) -> list[dict[str, Any]] | None:
            handled.set()
            await door.wait()
            return await observe(batch, asked)

        lookout._observe = slowly  # type: ignore[method-assign]  # as under load
        asked = asyncio.create_task(lookout.command(Request("asked", b"", key="k1")))
        await handled.wait()
        here.write("late.txt", "1")
        scanned = asyncio.create_task(lookout.scan())
        await asyncio.sleep(0)
        door.set()
        await asked
        await scanned
        assert b"late.txt" in lookout.watcher.known

    watched(tmp_path, main, asked=ASKED)


def test_who_asks_while_an_observation_is_refused_is_answered_by_the_next(tmp_path: Path) -> None:
    """F-05: a scan was answered before its look was taken, and a command was lost."""

    async def main(here: Scene) -> None:
        for word in ("scan", "command"):
            before = here.lookout.n
            others = [observed_elsewhere(here, n) for n in (before + 1, before + 2)]
            await here.node.offer(here.world, *others)
            here.write(f"{word}.txt", "1")
            if word == "scan":
                await here.lookout.scan()
                assert b"scan.txt" in here.lookout.watcher.known
            else:
                assert len(await here.lookout.command(Request("asked", b"", key="k1"))) == 1
            assert here.lookout.n > before + 2

    watched(tmp_path, main, asked=ASKED)


def test_a_scan_is_answered_after_both_halves_of_changed_rules(tmp_path: Path) -> None:
    """F-05: what only the rules explain is journaled first, and what people changed after it."""

    async def main(here: Scene) -> None:
        here.write("a.draft", "1")
        await here.scan()
        here.write(".tallyignore", "*.draft\n")
        here.write("b.txt", "1")
        await here.lookout.scan()
        assert b"a.draft" not in here.lookout.watcher.known
        assert b"b.txt" in here.lookout.watcher.known

    watched(tmp_path, main)


def test_who_asks_while_the_watching_begins_meets_the_tree_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """08 section 5: right after a start a place that is known was refused as one that is not."""
    begun, door, journaled = asyncio.Event(), asyncio.Event(), Lookout._journaled

    async def slowly(lookout: Lookout, body: Mapping[str, Any]) -> Tree:
        begun.set()
        await door.wait()
        return await journaled(lookout, body)

    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            here = await scene(node, tmp_path / "ws")
            await here.add()
            here.write("a.txt", "1")
            await here.scan()
        monkeypatch.setattr(Lookout, "_journaled", slowly)
        async with noded(tmp_path / "data") as node:
            await begun.wait()
            (kept,) = node.watching.workspaces.rows.values()
            assert b"a.txt" in (await stand_of(node, kept)).tree
            door.set()
            await node.watching.lookout(kept).scan()
            assert b"a.txt" in (await stand_of(node, kept)).tree

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_scan_of_a_directory_that_is_given_up_is_refused(tmp_path: Path) -> None:
    """F-05: nobody looks any more, so who waits for a look is told and does not wait for ever."""

    async def main(here: Scene) -> None:
        async with here.node.governing._closed(here.world):
            here.write("a.txt", "1")
            scanned = asyncio.create_task(here.lookout.scan())
            await here.until(lambda: here.lookout.fault)
            await here.node.watching.remove(here.kept)
            with pytest.raises(Conflict) as caught:
                await asyncio.wait_for(scanned, 20)
        assert caught.value.code == "workspace.not_watched"

    watched(tmp_path, main, asked=ASKED)
