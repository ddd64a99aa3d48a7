"""A request whose answer a crash cut is told what it would have been told, and happens once."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tallystick.api.answers import FILE
from tallystick.node.node import Node
from tests.api.reacting import PAGER, listening, reacting
from tests.api.rig import bearer
from tests.api.test_playing import WAITER
from tests.api.test_reactions import LOST
from tests.governance.apps import app
from tests.governance.serve import Printer, governed, sold
from tests.governance.test_upgrade import GOVERNANCE, zipped
from tests.playbooks.rig import playing

W = "/v1/worlds/main"
pytestmark = pytest.mark.clause("K-09")


class Caller:
    """Somebody who asks with a key, and once more after the answer was lost."""

    def __init__(self, node: Node, http: httpx.AsyncClient, world: str = "main") -> None:
        self.node, self.http, self.world = node, http, world
        self.keys = 0

    async def twice(self, path: str, body: Any, token: str = "") -> Any:
        """The answer, which is the same when the node died before it was kept."""
        self.keys += 1
        key = f"k{self.keys}"
        headers = {"Idempotency-Key": key, **(bearer(token) if token else {})}
        where = f"/v1/worlds/{self.world}{path}"
        first = await self.http.post(where, json=body, headers=headers)
        assert first.status_code in (201, 202), first.text
        with apsw.Connection(str(self.node.folder / FILE)) as kept:
            kept.execute("UPDATE answer SET status=0, body=x'' WHERE key=?", (key,))
            assert kept.changes() == 1, "the answer was kept"
        again = await self.http.post(where, json=body, headers=headers)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["idempotent-replayed"] == "true"
        assert "seq" in first.json(), "of one record: it happened once"
        return first.json()


def test_playbooks_are_told_again(tmp_path: Path) -> None:
    """ND-11: an execution with its name, also one that nobody named; a playbook with its path."""

    async def main() -> None:
        async with (
            playing(tmp_path, http={"listen": "127.0.0.1:0"}) as (node, _),
            listening(node) as http,
        ):
            caller = Caller(node, http)
            told = await caller.twice("/executions", {"playbook": WAITER, "execution": "one"})
            assert told["execution"] == "one"
            assert (await caller.twice("/executions", {"playbook": WAITER}))["execution"]
            large = WAITER + "# " + "x" * 70_000 + "\n"  # what is played may be kept as a blob
            assert (await caller.twice("/executions", {"playbook": large}))["hash"]
            path = "  path: shop/waiter"
            named = WAITER.replace("{name: waiter}", f"\n  name: waiter\n{path}")
            assert (await caller.twice("/playbooks", {"playbook": named}))["path"] == "shop/waiter"
            await caller.twice("/executions/one/signals/go", {"value": 1})

    asyncio.run(main())


# tidy: one story, from the proposal to the switch.
def test_governance_is_told_again(tmp_path: Path) -> None:
    """ND-11: a proposal, its shadow, its proof, the votes with their count, and the switch."""

    async def main() -> None:
        async with governed(tmp_path, app(**GOVERNANCE), Printer()) as served:  # type: ignore[arg-type]
            assert (await sold(served, "a")).status_code == 202
            caller = Caller(served.node, served.http)
            scopes = ("read", "propose", "approve", "apply")
            alice = await served.token(*scopes, principal="alice")
            bob = await served.token(*scopes, principal="bob")
            wish = {"bundle": zipped(app(2, **GOVERNANCE))}
            made = await caller.twice("/proposals", wish, alice)
            one = f"/proposals/{made['proposal']}"
            assert (await caller.twice(f"{one}/shadow", {}, alice))["complete"] is True
            assert "verdicts" in await caller.twice(f"{one}/prove", {}, alice)
            voted = await caller.twice(f"{one}/approve", {"comment": "go"}, bob)
            assert (voted["approvals"], voted["needed"]) == (1, 1)
            assert (await caller.twice(f"{one}/apply", {}, alice))["status"] == "applied"
            wish = {"bundle": zipped(app(**GOVERNANCE))}  # type: ignore[arg-type]
            made = await caller.twice("/proposals", wish, alice)
            told = await caller.twice(f"/proposals/{made['proposal']}/reject", {}, bob)
            assert (told["decision"], told["approvals"]) == ("reject", 0)

    asyncio.run(main())


def test_reactions_are_told_again(tmp_path: Path) -> None:
    """ND-11: a switch with its verb, a frame with its content, a stamp, a run."""

    async def main() -> None:
        async with reacting(tmp_path, pager=PAGER, lost=LOST) as here:
            caller = Caller(here.node, here.http, here.world)
            await here.done("/reactions/pager/run", {"key": "k"})
            for verb in ("disable", "enable"):
                told = await caller.twice(f"/reactions/pager/{verb}", {"reason": "x"})
                assert (told["reaction"], told["verb"]) == ("pager", verb)
            frame = {"path": "in/a.txt", "type": "note", "content": b64encode(b"about it").decode()}
            assert (await caller.twice("/frames", frame))["content_id"]
            stamp = {"path": "out/page.md"}
            assert (await caller.twice("/stamps/adopt", stamp))["verb"] == "adopt"
            await here.done("/reactions/lost/run", {"key": "k"})
            (run,) = (await here.get("/runs?reaction=lost"))["items"]
            told = await caller.twice(f"/runs/{run['run_id']}/retry", {"reason": "once more"})
            assert (told["run"], told["verb"]) == (run["run_id"], "retry")

    asyncio.run(main())
