"""The node: worlds, threads and the outside, behind one face for the API and the command line.

Three threads, joined by queues only: the io thread (asyncio: HTTP, feed, executors), the kernel's
thread (`engine`) and the writer's (`writer`).
A caller on the io thread offers inputs or looks at live state; both are answered once what they
rest on is durable.
Reads of history run in worker threads over connections of their own.
"""

# tidy: the face of the node is one list of verbs.
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from tallystick.errors import (
    Conflict,
    DiskFull,
    NotOwner,
    NotQuiescent,
    Rejected,
    TallyError,
    Unavailable,
    UnknownName,
)
from tallystick.governance.sealed import is_sealed
from tallystick.journal.base import Reader
from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Input, Submit, TakeSnapshot
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle
from tallystick.model.frames import Sealed
from tallystick.node.calls import Call, detail_of, outcome_of, put_ahead
from tallystick.node.clock import AheadClock, SystemClock
from tallystick.node.config import Config
from tallystick.node.dispatch import Dispatch
from tallystick.node.driver import Look, Ticket
from tallystick.node.engine import Engine
from tallystick.node.feed import Feed
from tallystick.node.files import Files, Lock
from tallystick.node.hosted import Hosted
from tallystick.node.hosting import Hosting, Modules
from tallystick.node.indexed import Indexed
from tallystick.node.keys import KeyFile
from tallystick.node.lane import Lane
from tallystick.node.log import Log
from tallystick.node.metrics import Metrics
from tallystick.node.outlet import Parcel, told_of
from tallystick.node.reading import Reading
from tallystick.node.shares import Shares
from tallystick.node.wasm_cache import Vouched
from tallystick.node.worlds import ForkOrder, NewWorld, drop_unfinished, own, unthinned
from tallystick.node.writer import Writer
from tallystick.values.names import is_field, is_uuid, nearest
from tallystick.views.waiting import Serving

if TYPE_CHECKING:  # these are made of a node, so they import it
    from tallystick.node.asks import Asks
    from tallystick.node.duties import Duties
    from tallystick.node.governing import Governing
    from tallystick.node.inworld import InWorld
    from tallystick.node.ops import Ops
    from tallystick.node.outside import Outside
    from tallystick.node.reruns import Reruns
    from tallystick.node.resume import Resume
    from tallystick.node.watching import Watching
    from tallystick.node.work import Work

T = TypeVar("T")

_UPGRADING_MS = 1000
_LOOK_S = 0.01


class Held(NamedTuple):
    """What a node holds of its folder: the files, the lock on them, and the node's key."""

    files: Files
    lock: Lock
    key: KeyFile


