"""Questions about the past over HTTP: by hash, by digits, by sequence; and what has no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.bundle_authority import structural_authority
from tallystick.model.bundle_python import python_bundle
from tallystick.model.manifest_sources import read_sources
from tests import orders
from tests.api.rig import Served, serving
from tests.node.rig import Bank

W = "/v1/worlds/main"
ZERO = f"sha256:{'0' * 64}"
POLICY = "shop/none@1"


def told(base: Path, story: Callable[[Served], Awaitable[None]], *worlds: str) -> None:
    """Tell a story of a node whose charges succeed."""

    async def main() -> None:
        async with serving(base, Bank(), worlds=worlds or ("main",)) as served:
            await story(served)

    asyncio.run(main())


async def get(served: Served, path: str) -> Any:
    """What a read that is answered says."""
    found = await served.http.get(path)
    assert found.status_code == 200, f"{path}: {found.text}"
    return found.json()


async def refused(served: Served, path: str) -> tuple[int, str]:
    found = await served.http.get(path)
    return found.status_code, found.json()["code"]


async def paid(served: Served, order_id: str, world: str = "main") -> dict[str, Any]:
    """The settled charge of a new order."""
    await served.send(order_id, world=world)
    assert await served.node.quiet(served.node.resolve(world), 60_000)
    rows = (await get(served, f"/v1/worlds/{world}/effects?status=all"))["items"]
    return next(row for row in rows if row["key"] == order_id)


def denying() -> Bundle:
    """The orders, with every charge denied."""
    root, artifacts = python_bundle({"orders.py": b"# runs in the process of the test\n"})
    rule = {"id": "no", "when": {"effect": orders.CHARGE}, "decision": "deny"}
    policy = {"$kind": "defpolicy", "name": POLICY, "rules": [rule]}
    sources = structural_authority(read_sources([*orders.documents(root), policy]))
    assert sources.manifest is not None
    authority = sources.manifest["authority"]
    policies = [POLICY, *(name for name in authority["policies"] if name != POLICY)]
    manifest = {**sources.manifest, "authority": {**authority, "policies": policies}}
    return make_bundle(sources.definitions, manifest, artifacts)


def test_a_record_explains_itself(tmp_path: Path) -> None:
    """D13: by its sequence an intent says how its effect ended; a record that is neither is 404."""

    async def story(served: Served) -> None:
        row = await paid(served, "a")
        why = await get(served, f"{W}/explain?intent={row['intent']}")
        assert why["status"] == "ok"
        assert why == await get(served, f"{W}/explain?seq={row['opened_seq']}")
        assert await refused(served, f"{W}/explain?seq=1") == (404, "journal.no_seq")
        assert await refused(served, f"{W}/explain?seq=999999") == (404, "journal.no_seq")

    told(tmp_path, story)


@pytest.mark.clause("X-06")
def test_a_denial_explains_itself(tmp_path: Path) -> None:
    """AG-09: the record of a denied intent names the rule that said no."""

    async def story(served: Served) -> None:
        await served.node.create("main", denying())
        await served.send("a")
        rows = (await get(served, f"{W}/journal?limit=100"))["items"]
        denied = next(row for row in rows if row["record"]["record"] == "IntentDenied")
        why = await get(served, f"{W}/explain?seq={denied['seq']}")
        assert why["status"] == "denied"
        assert POLICY in str(why["reasons"])

    told(tmp_path, story, "other")


def test_a_hash_is_found_by_its_digits(tmp_path: Path) -> None:
    """04 section 10: eight digits are enough, a number is a sequence; odd and unknown ones say."""

    async def story(served: Served) -> None:
        sent = (await served.send("a")).json()
        digits = sent["event"].removeprefix("sha256:")[:10]
        whole = await get(served, f"{W}/trace?event={sent['event']}")
        assert await get(served, f"{W}/trace?event={digits}") == whole
        assert await get(served, f"{W}/trace?event={sent['seq']:08d}") == whole
        for bad in ("xyz", "abc", "A" * 64, "a" * 65):
            assert await refused(served, f"{W}/trace?event={bad}") == (400, "request.bad_hash")
        assert await refused(served, f"{W}/trace?event={'0' * 8}") == (404, "event.unknown")
        assert await refused(served, f"{W}/graph?format=png") == (400, "request.bad_query")
        odd = f"{W}/trace?seq={sent['seq']}&format=png"
        assert await refused(served, odd) == (400, "request.bad_query")

    told(tmp_path, story)


def test_a_settled_effect_is_found_by_its_digits(tmp_path: Path) -> None:
    """04 section 10: both halves by some digits as by the whole hash; of two settled the right."""

    async def story(served: Served) -> None:
        row = await paid(served, "a")
        other = await paid(served, "b")
        whole = await get(served, f"{W}/effects/{row['intent']}")
        assert (whole["status"], whole["key"]) == ("ok", "a")
        digits = row["intent"].removeprefix("sha256:")[:12]
        assert await get(served, f"{W}/effects/{digits}") == whole
        assert (await get(served, f"{W}/effects/{other['intent']}"))["key"] == "b"
        assert await refused(served, f"{W}/effects/{ZERO}") == (404, "intent.unknown")
        assert await refused(served, f"{W}/effects/abc") == (400, "intent.bad_name")

    told(tmp_path, story)


@pytest.mark.clause("X-08")
def test_effects_of_then_stand_as_they_stood(tmp_path: Path) -> None:
    """X-08: as of the sequence that opened it an effect is open, though it is settled now."""

    async def story(served: Served) -> None:
        row = await paid(served, "a")
        assert row["status"] == "ok"
        then = (await get(served, f"{W}/effects?status=all&at={row['opened_seq']}"))["items"]
        assert [(each["intent"], each["status"]) for each in then] == [(row["intent"], "open")]
        now = (await get(served, f"{W}/effects?status=all&at={row['settled_seq']}"))["items"]
        assert [each["status"] for each in now] == ["ok"]

    told(tmp_path, story)


def test_rows_are_chosen_by_cell_intent_and_kind(tmp_path: Path) -> None:
    """04 section 10: a filter shows its own rows only; one that means nothing is refused."""

    async def story(served: Served) -> None:
        row = await paid(served, "a")
        await paid(served, "b")
        mine = (await get(served, f"{W}/journal?workflow=shop%2Forders@1&key=a&limit=100"))["items"]
        assert {each["key"] for each in mine} == {"a", None}, "None is an event on its way"
        halves = (await get(served, f"{W}/journal?intent={row['intent']}"))["items"]
        assert {row["opened_seq"], row["settled_seq"]} <= {each["seq"] for each in halves}
        assert {each["intent"] for each in halves} == {row["intent"]}
        assert await refused(served, f"{W}/journal?intent=abc") == (400, "request.bad_hash")
        assert await refused(served, f"{W}/journal?kind=odd") == (400, "request.bad_query")
        assert await refused(served, f"{W}/effects?held=maybe") == (400, "request.bad_query")
        assert await refused(served, f"{W}/journal?kind=%ff") == (400, "request.bad_query")
        for odd in ("0", "x", "99999", "1" * 30):
            found = await served.http.get(f"{W}/journal/{odd}")
            assert (found.status_code, found.json()["code"]) == (404, "journal.no_seq"), odd
            assert "head of the journal" in found.json()["hint"]

    told(tmp_path, story)


@pytest.mark.clause("X-08")
def test_worlds_are_compared_across_time_and_birth(tmp_path: Path) -> None:
    """AG-31: a world with itself of before differs by what came since; strangers share nothing."""

    async def story(served: Served) -> None:
        await paid(served, "a")
        before = await served.head()
        await paid(served, "b")
        told_ = await get(served, f"{W}/diff?with_at={before}")
        assert told_["same"] is False
        assert "b" in [each["key"] for each in told_["items"]]
        assert told_["ancestor"]["seq"] == before
        stranger = await get(served, f"{W}/diff?with=other")
        assert (stranger["ancestor"], stranger["effects"]) == (None, None)

    told(tmp_path, story, "main", "other")


def test_a_graph_of_the_past_knows_nothing_that_came_later(tmp_path: Path) -> None:
    """X-08: as of a sequence a cell's graph ends there, and one of a later record is empty."""

    async def story(served: Served) -> None:
        row = await paid(served, "a")
        cell = f"{W}/graph?workflow=shop/orders@1&key=a"
        whole = await get(served, cell)
        at = row["opened_seq"]
        past = await get(served, f"{cell}&at={at}")
        assert past["nodes"]
        assert max(node["seq"] for node in past["nodes"]) <= past["as_of"]
        assert len(past["nodes"]) < len(whole["nodes"])
        last = whole["nodes"][-1]["seq"]
        assert (await get(served, f"{W}/graph?seq={last}&at={at}"))["nodes"] == []

    told(tmp_path, story)


def test_a_cell_that_never_was_has_no_history(tmp_path: Path) -> None:
    """K-45: a misspelled key is told as `explain` tells it; a cell that is gone has its history."""

    async def story(served: Served) -> None:
        await paid(served, "a")
        for path in ("trace?", "graph?", "explain?"):
            where = f"{W}/{path}workflow=shop/orders@1&key="
            assert await refused(served, f"{where}nobody") == (404, "cell.unknown")
            assert await refused(served, f"{where}a&at=1") == (404, "cell.unknown")
            await get(served, f"{where}a")
        one = f"{W}/cells/shop%2Forders@1"
        assert await refused(served, f"{one}/nobody/trace") == (404, "cell.unknown")
        rows = (await get(served, f"{one}/a/trace"))["items"]
        behind = await get(served, f"{one}/a/trace?after={rows[-1]['seq']}")
        assert behind["items"] == [], "the end of a history is no refusal"

    told(tmp_path, story)
