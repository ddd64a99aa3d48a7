"""Reads over HTTP: one shape each, pages that go on, looks back, blobs, tokens, the table."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.api.openapi import document
from tallystick.api.routes import COMMON, OPEN
from tallystick.api.table import TABLE
from tallystick.cli import shapes
from tallystick.cli.shape import ANY, HASH, misfit
from tests.api.rig import Served, serving
from tests.node.rig import Bank

W = "/v1/worlds/main"
CELL = f"{W}/cells/shop%2Forders@1"


async def get(served: Served, path: str, status: int = 200) -> Any:
    found = await served.http.get(path)
    assert found.status_code == status, f"{path}: {found.text}"
    return found.json()


async def filled(served: Served, count: int = 5) -> None:
    for n in range(count):
        await served.send(f"o{n}")
    await served.node.quiet(served.node.resolve("main"), 60_000)


WORLD_ROW = {
    "world": str,
    "name": (str, None),
    "aliases": [str],
    "seq": int,
    "head": HASH,
    "epoch": int,
    "parent": (str, None),
    "fork_seq": (int, None),
    "state": str,
}
STANDING = {
    "manifest": HASH,
    "logical_now_ns": int,
    "cells": int,
    "workflows": [str],
    "read_only": bool,
    "as_of": int,
}
MORE = {"mail": [ANY], "born_seq": int, "last_active_ns": int, "inflight_count": int, "about": ANY}


SHAPES = [
    ("/v1/worlds", shapes.items(WORLD_ROW)),
    (W, WORLD_ROW | STANDING),
    (f"{W}/root", shapes.ROOT),
    (f"{W}/journal", shapes.items(shapes.ROW)),
    (f"{W}/cells", shapes.items(ANY)),
    (f"{CELL}/o1", shapes.CELL | MORE),
    (f"{CELL}/o1/trace", shapes.items(shapes.ROW)),
    (f"{W}/effects?status=all", shapes.items(shapes.EFFECT)),
    (f"{W}/effects", shapes.items(shapes.EFFECT)),
]


@pytest.mark.clause("K-45")
@pytest.mark.parametrize(("path", "shape"), SHAPES, ids=[path for path, _ in SHAPES])
def test_a_read_has_its_shape(tmp_path: Path, path: str, shape: Any) -> None:
    """ND-28: the answers are those that the command line is told of, now and as of a seq."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            await filled(served)
            assert misfit(shape, await get(served, path)) is None
            if any(r.path.replace("{w}", "main") == path and "at" in r.query for r in TABLE.routes):
                seq = await served.head()
                assert misfit(shape, await get(served, f"{path}?at={seq}")) is None

    asyncio.run(main())


@pytest.mark.clause("K-45")
def test_lists_go_on_from_a_cursor(tmp_path: Path) -> None:
    """04 section 10: pages by cursor give every item once, in the order of the whole list."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            await filled(served, 7)
            for path in (f"{W}/cells", f"{W}/journal", f"{W}/effects?status=all"):
                join = "&" if "?" in path else "?"
                whole = (await get(served, f"{path}{join}limit=1000"))["items"]
                pages: list[Any] = []
                after = ""
                while True:
                    page = await get(served, f"{path}{join}limit=3{after}")
                    assert len(page["items"]) <= 3
                    pages += page["items"]
                    if page["next"] is None:
                        break
                    after = f"&after={page['next']}"
                assert pages == whole
                assert len(whole) >= 7
            for bad in ("limit=1001", "limit=x", "after=zz", "nothing=1", "limit=1&limit=2"):
                await get(served, f"{W}/cells?{bad}", 400)

    asyncio.run(main())


@pytest.mark.clause("X-08")
def test_every_read_looks_back(tmp_path: Path) -> None:
    """06 section 11: `?at=` answers from the past, says so, and the past does not move."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            await filled(served, 1)
            at = await served.head()
            then = [await get(served, path) for path in (f"{W}/root", f"{CELL}/o0", W)]
            await filled(served, 4)
            for path, before in zip((f"{W}/root", f"{CELL}/o0", W), then, strict=True):
                now = await get(served, f"{path}?at={at}")
                for name in ("state_root", "root", "state", "state_hash", "cells", "as_of"):
                    assert now.get(name) == before.get(name)
            cells = await get(served, f"{W}/cells?at={at}")
            assert cells["as_of"] == at
            assert {row["key"] for row in cells["items"]} <= {"o0", None}
            await get(served, f"{W}/root?at=999999", 404)

    asyncio.run(main())


