"""Events over HTTP: durable when answered, once per key, and batches in one commit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.sys_definitions import of_kind
from tallystick.values import canon
from tests import orders
from tests.api.rig import Served, serving
from tests.node.rig import Bank


def placed(order_id: Any, cents: Any = 5, **more: Any) -> dict[str, Any]:
    return {"schema": orders.PLACED, "value": {"order_id": order_id, "cents": cents}, **more}


async def post(served: Served, body: Any, key: str | None = None, **params: str) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    path = "/v1/worlds/main/events"
    return await served.http.post(path, json=body, headers=headers, params=params)


@pytest.mark.clause("K-09")
def test_an_event_is_durable_when_it_is_answered(tmp_path: Path) -> None:
    """04 section 10: 202 with world, seq and hash; after a restart the record is there."""

    async def main() -> None:
        async with serving(tmp_path, Bank()) as served:
            sent = await post(served, placed("a"))
            assert sent.status_code == 202
            told = sent.json()
            assert set(told) == {"world", "seq", "event"}
        async with serving(tmp_path, Bank()) as served:
            shown = await served.http.get(f"/v1/worlds/main/journal/{told['seq']}")
            assert shown.json()["record"]["event_hash"] == told["event"]

    asyncio.run(main())


REFUSED = [
    ({"schema": "shop/Nothing@1", "value": {}}, 404, "ingress.unknown_schema"),
    ({"schema": "sys/WorkflowFault@1", "value": {}}, 400, "ingress.reserved_schema"),
    (placed(7), 422, "value.mismatch"),
    (placed("a", -1), 422, "value.mismatch"),
    (placed("a", extra=1), 422, "value.mismatch"),
    (placed("a", key="b"), 400, "ingress.key_mismatch"),
    (placed("a", tags=["x"] * 65), 400, "ingress.bad_tags"),
    (placed("x" * 1_100_000), 413, "request.too_large"),
    ({"events": []}, 400, "request.bad_batch"),
    ({"events": 1}, 400, "request.bad_batch"),
    ({"events": [placed("a")], "more": 1}, 400, "request.bad_batch"),
    ([], 422, "value.mismatch"),
]


@pytest.mark.clause("K-09", "K-22")
def test_what_is_ours_does_not_come_in_from_outside(tmp_path: Path) -> None:
    """MO-12, AG-04: no `sys/` schema is taken over HTTP, receipts above all, and a caller cannot
    say that it is somebody else; the head stays where it was.
    """

    async def main() -> None:
        async with serving(tmp_path) as served:
            before = await served.head()
            for name in sorted(of_kind("defschema")):
                for more in ({}, {"origin": "system"}):
                    got = await post(served, {"schema": name, "value": {}, **more})
                    code = "ingress.reserved_schema" if not more else got.json()["code"]
                    assert (got.status_code // 100, got.json()["code"]) == (4, code), got.text
            for origin in ("system", "governance", "workflow", "workflow:shop/orders@1"):
                got = await post(served, {**placed("a"), "origin": origin})
                assert got.status_code == 422, got.text
            assert await served.head() == before

    asyncio.run(main())


def test_refusals_say_where_and_change_nothing(tmp_path: Path) -> None:
    """03 section 2: each refusal has its code and status; the head stays where it was."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            before = await served.head()
            for body, status, code in REFUSED:
                got = await post(served, body)
                assert (got.status_code, got.json()["code"]) == (status, code), got.text
                assert got.headers["content-type"] == "application/problem+json"
            assert await served.head() == before

    asyncio.run(main())


