"""What was judged stays told, also when other rules are in force (06 section 1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.governance.apps import PRINT, app
from tests.governance.serve import Printer, W, ask, governed, sold
from tests.governance.test_upgrade import GOVERNANCE, approved


@pytest.mark.clause("X-06", "X-07")
def test_why_outlives_the_policy(tmp_path: Path) -> None:
    """AG-03: denied under no rule, told to its cell alone, and explained the same after the policy
    was replaced; the same request is allowed then.
    """

    # tidy: one story, told in order.
    async def main() -> None:
        printer = Printer()
        authority = {**app().manifest["authority"], "policies": []}
        async with governed(tmp_path, app(authority=authority, **GOVERNANCE), printer) as served:  # type: ignore[arg-type]
            world = served.node.resolve("main")
            await sold(served, "a", 500)
            await served.node.quiet(world, 60_000)
            (row,) = (await served.http.get(f"{W}/effects?status=all")).json()["items"]
            assert (row["status"], row["effect"]) == ("denied", PRINT)
            before = (await served.http.get(f"{W}/effects/{row['intent']}/why")).json()
            verdicts = {each["stage"]: each["verdict"] for each in before["judged"]}
            assert verdicts["capability"] == "ok"
            assert verdicts["policy"] not in ("ok", "-")
            ident = await approved(served, app(**GOVERNANCE))  # type: ignore[arg-type]
            status, said = await ask(served, "bob", "post", f"/proposals/{ident}/apply")
            assert (status, said["status"]) == (202, "applied"), said
            after = (await served.http.get(f"{W}/effects/{row['intent']}/why")).json()
            assert after["judged"] == before["judged"]
            await sold(served, "a", 500)
            await served.node.quiet(world, 60_000)
            rows = (await served.http.get(f"{W}/effects?status=all")).json()["items"]
            assert sorted(each["status"] for each in rows) == ["denied", "ok"]

    asyncio.run(main())
