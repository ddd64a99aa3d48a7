"""Operators over HTTP: cells, effects, keys, forks, snapshots; each once per key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick.api import once
from tallystick.api.answers import Answers, Kept
from tallystick.values import canon
from tests import orders
from tests.api.rig import Served, serving

W = "/v1/worlds/main"
CELL = f"{W}/cells/shop%2Forders@1/a"


async def post(served: Served, path: str, key: str | None = None, **body: Any) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await served.http.post(path, json=body, headers=headers)


async def status(served: Served) -> str:
    return str((await served.http.get(CELL)).json()["status"])


@pytest.mark.clause("X-26")
def test_verbs_of_a_cell(tmp_path: Path) -> None:
    """04 section 10: suspend, resume, skip, cancel: 202 with the seq, 409 when it cannot be."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.send("a")
            assert await status(served) == "waiting"
            assert (await post(served, f"{CELL}/resume")).status_code == 409
            done = await post(served, f"{CELL}/suspend", reason="look")
            assert done.status_code == 202
            shown = (await served.http.get(f"{W}/journal/{done.json()['seq']}")).json()
            assert shown["record"]["principal"] == "local"
            assert shown["record"]["reason"] == "look"
            assert await status(served) == "suspended"
            assert (await post(served, f"{CELL}/skip")).json()["code"] == "cell.wrong_status"
            assert (await post(served, f"{CELL}/resume")).status_code == 202
            assert (await post(served, f"{CELL}/cancel", force=True)).status_code == 202
            assert await status(served) == "failed"
            missing = await post(served, f"{W}/cells/shop%2Forders@1/zz/suspend")
            assert (missing.status_code, missing.json()["code"]) == (404, "cell.unknown")

    asyncio.run(main())


@pytest.mark.clause("K-09")
def test_a_verb_with_a_key_happens_once(tmp_path: Path) -> None:
    """ND-11: the same key and body get the same answer, across a restart; another body 409."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.send("a")
            first = await asyncio.gather(
                *(post(served, f"{CELL}/suspend", "k", reason="x") for _ in range(10))
            )
            assert {each.status_code for each in first} == {202}
            assert len({each.content for each in first}) == 1
            assert sum("idempotent-replayed" in each.headers for each in first) == 9
            assert (await post(served, f"{CELL}/suspend", "k", reason="y")).status_code == 409
            refused = await post(served, f"{CELL}/suspend", "k2", reason="x")
            assert refused.json()["code"] == "cell.wrong_status"
            await post(served, f"{CELL}/resume")
        async with serving(tmp_path) as served:
            again = await post(served, f"{CELL}/suspend", "k", reason="x")
            assert again.content == first[0].content
            assert await status(served) == "waiting"
            # A refused request has used no key up.
            assert (await post(served, f"{CELL}/suspend", "k2", reason="x")).status_code == 202

    asyncio.run(main())


@pytest.mark.clause("K-09")
@pytest.mark.parametrize("happened", [True, False])
def test_a_request_that_a_crash_cut_is_found_again(tmp_path: Path, happened: bool) -> None:
    """ND-11: reserved, not answered: the journal says whether it happened; never twice."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.send("a")
            world, keys = served.node.resolve("main"), served.api.keys
            path, body = f"{CELL}/suspend", {"reason": "x"}
            seq = (await post(served, path, "k", **body)).json()["seq"]
            kept = await keys.ask(lambda answers: answers.get(world, "k"))
            assert kept is not None
            cut = kept._replace(status=0, body=b"")
            if not happened:
                # As if the node had died between the reservation and the commit.
                await post(served, f"{CELL}/resume")
                cut = cut._replace(entropy=bytes(64))
            await keys.ask(lambda answers: answers.put(world, "k", cut))
            again = await post(served, path, "k", **body)
            assert again.status_code == 202
            assert (again.json()["seq"] == seq) is happened
            assert await status(served) == "suspended"
            rows = (await served.http.get(f"{W}/journal?limit=1000")).json()["items"]
            verbs = [row for row in rows if row["record"]["record"] == "CellSuspended"]
            assert len(verbs) == (1 if happened else 2)

    asyncio.run(main())


def test_kept_answers_expire_and_survive(tmp_path: Path) -> None:
    """ND-11: a kept answer is durable, is replaced by its key, and goes when its time is over."""
    kept = Kept(b"d" * 32, b"e" * 64, 7, 1000)
    answers = Answers(tmp_path)
    answers.put("w", "k", kept)
    answers.put("w", "k", kept._replace(status=202, body=b"{}"))
    answers.close()
    answers = Answers(tmp_path)
    assert answers.get("w", "k") == kept._replace(status=202, body=b"{}")
    assert answers.get("v", "k") is None
    answers.expire(1000)
    assert answers.get("w", "k") is not None
    answers.expire(1001)
    assert answers.get("w", "k") is None
    answers.close()
    assert once.WINDOW_NS == 86_400 * 10**9


