"""The feed over a socket: resumed without gap or repeat, across cuts, restarts and lag (ND-29)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tallystick.api.feed import BRIEF_MAX
from tallystick.executors.base import Job, Outcome, Report
from tests.api.plain import until
from tests.api.rig import Served, bearer, serving
from tests.node.rig import Bank

# The statement is 10,000 records and 20 cuts; the suite shows a tenth of it.
RECORDS = int(os.environ.get("TALLY_FEED_RECORDS", "1000"))
CUTS = 20


async def events(
    served: Served, after: int, only: str = "", **headers: str
) -> AsyncIterator[tuple[str, int | None, Any]]:
    """Kind, id and data of each event."""
    path = f"/v1/worlds/main/feed?after={after}{only}"
    async with served.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        found: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif found:
                ident = int(found["id"]) if "id" in found else None
                yield found["event"], ident, json.loads(found["data"])
                found = {}


async def read(served: Served, after: int, upto: int, most: int) -> list[int]:
    """The sequences behind one, up to another or until so many were read."""
    seqs: list[int] = []
    async with aclosing(events(served, after)) as coming:  # type: ignore[type-var]
        async for kind, ident, data in coming:
            if kind != "frame":
                continue
            seqs += [row["seq"] for row in data["records"]]
            assert ident == seqs[-1]
            if seqs[-1] >= upto or len(seqs) >= most:
                break
    return seqs


async def fill(served: Served, first: int, count: int) -> None:
    body = [
        {"schema": "shop/Total@1", "value": {"orders": n, "cents": n}}
        for n in range(first, first + count)
    ]
    for at in range(0, count, 500):
        sent = await served.http.post(
            "/v1/worlds/main/events", json={"events": body[at : at + 500]}
        )
        assert sent.status_code == 202


@pytest.mark.clause("K-45")
def test_resumed_without_gap_or_repeat(tmp_path: Path) -> None:
    """ND-29: a reader that is cut 20 times, and a restart between, sees each record once."""

    async def main() -> None:
        seen: list[int] = []
        for part in (1, 2):
            async with serving(tmp_path) as served:
                writing = asyncio.ensure_future(fill(served, part * RECORDS, RECORDS // 2))
                target = (await served.head()) + RECORDS // 2
                for _ in range(CUTS // 2 - 1):
                    seen += await read(served, seen[-1] if seen else 0, target, RECORDS // CUTS)
                await writing
                seen += await read(served, seen[-1], target, RECORDS * 2)
                last = await served.head()
        assert seen == list(range(1, len(seen) + 1))
        assert RECORDS <= seen[-1] <= last

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_last_event_id_wins_and_bad_ones_are_refused(tmp_path: Path) -> None:
    """ND-29: a browser resumes by Last-Event-ID; what is no sequence is 400."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await fill(served, 0, 5)
            head = await served.head()
            async with aclosing(events(served, 0, **{"Last-Event-ID": str(head - 1)})) as coming:  # type: ignore[type-var]
                kind, ident, _ = await anext(coming)
                assert (kind, ident) == ("frame", head)
            for bad in ("-1", "x", "1" * 19):
                path = "/v1/worlds/main/feed"
                got = await served.http.get(path, headers={"Last-Event-ID": bad})
                assert (got.status_code, got.json()["code"]) == (400, "request.bad_header")

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_filters_and_brief_records(tmp_path: Path) -> None:
    """09 section 3: records in brief, at most 400 bytes; filters by kind and workflow."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.send("o" * 300)
            await served.send("b")
            head = await served.head()
            only = "&kind=intent&workflow=shop%2Forders@1&key=b"
            async with aclosing(events(served, 0, only)) as coming:  # type: ignore[type-var]
                _, _, data = await anext(coming)
                (row,) = data["records"]
                assert (row["kind"], row["key"]) == ("intent", "b")
            async with aclosing(events(served, 0)) as coming:  # type: ignore[type-var]
                async for kind, ident, data in coming:
                    assert kind == "frame"
                    sizes = [len(json.dumps(row)) for row in data["records"]]
                    assert max(sizes) <= BRIEF_MAX + 40
                    if ident == head:
                        break

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_the_head_is_said_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-29: a quiet feed says every few seconds where the journal ends."""
    monkeypatch.setattr("tallystick.node.feed.HEAD_EVERY_S", 0.05)

    async def main() -> None:
        async with serving(tmp_path) as served:
            head = await served.head()
            async with aclosing(events(served, head)) as coming:  # type: ignore[type-var]
                for _ in range(2):
                    assert await anext(coming) == ("head", None, {"seq": head})

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_progress_is_shown_and_has_no_id(tmp_path: Path) -> None:
    """ND-29: progress comes to those who read now; it carries no id and nothing of the params."""

    class Teller(Bank):
        async def perform(self, job: Job, report: Report) -> Outcome:
            await report("note", {"done": 7})
            return await super().perform(job, report)

    async def main() -> None:
        async with serving(tmp_path, Teller()) as served:
            async with aclosing(events(served, await served.head())) as coming:  # type: ignore[type-var]
                first = asyncio.ensure_future(anext(coming))
                channel = served.node.feed._channels[served.node.resolve("main")]
                await until(lambda: channel.progress)
                await served.send("a")
                kind, ident, data = await first
                while kind != "progress":
                    kind, ident, data = await anext(coming)
            assert (kind, ident, data["kind"]) == ("progress", None, "note")
            assert data["payload"] == {"done": 7}
            assert set(data) == {"intent", "effect", "attempt", "seq", "kind", "payload"}

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_a_reader_that_falls_behind_is_told(tmp_path: Path) -> None:
    """ND-29: `behind` comes before the end, and the journal has what was missed."""

    async def main() -> None:
        async with serving(tmp_path, http={"feed_buffer": 10}) as served:
            head = await served.head()
            coming = served.node.feed.subscribe(served.node.resolve("main"), head)
            first = asyncio.ensure_future(anext(coming))
            await asyncio.sleep(0)
            await fill(served, 0, 100)
            kinds = [(await first).kind]
            kinds += [item.kind async for item in coming]
            assert kinds[-1] == "behind"
            got = await read(served, head, head + 100, 1000)
            assert got == list(range(head + 1, head + 101))

    asyncio.run(main())


