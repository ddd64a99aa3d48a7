"""Opening and closing a node: the one place where its parts are joined.

Opening folds each world from its newest snapshot and runs no user code (D2).
Closing stops ingress, lets executors end, commits what is staged and leaves a snapshot and a
checkpoint, so that the next start is quick.
"""

# tidy: how the parts are joined, and let go again, is one story.
from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tallystick.errors import TallyError
from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.executors.secrets import Bindings, forbid_core_dumps
from tallystick.journal.backup import RESTORED
from tallystick.journal.base import Reader, WorldRow
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.reserve import make_way
from tallystick.journal.sqlite import TORN, SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.world import Settings
from tallystick.node.asks import Asks
from tallystick.node.at_once import LoneJobs, Means
from tallystick.node.config import Config
from tallystick.node.dispatch import Dispatch
from tallystick.node.driver import Ports
from tallystick.node.duties import Duties
from tallystick.node.engine import Engine, Out
from tallystick.node.files import Files, Lock
from tallystick.node.gauges import Gauges
from tallystick.node.governing import Governing
from tallystick.node.hosting import Hosting, Modules
from tallystick.node.indexed import Indexed
from tallystick.node.inworld import InWorld
from tallystick.node.keys import node_key
from tallystick.node.log import Log
from tallystick.node.node import Held, Node
from tallystick.node.ops import Ops
from tallystick.node.outlet import Outlet, Parcel
from tallystick.node.outside import Outside
from tallystick.node.points import Points
from tallystick.node.reading import Reading
from tallystick.node.reruns import Reruns
from tallystick.node.resume import Resume
from tallystick.node.served import serve_executors
from tallystick.node.shares import Shares
from tallystick.node.split import SplitJournal
from tallystick.node.watching import Watching
from tallystick.node.work import Work
from tallystick.node.worlds import drop_unfinished
from tallystick.node.writer import Rhythm, Writer

_TAIL: Final = 3  # times as long as snapshots are apart: no node that lives on leaves that behind
_SHORTEN_S: Final = 2.0
_COLLECTED: Final = (10_000, 20, 20)  # objects, and rounds, between two looks of the collector


# tidy: the folder is taken and given back in one place.
async def open_node(
    config: Config,
    modules: Modules,
    *,
    passive: bool = False,
    executors: Sequence[Executor] = (),
    vfs: str | None = None,
) -> Node:
    """Take the folder, open every world, and start; `passive` performs no effects.

    Refuses with `node.locked` a folder that another process has.
    `vfs` is the name of another file layer of SQLite, for tests that break the disk.
    """
    files = Files(config.data)
    files.make()
    lock = Lock(files)
    try:
        if not passive:
            make_way(files.root)
        node = Node(config, Held(files, lock, node_key(files.keys)), modules)
        # A command that opens the files for a moment is no story worth telling.
        node.log = Log(config.log, None if passive else files.root, node.clock.now_ns)
        # The grace of a collection is measured by the clock that frames are stamped with.
        spill, now_ns = config.journal.spill, node.clock.now_ns
        node.journal = SqliteJournal(files.root, spill_bytes=spill, vfs=vfs, now_ns=now_ns)
        node.reading = Reading(node.journal, node.threads)
        await _start(node, passive=passive, executors=executors)
    except BaseException:
        lock.release()
        raise
    return node


def calm_collector() -> None:
    """Let the collector look rarely, and at what is there already not at all.

    Nearly nothing that a kernel makes is in a cycle; `gc.unfreeze` ends the second half.
    """
    gc.set_threshold(*_COLLECTED)
    gc.freeze()


