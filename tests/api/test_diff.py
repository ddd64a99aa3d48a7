"""Two worlds of one origin compared over HTTP: states, effects, roots, and where they parted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick.api.app import make_app
from tallystick.cli.here import called
from tallystick.cli.request import Request
from tallystick.model.frames import open_frame
from tallystick.model.records import ReceiptSettled
from tallystick.node.node import Node
from tallystick.values import canon
from tests.node.test_rehearsal import SUMS, Worker, bundle, running, sent

Ask = Callable[..., Awaitable[tuple[int, Any]]]


@asynccontextmanager
async def asking(node: Node) -> AsyncIterator[Ask]:
    """Requests to the application of a node, with the right to everything."""
    api = await make_app(node)

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        where, _, query = path.partition("?")
        given = dict(pair.split("=") for pair in query.split("&") if pair)
        reply = await called(api, Request(method, where, given, body=body))
        return reply.status, json.loads(reply.body)

    try:
        yield ask
    finally:
        api.close()


# tidy: one story of two worlds.
@pytest.mark.clause("X-08")
def test_a_what_if_is_compared_with_its_parent(tmp_path: Path) -> None:
    """AG-31: fork with edits over HTTP, then compare: the edited cell, its effect, both roots.

    An alias may not lead to a what-if.
    """

    async def main() -> None:
        async with running(tmp_path, Worker()) as node, asking(node) as ask:
            world = await node.create("main", bundle())
            await sent(node, world, "a", "b")
            frames = await node.read(lambda reader: list(reader.read(world)))
            firsts = [(f.seq, open_frame(f.body)[3][0]) for f in frames]
            (seq,) = [
                s
                for s, r in firsts
                if isinstance(r, ReceiptSettled) and r.to[0] == (SUMS, canon.encode("b"))
            ]
            edit = {"seq": seq, "receipt": {"status": "error", "payload": {"code": "no"}}}
            status, made = await ask(
                "POST", "/v1/worlds/main/forks", {"name": "idea", "edits": [edit]}
            )
            assert status == 201, made
            status, told = await ask("GET", "/v1/worlds/main/diff?with=idea")
            assert status == 200, told
            assert told["ancestor"] == {"world": world, "seq": seq - 1}
            # The seeds in a flow's history hang on positions; a reducer here draws none.
            (row,) = [each for each in told["items"] if each["workflow"] == SUMS]
            assert row["key"] == "b"
            (change,) = row["diff"]["items"]
            assert (change["path"], change["old"], change["new"]) == ("/total", 202, 2)
            (effect,) = told["effects"]
            assert (effect["change"], effect["status"]) == ("outcome", ["ok", "error"])
            assert told["same"] is False
            assert told["roots"][0] != told["roots"][1]
            status, told = await ask("PUT", "/v1/aliases/prod", {"world": "idea"})
            assert (status, told["code"]) == (409, "world.synthetic")

    asyncio.run(asyncio.wait_for(main(), 240))
