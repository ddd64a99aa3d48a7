"""A full lane: refused at the head, after a breath, and open again as soon as there is room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tallystick.api.http1 import BREATH_S
from tests.api.plain import answer, closed, until
from tests.api.rig import Served, serving

QUEUE = 3


@asynccontextmanager
async def pressed(base: Path) -> AsyncIterator[Served]:
    """A node whose lane is full; in the end those who waited in it are answered."""
    async with serving(base, ingress={"queue": QUEUE}) as served:
        world = served.node.names["main"]

        async def send(number: int) -> int:
            return (await served.send(f"waits{number}")).status_code

        async with served.node.held(world):
            waiting = [asyncio.create_task(send(number)) for number in range(QUEUE)]
            await until(lambda: served.node.lanes[world].count == QUEUE)
            yield served
        assert await asyncio.gather(*waiting) == [202] * QUEUE
        assert (await served.send("afterwards")).status_code == 202


@pytest.mark.clause("K-36")
def test_a_full_lane_refuses_before_the_body_comes(tmp_path: Path) -> None:
    """ND-21: the head is enough to be told 429; who waits in the lane is answered in the end."""

    async def main() -> None:
        async with pressed(tmp_path) as served:
            place = urlsplit(served.url)
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(
                f"POST /v1/worlds/main/events HTTP/1.1\r\nHost: {place.netloc}\r\n"
                f"Authorization: Bearer {served.api.local}\r\nExpect: 100-continue\r\n"
                "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode()
            )
            status, headers, _ = await answer(reader)
            assert (status, headers["retry-after"]) == (429, "1")
            await closed(writer)
            counted = served.node.metrics.text()
            assert 'tally_refusals_total{code="ingress.busy"} 1' in counted

    asyncio.run(main())


def test_a_caller_that_asks_again_at_once_is_slowed(tmp_path: Path) -> None:
    """ND-21: each 429 takes a breath, so refusing cannot take the processor from accepting.

    The bound is from below, and so holds on any machine.
    """

    async def main() -> None:
        async with pressed(tmp_path) as served:
            began = time.monotonic()
            for number in range(5):
                assert (await served.send(f"again{number}")).status_code == 429
            assert time.monotonic() - began >= 5 * BREATH_S * 0.9
            reads = await served.http.get("/v1/worlds/main/journal/head")
            assert reads.status_code == 200, "only what the lane has no room for is refused"

    asyncio.run(main())


def test_a_batch_that_does_not_fit_is_slowed_too(tmp_path: Path) -> None:
    """ND-21: what is refused behind its body takes the same breath."""

    async def main() -> None:
        async with serving(tmp_path, ingress={"queue": QUEUE}) as served:
            event = {"schema": "shop/OrderPlaced@1", "value": {"order_id": "o", "cents": 5}}
            began = time.monotonic()
            many = {"events": [event] * (QUEUE + 1)}
            got = await served.http.post("/v1/worlds/main/events", json=many)
            assert (got.status_code, got.json()["code"]) == (429, "ingress.busy")
            assert time.monotonic() - began >= BREATH_S * 0.9

    asyncio.run(main())