def test_traces_and_reasons(tmp_path: Path) -> None:
    """04 section 10: trace by event or seq, graph in three forms, explain, figures."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path, Bank()) as served:
            sent = (await served.send("a")).json()
            trace = await get(served, f"{W}/trace?event={sent['event']}&wait_ms=10000")
            assert trace["quiet"] is True
            assert {row["step"] for row in trace["rows"]} >= {"admitted", "asked", "settled"}
            assert (
                "settled"
                in (await get(served, f"{W}/trace?seq={sent['seq']}&format=picture"))["text"]
            )
            line = await get(served, f"{W}/trace?workflow=shop%2Forders@1&key=a")
            assert line["effects"]
            for form, mark in (("mermaid", "flowchart"), ("dot", "digraph")):
                assert mark in (await get(served, f"{W}/graph?format={form}"))["text"]
            assert (await get(served, f"{W}/explain"))["blockers"] == []
            why = await get(served, f"{W}/explain?workflow=shop%2Forders@1&key=a")
            assert why["status"] == "completed"
            assert (await get(served, f"{W}/explain?seq={sent['seq']}"))["status"] == "delivered"
            figures = await get(served, f"{W}/stats?wait_ms=0")
            assert figures["cells"]["all"] == 2
            await get(served, f"{W}/trace", 400)
            await get(served, f"{W}/trace?event=sha256:{'0' * 64}", 404)
            verified = await served.http.post(f"{W}/verify", json={"level": "replay"})
            assert misfit(shapes.VERIFY, verified.json()) is None
            assert verified.json()["ok"] is True
            again = await served.http.post(f"{W}/replay")
            assert misfit(shapes.REPLAY, again.json()) is None
            assert again.json()["ok"] is True

    asyncio.run(main())


def test_health_metrics_and_the_description(tmp_path: Path) -> None:
    """04 sections 10, 12: health is open and one word; metrics and OpenAPI need a token."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            await filled(served, 1)
            health = await served.http.get("/v1/health", headers={"Authorization": ""})
            assert (health.status_code, health.json()) == (200, {"status": "ok"})
            figures = await served.http.get("/metrics")
            assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "tally_commit_seconds_count" in figures.text
            told = json.loads(msgspec.json.encode(document(TABLE.routes)))
            assert await get(served, "/v1/openapi.json") == told

    asyncio.run(main())


def test_metrics_may_be_opened_and_nothing_else(tmp_path: Path) -> None:
    """04 section 8: `metrics.open` opens the figures, and only those."""

    async def main() -> None:
        async with serving(tmp_path, metrics={"open": True}) as served:
            nobody = {"Authorization": ""}
            assert (await served.http.get("/metrics", headers=nobody)).status_code == 200
            assert (await served.http.get("/v1/worlds", headers=nobody)).status_code == 401

    asyncio.run(main())


def test_the_description_is_the_table() -> None:
    """ND-28: OpenAPI 3.1 names every route with its scope, its codes and its body, and no other."""
    found = document(TABLE.routes)
    assert found["openapi"] == "3.1.0"
    told = {(path, method) for path, row in found["paths"].items() for method in row}
    assert told == {(route.path, route.method.lower()) for route in TABLE.routes}
    for route in TABLE.routes:
        row = found["paths"][route.path][route.method.lower()]
        assert row["x-scope"] == route.scope
        assert bool(row["security"]) == (route.scope != OPEN)
        assert {int(code) for code in row["responses"]} == {*route.codes, *COMMON}
        assert ("requestBody" in row) == (
            route.content != "none" and route.says != "give a job back"
        )


