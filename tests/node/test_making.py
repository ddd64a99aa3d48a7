"""Making a world is one thing: after a crash it is there with its name, or it never was."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tallystick.errors import Conflict, Rejected
from tallystick.executors.base import Job, Ok, Outcome
from tallystick.governance.whatif import read_edits
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.frames import open_frame
from tallystick.model.records import EventAdmitted
from tallystick.node import host, reruns, whatif
from tallystick.node.config import Config
from tallystick.node.hosting import Hosting
from tallystick.node.node import Node
from tallystick.node.worlds import ForkOrder
from tests import orders
from tests.journal.watched import MODES, Deed, Image, watched
from tests.node.rig import Bank, config, placed, running

Make = Callable[[Node, str], Awaitable[str]]


async def created(node: Node, _parent: str) -> str:
    return await node.create("made", orders.bundle())


async def forked(node: Node, parent: str) -> str:
    return await node.fork(ForkOrder(parent, ""), "made")


async def supposed(node: Node, parent: str) -> str:
    frames = await node.read(lambda reader: list(reader.read(parent)))
    firsts = [(frame.seq, open_frame(frame.body)[3][0]) for frame in frames]
    seq = next(seq for seq, record in firsts if isinstance(record, EventAdmitted))
    edits = read_edits([{"seq": seq, "event": {"order_id": "a", "cents": 9}}])
    return await node.fork(ForkOrder(parent, "", principal="alice", edits=edits), "made")


WAYS: dict[str, Make] = {"create": created, "fork": forked, "what-if": supposed}


class Found(NamedTuple):
    """What a node finds after a crash: how many frames the new world has, and who was asked."""

    named: bool
    seq: int | None
    others: int
    asked: int


async def parent_of(node: Node) -> str:
    """A world with an effect that nobody ever answers."""
    world = await node.create("parent", orders.bundle())
    await node.one(world, placed(node, "a"))
    return world


def hurried(base: Path) -> Config:
    """Settings of a node that waits for nobody when it stops."""
    return config(base, node={"drain_s": 0})


def stuck() -> Bank:
    async def act(_job: Job) -> Outcome:
        await asyncio.Event().wait()
        return Ok({"ref": "never"})

    return Bank(act)


def crashes(log: list[Deed], mark: int) -> Iterator[dict[str, bytes]]:
    """What the disk may hold after each deed behind a mark, in every mode."""
    image, chance = Image(), Random("making")
    for at, deed in enumerate(log):
        image.take(deed)
        if at >= mark:
            for mode in MODES:
                yield image.after(mode, chance)


def rows(folder: Path) -> tuple[object, ...]:
    """What a journal says of its worlds: two that say the same are opened once."""
    journal = SqliteJournal(folder)
    try:
        names = sorted(journal.aliases().items())
        return (*names, *((row.world, row.head.seq, row.state) for row in journal.worlds()))
    finally:
        journal.close()


def enumerated(base: Path, make: Make) -> tuple[set[Found], int]:
    """What is found after a crash at each write of a making, and the last sequence of a whole."""

    async def main() -> tuple[list[Deed], int, int]:
        with watched() as vfs:
            async with running(hurried(base / "node"), stuck(), vfs=vfs.name) as node:
                parent = await parent_of(node)
                mark = len(vfs.log)
                world = await make(node, parent)
                seq = await node.look(world, lambda live: live.seq)
                return list(vfs.log), mark, seq

    log, mark, whole = asyncio.run(asyncio.wait_for(main(), 240))
    seen: dict[tuple[object, ...], Found] = {}
    for files in crashes(log, mark):
        data = base / "image"
        shutil.copytree(base / "node", data, ignore=shutil.ignore_patterns("tally.db*", "lock"))
        (place,) = {path.parent for path in (base / "node").rglob("tally.db")}
        folder = data / place.relative_to(base / "node")
        for name, held in files.items():
            if not name.endswith("-shm"):
                (folder / name).write_bytes(held)
        told = rows(folder)
        if told not in seen:
            seen[told] = asyncio.run(asyncio.wait_for(found(data), 240))
        shutil.rmtree(data)
    return set(seen.values()), whole


async def found(data: Path) -> Found:
    bank = stuck()
    async with running(hurried(data), bank) as node:
        parent = node.resolve("parent")
        made = node.names.get("made")
        seq = None if made is None else await node.look(made, lambda live: live.seq)
        others = {*node.engine.worlds} - {parent, made}
        asked = sum(job.world != parent for job in bank.asked)
        return Found(made is not None, seq, len(others), asked)


@pytest.mark.clause("X-08")
@pytest.mark.invariant("I1")
@pytest.mark.parametrize("way", sorted(WAYS))
def test_killed_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """06 section 11: killed at any write of a creation, a fork or a what-if, the node finds the
    new world whole and by its name, or no trace of it; and nobody is asked in its place.
    """
    monkeypatch.setattr(whatif, "PAGE", 1)
    seen, whole = enumerated(tmp_path, WAYS[way])
    assert {each.seq for each in seen} == {None, whole}
    assert {(each.others, each.asked) for each in seen} == {(0, 0)}


def test_control_what_is_not_finished_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 11, control: a node that kept unfinished worlds would find halves of a what-if."""
    monkeypatch.setattr(whatif, "PAGE", 1)
    monkeypatch.setattr(host, "is_unfinished", lambda row: row.head.seq == 0)
    seen, _ = enumerated(tmp_path, supposed)
    assert any(each.others for each in seen)


