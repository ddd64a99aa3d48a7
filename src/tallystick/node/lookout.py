"""One watched workspace of a node: from the watcher's looks to observations in the journal.

Theory of operation (08 section 6, "One door").
After each look the projection of stamps is brought to the durable head: intents are durable before
their writes and it is read after the bytes, so every stamp that can explain them is there.
Then `derive` makes triggers of what differs, and all of it is offered as `sys/Observed@1`.
The workspace cell takes only the next number on the tree that it stands at; refused, the watcher
starts again from what the journal has.
Frame heads and commands that came meanwhile go through the same door.
"""

# tidy: one loop, read as a whole.
from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tallystick.errors import Conflict, Rejected, TallyError
from tallystick.kernel.inputs import Submit
from tallystick.node.definitions_found import Loading, Loads
from tallystick.node.node import Node
from tallystick.node.observed import git_commit, held_outcome, made_by, parts, request_of
from tallystick.node.projected import Projected
from tallystick.node.stamps_log import StampsLog
from tallystick.node.watch_counts import count_outcomes
from tallystick.node.watch_disk import Disk, SystemTime
from tallystick.node.watch_hints import FileHints
from tallystick.node.workspaces import Kept
from tallystick.reactions import ids, settle
from tallystick.reactions.observation import Derived, Earlier, Observation, Request
from tallystick.reactions.tree import EMPTY, Tree, load, tree_id
from tallystick.reactions.triggers import derive
from tallystick.reactions.watch import Difference, Settings, Watcher
from tallystick.values import canon
from tallystick.views.reactive import Reactive
from tallystick.views.workspaces import breakers_open, workspace_body

Asked = tuple[Request, asyncio.Future[list[str]]]
OBSERVED: Final = "sys/Observed@1"
LOADED: Final = "sys/ReactionsLoaded@1"
_LOOK_S: Final = 0.005
_TAKEN_S: Final = 30.0
_RETRY_S: Final = 1.0
_OUTCOME: Final = b"sys/TriggerOutcome@1"
_WAKES: Final = (b"sys/FrameHeadChanged@1", b"sys/CommandAsked@1")


class Sources(NamedTuple):
    """What has happened besides changes of files."""

    moved: Sequence[Any] = ()
    commands: Sequence[Request] = ()
    due: Sequence[str] = ()

    @property
    def some(self) -> bool:
        """True when there is anything."""
        return bool(self.moved or self.commands or self.due)


