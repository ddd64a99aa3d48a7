"""Worlds over HTTP: forks and names after a crash, a name that moves, and what is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick.values import canon
from tests import orders
from tests.api.rig import Served, serving
from tests.node.rig import Bank, phase

W = "/v1/worlds/main"


def told(base: Path, story: Callable[[Served], Awaitable[None]]) -> None:
    """Tell a story of a node with one world."""

    async def main() -> None:
        async with serving(base, Bank()) as served:
            await story(served)

    asyncio.run(main())


async def paid(served: Served, order_id: str) -> None:
    await served.send(order_id)
    assert await served.node.quiet(served.node.resolve("main"), 60_000)


async def cut(served: Served, world: str, key: str) -> None:
    """Forget the answer to a key, as if the node had died before it was kept."""
    keys = served.api.keys
    kept = await keys.ask(lambda answers: answers.get(world, key))
    assert kept is not None
    begun = kept._replace(status=0, body=b"")
    await keys.ask(lambda answers: answers.put(world, key, begun))


@pytest.mark.clause("K-09")
def test_what_a_crash_left_half_made_is_answered(tmp_path: Path) -> None:
    """ND-11: the same key finds the world, or the fork, that was made; another key is told 409."""

    async def story(served: Served) -> None:
        await paid(served, "a")
        main = served.node.resolve("main")
        for path, body, world in (
            ("/v1/worlds", {"name": "new"}, ""),
            (f"{W}/forks", {"name": "side"}, main),
        ):
            first = await served.http.post(path, json=body, headers={"Idempotency-Key": "k"})
            assert first.status_code == 201, first.text
            await cut(served, world, "k")
            again = await served.http.post(path, json=body, headers={"Idempotency-Key": "k"})
            assert again.status_code == 201, again.text
            assert again.json()["world"] == first.json()["world"]
            other = await served.http.post(path, json=body, headers={"Idempotency-Key": "k2"})
            assert other.status_code == 409

    told(tmp_path, story)


@pytest.mark.clause("X-08")
def test_a_fork_knows_what_becomes_of_what_is_open(tmp_path: Path) -> None:
    """AG-31: a word that is none, for all or for one effect, is refused before a world is made."""

    async def story(served: Served) -> None:
        odd: list[dict[str, Any]] = [
            {"pending": "forget"},
            {"pending_for": {orders.CHARGE: "forget"}},
        ]
        for more in odd:
            found = await served.http.post(f"{W}/forks", json={"name": "side", **more})
            assert (found.status_code, found.json()["code"]) == (400, "request.bad_value")
            assert found.json()["where"] == {"path": "/pending"}
        assert "side" not in served.node.names

    told(tmp_path, story)


async def named(served: Served, world: str, **more: Any) -> httpx.Response:
    return await served.http.put("/v1/aliases/prod", json={"world": world, **more})


@pytest.mark.clause("X-08")
def test_a_name_moves_after_it_was_told_what_it_leaves(tmp_path: Path) -> None:
    """AG-30: a preview tells which effects the old world settled since the fork; nothing moves."""

    async def story(served: Served) -> None:
        await paid(served, "a")
        fork = (await served.http.post(f"{W}/forks", json={"name": "side"})).json()
        assert (await named(served, "main")).json()["before"] is None
        await paid(served, "b")
        seen = await named(served, "side", preview=True)
        assert seen.status_code == 200, seen.text
        assert seen.json()["moved"] is False
        (row,) = [each for each in seen.json()["settled_since"] if each["effect"] == orders.CHARGE]
        assert (row["status"], row["seq"] > fork["fork_seq"]) == ("ok", True)
        assert served.node.resolve("prod") == served.node.resolve("main")
        moved = await named(served, "side")
        assert (moved.json()["moved"], moved.json()["settled_since"]) == (
            True,
            seen.json()["settled_since"],
        )
        assert served.node.resolve("prod") == fork["world"]

    told(tmp_path, story)


def test_one_world_is_collected_and_a_trim_needs_its_archive(tmp_path: Path) -> None:
    """04 section 10: a name collects that world alone; a trim without archive is refused."""

    async def story(served: Served) -> None:
        await served.node.create("other", orders.bundle())
        await paid(served, "a")
        one = await served.http.post("/v1/gc", json={"world": "main", "dry_run": True})
        assert [each["world"] for each in one.json()["worlds"]] == [served.node.resolve("main")]
        every = await served.http.post("/v1/gc", json={"dry_run": True})
        assert len(every.json()["worlds"]) == 2
        bad: list[dict[str, Any]] = [
            {"world": "main"},
            {"archive": str(tmp_path / "old")},
            {"world": "main", "archive": str(tmp_path / "old"), "dry_run": True},
        ]
        for body in bad:
            found = await served.http.post("/v1/gc", json={"trim_before": 2, **body})
            assert (found.status_code, found.json()["code"]) == (400, "request.usage"), body
            assert "archive first" in found.json()["hint"]
        assert not (tmp_path / "old").exists()
        assert await phase(served.node, served.node.resolve("main"), "a") == "paid"

    told(tmp_path, story)


def test_a_proposal_without_a_report_says_how_to_make_one(tmp_path: Path) -> None:
    """AG-15: no shadow was made, or no such kind of report: 404, and the hint names the verb."""

    async def story(served: Served) -> None:
        section = {"section": "limits", "pre_hash": canon.hash_of(canon.encode({}))}
        operation = {"set_section": {**section, "value": {"effects_max": 3}}}
        active = (await served.http.get(W)).json()["manifest"]
        patch = {"version": "2", "base_manifest_hash": active, "patches": [operation]}
        made = await served.http.post(f"{W}/proposals", json={"patch": patch})
        assert made.status_code == 201, made.text
        ident = made.json()["proposal"]
        for query in ("", "?kind=prove", "?kind=odd"):
            found = await served.http.get(f"{W}/proposals/{ident}/report{query}")
            assert (found.status_code, found.json()["code"]) == (404, "gov.no_report")
            assert found.json()["hint"] == f"`tally gov shadow {ident}` makes one"

    told(tmp_path, story)


def test_an_event_has_one_key(tmp_path: Path) -> None:
    """ND-11: a key of the header and another of the body is refused; the same twice is one."""

    async def story(served: Served) -> None:
        body = {"schema": orders.PLACED, "value": {"order_id": "a", "cents": 5}}
        mine = {**body, "idempotency_key": "k"}
        odd = await served.http.post(f"{W}/events", json=mine, headers={"Idempotency-Key": "x"})
        assert (odd.status_code, odd.json()["code"]) == (400, "ingress.bad_key")
        both = await served.http.post(f"{W}/events", json=mine, headers={"Idempotency-Key": "k"})
        assert both.status_code == 202
        alone = await served.http.post(f"{W}/events", json=mine)
        assert alone.json()["seq"] == both.json()["seq"]
        assert alone.headers["idempotent-replayed"] == "true"

    told(tmp_path, story)


def test_a_batch_of_nothing_readable_writes_nothing(tmp_path: Path) -> None:
    """04 section 10: each entry says why, and the journal stays where it is."""

    async def story(served: Served) -> None:
        before = await served.head()
        sent = await served.http.post(f"{W}/events", json={"events": [{"schema": 1}, {}]})
        assert sent.status_code == 207
        assert [each["status"] for each in sent.json()["results"]] == [422, 422]
        assert await served.head() == before

    told(tmp_path, story)
