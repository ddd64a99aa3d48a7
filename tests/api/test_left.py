"""Callers that leave, and requests that come twice: what they asked for happens once, or not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests import orders
from tests.api.plain import until
from tests.api.rig import Served, serving
from tests.api.test_receipts import PAIR, W, opened, sealed, trust

WISH = {"worker": "w", "pools": ["gpu"], "max": 5}
POOL = {"routes": {orders.CHARGE: "pool:gpu"}}


async def polled(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A long poll for work on a line of its own, as a worker sends it."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({**WISH, "wait_ms": 30_000, "lease_ms": 600_000})
    head = (
        f"POST /v1/work/lease HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {served.api.local}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    writer.write(head.encode())
    await until(lambda: served.node.work.asking == 1)
    return reader, writer


@pytest.mark.clause("N-23")
def test_a_cut_long_poll_leaves_no_lease(tmp_path: Path) -> None:
    """ND-16: a worker that died while it waited gets no job; the next one has it at once."""

    async def main() -> None:
        async with serving(tmp_path, executors=POOL) as served:
            _, writer = await polled(served)
            writer.close()
            await writer.wait_closed()
            await until(lambda: served.node.work.asking == 0)
            await served.send("a")
            got = await served.http.post("/v1/work/lease", json={**WISH, "wait_ms": 5_000})
            (job,) = got.json()["items"]
            assert job["attempt"] == 1, "nobody tried, so no attempt is journaled"
            assert job["origin"]["workflow"] == orders.ORDERS
            (row,) = (await served.http.get(f"{W}/effects")).json()["items"]
            assert row["why"] == "running"

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("N-23")
def test_a_worker_that_waits_is_given_the_job(tmp_path: Path) -> None:
    """ND-16 control: whoever has not left is answered over the same line."""

    async def main() -> None:
        async with serving(tmp_path, executors=POOL) as served:
            reader, writer = await polled(served)
            await served.send("a")
            line = await asyncio.wait_for(reader.readline(), 50)
            assert b"200" in line
            writer.close()
            await writer.wait_closed()

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-23")
def test_a_job_of_a_pool_says_that_it_waits_for_a_worker(tmp_path: Path) -> None:
    """D13: no slot is missing, a worker is; and which pool it would have to serve."""

    async def main() -> None:
        async with serving(tmp_path, executors=POOL) as served:
            row = await opened(served, "a")
            assert row["why"] == "worker"
            why = (await served.http.get(f"{W}/effects/{row['intent']}/why")).json()
            assert why["reason"]["detail"]["pool"] == "gpu"

    asyncio.run(asyncio.wait_for(main(), 240))


@pytest.mark.clause("K-09")
def test_a_receipt_with_a_key_is_answered_alike(tmp_path: Path) -> None:
    """04 section 10: same status and body, also after a restart; another body under it is 409."""

    async def main() -> None:
        key = {"Idempotency-Key": "r-1"}
        async with serving(tmp_path) as served:
            await trust(served, PAIR)
            body = sealed(served.node.resolve("main"), await opened(served, "a"))
            first = await served.http.post(f"{W}/receipts", json=body, headers=key)
            assert (first.status_code, first.json()["status"]) == (202, "settled")
            assert "idempotent-replayed" not in first.headers
            head = await settled_head(served)
        async with serving(tmp_path) as served:
            again = await served.http.post(f"{W}/receipts", json=body, headers=key)
            assert (again.status_code, again.json()) == (202, first.json())
            assert again.headers["idempotent-replayed"] == "true"
            other = await served.http.post(
                f"{W}/receipts", json={**body, "ended_ns": 3}, headers=key
            )
            assert other.json()["code"] == "ingress.idempotency_conflict"
            row = (await served.http.get(f"{W}/effects?status=all")).json()["items"][0]
            assert (row["status"], row["settled_seq"]) == ("ok", first.json()["seq"])
            assert await settled_head(served) >= head

    asyncio.run(asyncio.wait_for(main(), 240))


async def settled_head(served: Served) -> int:
    await served.node.quiet(served.node.resolve("main"), 60_000)
    return await served.head()


def test_kept_answers_and_snapshots(tmp_path: Path) -> None:
    """04 section 8, X-24: kept answers are their owner's alone; a snapshot says when it was."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            kept = served.node.folder / "answers.db"
            kept.chmod(0o644)
            made: Any = (await served.http.post(f"{W}/snapshots", json={"pin": True})).json()
            now = (await served.http.get(f"{W}/root")).json()["logical_now_ns"]
            assert 0 < made["at_ns"] <= now
        async with serving(tmp_path) as served:
            modes = {p.name: p.stat().st_mode & 0o777 for p in served.node.folder.glob("answers*")}
            assert modes["answers.db"] == 0o600
            assert {*modes.values()} == {0o600}

    asyncio.run(asyncio.wait_for(main(), 240))
