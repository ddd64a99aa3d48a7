"""OpenTelemetry: a collector on loopback gets the walk of an event, and only durable steps."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tallystick.bridges.otel import Tracing
from tallystick.errors import Rejected
from tests.api.rig import Served, serving
from tests.node.rig import Bank

W = "/v1/worlds/main"
PARENT = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"


class Collector(HTTPServer):
    """Takes what is posted, and keeps it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Takes)
        self.got: list[tuple[str, Any]] = []

    def spans(self) -> list[dict[str, Any]]:
        return [
            span
            for path, body in self.got
            if path == "/v1/traces"
            for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        ]


class _Takes(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def collector() -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


async def told(served: Served, order: str, **headers: str) -> dict[str, Any]:
    """Place an order while the node is traced, and tell all of it."""
    tracing = Tracing(served.node)
    tracing.start()
    try:
        sent = (await served.send(order, **headers)).json()
        assert await served.node.quiet(served.node.resolve("main"), 60_000)
    finally:
        await tracing.stop()
    return {**sent, "lost": tracing.lost}


def about(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}


def test_the_walk_of_an_event_is_one_trace(tmp_path: Path) -> None:
    """04 section 12: ingress, tick, effect, tick, in one trace named by the event's hash."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        with collector() as far:
            otel = {"endpoint": f"http://127.0.0.1:{far.server_port}", "service": "shop"}
            async with serving(tmp_path, Bank(), otel=otel) as served:
                sent = await told(served, "o-1", traceparent=PARENT)
            spans = far.spans()
            mine = [s for s in spans if s["traceId"] == sent["event"][7 : 7 + 32]]
            assert [s["name"] for s in mine[:3]] == ["tally.ingress", "tally.tick", "tally.effect"]
            ingress, tick, effect, again = mine[:4]
            assert tick["parentSpanId"] == ingress["spanId"]
            assert effect["parentSpanId"] == tick["spanId"]
            assert (again["name"], again["parentSpanId"]) == ("tally.tick", effect["spanId"])
            assert ingress["links"] == [{"traceId": "ab" * 16, "spanId": "cd" * 8}]
            facts = about(effect)
            assert facts["tally.effect"] == "shop/charge@1"
            assert {"tally.world", "tally.workflow", "tally.key_hash", "tally.seq"} <= set(facts)
            assert "tally.commit" in {s["name"] for s in spans}
            for span in spans:
                assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            whole = json.dumps(far.got)
            assert "o-1" not in whole, "no key and no value leaves"
            figures = [body for path, body in far.got if path == "/v1/metrics"][-1]
            rows = figures["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            assert {"tally_ticks_total", "tally_epoch", "tally_commit_seconds"} <= {
                row["name"] for row in rows
            }
            names = about({"attributes": figures["resourceMetrics"][0]["resource"]["attributes"]})
            assert names["service.name"] == "shop"

    asyncio.run(asyncio.wait_for(main(), 240))


def test_a_collector_that_is_away_costs_spans_only(tmp_path: Path) -> None:
    """I42: nobody listens there; the order is paid, and what was lost is counted."""

    async def main() -> None:
        async with serving(tmp_path, Bank(), otel={"endpoint": "http://127.0.0.1:9"}) as served:
            assert (await told(served, "o-1"))["lost"] >= 4
            cell = (await served.http.get(f"{W}/cells/shop%2Forders@1/o-1")).json()
            assert cell["state"]["phase"] == "paid"

    asyncio.run(asyncio.wait_for(main(), 240))


def test_sampling_leaves_whole_traces_out(tmp_path: Path) -> None:
    """04 section 8: `otel.sample = 0` sends figures and no span; a bad address is refused."""

    async def main() -> None:
        with collector() as far:
            otel = {"endpoint": f"http://127.0.0.1:{far.server_port}", "sample": 0}
            async with serving(tmp_path, Bank(), otel=otel) as served:
                assert (await told(served, "o-1"))["lost"] == 0
            assert far.spans() == []
            assert {path for path, _ in far.got} == {"/v1/metrics"}
        async with serving(tmp_path, Bank(), otel={"endpoint": "collector"}) as served:
            with pytest.raises(Rejected) as caught:
                Tracing(served.node)
            assert caught.value.code == "config.type"

    asyncio.run(asyncio.wait_for(main(), 240))
