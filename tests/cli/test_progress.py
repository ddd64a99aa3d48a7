"""What takes its time says how far it came: to who asked, and to everybody over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli import progress
from tallystick.cli.client import Client
from tallystick.cli.here import HereClient
from tallystick.cli.progress import line, with_progress
from tallystick.cli.request import Request
from tallystick.node import whatif
from tallystick.node.config import config_of
from tallystick.node.node import Node
from tests.cli.runs import tally
from tests.governance.apps import SOLD, source


class Caller:
    """A command with a node of its own, and what it said."""

    def __init__(self, client: HereClient) -> None:
        self.world = "main"
        self.held = client
        self.said: list[str] = []
        self.heard = threading.Event()

    def beside(self) -> Client:
        return self.held.beside()

    def say(self, text: str) -> None:
        self.said.append(text)
        if len(self.said) == 3:
            self.heard.set()


def folder(base: Path) -> str:
    (base / "app.py").write_bytes(source(1))
    data = str(base / ".tally")
    assert (
        tally("world", "create", "main", "--bundle", str(base / "app.py"), "--data", data).code == 0
    )
    return data


def test_it_is_told_while_the_answer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 11: with `--progress` a command tells what its node does, again and again, until
    the answer is there; without it nothing is asked.
    """
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    folder(tmp_path)
    client = HereClient(config_of(tmp_path, {}, {}), passive=True)
    caller = Caller(client)

    async def work(node: Node) -> str:
        with node.reruns.told("what-if", node.resolve("main")) as mine:
            while not caller.heard.is_set():
                mine.done, mine.of = mine.done + 1, 10_000
                await asyncio.sleep(0.01)
        return "done"

    try:
        assert with_progress(caller, lambda: client.run(work), wanted=True) == "done"
        assert len(caller.said) >= 3
        assert all(said.startswith("what-if: ") and " of 10000 " in said for said in caller.said)
        before = list(caller.said)
        assert with_progress(caller, lambda: client.run(work), wanted=False) == "done"
        assert caller.said == before
        told = client.ask(Request("GET", "/v1/worlds/main/reruns"))
        assert json.loads(told.body)["items"] == []
    finally:
        client.close()


def test_a_node_that_does_not_wait_answers_nobody(tmp_path: Path) -> None:
    """06 section 11: who asks beside a command that is not waiting is refused, and not kept."""
    folder(tmp_path)
    client = HereClient(config_of(tmp_path, {}, {}), passive=True)
    try:
        with pytest.raises(progress.TallyError) as caught:  # type: ignore[attr-defined]
            client.beside().ask(Request("GET", "/v1/worlds"))
        assert caught.value.code == "node.not_running"
    finally:
        client.close()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"kind": "what-if", "done": 3, "of": 9}, "what-if: 3 of 9 inputs"),
        ({"kind": "prove", "done": 3, "of": 9}, "prove: 3 of 9 records"),
        ({"kind": "shadow", "done": 0, "of": None}, "shadow: running"),
    ],
)
def test_in_words(row: dict[str, Any], words: str) -> None:
    """06 section 11: each kind is told in its own unit."""
    assert line(row) == words


def test_a_what_if_tells_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """06 section 11: a what-if by commands, with `--progress`; what it told its node is what it
    ran, and when it is over nothing is under way.
    """
    monkeypatch.setattr(whatif, "_NEWS_S", -1.0)
    data = folder(tmp_path)
    seqs = []
    for cents in (1, 2, 3):
        value = json.dumps({"till": "a", "cents": cents})
        sent = tally("send", SOLD, value, "--json", "--data", data)
        assert sent.code == 0, sent
        seqs.append(sent.value["seq"])
    edits = tmp_path / "edits.json"
    edits.write_text(json.dumps([{"seq": seqs[0], "event": {"till": "a", "cents": 9}}]))
    words = ("world", "fork", "--edit", str(edits), "--as", "idea", "--progress")
    assert tally(*words, "--data", data).code == 0
    state = tally("cell", "ls", "--world", "idea", "--json", "--data", data)
    assert state.code == 0, state
    idle = tally("gov", "running", "--json", "--data", data)
    assert idle.value["items"] == []
