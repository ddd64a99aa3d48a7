"""OpenTelemetry: the walk of an event as spans, made from durable frames (04 section 12).

A frame that readers may see is told; so a span never speaks of what a crash could take back.
The trace of everything that came of an event is the first 16 bytes of that event's hash, and the id
of a span is that of its record: whoever has the journal finds the trace, and the reverse.
A `traceparent` that came with a request is a link, not a parent: causes are the journal's to say.
No key and no value leaves, only the hash of a key.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from contextlib import aclosing, suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.bridges.otlp import Span, Wire
from tallystick.model.frames import Sealed
from tallystick.model.records import (
    EventAdmitted,
    IntentOpened,
    ReceiptSettled,
    Ticked,
    WorkflowFaulted,
)
from tallystick.node.node import Node
from tallystick.views.journal import Entry, entries

EVERY_S: Final = 1.0
SPANS_MAX: Final = 10_000
KNOWN_MAX: Final = 100_000
_PARENT: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class Place(NamedTuple):
    """Where a record stands in its trace."""

    trace: bytes
    ident: bytes


class Asked(NamedTuple):
    """An effect that was asked for: its place, its parent, and what it is about."""

    place: Place
    parent: bytes | None
    at_ns: int
    about: dict[str, Any]


class Tracing:
    """Reads the feed of every world of a node and tells a collector."""

    def __init__(self, node: Node) -> None:
        settings = node.config.otel
        resource = {
            "service.name": settings.service,
            "service.instance.id": node.config.node.name,
        }
        self._node = node
        self._wire = Wire(settings.endpoint, resource)
        self._least = int(settings.sample * 2**64)
        self._began_ns = node.clock.now_ns()
        self._spans: deque[Span] = deque()
        self._places: OrderedDict[tuple[str, int], Place] = OrderedDict()
        self._asked: OrderedDict[tuple[str, bytes], Asked] = OrderedDict()
        self._links: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()
        self._ticks: dict[str, deque[tuple[int, float]]] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._after: dict[str, int] = {}  # what was told of each world
        self._task: asyncio.Task[None] | None = None
        self._commits = 0
        self.lost = 0

    def start(self) -> None:
        """Begin: what becomes durable from now on is told; commits and ticks are timed, too."""
        metrics = self._node.metrics
        metrics.on_commit, metrics.on_tick = self._committed, self._ticked
        self._node.linked = self.linked
        self._begin()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Tell what is durable and not told yet, in a moment at most, and end."""
        metrics = self._node.metrics
        metrics.on_commit = metrics.on_tick = self._node.linked = None
        tasks = [*self._readers.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY_S):
                for world in self._readers:
                    await self._rest(world)
        await self.flush()

    def linked(self, event: bytes, traceparent: bytes) -> None:
        """A request that admitted an event came with a `traceparent`."""
        found = _PARENT.fullmatch(traceparent)
        if found is not None:
            _keep(self._links, event, _ids(found))

    # ---- reading ----------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._begin()
            await self.flush()

    def _begin(self) -> None:
        """Read every world that is not read yet, from where it stands now."""
        for world in list(self._node.engine.worlds):
            if world not in self._readers:
                self._after[world] = self._node.feed.head(world)
                self._readers[world] = asyncio.create_task(self._read(world))

    async def _read(self, world: str) -> None:
        while world in self._node.engine.worlds:
            await self._follow(world)
            await asyncio.sleep(EVERY_S)  # too far behind: go on from where we were

    async def _rest(self, world: str) -> None:
        head = self._node.feed.head(world)
        if self._after[world] < head:
            await self._follow(world, head)

    async def _follow(self, world: str, upto: int | None = None) -> None:
        """Take in what becomes durable, until we are too slow for it or there."""
        feed: Any = self._node.feed.subscribe(world, self._after[world])
        async with aclosing(feed):
            async for item in feed:
                if item.kind == "frame":
                    self._after[world] = item.seq
                    self.frame(world, item.body)
                if upto is not None and self._after[world] >= upto:
                    return

    def frame(self, world: str, frame: Sealed) -> None:
        """Take in one durable frame."""
        now_ns = self._node.clock.now_ns()
        for entry in entries([frame]):
            match entry.record:
                case EventAdmitted():
                    self._event(world, entry, now_ns)
                case Ticked() | WorkflowFaulted():
                    self._tick(world, entry, now_ns)
                case IntentOpened():
                    self._opened(world, entry, now_ns)
                case ReceiptSettled():
                    self._settled(world, entry, now_ns)
                case _:
                    pass

    # ---- spans ------------------------------------------------------------------------------

    def _event(self, world: str, entry: Entry, now_ns: int) -> None:
        record: Any = entry.record
        asked = self._places.get((world, record.origin.tick_seq or 0))
        trace = record.event_hash[:16] if asked is None else asked.trace
        place = self._stand(world, entry.seq, trace)
        began_ns = now_ns if record.stamp is None else record.stamp.now_ns
        about = {"tally.world": world, "tally.seq": entry.seq, "tally.schema": record.schema}
        parent = None if asked is None else asked.ident
        span = Span("tally.ingress", trace, place.ident, parent, began_ns, now_ns, about)
        span.about["tally.event"] = record.event_hash.hex()
        self._put(span)

    def _tick(self, world: str, entry: Entry, now_ns: int) -> None:
        record: Any = entry.record
        cause = self._places.get((world, record.input_seq))
        if cause is None:
            return  # it began before we did
        place = self._stand(world, entry.seq, cause.trace)
        timed = self._ticks.get(record.workflow)
        began_ns, seconds = timed.popleft() if timed else (now_ns, 0.0)
        about = _about(world, entry.seq, record.workflow, record.key)
        ended_ns = began_ns + int(seconds * 1e9)
        made = Span("tally.tick", place.trace, place.ident, cause.ident, began_ns, ended_ns, about)
        made.failed = isinstance(record, WorkflowFaulted)
        self._put(made)

    def _opened(self, world: str, entry: Entry, now_ns: int) -> None:
        record: Any = entry.record
        cause = self._places.get((world, record.origin.tick_seq))
        if cause is not None:
            place = self._stand(world, entry.seq, cause.trace)
            about = _about(world, entry.seq, record.origin.workflow, record.origin.key)
            about |= {"tally.intent": record.intent.hex(), "tally.effect": record.effect}
            _keep(self._asked, (world, record.intent), Asked(place, cause.ident, now_ns, about))

    def _settled(self, world: str, entry: Entry, now_ns: int) -> None:
        record: Any = entry.record
        asked = self._asked.pop((world, record.intent), None)
        if asked is None:
            return
        # The continuation belongs to the effect, so that is what its tick came of.
        _keep(self._places, (world, entry.seq), asked.place)
        began_ns = record.started_ns or asked.at_ns
        ended_ns = record.ended_ns or now_ns
        trace, ident = asked.place
        span = Span("tally.effect", trace, ident, asked.parent, began_ns, ended_ns, asked.about)
        span.about["tally.status"] = record.status
        span.failed = record.status != "ok"
        self._put(span)

    def _stand(self, world: str, seq: int, trace: bytes) -> Place:
        place = Place(trace, sha256(f"{world} {seq}".encode()).digest()[:8])
        _keep(self._places, (world, seq), place)
        return place

    def _put(self, span: Span) -> None:
        if int.from_bytes(span.trace[:8], "big") >= self._least:
            return
        if len(self._spans) >= SPANS_MAX:
            self.lost += 1
            return
        self._spans.append(span)

    # ---- what only the node can time ----------------------------------------------------------

    def _ticked(self, workflow: str, seconds: float) -> None:
        """On the kernel's thread: a tick took so long; its frame comes when it is durable."""
        began_ns = self._node.clock.now_ns() - int(seconds * 1e9)
        self._ticks.setdefault(workflow, deque(maxlen=SPANS_MAX)).append((began_ns, seconds))

    def _committed(self, seconds: float, frames: int) -> None:
        """On the writer's or the kernel's thread: a commit belongs to many traces, so to none."""
        self._commits += 1
        now_ns = self._node.clock.now_ns()
        ident = sha256(f"commit {self._began_ns} {self._commits}".encode()).digest()
        about = {"tally.frames": frames}
        began_ns = now_ns - int(seconds * 1e9)
        self._put(Span("tally.commit", ident[:16], ident[16:24], None, began_ns, now_ns, about))

    # ---- sending ----------------------------------------------------------------------------

    async def flush(self) -> None:
        """Send what there is; what the far end does not take is lost, and counted."""
        spans = [self._spans.popleft() for _ in range(len(self._spans))]
        for span in spans:
            event = span.about.get("tally.event")
            link = None if event is None else self._links.pop(bytes.fromhex(event), None)
            if link is not None:
                span.links.append(link)
        if spans and not await asyncio.to_thread(self._wire.spans, spans):
            self.lost += len(spans)
            text = f"a collector did not take {len(spans)} spans"
            self._node.log.say("warning", "otel.lost", text)
        now_ns = self._node.clock.now_ns()
        await asyncio.to_thread(self._wire.metrics, self._node.metrics, self._began_ns, now_ns)


def _ids(found: re.Match[bytes]) -> tuple[bytes, bytes]:
    return bytes.fromhex(found[1].decode()), bytes.fromhex(found[2].decode())


def _about(world: str, seq: int, workflow: str, key: bytes) -> dict[str, Any]:
    return {
        "tally.world": world,
        "tally.workflow": workflow,
        "tally.key_hash": sha256(key).hexdigest(),
        "tally.seq": seq,
    }


def _keep(held: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Remember, and forget the oldest: a trace that is open for ever must not cost memory."""
    held[key] = value
    if len(held) > KNOWN_MAX:
        held.popitem(last=False)