class Node:
    """A process that hosts worlds; made by `host.open_node`, used on the io thread."""

    # tidy: everything that a node holds, named once.
    def __init__(self, config: Config, held: Held, modules: Modules) -> None:
        self.config = config
        self.files = held.files
        self.folder = held.files.root
        self.key = held.key
        self.lock = held.lock
        self.modules = modules
        self.metrics = Metrics()
        self.clock = SystemClock()
        self.loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[TallyError | None] = self.loop.create_future()
        self.stopping = False
        self.passive = False
        self.names: dict[str, str] = {}
        self.promised: dict[str, None] = {}  # names of worlds that are being made
        self.lanes: dict[str, Lane] = {}
        self.closed: dict[str, int] = {}  # worlds that take no events while they are changed
        self.linked: Callable[[bytes, bytes], None] | None = None  # told of a `traceparent`
        self.looking: dict[str, None] = {}  # worlds that a passive node has not written to
        self.feed = Feed(self._frames, config.http.feed_buffer)
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="tally-read")
        # Set by `host`, which joins the parts.
        self.journal: SqliteJournal
        self.reading: Reading
        self.index: Indexed
        self.log: Log
        self.reader: Reader  # of the kernel's thread
        self.writer: Writer
        self.engine: Engine
        self.shares: Shares
        self.hosting: Hosting
        self.dispatch: Dispatch
        self.outside: Outside
        self.resume: Resume
        self.duties: Duties
        self.asks: Asks
        self.work: Work
        self.ops: Ops
        self.governing: Governing
        self.watching: Watching
        self.inworld: InWorld
        self.reruns: Reruns

    # ---- what is here -----------------------------------------------------------------------

    def status(self) -> str:
        """`ok`, `degraded` (unserved effects, stopped worlds), `read_only` (full), `stopping`."""
        if self.stopping or self.engine.failed is not None:
            return "stopping"
        if self.engine.read_only:
            return "read_only"
        return "degraded" if self.dispatch.unserved or self.engine.stopped() else "ok"

    def serving(self, world: str) -> Serving:
        """Who serves an effect, and what of a world is in somebody's hands now."""
        jobs = [run.job for run in self.dispatch.running.values()] + list(self.asks.open.values())
        running = {job.intent: job.attempt for job in jobs if job.world == world}
        running |= self.work.running(world)
        return Serving(self.dispatch.serves, running, self.work.pools(world))

    def worlds(self) -> dict[str, str]:
        """The worlds that are open here: id by name."""
        return {name: world for name, world in self.names.items() if world in self.engine.worlds}

    def resolve(self, name: str) -> str:
        """The id of a world by name or id."""
        world = self.names.get(name, name)
        if world not in self.engine.worlds:
            raise UnknownName(
                f"no world {name} here",
                code="world.unknown",
                where={"world": name},
                hint=self._world_hint(name),
            )
        return world

    def _world_hint(self, name: str) -> str:
        if not self.names:
            return "there is none yet: tally dev app.py, or tally world create NAME --bundle app.py"
        return nearest(name, self.names) or f"known: {', '.join(sorted(self.names))}"

    def name_of(self, world: str) -> str:
        """The first name of a world, or its id."""
        return next((name for name, known in self.names.items() if known == world), world)

    def hosted(self, world: str, *, look: bool = False) -> Hosted:
        """A world as it is driven here; refuses one that is gone or, except to `look`, stopped."""
        if self.engine.failed is not None:
            raise self.engine.failed
        hosted = self.engine.worlds.get(world)
        if hosted is None:
            raise NotOwner(f"world {world} is not here", where={"world": world})
        if hosted.driver.stopped is not None and not look:
            raise hosted.driver.stopped
        return hosted

    # ---- inputs and looks -------------------------------------------------------------------

    async def offer(
        self, world: str, *given: Input, size: int = 0, blobs: Mapping[bytes, bytes] | None = None
    ) -> list[Answer | Exception]:
        """Decide about inputs, in order and in one commit; answers come when it is durable.

        Refuses with `Busy` when the lane of new events is full.
        `blobs` become durable with them.
        """
        hosted = self.hosted(world)
        if world in self.looking:
            del self.looking[world]
            await self.on_kernel(lambda: own(hosted.driver))
        ingress = type(given[0]) is Submit
        tickets = [Ticket(each) for each in given]
        tickets[0].blobs = blobs
        if ingress:
            self._enter(world, hosted, tickets, size)
        clock = hosted.driver.clock
        if isinstance(clock, AheadClock):
            put_ahead(tickets, clock.ahead_ns)
        call = Call(self.loop, tickets)
        if ingress:
            self.shares.offer(world, hosted, call)
        else:
            self.engine.offer(hosted, tickets, ingress=False)
        await call.future
        return [outcome_of(ticket) for ticket in tickets]

    def _enter(self, world: str, hosted: Hosted, tickets: list[Ticket], size: int) -> None:
        if self.stopping:
            raise Unavailable("the node is stopping", code="node.stopping")
        if world in self.closed:
            raise Unavailable(
                "the world is being upgraded",
                code="world.upgrading",
                where={"retry_after_ms": _UPGRADING_MS},
            )
        self.lanes[world].enter(hosted, tickets, size)

    def check_lane(self, world: str) -> None:
        """Refuse with `Busy` when not even one more event fits into the lane of a world."""
        lane, hosted = self.lanes.get(world), self.engine.worlds.get(world)
        if lane is not None and hosted is not None and not self.stopping:
            lane.check(hosted)

    async def one(self, world: str, given: Input) -> Answer:
        """Decide about one input; raises its refusal."""
        (found,) = await self.offer(world, given)
        if isinstance(found, Exception):
            raise found
        return found

    async def look(self, world: str, ask: Callable[[World], T]) -> T:
        """Ask the live world; answered once all it saw is durable."""
        ticket = Ticket(Look(ask))
        call = Call(self.loop, [ticket])
        self.engine.look(self.hosted(world, look=True), ticket)
        await call.future
        found: T = detail_of(ticket)
        return found

    @asynccontextmanager
    async def held(self, world: str) -> AsyncIterator[None]:
        """Let a world stand still for a moment: what comes waits, looks and `now` are answered."""
        hosted = self.hosted(world)  # its driver may be another one in the end
        await self.on_kernel(lambda: setattr(hosted.driver, "held", True))
        try:
            yield
        finally:
            self.engine.call(lambda: setattr(hosted.driver, "held", False))

    async def now(self, world: str, given: Input) -> Answer:
        """Decide about one input before all that waits; for whoever holds the world."""
        hosted = self.hosted(world)
        if self.engine.read_only:
            raise DiskFull("the disk is full; the node only reads")
        ticket = Ticket(given)
        if isinstance(hosted.driver.clock, AheadClock):
            put_ahead([ticket], hosted.driver.clock.ahead_ns)
        call = Call(self.loop, [ticket])
        self.engine.look(hosted, ticket)
        await call.future
        found = outcome_of(ticket)
        if isinstance(found, Exception):
            raise found
        return found

    async def past(self, world: str, seq: int, ask: Callable[[World], T]) -> T:
        """Ask the world as it was at a sequence; folded in a worker thread."""

        def fold(reader: Reader) -> T:
            own = self.hosted(world, look=True).driver.world.runner
            return unthinned(reader, world, lambda: ask(self.hosting.at(reader, world, own, seq)))

        return await self.read(fold)

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Ask the journal in a worker thread, over a connection of its own."""
        return await self.reading.ask(ask)

    async def write(self, action: Callable[[SqliteJournal], T]) -> T:
        """Change what the journal keeps beside frames, between commits."""
        return await asyncio.wrap_future(self.writer.later(action))

    async def _frames(self, world: str, after: int, upto: int) -> list[Sealed]:
        return await self.read(lambda reader: list(reader.read(world, after, upto)))

    async def on_kernel(self, action: Callable[[], T]) -> T:
        """Run something on the kernel's thread, between turns."""
        future: asyncio.Future[T] = self.loop.create_future()

        def act() -> None:
            try:
                found = action()
            except Exception as why:  # noqa: BLE001 - carried to whoever asked
                self.loop.call_soon_threadsafe(_fail, future, why)
            else:
                self.loop.call_soon_threadsafe(_done, future, found)

        self.engine.call(act)
        return await future

    # ---- worlds -----------------------------------------------------------------------------

    async def create(self, name: str, bundle: Bundle) -> str:
        """A new world from a bundle; its id."""
        world = self._new_id()
        self.vouch(bundle)
        new = NewWorld(
            world=world,
            bundle=bundle.root_digest,
            manifest=bundle.manifest_digest,
            blobs=dict(bundle.blobs()),
            node_key=self.key.pair.public,
            name=name,
        )
        async with self._making(name, world):
            await self.host(world, lambda: self.hosting.create(new))
        return world

    def vouch(self, bundle: Bundle, keys: Sequence[bytes] = ()) -> None:
        """Let the modules of a bundle run in this process, if we or one of `keys` sealed it."""
        if is_sealed(bundle, [self.key.pair.public, *keys]):
            Vouched(self.folder, lambda: self.key.pair).add(bundle.artifacts)

    async def fork(self, order: ForkOrder, name: str) -> str:
        """A new world that begins where another one stood; its id."""
        world = self._new_id()
        made = order._replace(child=world, name=name)
        async with self._making(name, world):
            if order.edits:
                await self.reruns.what_if(made)
            else:
                await self.host(world, lambda: self.hosting.fork(made))
        return world

    async def host(self, world: str, make: Callable[[], Hosted]) -> None:
        """Have a world that is made on the kernel's thread: whole, also when its caller leaves."""

        def act() -> None:
            hosted = self.engine.worlds[world] = make()
            self.loop.call_soon_threadsafe(self.welcome, world, hosted.driver.head.seq)
            self.engine.let_out()

        await self.on_kernel(act)

    def welcome(self, world: str, head: int) -> None:
        """A world is open: it may be offered to and read."""
        self.lanes[world] = Lane(self.config.ingress)
        self.feed.begin(world, head)

    async def alias(self, name: str, world: str) -> None:
        """Let a name mean a world from now on."""
        self.check_alias(name)
        await self.write(lambda journal: journal.alias(name, world))
        self.names[name] = world

    async def remove(self, name: str) -> None:
        """Remove a world and all it owns; refuses one that has forks."""
        world = self.resolve(name)

        def drop() -> None:
            self.writer.alone(lambda journal: journal.drop_world(world))

        while not await self.on_kernel(lambda: self.engine.remove(world, drop)):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # a commit lands on another thread
        self.depart(world)
        await self.watching.leave(world)
        await self.index.forget(world)

    def depart(self, world: str) -> None:
        """A world is gone from here."""
        self.feed.end(world)
        self.dispatch.lost(world)
        self.asks.lost(world)
        self.work.lost(world)
        self.lanes.pop(world, None)
        for name in [name for name, known in self.names.items() if known == world]:
            del self.names[name]

    def _new_id(self) -> str:
        return str(UUID(bytes=self.clock.sample().entropy[:16], version=4))

    @asynccontextmanager
    async def _making(self, name: str, world: str) -> AsyncIterator[None]:
        """Make a world that nobody else may have the name of; nothing is left of what failed."""
        self.check_alias(name)
        if name in self.names or name in self.promised:
            raise Conflict(
                f"a world {name} exists already",
                code="world.exists",
                where={"world": name},
                hint="choose another name",
            )
        self.promised[name] = None
        try:
            yield
        except (Rejected, DiskFull, asyncio.CancelledError):
            await self.on_kernel(lambda: None)  # its making may be on its way yet
            if world not in self.lanes:
                await self.write(lambda journal: drop_unfinished(journal, world))
            raise
        finally:
            if world in self.lanes:
                self.names[name] = world
            del self.promised[name]

    def check_alias(self, name: str) -> None:
        """Refuse what is no name of a world."""
        if not is_field(name) or is_uuid(name):
            raise Rejected(
                f"{name!r} is no name of a world",
                code="world.bad_name",
                where={"path": "/name"},
                hint="letters, digits, '-', '_' and '.', at most 64, a letter first",
            )

    async def snapshot(self, world: str, *, pin: bool = False, wait_s: float = 0.0) -> int:
        """Take a snapshot once nothing is ready; its sequence.

        Refuses with `snapshot.busy` when cells were ready for as long as it waits.
        """
        answer = await self._snapped(world, wait_s)
        if pin:
            await self.write(lambda journal: journal.pin(world, answer.seq - 1))
        return answer.seq

    async def _snapped(self, world: str, wait_s: float) -> Answer:
        until = self.loop.time() + wait_s
        while True:
            try:
                return await self.one(world, TakeSnapshot(self.clock.sample()))
            except NotQuiescent:
                # Each try let some of the ready cells run; a frozen or restless world stays busy.
                if self.loop.time() >= until:
                    raise
                await asyncio.sleep(0.01)

    async def quiet(self, world: str, wait_ms: int) -> bool:
        """True once nothing is ready and no effect runs or waits; False after some time."""
        until = self.loop.time() + wait_ms / 1000
        while True:
            # Nothing outside, then nothing inside, and nothing passed between the two meanwhile.
            head = self.feed.head(world)
            outside = self.dispatch.works_for(world) or self.resume.works
            outside = outside or self.inworld.works_for(world)
            busy = await self.on_kernel(lambda: self.engine.busy(world))
            still = head == self.feed.head(world)
            if still and not (outside or busy or self.dispatch.works_for(world)):
                return True
            if self.loop.time() >= until:
                return False
            await asyncio.sleep(_LOOK_S)

    # ---- what a commit lets out -------------------------------------------------------------

    def released(self, parcel: Parcel) -> None:
        """Hand on what a commit let out: answers, intents, frames."""
        for ticket in parcel.answered:
            assert ticket.waiter is not None, "only tickets somebody waits for are told"
            ticket.waiter.told(ticket)
        dispatch = self.dispatch
        for ended, status in parcel.performed:
            self.outside.count(ended, status)
        for world, intent in parcel.settled:
            dispatch.settled(world, intent)
        dispatch.publish_all(parcel.published)
        for name in parcel.deferred:
            dispatch.defer(name)
        for world, frames, head in parcel.durable:
            self.feed.durable(world, frames, head)
        for world, plan in parcel.snapshots:
            self.duties.snapshot_taken(world, plan)
        for world, why in parcel.stopped:
            self.log.say(*told_of(why), world=world)
        for world in parcel.lost:
            self.log.say("error", "world.moved", "another writer owns this world", world=world)
            self.depart(world)
        if self.engine.failed is not None and not self.stopped.done():
            self.log.say("error", self.engine.failed.code, "the journal failed; the node stops")
            self.stopped.set_result(self.engine.failed)


def _done(future: asyncio.Future[T], found: T) -> None:
    if not future.done():
        future.set_result(found)


def _fail(future: asyncio.Future[Any], why: Exception) -> None:
    if not future.done():
        future.set_exception(why)
