"""The log of a node: one line each, of the level and in the form that the settings say."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Rejected
from tallystick.node.config import LogSettings, config_of
from tallystick.node.log import Log
from tests import orders
from tests.node.rig import Bank, config, placed, running


def lines(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "logs" / "node.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.clause("K-45")
def test_a_node_tells_its_day(tmp_path: Path) -> None:
    """04 section 12: JSON lines `{ts, level, code, world?, seq?, msg}`; a look leaves none."""

    async def main() -> None:
        async with running(config(tmp_path, node={"name": "n-7"})) as node:
            world = await node.create("main", orders.bundle())
            await node.offer(world, placed(node, "o-1"))
            for _ in range(2_000):
                if any(line["code"] == "effect.no_executor" for line in lines(node.folder)):
                    break
                await asyncio.sleep(0.05)
        async with running(config(tmp_path), Bank()) as node:
            assert node.resolve("main") == world
        async with running(config(tmp_path), passive=True) as node:
            pass
        said = lines(node.folder)
        assert [line["code"] for line in said] == [
            *("node.opened", "effect.no_executor", "node.stopping", "node.stopped"),
            *("world.opened", "node.opened", "node.stopping", "node.stopped"),
        ]
        assert said[0]["node"] == "n-7"
        assert (said[1]["level"], said[1]["world"]) == ("warning", world)
        assert said[4]["seq"] > 1
        assert all({"ts", "level", "code", "msg"} <= set(line) for line in said)
        assert (node.folder / "logs" / "node.jsonl").stat().st_mode & 0o777 == 0o600

    asyncio.run(asyncio.wait_for(main(), 240))


def test_levels_and_forms(tmp_path: Path) -> None:
    """04 section 8: `log.level` and `log.format`; words that are none are refused."""
    log = Log(LogSettings("warning", "text"), tmp_path, lambda: 1_000_000_000)
    log.say("info", "node.x", "not told")
    log.say("warning", "node.y", "told", world="w", seq=3)
    log.close()
    assert (tmp_path / "logs" / "node.jsonl").read_text() == (
        "1970-01-01T00:00:01.000000Z warning node.y world=w seq=3 told\n"
    )
    for section in ({"level": "loud"}, {"format": "xml"}):
        with pytest.raises(Rejected) as caught:
            config_of(tmp_path, {"log": section}, {})
        assert caught.value.code == "config.type"


def test_the_file_is_bounded_and_whole(tmp_path: Path) -> None:
    """F8: many threads, whole lines, at most two files of the bound; a full disk stops nobody."""
    log = Log(LogSettings(), tmp_path, lambda: 0, bytes_max=4_000)
    threads = [
        threading.Thread(target=lambda: [log.say("info", "c", "m" * 50) for _ in range(50)])  # type: ignore[func-returns-value]
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["node.jsonl", "node.jsonl.1"]
    for file in files:
        assert file.stat().st_size <= 4_000
        assert all(json.loads(line)["msg"] for line in file.read_text().splitlines())
    nowhere = Log(LogSettings(), tmp_path, lambda: 0)
    (tmp_path / "logs" / "node.jsonl").unlink()
    (tmp_path / "logs" / "node.jsonl").mkdir()
    nowhere.say("info", "c", "m")
    assert nowhere.lost == 1