async def first(served: Served, only: str) -> list[Any]:
    """The records of the first frame that passes filters; told within a moment or not at all."""
    async with asyncio.timeout(10), aclosing(events(served, 0, only)) as coming:  # type: ignore[type-var]
        async for kind, _, data in coming:
            if kind == "frame":
                return list(data["records"])
    raise AssertionError("the feed ended")


def test_filters_name_cells_as_everything_else_does(tmp_path: Path) -> None:
    """K-45: `-` is the cell of a workflow without keys, long keys are compared whole; no typos."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            await served.send("o" * 300)
            await served.node.quiet(served.node.resolve("main"), 60_000)
            rows = await first(served, "&kind=tick&workflow=shop/ledger@1&key=-")
            assert {(row["workflow"], row["key"]) for row in rows} == {("shop/ledger@1", None)}
            rows = await first(served, f"&kind=tick&workflow=shop/orders@1&key={'o' * 300}")
            assert {row["workflow"] for row in rows} == {"shop/orders@1"}
            for bad, code in (
                ("kind=nope", "request.bad_query"),
                ("workflow=shop/order@1", "request.bad_query"),
                ("workflow=shop/order@1&key=a", "workflow.unknown"),
                ("key=a", "request.bad_query"),
            ):
                got = await served.http.get(f"/v1/worlds/main/feed?{bad}")
                assert got.json()["code"] == code, bad
                assert got.json()["hint"], bad

    asyncio.run(main())


# tidy: three readers, one story.
def test_progress_passes_the_filters_too(tmp_path: Path) -> None:
    """K-27: a reader of one cell is not told how far the effects of others are."""

    class Teller(Bank):
        async def perform(self, job: Job, report: Report) -> Outcome:
            await report("note", {"done": 7})
            return await super().perform(job, report)

    async def main() -> None:
        async with serving(tmp_path, Teller()) as served:
            head = await served.head()
            only = ("&workflow=shop/orders@1&key=b", "&effect=shop/none@1", "&kind=tick")
            told: list[list[str]] = [[] for _ in only]

            async def listen(place: int) -> None:
                async with aclosing(events(served, head, only[place])) as coming:  # type: ignore[type-var]
                    async for kind, _, _ in coming:
                        told[place].append(kind)

            tasks = [asyncio.ensure_future(listen(place)) for place in range(len(only))]
            channel = served.node.feed._channels[served.node.resolve("main")]
            await until(lambda: len(channel.progress) == len(only))
            for order in ("a", "b"):
                await served.send(order)
                await served.node.quiet(served.node.resolve("main"), 60_000)
            await until(lambda: "progress" in told[0] and "frame" in told[2])
            assert told[0].count("progress") == 1
            assert "progress" not in told[1] + told[2]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_feed_from_below_the_floor_is_refused(tmp_path: Path) -> None:
    """K-44: what a trim took is told before the stream begins, with where it begins now."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await fill(served, 0, 5)
            assert (await served.http.post("/v1/worlds/main/snapshots", json={})).status_code == 201
            await fill(served, 5, 1)
            body = {"world": "main", "trim_before": 1000, "archive": str(tmp_path / "archive")}
            floor = (await served.http.post("/v1/gc", json=body)).json()["base_seq"]
        async with serving(tmp_path) as served:
            for after in (0, floor - 1):
                path = f"/v1/worlds/main/feed?after={after}"
                async with served.http.stream("GET", path) as got:
                    assert got.status_code == 404
                    told = json.loads(await got.aread())
                assert (told["code"], told["where"]["base_seq"]) == ("journal.trimmed", floor)
            head = await served.head()
            assert await read(served, floor, head, 1000) == list(range(floor + 1, head + 1))

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.clause("K-45")
def test_a_reader_from_beyond_the_end_is_refused(tmp_path: Path) -> None:
    """ND-29: a journal that was restored from an older backup has not what the reader has read."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            head = await served.head()
            path = f"/v1/worlds/main/feed?after={head + 1}"
            got = await served.http.get(path)
            assert (got.status_code, got.json()["code"]) == (416, "feed.beyond")
            assert got.json()["where"] == {"after": head + 1, "head": head}
            async with aclosing(events(served, head)) as coming:  # type: ignore[type-var]
                first = asyncio.ensure_future(anext(coming))
                await served.send("a")
                assert (await first)[0] == "frame"

    asyncio.run(main())


@pytest.mark.clause("X-24")
def test_a_feed_does_not_outlive_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ND-20: with the token that opened it revoked or expired, an open stream ends."""
    monkeypatch.setattr("tallystick.api.feed.LOOK_S", 0.0)

    async def main() -> None:
        async with serving(tmp_path) as served:
            head = await served.head()
            revoked = await served.token("read")
            late = await served.token("read", expires_ns=time.time_ns() + 500_000_000)
            for token in (revoked, late):
                async with aclosing(events(served, head, **bearer(token))) as coming:  # type: ignore[type-var]
                    await served.send(f"a-{token[:8]}")
                    assert (await anext(coming))[0] == "frame"
                    if token == revoked:
                        name = token.split("_")[1]
                        done = await served.http.delete(f"/v1/tokens/{name}")
                        assert done.status_code == 200
                    else:
                        await asyncio.sleep(0.6)
                    await served.send(f"b-{token[:8]}")
                    kinds = [kind async for kind, _, _ in coming]
                    assert len(kinds) < 10, "what came before it was revoked, and then the end"

    asyncio.run(asyncio.wait_for(main(), 30))