# tidy: the order in which the parts are joined is the point.
async def _start(node: Node, *, passive: bool, executors: Sequence[Executor]) -> None:
    # A commit that has landed must not wait for a busy thread to give up its turn.
    sys.setswitchinterval(0.001)
    calm_collector()
    config, files = node.config, node.files
    node.writer = Writer(node.journal, node.metrics.committed)
    node.index = Indexed(files.root, node.journal.reader, node.log)
    _join(node)
    bindings = Bindings(files.root, os.environ)
    node.outside = Outside(node, bindings)
    node.dispatch = Dispatch(node.outside, config.dispatch.slots)
    node.dispatch.stopping = node.passive = passive
    # Who only came to look must find the world as it was left: no timer fires, no cell goes on.
    node.engine.draining = node.engine.asleep = passive
    means = Means(node.key.pair, node.clock, node.reader.blob)
    node.engine.lone = LoneJobs(node.dispatch, node.engine.outlet, means)
    node.resume = Resume(node)
    node.duties = Duties(node)
    node.asks = Asks(node)
    node.work = Work(node)
    node.ops = Ops(node)
    node.governing = Governing(node)
    node.watching = Watching(node)
    node.inworld = InWorld(node)
    node.reruns = Reruns(node)
    Gauges(node)
    node.writer.start()
    node.engine.start()
    try:
        if not passive:
            forbid_core_dumps()
            ports = ExecutorPorts(files.root, bindings, node.clock.now_ns)
            serve_executors(node, ports, executors)
            node.watching.serve()
        await _open_worlds(node, passive=passive)
        if not passive:
            await _tell_torn(node)
        count = len(node.engine.worlds)
        node.log.say("info", "node.opened", f"{count} worlds are open", node=config.node.name)
        await node.watching.start()
    except BaseException:
        await close_node(node, 0)
        raise
    node.duties.start()


def _join(node: Node) -> None:
    config = node.config
    outlet = Outlet()

    def post(parcel: Parcel) -> None:
        node.loop.call_soon_threadsafe(node.released, parcel)

    rhythm = Rhythm(
        config.journal.max_frames,
        config.journal.max_bytes,
        int(config.journal.max_wait_ms * 1_000_000),
        config.node.snapshot_every,
        int(config.executors.of("timer")["catchup_rate"]),
    )
    out = Out(post, node.metrics.ticked, node.metrics.late)
    node.engine = Engine(node.writer, rhythm, outlet, out)
    node.writer.broken = node.engine.break_off
    node.shares = Shares(node.engine, node.writer)
    node.reader = node.journal.reader()
    journal = SplitJournal(node.reader, node.writer)
    settings = Settings(
        cell_cache=config.node.cell_cache,
        resident_bytes_max=config.node.resident_bytes_max,
        catalogues=Catalogues(),
    )
    ports = Ports(journal, node.clock, outlet, Points())
    node.hosting = Hosting(ports, node.modules, settings, node.clock, node.key.pair.public)


async def _open_worlds(node: Node, *, passive: bool) -> None:
    """Open every world of the journal; what was on its way is taken up again, in bounds."""
    if not passive:
        await _drop_unfinished(node)
    # Nobody was told of a world that is not finished, and who writes next drops it.
    rows = [row for row in await node.read(_rows) if not is_unfinished(row)]
    known = {row.world for row in rows}
    aliases = await node.read(lambda reader: reader.aliases())
    node.names = {name: world for name, world in aliases.items() if world in known}
    about = await node.read(_about)
    for row in rows:
        backup = str(about.get("restored_from")) if row.state == RESTORED else None

        def host(world: str = row.world, backup: str | None = backup) -> int:
            hosted = node.hosting.open(world, backup, look=passive)
            node.engine.worlds[world] = hosted
            return hosted.driver.head.seq

        head = await node.on_kernel(host)
        if backup is not None:
            await node.write(partial(_mark_open, row.world))
        node.welcome(row.world, head)
        if passive and backup is None:
            node.looking[row.world] = None
        await node.work.open(row.world)
        node.log.say("info", "world.opened", node.name_of(row.world), world=row.world, seq=head)
        if not passive:
            await _shorten(node, row.world)
            node.resume.begin(row.world, head)