class Lookout:
    """Watches one directory for one world; everything but the scan runs on the io thread."""

    def __init__(self, node: Node, projected: Projected, kept: Kept, settings: Settings) -> None:
        self.kept = kept
        self.fault: str | None = None
        self.loading = Loading((), (), b"")
        self.n = 0
        self._node = node
        self._projected = projected
        self._disk = Disk(kept.folder)
        self._time = SystemTime()
        self.watcher = Watcher(self._disk, self._time, settings)
        self._loads = Loads(self._disk, dict(node.config.reactions.actions))
        self._stamps_log = StampsLog(kept) if kept.shared else None
        self._earlier = Earlier()
        self._wake = asyncio.Event()
        self._buffer: list[Callable[[], None]] | None = None
        self._asked: list[Asked] = []
        self._begun = 0  # so many times it began to look
        self._looks = 0  # and what the look of this number found is in the journal
        self._looked = asyncio.Condition()
        self._ended = False
        self._tasks: list[asyncio.Task[None]] = []
        self._hints: FileHints | None = None
        self.known = False
        """Whether the journal has any tree of it."""
        self.queued = 0
        self.breakers = 0
        self.alerted = False

    # ---- beginning and end ------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._listen())]

    async def stop(self) -> None:
        """End; what was not taken is found again at the next start."""
        while waiting := [task for task in self._tasks if not task.done()]:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting, timeout=_RETRY_S)
        self._ended = True
        if self._hints is not None:
            await self._hints.close()
        for _, future in self._asked:
            future.cancel()
        async with self._looked:
            self._looked.notify_all()

    async def _run(self) -> None:
        while True:
            try:
                await self._begin()
                while True:
                    await self._until_due()
                    await self._turn()
                    self.fault = None
            except TallyError as why:
                # A full disk, a stopping node, a damaged tree: said, and tried again.
                self.fault = f"{why.code}: {why.message}"
                await asyncio.sleep(_RETRY_S)
            except OSError as why:
                self.fault = f"workspace.io: {why.strerror}"
                await asyncio.sleep(_RETRY_S)

    async def _begin(self) -> None:
        body = await self._body()
        journaled = None if body["tree"] is None else await self._journaled(body)
        # In one step: whoever reads the tree that stands at this number must not meet another one.
        self._stand_at(body)
        self.watcher.start(journaled)
        if self._hints is None:
            self._hints = FileHints(self.kept.folder, self._hint, self._lost)
            self._hints.start()

    def _stand_at(self, body: Mapping[str, Any]) -> None:
        self.n = body["n"]
        self.known = body["tree"] is not None
        self._earlier = Earlier()

    async def _body(self) -> dict[str, Any]:
        wanted = self.kept.workspace_id
        body = await self._node.look(self.kept.world, lambda world: workspace_body(world, wanted))
        self.queued = body["queued"]
        return body

    async def _journaled(self, body: Mapping[str, Any]) -> Tree:
        root, world = ids.raw(body["tree"]["blob"]), self.kept.world
        return await self._node.read(
            lambda reader: load(root, lambda digest: reader.blob(world, digest))
        )

    # ---- what it is told --------------------------------------------------------------------

    def _hint(self, path: bytes) -> None:
        self._say(partial(self.watcher.hint, path))

    def _say(self, word: Callable[[], None]) -> None:
        """Tell the watcher something now, or after the look that it is at."""
        if self._buffer is not None:
            self._buffer.append(word)
        else:
            word()
            self._wake.set()

    def _lost(self, hinted: bool) -> None:
        flag = settle.RESCAN if hinted else settle.OVERFLOW
        if not hinted:
            self._node.metrics.count("tally_watch_overflow_total")
        self._say(partial(self.watcher.lost, flag))
        self._say(partial(self.watcher.hinted, by_somebody=hinted))

    @property
    def dirty(self) -> int:
        """How many paths wait to be looked at."""
        return self.watcher.dirty

    async def scan(self) -> int:
        """Look at everything now; the number of the observation that holds what was on disk."""
        # A look that is on its way may have passed what was written just now.
        wanted = self._begun + 1
        self._say(self.watcher.now)
        async with self._looked:
            await self._looked.wait_for(lambda: self._ended or self._looks >= wanted)
        if self._looks < wanted:
            raise not_watched(self.kept)
        return self.n

    async def confirm(self) -> None:
        """Let what vanished be an ordinary change."""
        self._say(self.watcher.confirm)

    async def command(self, command: Request) -> list[str]:
        """Ask for a reaction; the triggers that came of it, once they are durable."""
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._asked.append((command, future))
        self._wake.set()
        return await future

    async def _listen(self) -> None:
        """Wake for what the journal brings, heads and commands; count how triggers end."""
        world = self.kept.world
        async for item in self._node.feed.subscribe(world, self._node.feed.head(world)):
            if item.kind != "frame":
                continue
            if any(word in item.body.body for word in _WAKES):
                self._wake.set()
            if _OUTCOME in item.body.body:
                self.alerted |= count_outcomes(self._node.metrics, self.kept, item.body)

    # ---- waiting and looking ----------------------------------------------------------------

    async def _until_due(self) -> None:
        """Wait until a look is due, a command waits, or the journal has news."""
        while True:
            now_ns = self._time.steady_ns()
            wait_s = (min(self.watcher.due_ns(), self._schedule_ns(now_ns)) - now_ns) / 1e9
            if wait_s <= 0 or self._asked:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                return
            if await self._news():
                return

    async def _news(self) -> bool:
        moved, commands = (
            (await self._projected.now(self.kept.world)).place(self.kept.workspace_id).waiting()
        )
        return bool(moved or commands or self._asked)

    async def _turn(self) -> None:
        looks = self.watcher.due_ns() <= self._time.steady_ns()
        batch = await self._look() if looks else None
        number = self._begun
        if batch is not None and batch.held is not None and not self.known:
            batch = None  # nothing was ever seen, so there is nothing to hold back
        if batch is not None:
            await self._reload(batch.after)
        elif self._asked and not self.loaded:  # right after a start, before anything was looked at
            await self._reload(self.watcher.known)
        if not await self._handled(batch):
            return
        if self.alerted:
            wanted = self.kept.workspace_id
            self.breakers = await self._node.look(
                self.kept.world, lambda world: breakers_open(world, wanted)
            )
            self.alerted = self.breakers > 0
        # What only other rules explain has a second half, which the next look brings.
        if looks and not (batch is not None and batch.silent):
            async with self._looked:
                self._looks = number
                self._looked.notify_all()

    async def _handled(self, batch: Difference | None) -> bool:
        """Observe, and answer who asked; refused, the next turn sees and asks it all again."""
        asked, self._asked = self._asked, []
        try:
            told = await self._observe(batch, [command for command, _ in asked])
        except BaseException as why:
            self._again(asked, why)
            raise
        if told is None:
            self._asked = [*asked, *self._asked]
            return False
        for command, future in asked:
            if not future.done():
                future.set_result(made_by(told, command))
        return True

    def _again(self, asked: list[Asked], why: BaseException) -> None:
        """Commands wait for the next turn; those of one that was refused would be refused again."""
        if not isinstance(why, Rejected):
            self._asked = [*asked, *self._asked]
            return
        for _, future in asked:
            if not future.done():
                future.set_exception(why)

    async def _look(self) -> Difference | None:
        """Scan in a thread; hints that come meanwhile are kept for the next look."""
        self._buffer = []
        self._begun += 1
        began = self._time.steady_ns()
        try:
            return await asyncio.to_thread(self.watcher.look)
        finally:
            seconds = (self._time.steady_ns() - began) / 1e9
            self._node.metrics.observe("tally_watch_scan_seconds", seconds)
            buffered, self._buffer = self._buffer, None
            for word in buffered:
                word()

    # ---- definitions ------------------------------------------------------------------------

    async def _reload(self, tree: Tree) -> None:
        """Read the reaction files again if they moved; loading is an event."""
        found = await asyncio.to_thread(self._loads.load, tree)
        if found is None:
            return
        if found.hashes != self.loading.hashes or not await self._has(found):
            await self._offer(
                LOADED,
                {
                    "workspace_id": self.kept.workspace_id,
                    "definitions": [each.data for each in found.definitions],
                    "blobs": [data for each in found.definitions for data in each.blobs],
                    "principal": "node",
                },
            )
            self._earlier = Earlier()
        self.loading = found

    @property
    def loaded(self) -> bool:
        """Whether the reaction files were read since the start."""
        return self.loading.folder_id != b""

    def keep_old(self) -> None:
        """From now on a reaction whose file cannot be loaded goes on as it was."""
        self._loads.keeps = True

    async def _has(self, found: Loading) -> bool:
        body = await self._body()
        held = {row["blob"] for row in body["reactions"].values()}
        return held == set(found.hashes)

    # ---- the door ---------------------------------------------------------------------------

    def _sources(self, view: Reactive, asked: list[Request]) -> Sources:
        moved, commands = view.place(self.kept.workspace_id).waiting()
        made = [request_of(noted.value) for noted in commands]
        return Sources(moved, [*made, *asked], self._due(view))

    def _due(self, view: Reactive) -> list[str]:
        fired = view.place(self.kept.workspace_id).fired
        now_ns = self._node.clock.now_ns()
        found = []
        for definition in self.loading.definitions:
            every = [entry["every_ms"] for entry in definition["on"] if "every_ms" in entry]
            since = max(fired.get(definition.name, 0), self.loading.at_ns)
            if every and now_ns >= since + min(every) * 1_000_000:
                found.append(definition.name)
        return found

    def _schedule_ns(self, now_ns: int) -> int:
        """When to see whether something is due, on the steady clock."""
        scheduled = any("every_ms" in e for d in self.loading.definitions for e in d["on"])
        return now_ns + 1_000_000_000 if scheduled else 1 << 62

    async def _observe(
        self, batch: Difference | None, asked: list[Request]
    ) -> list[dict[str, Any]] | None:
        """Offer what was seen as observations; the triggers that were made, None when refused."""
        async with self._projected.holding(self.kept.world) as view:
            if self._stamps_log is not None:
                self._stamps_log.read(view.stamps)
            sources = self._sources(view, asked)
            if batch is None and not sources.some:
                return []
            seen, upto = self._seen(batch, view, sources), view.seq
            # A large tree takes a while, and others have the io thread meanwhile.
            derived = await asyncio.to_thread(self._derived, seen, batch)
        listings = {} if batch is None else batch.listings
        blobs = {**listings, **{canon.digest_of(data): data for data in derived.blobs}}
        if not await self._offered(seen, derived, blobs, upto):
            await self._begin_again()
            return None
        self.known = True
        self._earlier.accepted()
        if batch is not None:
            self.watcher.accepted(batch)
        return derived.triggers

    def _seen(self, batch: Difference | None, view: Reactive, sources: Sources) -> Observation:
        before = self.watcher.known
        return Observation(
            world_id=self.kept.world,
            workspace_id=self.kept.workspace_id,
            n=self.n + 1,
            observed_at=self._node.clock.now_ns(),
            before=before if self.known else None,
            after=before if batch is None else batch.after,
            definitions=self.loading.definitions,
            stamps=view.stamps,
            heads=view.place(self.kept.workspace_id).heads,
            flags=() if batch is None else batch.flags,
            git_commit=git_commit(self._disk),
            moved=sources.moved,
            commands=sources.commands,
            due=sources.due,
            folding=self.kept.folding,
            earlier=self._earlier,
        )

    def _derived(self, seen: Observation, batch: Difference | None) -> Derived:
        """What follows from an observation; held back and silent ones fire nothing by files."""
        if batch is None or (batch.held is None and not batch.silent):
            return derive(seen)
        held = held_outcome(seen.workspace_id, batch)
        still = Observation(
            **{
                **{name: getattr(seen, name) for name in seen.__slots__},
                "before": seen.after,
            }
        )
        made = derive(still)
        return Derived(made.triggers, [*made.outcomes, *held], made.blobs)

    async def _offered(
        self, seen: Observation, derived: Derived, blobs: Mapping[bytes, bytes], upto: int
    ) -> bool:
        """Offer in parts that fit an event, all of them in one commit; False when refused."""
        inputs = []
        before = None if seen.before is None else ids.text(tree_id(seen.before))
        after = ids.text(tree_id(seen.after))
        for at, (triggers, outcomes) in enumerate(parts(derived)):
            value = {
                "workspace_id": seen.workspace_id,
                "n": seen.n + at,
                "before": before,
                "after": after,
                "stamps_at": upto,
                "feed_upto": upto,
                "flags": list(seen.flags),
                "git_commit": seen.git_commit,
                "observed_at": seen.observed_at,
                "triggers": triggers,
                "outcomes": outcomes,
                "blobs": [],
            }
            inputs.append(self._input(OBSERVED, value))
            before = after
        answers = await self._node.offer(self.kept.world, *inputs, blobs=blobs)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return await self._taken(seen.n + len(inputs) - 1)

    async def _taken(self, n: int) -> bool:
        """Whether the cell has taken an observation; it ticks soon after the event is in."""
        until = self._node.loop.time() + _TAKEN_S
        while self._node.loop.time() < until:
            body = await self._body()
            if body["n"] == n:
                self.n = n
            if body["n"] >= n:
                return self.n == n
            await asyncio.sleep(_LOOK_S)
        return False

    async def _begin_again(self) -> None:
        body = await self._body()
        journaled = EMPTY if body["tree"] is None else await self._journaled(body)
        self._stand_at(body)
        self.watcher.again(journaled)

    async def _offer(self, schema: str, value: Mapping[str, Any]) -> None:
        await self._node.one(self.kept.world, self._input(schema, value))

    def _input(self, schema: str, value: Mapping[str, Any]) -> Submit:
        sample = self._node.clock.sample()
        return Submit(sample, schema, value, lens="native", origin="system", principal="node")


def not_watched(kept: Kept) -> Conflict:
    """The refusal of a directory that nobody watches here, or any more."""
    return Conflict(
        f"{kept.folder} is not watched by this process",
        code="workspace.not_watched",
        where={"workspace": kept.workspace_id},
        hint="start a node with `tally serve`",
    )