# tidy: one story, told in order.
@pytest.mark.clause("X-08")
def test_a_name_is_promised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """06 section 11: while a what-if is made its name is taken; one that is refused, or that its
    caller no longer waits for, leaves the name free and nothing behind.
    """
    held, plain = threading.Event(), whatif.drawn

    def drawn(*args: Any) -> Any:
        assert held.wait(60), "it is being made for as long as it is looked at"
        return plain(*args)

    monkeypatch.setattr(reruns, "drawn", drawn)

    async def main() -> None:
        async with running(hurried(tmp_path), stuck()) as node:
            parent = await parent_of(node)

            async def count() -> int:
                return len(await node.read(lambda reader: reader.worlds()))

            before = await count()
            making = asyncio.create_task(supposed(node, parent))
            while "made" not in node.promised:  # noqa: ASYNC110 - a fact, not an event
                await asyncio.sleep(0.001)
            with pytest.raises(Conflict) as caught:
                await created(node, parent)
            assert caught.value.code == "world.exists"
            making.cancel()
            await asyncio.wait([making])
            held.set()
            with pytest.raises(Rejected):
                await node.fork(ForkOrder(parent, "", seq=10_000), "made")
            assert await count() == before
            assert await created(node, parent) == node.resolve("made")

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("X-08")
def test_cancelled_between_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """06 section 11: nobody waits any more while pages are written: the world is dropped."""
    monkeypatch.setattr(whatif, "PAGE", 1)
    plain = reruns.written  # type: ignore[attr-defined]

    async def main() -> None:
        async with running(hurried(tmp_path), stuck()) as node:
            parent = await parent_of(node)
            before = len(await node.read(lambda reader: reader.worlds()))
            reached, left = asyncio.Event(), threading.Event()

            def pages(*args: object) -> Iterator[object]:
                for count, head in enumerate(plain(*args)):  # type: ignore[arg-type]  # as given
                    if count == 2:
                        node.loop.call_soon_threadsafe(reached.set)
                        assert left.wait(60), "its caller leaves before the next page"
                    yield head

            monkeypatch.setattr(reruns, "written", pages)
            making = asyncio.create_task(supposed(node, parent))
            await asyncio.wait_for(reached.wait(), 60)
            making.cancel()
            left.set()
            await asyncio.wait([making])
            assert making.cancelled()
            assert len(await node.read(lambda reader: reader.worlds())) == before

    asyncio.run(asyncio.wait_for(main(), 240))


# tidy: one story, told in order.
@pytest.mark.clause("X-08")
@pytest.mark.parametrize("way", WAYS)
def test_a_caller_that_leaves_at_the_end_leaves_a_whole_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """06 section 11: who leaves while the kernel makes the world does not leave a half behind: it
    has its name, takes events, and is there after a restart.
    """
    door = {"create": "create", "fork": "fork", "what-if": "adopt"}[way]
    plain = getattr(Hosting, door)
    reached, left = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Any:
        reached.set()
        assert left.wait(60), "its caller leaves meanwhile"
        return plain(*args)

    async def main() -> None:
        async with running(hurried(tmp_path), stuck()) as node:
            parent = await parent_of(node)
            monkeypatch.setattr(Hosting, door, slowly)
            making = asyncio.ensure_future(WAYS[way](node, parent))
            assert await asyncio.to_thread(reached.wait, 60)
            making.cancel()
            node.loop.call_soon(left.set)
            await asyncio.wait([making])
            assert making.cancelled()
            assert node.promised == {}
            made = node.resolve("made")
            assert (await node.one(made, placed(node, "after"))).kind == "accepted"
        async with running(hurried(tmp_path), stuck()) as node:
            assert node.resolve("made") == made
            assert await node.look(made, lambda live: live.cell_count) >= 1

    asyncio.run(asyncio.wait_for(main(), 240))