def test_an_effect_is_cancelled_and_a_hold_released(tmp_path: Path) -> None:
    """04 section 10: cancel settles an open effect as cancelled; release needs a hold."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            await served.send("a")
            (row,) = (await served.http.get(f"{W}/effects")).json()["items"]
            assert (row["status"], row["why"]) == ("open", "no_executor")
            effect = f"{W}/effects/{row['intent']}"
            assert (await post(served, f"{effect}/release")).json()["code"] == "effect.not_held"
            assert (await post(served, f"{effect}/cancel", reason="no")).status_code == 202
            still = (await served.http.get(f"{W}/effects")).json()["items"]
            assert row["intent"] not in [each["intent"] for each in still]
            shown = (await served.http.get(effect)).json()
            assert shown["status"] == "cancelled"
            assert "local: no" in shown["receipt"]["payload"]["message"]
            why = (await served.http.get(f"{effect}/why")).json()
            assert [each["verdict"] for each in why["judged"]] == ["ok"] * 5
            listed = (await served.http.get(f"{W}/effects?status=cancelled")).json()["items"]
            assert [each["intent"] for each in listed] == [row["intent"]]
            gone = await post(served, f"{effect}/cancel")
            assert gone.status_code == 404

    asyncio.run(main())


@pytest.mark.clause("X-08")
def test_forks_names_and_snapshots(tmp_path: Path) -> None:
    """04 section 10: a fork has the parent's state root at its seq; names move when expected."""
    # tidy: one story, told in its order.

    async def main() -> None:
        # tidy: one story, told in its order.
        async with serving(tmp_path) as served:
            await served.send("a")
            at = await served.head()
            there = (await served.http.get(f"{W}/root?at={at}")).json()
            made = await post(served, f"{W}/forks", "f", name="side", at=at)
            assert made.status_code == 201, made.text
            assert (made.json()["name"], made.json()["fork_seq"]) == ("side", at)
            again = await post(served, f"{W}/forks", "f", name="side", at=at)
            assert again.content == made.content
            assert (await post(served, f"{W}/forks", name="side", at=at)).status_code == 409
            held = (await served.http.get("/v1/worlds/side/effects?held=true")).json()["items"]
            assert [row["why"] for row in held] == ["held"]
            assert there["seq"] == at
            await served.send("b", world="side")
            same = (await served.http.get(f"{W}/root")).json()
            assert same["state_root"] == there["state_root"]
            differ = (await served.http.get(f"{W}/diff?with=side")).json()
            assert differ["same"] is False
            assert [row["key"] for row in differ["items"]] == ["b"]
            moved = await served.http.put("/v1/aliases/prod", json={"world": "side"})
            assert moved.json()["before"] is None
            wrong = await served.http.put(
                "/v1/aliases/prod", json={"world": "main", "expect": "nobody"}
            )
            assert wrong.json()["code"] == "world.alias_moved"
            assert (await served.http.get("/v1/worlds/prod")).json()["fork_seq"] == at
            taken = await post(served, f"{W}/snapshots", pin=True)
            assert taken.status_code == 201, taken.text
            assert taken.json()["pinned"] is True
            refused = await served.http.delete("/v1/worlds/main")
            assert refused.status_code == 409
            assert (await served.http.delete("/v1/worlds/side")).status_code == 200
            assert (await served.http.get("/v1/worlds/prod")).status_code == 404

    asyncio.run(main())


def test_a_world_from_a_bundle(tmp_path: Path) -> None:
    """04 section 10: a bundle makes a world; none makes an empty one; a bad one is refused."""

    async def main() -> None:
        async with serving(tmp_path, worlds=()) as served:
            body = canon.encode({"name": "shop", "bundle": orders.bundle().to_zip()})
            made = await served.http.post(
                "/v1/worlds",
                content=body,
                headers={"Content-Type": "application/cbor", "Idempotency-Key": "w"},
            )
            assert made.status_code == 201, made.text
            assert made.json()["workflows"] == ["shop/ledger@1", "shop/orders@1"]
            empty = await served.http.post("/v1/worlds", json={"name": "empty"})
            assert empty.json()["workflows"] == []
            again = await served.http.post("/v1/worlds", json={"name": "empty"})
            assert (again.status_code, again.json()["code"]) == (409, "world.exists")
            bad = await served.http.post("/v1/worlds", json={"name": "x", "bundle": "AAAA"})
            assert bad.json()["code"].startswith("bundle.")
            named = await served.http.post("/v1/worlds", json={"name": "../x"})
            assert named.json()["code"] == "world.bad_name"
            names = [row["name"] for row in (await served.http.get("/v1/worlds")).json()["items"]]
            assert names == ["shop", "empty"]

    asyncio.run(main())