def test_lenses_and_cbor(tmp_path: Path) -> None:
    """04 section 10: sugar, tagged and CBOR spell the same event, and it has one hash."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            sugar = await post(served, placed("a"))
            tagged = {"record": {"order_id": {"text": "a"}, "cents": {"nat": 5}}}
            body = {"schema": orders.PLACED, "value": tagged}
            second = await post(served, body, lens="tagged")
            third = await served.http.post(
                "/v1/worlds/main/events",
                content=canon.encode(placed("a", key="a")),
                headers={"Content-Type": "application/cbor", "Accept": "application/cbor"},
            )
            assert sugar.status_code == second.status_code == third.status_code == 202, second.text
            assert sugar.json()["event"] == second.json()["event"]
            assert set(canon.decode(third.content)) == {"world", "seq", "event"}
            wrong = await post(served, placed("a"), lens="rosy")
            assert wrong.json()["code"] == "request.bad_query"

    asyncio.run(main())


@pytest.mark.clause("K-09")
def test_one_key_in_parallel_and_across_a_restart(tmp_path: Path) -> None:
    """ND-11, AT-10: one key, 100 callers, a restart: one event, equal bodies; other body 409."""

    async def main() -> None:
        async with serving(tmp_path, http={"conns_per_client": 200}) as served:
            before = await served.head()
            many = await asyncio.gather(*(post(served, placed("a"), "k 1") for _ in range(100)))
            assert {each.status_code for each in many} == {202}
            assert len({each.content for each in many}) == 1
            fresh = [each for each in many if "idempotent-replayed" not in each.headers]
            assert len(fresh) == 1
            other = await post(served, placed("b"), "k 1")
            assert (other.status_code, other.json()["code"]) == (
                409,
                "ingress.idempotency_conflict",
            )
        async with serving(tmp_path) as served:
            again = await post(served, placed("a"), "k 1")
            assert again.content == many[0].content
            assert again.headers["idempotent-replayed"] == "true"
            assert (await post(served, placed("b"), "k 1")).status_code == 409
            rows = (await served.http.get(f"/v1/worlds/main/journal?from={before + 1}")).json()
            events = [row for row in rows["items"] if row["kind"] == "event"]
            assert len(events) == 1
            control = await post(served, placed("a"), "k 2")
            assert control.json()["seq"] > many[0].json()["seq"]

    asyncio.run(main())


def test_a_batch_is_one_commit_and_each_entry_is_judged_alone(tmp_path: Path) -> None:
    """04 section 10: 202 when all are taken, 207 when mixed; keys are per event."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            good = [placed(f"o{n}", idempotency_key=f"k{n}") for n in range(20)]
            commits = served.node.journal.head(served.node.resolve("main")).seq
            sent = await post(served, {"events": good})
            assert sent.status_code == 202
            results = sent.json()["results"]
            assert [each["index"] for each in results] == list(range(20))
            seqs = [each["seq"] for each in results]
            assert seqs == sorted(seqs)
            assert seqs[0] > commits
            frames = (await served.http.get("/v1/worlds/main/journal?kind=event")).json()
            assert len(frames["items"]) == 20
            mixed = [placed("o1", idempotency_key="k1"), placed(7), {"schema": 1}, placed("z")]
            sent = await post(served, {"events": mixed})
            assert sent.status_code == 207
            results = sent.json()["results"]
            assert [each["status"] for each in results] == [202, 422, 422, 202]
            assert results[0]["replayed"] is True
            assert results[0]["seq"] == seqs[1]
            assert results[1]["problem"]["where"]["errors"][0]["path"] == "/order_id"
            keyed = await post(served, {"events": good}, "k")
            assert keyed.json()["code"] == "ingress.bad_key"

    asyncio.run(main())


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    """04 section 8: more than ingress.batch_max events are 413."""

    async def main() -> None:
        async with serving(tmp_path, ingress={"batch_max": 3}) as served:
            many = {"events": [placed(f"o{n}") for n in range(4)]}
            assert (await post(served, many)).json()["code"] == "request.batch_too_large"

    asyncio.run(main())


def test_a_full_lane_is_429(tmp_path: Path) -> None:
    """ND-21's door: with a full lane the answer is 429 with Retry-After, and nothing is written."""

    async def main() -> None:
        async with serving(tmp_path, ingress={"queue": 3}) as served:
            before = await served.head()
            many = {"events": [placed(f"o{n}") for n in range(4)]}
            got = await post(served, many)
            assert (got.status_code, got.json()["code"]) == (429, "ingress.busy")
            assert got.headers["retry-after"] == "1"
            assert got.json()["retry_after_ms"] == 200
            assert await served.head() == before

    asyncio.run(main())


def test_an_unrouted_event_is_no_error(tmp_path: Path) -> None:
    """03 section 2: it is journaled, and the answer says that nobody took it."""

    async def main() -> None:
        async with serving(tmp_path) as served:
            body = {"schema": "shop/Total@1", "value": {"orders": 1, "cents": 1}}
            got = await post(served, body, "u")
            assert (got.status_code, got.headers["tally-outcome"]) == (202, "unrouted")
            again = await post(served, body, "u")
            assert again.content == got.content
            assert json.loads(again.content)["seq"] == got.json()["seq"]

    asyncio.run(main())