@pytest.mark.clause("K-45")
@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("cells?status=runing", "running"),
        ("cells?status=nope", "suspended"),
        ("cells?workflow=shop/order@1", "shop/orders@1"),
        ("effects?status=nope", "cancelled"),
        ("effects?effect=shop/charge", "shop/charge@1"),
        ("effects?effect=shop/charge&status=all", "shop/charge@1"),
        ("journal?kind=nope", "tick"),
        ("proposals?state=nope", "submitted"),
    ],
)
def test_a_filter_that_nothing_has_is_refused(tmp_path: Path, path: str, word: str) -> None:
    """Bug 116: a misspelled word is told, with what was meant; an empty list would say nothing."""

    async def run() -> None:
        async with serving(tmp_path) as served:
            await filled(served, 1)
            told = await get(served, f"{W}/{path}", 400)
            assert word in told["hint"], told
            for status in ("resting", "waiting", "completed"):
                assert "items" in await get(served, f"{W}/cells?status={status}")
            assert "items" in await get(served, f"{W}/effects?status=all")

    asyncio.run(run())


@pytest.mark.parametrize("key", ["", ".", "..", "a\u00a0b", "two\nlines", "-", "plain", "k" * 5000])
def test_a_key_that_no_path_can_hold_stands_in_the_query(tmp_path: Path, key: str) -> None:
    """K-45: clients drop dots and empty segments, so a path says `-` and `?key=` says the key."""

    async def run() -> None:
        async with serving(tmp_path, Bank()) as served:
            assert (await served.send(key)).status_code == 202
            await served.node.quiet(served.node.resolve("main"), 60_000)
            cell = f"{W}/cells/shop%2Forders@1/-"
            found = await served.http.get(cell, params={"key": key})
            assert (found.status_code, found.json()["key"]) == (200, key), found.text
            rows = await served.http.get(f"{cell}/trace", params={"key": key, "limit": 1})
            assert (rows.status_code, rows.json()["items"][0]["key"]) == (200, key)
            held = await served.http.post(f"{cell}/cancel", params={"key": key}, json={})
            assert held.json()["code"] != "request.no_route"
            both = await served.http.get(f"{W}/cells/shop%2Forders@1/x", params={"key": key})
            assert (both.status_code, both.json()["code"]) == (400, "request.bad_query")

    asyncio.run(run())


def test_the_journal_of_a_workflow_holds_all_of_its_cells(tmp_path: Path) -> None:
    """04 section 10: without a key every cell of a workflow is meant; a key alone means nothing."""

    async def run() -> None:
        async with serving(tmp_path, Bank()) as served:
            await filled(served, 2)
            rows = (await get(served, f"{W}/journal?workflow=shop/orders@1&limit=1000"))["items"]
            assert {row["key"] for row in rows if row["kind"] == "tick"} == {"o0", "o1"}
            assert {row["workflow"] for row in rows if row["kind"] == "tick"} == {"shop/orders@1"}
            one = (await get(served, f"{W}/journal?workflow=shop/orders@1&key=o1"))["items"]
            assert {row["key"] for row in one if row["kind"] == "tick"} == {"o1"}
            unkeyed = f"{W}/journal?workflow=shop/ledger@1&kind=tick"
            assert (await get(served, unkeyed)) == await get(served, f"{unkeyed}&key=-")
            told = await get(served, f"{W}/journal?key=o1", 400)
            assert (told["code"], told["path"]) == ("request.bad_query", "?key")
            told = await get(served, f"{W}/journal?workflow=shop/order@1", 400)
            assert "shop/orders@1" in told["hint"]

    asyncio.run(run())
