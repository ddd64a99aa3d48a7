"""A trimmed world over HTTP: what stands above its floor is shown, and is said to be a part."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests import orders
from tests.api.rig import Served, serving
from tests.api.test_causes import W, get
from tests.node.rig import Bank

LEDGER = f"workflow={quote(orders.LEDGER, safe='')}"
TRACE = f"{W}/cells/{quote(orders.LEDGER, safe='')}/-/trace"


async def ordered(served: Served, *names: str) -> None:
    for name in names:
        await served.send(name)
    assert await served.node.quiet(served.node.resolve("main"), 60_000)


async def trimmed(served: Served, archive: Path) -> int:
    """A world that was trimmed in the middle of its life; where it begins now."""
    await ordered(served, "a", "b")
    await served.node.snapshot(served.node.resolve("main"), wait_s=10)
    await ordered(served, "c", "d")
    await get(served, f"{W}/graph")  # the index has seen it all
    body = {"world": "main", "trim_before": await served.head(), "archive": str(archive)}
    done = await served.http.post("/v1/gc", json=body)
    assert done.status_code == 200, done.text
    return int(done.json()["base_seq"])


def told(base: Path, story: Callable[[Served, int], Awaitable[None]]) -> None:
    """Tell a story of a trimmed world twice: with an index that saw it whole, and with none."""

    async def main() -> None:
        async with serving(base, Bank()) as served:
            floor = await trimmed(served, base / "archive.tally")
            await story(served, floor)
            index = served.node.files.index
        index.unlink()
        async with serving(base, Bank()) as served:
            await story(served, floor)

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.clause("K-44", "X-22")
def test_the_part_of_a_cell_above_the_floor_is_shown(tmp_path: Path) -> None:
    """04 section 13: what is in the archive is missing, and that it is missing is told."""

    async def story(served: Served, floor: int) -> None:
        rows = await get(served, TRACE)
        assert rows["items"]
        assert all(row["seq"] > floor for row in rows["items"])
        assert rows["floor"] == floor
        line = await get(served, f"{W}/trace?{LEDGER}")
        assert line["ticks"]
        assert all(tick["seq"] > floor for tick in line["ticks"])
        assert line["floor"] == floor
        assert (await get(served, f"{W}/explain?{LEDGER}"))["subject"]

    told(tmp_path, story)


@pytest.mark.clause("K-44", "K-45")
def test_the_journal_begins_at_its_floor(tmp_path: Path) -> None:
    """04 section 10: who names no place to begin at gets what is there; who does is refused."""

    async def story(served: Served, floor: int) -> None:
        for query in ("", "?from=1"):
            found = await get(served, f"{W}/journal{query}")
            assert found["items"][0]["seq"] == floor + 1
            assert found["floor"] == floor
        for query in ("?after=0", "?from=2"):
            refused = await served.http.get(f"{W}/journal{query}")
            assert refused.json()["code"] == "journal.trimmed"

    told(tmp_path, story)


@pytest.mark.clause("K-44", "X-23")
@pytest.mark.parametrize("focus", ["", f"?{LEDGER}"])
def test_the_graph_above_the_floor_is_drawn(tmp_path: Path, focus: str) -> None:
    """04 section 13: nodes below the floor are not there; the others are, with their edges."""

    async def story(served: Served, floor: int) -> None:
        drawn = await get(served, f"{W}/graph{focus}")
        assert drawn["nodes"]
        assert drawn["edges"]
        assert all(node["seq"] > floor for node in drawn["nodes"])
        assert drawn["floor"] == floor

    told(tmp_path, story)


@pytest.mark.clause("K-44", "X-02")
def test_what_is_there_is_run_again(tmp_path: Path) -> None:
    """04 section 9: a replay begins at the floor and says so; verifying by replay, too."""

    async def story(served: Served, floor: int) -> None:
        again = await _posted(served, f"{W}/replay", {})
        assert (again["from"], again["ok"]) == (floor, True)
        assert again["ticks"] > 0
        assert again["root"] == again["expected_root"]
        assert (await _posted(served, f"{W}/verify", {"level": "replay"}))["ok"] is True

    told(tmp_path, story)


@pytest.mark.clause("K-44")
def test_effects_above_the_floor_are_listed(tmp_path: Path) -> None:
    """04 section 10: settled effects of the part that is there, now and as of a sequence."""

    async def story(served: Served, floor: int) -> None:
        head = await served.head()
        for query in ("status=all", f"status=all&at={head}"):
            rows = (await get(served, f"{W}/effects?{query}"))["items"]
            assert {"c", "d"} <= {row["key"] for row in rows}
            assert all(row["opened_seq"] > floor for row in rows)
        one = rows[0]["intent"]
        assert (await get(served, f"{W}/effects/{one[:20]}"))["status"] == "ok"
        before = await served.http.post(f"{W}/forks", json={"name": f"later-{head}"})
        assert before.status_code == 201, before.text
        body = {"world": f"later-{head}", "preview": True}
        moved = await served.http.put("/v1/aliases/main", json=body)
        assert moved.status_code == 200, moved.text

    told(tmp_path, story)


async def _posted(served: Served, path: str, body: dict[str, Any]) -> Any:
    found = await served.http.post(path, json=body)
    assert found.status_code == 200, found.text
    return found.json()
