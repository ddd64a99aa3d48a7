"""Tracing at its edges: worlds that come and go, what began before, what is too much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tallystick.bridges.otel import KNOWN_MAX, SPANS_MAX, Tracing
from tallystick.executors.base import Executor, Failed, Job, Ok, Outcome, Report
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import EventAdmitted
from tests import orders
from tests.api.plain import until
from tests.api.rig import Served, serving
from tests.bridges.test_otel import PARENT, Collector, W, about, collector
from tests.node.rig import Bank


@asynccontextmanager
async def watched(
    base: Path, *executors: Executor, **sections: Any
) -> AsyncIterator[tuple[Served, Collector]]:
    """A node, and a collector that it is told to tell."""
    with collector() as far:
        otel = {"endpoint": f"http://127.0.0.1:{far.server_port}"}
        async with serving(base, *executors, otel=otel, **sections) as served:
            yield served, far


@asynccontextmanager
async def traced(served: Served) -> AsyncIterator[Tracing]:
    """The node is traced meanwhile, and all of it is told behind it."""
    tracing = Tracing(served.node)
    tracing.start()
    try:
        yield tracing
    finally:
        await tracing.stop()


async def quiet(served: Served) -> None:
    assert await served.node.quiet(served.node.resolve("main"), 60_000)


def of_trace(far: Collector, event: str) -> list[str]:
    """The names of the spans of one event."""
    trace = event.removeprefix("sha256:")[:32]
    return [span["name"] for span in far.spans() if span["traceId"] == trace]


def test_worlds_that_come_and_go_are_traced_meanwhile(tmp_path: Path) -> None:
    """04 section 12: a new world is told of once it is seen; a removed one stops nothing."""

    async def main() -> None:
        async with watched(tmp_path, Bank()) as (served, far), traced(served):
            world = await served.node.create("later", orders.bundle())

            def seen() -> bool:
                return any(about(span).get("tally.world") == world for span in far.spans())

            for n in range(1_000):
                await served.send(f"o{n}", world="later")
                if seen():
                    break
                await asyncio.sleep(0.02)
            assert seen()
            await served.node.remove(world)
            figures = len(far.got)
            await until(lambda: [path for path, _ in far.got[figures:]].count("/v1/metrics") > 1)
            sent = (await served.send("a")).json()
            await quiet(served)
            await until(lambda: "tally.effect" in of_trace(far, sent["event"]))

    asyncio.run(asyncio.wait_for(main(), 120))


class Slow(Bank):
    """Fails at first, when it is let to; tells how far it is."""

    def __init__(self) -> None:
        super().__init__(self.act)
        self.go = asyncio.Event()

    async def perform(self, job: Job, report: Report) -> Outcome:
        await report("note", {"done": 1})
        return await super().perform(job, report)

    async def act(self, job: Job) -> Outcome:
        del job
        await self.go.wait()
        first = len(self.asked) == 1
        return Failed("server_error", "bank.closed", "later") if first else Ok({"ref": "r"})


def test_what_began_before_is_left_out(tmp_path: Path) -> None:
    """04 section 12: no span without its cause; what is asked for from now on is told whole."""

    async def main() -> None:
        bank = Slow()
        async with watched(tmp_path, bank) as (served, far):
            before = (await served.send("before")).json()
            await until(lambda: bank.asked)
            async with traced(served):
                bank.go.set()
                await quiet(served)
                after = (await served.send("after", traceparent="no parent")).json()
                await quiet(served)
                suspended = await served.http.post(
                    f"{W}/cells/shop%2Fledger@1/-/suspend", json={"reason": "look"}
                )
                assert suspended.status_code == 202, suspended.text
            assert of_trace(far, before["event"]) == []
            wanted = ["tally.ingress", "tally.tick", "tally.effect", "tally.tick"]
            assert of_trace(far, after["event"])[:4] == wanted
            effects = [span for span in far.spans() if span["name"] == "tally.effect"]
            assert len(effects) == 1, "the charges and the pause of before have no cause here"
            assert not any(span.get("links") for span in far.spans())

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_reader_that_falls_behind_tells_the_rest_once(tmp_path: Path) -> None:
    """ND-29, 04 section 12: too much at once is told at the end, each event one time."""

    async def main() -> None:
        async with watched(tmp_path, Bank(), http={"feed_buffer": 5}) as (served, far):
            async with traced(served):
                await asyncio.sleep(0)  # its reader begins, and has seen all
                events = [
                    {"schema": orders.PLACED, "value": {"order_id": f"o{n}", "cents": 5}}
                    for n in range(40)
                ]
                sent = await served.http.post(f"{W}/events", json={"events": events})
                assert sent.status_code == 202
                await quiet(served)
            spans = far.spans()
            assert len({span["spanId"] for span in spans}) == len(spans), "each is told once"
            told = {about(span).get("tally.event") for span in spans}
            for row in sent.json()["results"]:
                assert row["event"].removeprefix("sha256:") in told
                assert of_trace(far, row["event"]).count("tally.effect") == 1

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_refused_event_of_a_traced_batch_has_no_link(tmp_path: Path) -> None:
    """04 section 12: of a batch with a `traceparent` only what was admitted is linked."""

    async def main() -> None:
        async with watched(tmp_path, Bank()) as (served, far):
            async with traced(served):
                good = {"schema": orders.PLACED, "value": {"order_id": "a", "cents": 5}}
                sent = await served.http.post(
                    f"{W}/events",
                    json={"events": [{"schema": 1}, good]},
                    headers={"traceparent": PARENT},
                )
                assert [row["status"] for row in sent.json()["results"]] == [422, 202]
                await quiet(served)
            linked = [span for span in far.spans() if span.get("links")]
            assert [span["name"] for span in linked] == ["tally.ingress"]

    asyncio.run(asyncio.wait_for(main(), 120))


async def admitted(served: Served) -> tuple[Sealed, bytes]:
    """The frame of a new event, and the hash of that event."""
    seq = (await served.send("a")).json()["seq"]
    world = served.node.resolve("main")
    frames = await served.node.read(lambda reader: list(reader.read(world, seq - 1, seq)))
    found = [
        record for record in open_frame(frames[0].body)[3] if isinstance(record, EventAdmitted)
    ]
    return frames[0], found[0].event_hash


def limited(base: Path, story: Callable[[Tracing, Sealed, bytes], None]) -> tuple[Collector, int]:
    """What a collector was told after a story, and how many spans were lost."""

    async def main() -> tuple[Collector, int]:
        async with watched(base, Bank()) as (served, far):
            frame, event = await admitted(served)
            tracing = Tracing(served.node)
            story(tracing, frame, event)
            await tracing.flush()
            return far, tracing.lost

    return asyncio.run(asyncio.wait_for(main(), 120))


def test_more_spans_than_are_kept_are_counted(tmp_path: Path) -> None:
    """I42: a burst over the bound costs spans, and how many is known; the first are told."""

    def story(tracing: Tracing, frame: Sealed, event: bytes) -> None:
        del event
        for _ in range(SPANS_MAX + 7):
            tracing.frame("w", frame)

    far, lost = limited(tmp_path, story)
    assert len(far.spans()) == SPANS_MAX
    assert lost == 7


def test_links_that_nobody_claims_are_forgotten(tmp_path: Path) -> None:
    """I42: what waits for an event that never becomes durable costs no memory for ever."""

    def after(others: int) -> Callable[[Tracing, Sealed, bytes], None]:
        def story(tracing: Tracing, frame: Sealed, event: bytes) -> None:
            tracing.linked(event, PARENT.encode())
            for n in range(others):
                tracing.linked(n.to_bytes(32, "big"), PARENT.encode())
            tracing.frame("w", frame)

        return story

    for others, links in ((KNOWN_MAX - 1, 1), (KNOWN_MAX, 0)):
        far, _ = limited(tmp_path / str(others), after(others))
        assert [len(span.get("links", ())) for span in far.spans()] == [links]
