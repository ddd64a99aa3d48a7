"""ND-19: a secret is used by a real effect of a real node, and is nowhere afterwards."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.scrub import Scrubber
from tallystick.kernel.inputs import Submit
from tallystick.model.cells import CellId
from tallystick.modules.python import PythonRunner
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.node.node import Node
from tallystick.values import canon
from tests.executors import canary_world
from tests.executors.servers import Answer, Asked, serving
from tests.executors.test_scrub import SPELLINGS

CANARY = "sk-canary-0123456789-abcdef"


def parrot(asked: Asked) -> Answer:
    """A server that repeats the key in every spelling, in headers and in a body of any size."""
    key = asked.headers["x-key"]
    spelled = "\n".join(make(key) for make in SPELLINGS.values())
    padding = "." * (100_000 if asked.target == "/large" else 0)
    return Answer(200, (("x-echo", key),), (spelled + padding).encode())


async def settled(node: Node, world: str, ident: str) -> dict[str, Any]:
    """The state of the caller once its request has ended."""

    def ask(live: Any) -> Any:
        cell = live.cell(CellId(canary_world.CALLER, canon.encode(ident)))
        return None if cell is None else canon.decode(live.state_of(cell))

    for _ in range(600):
        state = await node.look(world, ask)
        if state is not None and state["status"] != "asked":
            return state  # type: ignore[no-any-return]  # decoded
        await asyncio.sleep(0.05)
    raise AssertionError("the request never ended")


async def called(folder: Path, paths: list[str]) -> tuple[list[dict[str, Any]], list[Asked]]:
    """The states after a request to each path, and what the server saw."""
    async with serving(parrot) as site:
        node = await open_node(
            config_of(folder, {}, {}), lambda blobs: PythonRunner(canary_world.FUNCTIONS)
        )
        try:
            assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
            node.outside._bindings.vault.set("key", CANARY)
            world = await node.create("main", canary_world.bundle("store:key"))
            states = []
            for path in paths:
                value = {"id": path, "url": f"http://127.0.0.1:{site.port}{path}"}
                await node.offer(world, Submit(node.clock.sample(), canary_world.CALL, value))
                states.append(await settled(node, world, path))
        finally:
            await close_node(node)
    return states, site.asked


def leaks(folder: Path) -> dict[str, list[str]]:
    """Files below a folder that hold the canary, with the spellings found."""
    found: dict[str, list[str]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        body = path.read_bytes()
        for name, make in SPELLINGS.items():
            spelled = make(CANARY).strip('"').encode()[3:-3]
            if spelled in body:
                found.setdefault(str(path.relative_to(folder)), []).append(name)
    return found


@pytest.mark.clause("K-04")
def test_a_canary_is_used_and_nowhere_found(tmp_path: Path) -> None:
    """ND-19, AG-15: the server gets the key and echoes it in all spellings; no file has any."""
    states, asked = asyncio.run(called(tmp_path, ["/small", "/large"]))
    assert [each.headers["x-key"] for each in asked] == [CANARY, CANARY], "the effect works"
    assert [state["status"] for state in states] == ["ok", "ok"]
    small, large = (canon.decode(state["payload"]) for state in states)
    assert small["headers"]["x-echo"] == "«secret:web/key@1»"
    assert small["body"].decode().count("«secret:web/key@1»") == len(SPELLINGS)
    assert large["body"] is None
    assert large["size"] > 100_000
    assert leaks(tmp_path) == {}


def test_a_planted_leak_is_found(tmp_path: Path) -> None:
    """ND-19 control: the same run with a scrubber that knows nothing leaves the canary there."""
    real = vars(Scrubber)["of"]
    try:
        Scrubber.of = classmethod(lambda cls, job, also=None: cls({}))  # type: ignore[assignment, method-assign]  # the planted defect
        asyncio.run(called(tmp_path, ["/small"]))
    finally:
        Scrubber.of = real  # type: ignore[method-assign]
    found = leaks(tmp_path)
    assert found, "the scan would have seen it"
    assert set(SPELLINGS) == {name for names in found.values() for name in names}
    assert any("tally.db" in name for name in found)