async def _shorten(node: Node, world: str) -> None:
    """Take a snapshot now if the tail is longer than a node leaves that lives on.

    It was left by lives too short for a snapshot; the next one may be as short, and would fold
    all of it again.
    """
    hosted = node.engine.worlds[world]
    if hosted.driver.world.seq - hosted.snapped < _TAIL * node.config.node.snapshot_every:
        return
    try:
        await node.snapshot(world, wait_s=_SHORTEN_S)
    except TallyError as why:  # a start goes on without: it only folds more the next time
        node.log.say("warning", why.code, f"no snapshot at the start: {why.message}", world=world)


async def _tell_torn(node: Node) -> None:
    """Say once that the log ended in a commit that was never finished."""
    torn = (await node.read(_about)).get(TORN, 0)
    if torn:
        message = f"{torn} bytes of a commit that was never finished were cut from the log"
        node.log.say("warning", "journal.tail_cut", message, bytes=torn)
        await node.write(lambda journal: journal.set_meta(**{TORN: 0}))


async def _drop_unfinished(node: Node) -> None:
    """Forget the worlds in whose making the node died: nobody was told that they exist."""
    for row in reversed(await node.read(_rows)):  # a fork goes before its parent
        if is_unfinished(row):
            said = "a world that was not finished is dropped"
            node.log.say("warning", "world.unfinished", said, world=row.world)
            await node.write(partial(drop_unfinished, world=row.world))


def _rows(reader: Reader) -> list[WorldRow]:
    return reader.worlds()


def _about(reader: Reader) -> dict[str, Any]:
    assert isinstance(reader, SqliteReader), "a node's journal is a SQLite file"
    return reader.meta()


def _mark_open(world: str, journal: SqliteJournal) -> None:
    """Only once its restoring is durable: until then every opening records it (again)."""
    journal.set_state(world, "open")


# tidy: the order in which the parts are let go is the point.
async def close_node(
    node: Node, drain_s: float | None = None, *, until_s: float | None = None
) -> None:
    """Stop: no new events, let executors end, commit, snapshot, checkpoint, let go of the folder.

    After a failed sync only the letting go is done: nothing is written any more.
    Behind `until_s`, a time of the loop, no snapshot is begun and no reader is waited for.
    """
    node.stopping = True
    node.engine.draining = True
    node.log.say("info", "node.stopping", "no new events; what runs may end")
    await node.watching.stop()
    await node.resume.stop()
    left_s = 5.0 if until_s is None else max(until_s - node.loop.time(), 0.1)
    await node.dispatch.drain(node.config.node.drain_s if drain_s is None else drain_s, left_s)
    node.log.say("debug", "node.drained", "no executor works any more")
    await node.duties.stop()
    await node.asks.close()
    await node.inworld.close()
    await node.work.close()
    # A passive node came to look; it leaves no record of that.
    if node.engine.failed is None and not node.passive:
        await node.duties.last(until_s)
    node.log.say("debug", "node.signed", "every idle world has a snapshot and a checkpoint")
    node.shares.close()
    await asyncio.to_thread(node.engine.stop)
    await asyncio.sleep(0)  # let the last release be handed on
    for name in await node.dispatch.close():
        node.log.say("warning", "executor.not_closed", f"the executor {name} did not close")
    await asyncio.to_thread(node.writer.stop)
    node.feed.close()
    if until_s is not None:
        await node.reading.give_up(until_s)
    await asyncio.to_thread(node.reruns.close)
    node.threads.shutdown()
    await asyncio.to_thread(node.index.close)
    _let_go(node)


def _let_go(node: Node) -> None:
    gc.unfreeze()
    node.outside.close()
    close_modules = getattr(node.modules, "close", None)  # who runs all in this process has none
    if close_modules is not None:
        close_modules()
    node.reader.close()
    failed = node.engine.failed
    try:
        node.journal.close()
    except TallyError:
        if failed is None:
            raise
    node.files.node.unlink(missing_ok=True)
    node.log.say("info", "node.stopped", "the folder is free")
    node.log.close()
    node.lock.release()
    if not node.stopped.done():
        node.stopped.set_result(failed)
