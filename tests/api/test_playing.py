"""Executions of playbooks over HTTP: who may grant, what is begun once, patched and signalled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.reacting import listening
from tests.api.rig import bearer
from tests.playbooks.rig import playing

W = "/v1/worlds/main"
WAITER = """\
apiVersion: tally/v1
kind: Playbook
metadata: {name: waiter}
workflow:
  - {step: a, tool: {kind: wait, signal: go}, set_ctx: {got: "{{ event.result }}"}}
"""


@asynccontextmanager
async def waiting(base: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A node in which one execution waits for a signal."""
    async with (
        playing(base, http={"listen": "127.0.0.1:0"}) as (node, world),
        listening(node) as http,
    ):
        begun = await http.post(f"{W}/executions", json={"playbook": WAITER, "execution": "one"})
        assert begun.status_code == 202, begun.text
        assert await node.quiet(world, 60_000)
        yield http


def said(found: httpx.Response) -> tuple[int, Any]:
    """Status and code of a refusal, status and body of an answer."""
    body = found.json()
    return found.status_code, body.get("code", body)


def test_only_an_admin_grants_tools(tmp_path: Path) -> None:
    """07 section 8: `allow` without the scope admin is 403 with its path; without it, 202."""

    async def main() -> None:
        async with waiting(tmp_path) as http:
            body = {"principal": "ada", "scopes": ["send", "read"]}
            token = (await http.post("/v1/tokens", json=body)).json()["token"]
            wish: dict[str, Any] = {"playbook": WAITER, "execution": "two"}
            mine = bearer(token)
            allow = {**wish, "allow": {"shell": {}}}
            refused = await http.post(f"{W}/executions", json=allow, headers=mine)
            assert refused.status_code == 403
            assert refused.json()["where"] == {"path": "/allow", "scope": "admin"}
            begun = await http.post(f"{W}/executions", json=wish, headers=mine)
            assert begun.status_code == 202, begun.text

    asyncio.run(main())


def test_an_execution_is_begun_once(tmp_path: Path) -> None:
    """07 section 8: a name that is taken is 409, and the hint says how to look at it."""

    async def main() -> None:
        async with waiting(tmp_path) as http:
            wish = {"playbook": WAITER, "execution": "one"}
            again = await http.post(f"{W}/executions", json=wish)
            assert (again.status_code, again.json()["code"]) == (409, "execution.exists")
            assert "tally playbook show one" in again.json()["hint"]
            drawn = await http.get(f"{W}/executions/one/graph?format=png")
            assert (drawn.status_code, drawn.json()["code"]) == (400, "graph.bad_format")
            assert "mermaid" in drawn.json()["hint"]

    asyncio.run(main())


def test_a_patch_compares_first(tmp_path: Path) -> None:
    """07 section 8: `if` that does not hold is 409 with the value; one that holds is written."""

    async def main() -> None:
        async with waiting(tmp_path) as http:
            path = f"{W}/executions/one/ctx"
            first = {"reason": "x", "set": {"n": 1}, "if": {"n": None}}
            assert (await http.patch(path, json=first)).status_code == 202
            stale = await http.patch(path, json=first)
            assert (stale.status_code, stale.json()["code"]) == (409, "execution.changed")
            assert stale.json()["where"] == {"key": "n", "value": 1}
            assert (await http.get(f"{W}/executions/one")).json()["ctx"]["n"] == 1
            much = {"reason": "x", "set": {f"k{n}": n for n in range(60)}, "unset": list("abcde")}
            assert said(await http.patch(path, json=much)) == (
                400,
                "execution.patch_too_large",
            )

    asyncio.run(main())


@pytest.mark.clause("N-08")
def test_a_signal_reaches_who_waits_for_it(tmp_path: Path) -> None:
    """07 section 8: its value arrives and the execution ends; one that is over takes no more."""

    async def main() -> None:
        async with waiting(tmp_path) as http:
            path = f"{W}/executions/one"
            sent = await http.post(f"{path}/signals/go", json={"value": {"a": 1}})
            assert sent.status_code == 202, sent.text
            await http.get(f"{W}/stats?wait_ms=30000")
            shown = (await http.get(path)).json()
            assert shown["status"] == "success"
            assert shown["ctx"]["got"] == {"a": 1}
            over = await http.post(f"{path}/signals/go", json={})
            assert said(over) == (409, "execution.over")

    asyncio.run(main())


def test_executions_are_listed_page_by_page_and_as_they_were(tmp_path: Path) -> None:
    """04 section 10: a list has pages, and every read looks back."""

    async def main() -> None:
        async with waiting(tmp_path) as http:
            at = (await http.get(f"{W}/journal/head")).json()["seq"]
            wish = {"playbook": WAITER, "execution": "two"}
            assert (await http.post(f"{W}/executions", json=wish)).status_code == 202
            assert len((await http.get(f"{W}/executions")).json()["items"]) == 2
            first = (await http.get(f"{W}/executions?limit=1")).json()
            assert [row["execution"] for row in first["items"]] == ["one"]
            rest = (await http.get(f"{W}/executions?after={first['next']}")).json()
            assert ([row["execution"] for row in rest["items"]], rest["next"]) == (["two"], None)
            past = (await http.get(f"{W}/executions?at={at}")).json()
            assert ([row["execution"] for row in past["items"]], past["as_of"]) == (["one"], at)

    asyncio.run(main())
