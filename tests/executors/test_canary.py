"""ND-19: a secret is used by a real effect of a real node, and is nowhere afterwards."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tallystick.api.app import make_app
from tallystick.cli.here import called as called_by
from tallystick.cli.request import Request
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

    for _ in range(1_200):
        state = await node.look(world, ask)
        if state is not None and state["status"] != "asked":
            return state
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
            await told(node, world, folder)
        finally:
            await close_node(node)
    return states, site.asked


# tidy: one list of all that may be asked.
async def told(node: Node, world: str, folder: Path) -> None:
    """What the API answers about all of it, and a backup, as files beside the data."""
    api = await make_app(node)
    (folder / "answers").mkdir()

    async def ask(number: int, path: str, query: dict[str, str] | None = None) -> Any:
        reply = await called_by(api, Request("GET", path, query or {}))
        (folder / "answers" / str(number)).write_bytes(reply.body)
        assert reply.status == 200, (path, reply.body)
        return json.loads(reply.body)

    try:
        one = "/v1/worlds/main"
        effects = (await ask(0, one + "/effects", {"status": "all"}))["items"]
        assert effects
        count = (await ask(1, one + "/journal/head"))["seq"]
        paths = [f"{one}/journal", *(f"{one}/journal/{seq}" for seq in range(1, count + 1))]
        for effect in effects:
            place = f"{one}/effects/{effect['intent']}"
            paths += [place, place + "/why"]
        cells = (await ask(2, one + "/cells"))["items"]
        assert cells
        names = [quote(str(cell["key"]), safe="") for cell in cells]
        paths += [f"{one}/cells/{quote(canary_world.CALLER, safe='')}/{name}" for name in names]
        paths += [f"{one}/{word}" for word in ("stats", "authority", "flows", "keys")]
        for number, path in enumerate(paths, 3):
            await ask(number, path)
        body = {"dest": str(folder / "backup")}
        reply = await called_by(api, Request("POST", "/v1/backup", body=body))
        assert reply.status < 300, reply.body
        exported = await node.read(lambda reader: list(reader.read(world)))
        (folder / "answers" / "frames").write_bytes(b"".join(frame.body for frame in exported))
    finally:
        api.close()


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
    """ND-19, AG-15: the server gets the key and echoes it in all spellings; nothing has any: no
    file of the node, its log included, no answer of the API, and no backup.
    """
    states, asked = asyncio.run(called(tmp_path, ["/small", "/large"]))
    assert [each.headers["x-key"] for each in asked] == [CANARY, CANARY], "the effect works"
    assert [state["status"] for state in states] == ["ok", "ok"]
    small, large = (canon.decode(state["payload"]) for state in states)
    assert small["headers"]["x-echo"] == "«secret:web/key@1»"
    assert small["body"].decode().count("«secret:web/key@1»") == len(SPELLINGS)
    assert large["body"] is None
    assert large["size"] > 100_000
    assert leaks(tmp_path) == {}
    assert len(list((tmp_path / "answers").iterdir())) > 12
    assert list((tmp_path / "backup").rglob("tally.db"))
    assert list(tmp_path.rglob("node.jsonl"))


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
    for place in ("tally.db", "answers", "backup"):
        assert any(place in name for name in found), place
