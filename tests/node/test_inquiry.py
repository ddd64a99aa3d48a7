"""Questions about workspaces: conflicts, places, simulations, and who watches what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.here import modules_of
from tallystick.errors import TallyError
from tallystick.journal.index import Index
from tallystick.kernel.inputs import Submit
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.inquiry import basis_of, conflict_of, content_on_disk
from tallystick.node.simulated import simulate
from tallystick.values import canon
from tests.reactions.noded import COPIER, SETTINGS, Scene, noded, scene


def watched(tmp_path: Path, main: Callable[[Scene], Awaitable[None]], **reactions: str) -> None:
    async def run() -> None:
        async with noded(tmp_path / "data") as node:
            await main(await scene(node, tmp_path / "ws", **reactions))

    asyncio.run(asyncio.wait_for(run(), 120))


async def refused(asked: Awaitable[Any]) -> TallyError:
    with pytest.raises(TallyError) as caught:
        await asked
    return caught.value


async def writes(here: Scene) -> list[str]:
    """The intents of the writes that were asked for, in order."""

    def find(index: Index) -> list[str]:
        rows = index.intents(here.world, effect="sys/file.write@1")
        return [canon.text_of(row.intent) for row in rows]

    return await here.node.index.ask(here.world, find)


def trust(here: Scene) -> Submit:
    """Somebody trusts nothing more."""
    value = {
        "workspace_id": here.kept.workspace_id,
        "definitions": [],
        "follow": None,
        "principal": "me",
    }
    sample = here.node.clock.sample()
    return Submit(sample, "sys/WorkspaceTrust@1", value, lens="native", origin="system")


@pytest.mark.clause("F-11")
def test_a_conflict_shows_what_would_have_been_written(tmp_path: Path) -> None:
    """08 section 10: the diff is between the file as it is and what the refused write brings."""

    async def main(here: Scene) -> None:
        await here.add()
        for number in ("1", "2"):
            here.write(f"in/{number}.txt", number)
            await here.scan()
            await here.until((here.folder / "out/all.md").exists)
            here.write("out/all.md", "mine\n")
        told = await conflict_of(here.node, here.kept, (await writes(here))[-1])
        assert told is not None
        assert told["path"] == "out/all.md"
        assert told["diff"][-2:] == ["-mine", "+2 files"]
        (here.folder / "out/all.md").unlink()
        gone = await conflict_of(here.node, here.kept, (await writes(here))[-1])
        assert gone is not None
        assert gone["diff"][-1] == "+2 files", "of a file that is not there all is new"

    watched(tmp_path, main, copier=COPIER)


def test_what_is_no_write_has_no_conflict(tmp_path: Path) -> None:
    """08 section 10: of an unknown intent, and of an event, nothing is told."""

    async def main(here: Scene) -> None:
        await here.add()
        event = (await here.node.one(here.world, trust(here))).event_hash
        assert event is not None
        for name in (canon.text_of(event), f"sha256:{'0' * 64}"):
            assert await conflict_of(here.node, here.kept, name) is None

    watched(tmp_path, main)


def test_a_place_is_known_once_it_was_seen(tmp_path: Path) -> None:
    """08 section 5: before the first look, and of what is ignored, a frame has no place."""

    async def main(here: Scene) -> None:
        here.write(".git/index.lock", "")
        here.write("a.txt", "1")
        await here.add(trust=False)
        why = await refused(basis_of(here.node, here.kept, b"a.txt"))
        assert (why.code, why.where) == ("frame.no_place", {"path": "a.txt"})
        assert content_on_disk(here.kept, b"a.txt") is not None
        assert content_on_disk(here.kept, b"none/b.txt") is None
        (here.folder / ".git/index.lock").unlink()
        await here.until(lambda: here.lookout.known)
        basis = await basis_of(here.node, here.kept, b"a.txt")
        assert basis["bare_id"]
        assert (await refused(basis_of(here.node, here.kept, b".git"))).code == "frame.no_place"

    watched(tmp_path, main)


def test_a_simulation_tells_the_stages_of_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    """08 section 13: a new name passes like a changed one; nothing of it happens."""

    async def main(here: Scene) -> None:
        here.write("in/a.txt", "1")
        await here.add()
        for path in (b"in/a.txt", b"in/new.txt"):
            told = await simulate(here.node, here.kept, "copier", path)
            assert [row["stage"] for row in told["stages"]] == [1, 4, 5, 5, 6, 7, 8]
            assert told["stages"][-2]["result"].startswith("allow")
        assert await here.runs() == []
        why = await refused(simulate(here.node, here.kept, "nobody", b"in/a.txt"))
        assert (why.code, why.where) == ("reaction.unknown", {"reaction": "nobody"})

    watched(tmp_path, main, copier=COPIER)


def test_a_simulation_of_an_own_output_says_why_nothing_comes(tmp_path: Path) -> None:
    """08 section 13: what derive itself drops is a stage with its outcome."""

    async def main(here: Scene) -> None:
        await here.add()
        here.write("in/a.txt", "1")
        await here.scan()
        await here.until((here.folder / "out/all.md").exists)
        await here.scan()
        told = await simulate(here.node, here.kept, "copier", b"out/all.md")
        assert told["stages"][1:] == [{"stage": 3, "name": "derive", "result": "self_suppressed"}]

    text = COPIER.replace('[{files: ["in/*.txt"]}]', '[{files: ["in/*.txt", "out/*"]}]')
    watched(tmp_path, main, copier=text.replace("cooldown", "overlap: managed\ncooldown"))


def test_only_loaded_reactions_are_trusted(tmp_path: Path) -> None:
    """08 section 3: a name that is not loaded is refused with those that are."""

    async def main(here: Scene) -> None:
        await here.add(trust=False)
        watching = here.node.watching
        why = await refused(watching.trust(here.kept, ("copier", "no"), "me", follow=None))
        assert (why.code, why.hint) == ("reaction.unknown", "loaded: copier")
        assert len(await watching.trust(here.kept, ("copier",), "me", follow=None)) == 1

    watched(tmp_path, main, copier=COPIER)


def test_a_directory_that_is_added_again_is_watched_once(tmp_path: Path) -> None:
    """08 section 3: adding twice is one workspace with one lookout, which goes on."""

    async def main(here: Scene) -> None:
        await here.add(trust=False)
        first = here.lookout
        again = await here.node.watching.add(here.world, here.folder, "me", shared=False)
        assert again == here.kept
        assert here.node.watching.lookouts == {here.kept.place: first}

    watched(tmp_path, main)


def test_a_long_history_is_projected_in_pages_to_the_same(tmp_path: Path) -> None:
    """F-06: folded anew over thousands of records, a projection holds what following it holds."""

    async def main(here: Scene) -> None:
        await here.add()
        here.write("in/a.txt", "1")
        await here.scan()
        await here.node.offer(here.world, *[trust(here) for _ in range(1100)])
        await here.quiet()
        projected, head = here.node.watching.projected, here.node.feed.head(here.world)
        assert head > 2000
        now, again = await projected.now(here.world), await projected.past(here.world, head)
        assert now.stamps.entries() == again.stamps.entries() != []
        assert now.triggers == again.triggers != {}

    watched(tmp_path, main, copier=COPIER)


def test_who_only_came_to_look_watches_nothing(tmp_path: Path) -> None:
    """08 section 3: a passive node registers and removes a directory and never looks at it."""

    async def main() -> None:
        settings = config_of(tmp_path / "data", SETTINGS, {})
        node = await open_node(settings, modules_of(), passive=True)
        try:
            here = await scene(node, tmp_path / "ws")
            kept = await node.watching.add(here.world, here.folder, "me", shared=False)
            with pytest.raises(TallyError) as caught:
                node.watching.lookout(kept)
            assert caught.value.code == "workspace.not_watched"
            assert "tally serve" in (caught.value.hint or "")
            await node.watching.remove(kept)
            assert node.watching.workspaces.of(here.world) == []
        finally:
            await close_node(node)

    asyncio.run(asyncio.wait_for(main(), 120))
