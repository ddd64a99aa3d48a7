"""`tally journal tail --follow`: what is there, what comes, and an end when the node ends."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.client import SocketClient, live_node
from tallystick.cli.main import main
from tallystick.cli.problem import Refused
from tallystick.cli.request import Request
from tests.cli.runs import Live, hello, tally
from tests.cli.stand_in import Asked, Said, saying, stand_in

GREET = "demo/Greet@1"


class Reader(io.StringIO):
    """Who reads the output line by line, and acts on what stands there."""

    def __init__(self, act: Callable[[str], None]) -> None:
        super().__init__()
        self._act = act

    def write(self, text: str, /) -> int:
        for line in text.splitlines():
            self._act(line)
        return super().write(text)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    node = Live(hello(tmp_path / "app"), "--bundle", "app.py")
    yield node
    node.close()


def greet(live: Live, name: str) -> None:
    """One event by a connection of its own: this process is inside of a command."""
    found = live_node(live.data)
    assert found is not None
    body = {"schema": GREET, "value": {"name": name}}
    with contextlib.closing(SocketClient(*found)) as client:
        assert client.ask(Request("POST", "/v1/worlds/main/events", body=body)).status == 202


def read(live: Live, act: Callable[[str], None], *words: str) -> tuple[int, list[str]]:
    """Run a command in the presence of its reader; the exit code and all lines."""
    out, before = Reader(act), sys.argv
    sys.argv = ["tally", *words, "--data", str(live.data)]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    return int(code or 0), out.getvalue().splitlines()


@pytest.mark.clause("K-45")
def test_a_long_journal_is_followed_without_gap_or_repeat(live: Live) -> None:
    """ND-29: the first page, the pages behind it, then what comes; the node's end is the end.

    It is 0 when the stream ended, 3 when a page was asked for that nobody answers any more.
    """
    lines = "".join(f'{{"name": "n{number}"}}\n' for number in range(700))
    live.json("send", GREET, "-", stdin=lines)
    head = live.json("journal", "head")["seq"]
    assert head > 1400, "more than a page"

    def act(line: str) -> None:
        row = json.loads(line)
        if row["seq"] == head:
            greet(live, "late")
        elif row["seq"] > head and row["kind"] == "tick":
            live.process.send_signal(signal.SIGTERM)

    words = ("journal", "tail", "--follow", "--from", "1", "--limit", "2", "--json")
    code, told = read(live, act, *words)
    seen = [json.loads(line)["seq"] for line in told]
    assert code in (0, 3)
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) >= head + 2
    assert live.process.wait(60) == 0


def _row(seq: int) -> dict[str, Any]:
    place = {"workflow": "demo/greeter@1", "key": f"n{seq}", "intent": None}
    return {"seq": seq, "kind": "tick", "record": {"record": "Ticked"}, **place}


def test_a_stream_that_ends_ends_the_command() -> None:
    """ND-29: only frames are a reason to read on; of one kind, in words; the stream's end is 0."""
    asked: list[dict[str, str]] = []
    feed = b"event: frame\ndata: {}\n\nevent: progress\ndata: {}\n\n"

    def speak(each: Asked) -> Said:
        if each.path.endswith("/feed"):
            return Said(200, feed, "text/event-stream")
        asked.append(each.query)
        found = [_row(seq) for seq in (0, 8, 9)[: len(asked)][-1:] if seq]
        return saying({"items": found, "next": None})

    with stand_in(speak) as url:
        words = ("--from", "8", "--kind", "tick", "--url", url)
        done = tally("journal", "tail", "--follow", *words)
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines()] == [
        [str(seq), "tick", "Ticked", "demo/greeter@1", f"n{seq}"] for seq in (8, 9)
    ]
    assert [each["after"] for each in asked] == ["7", "7", "8"]
    assert {each["kind"] for each in asked} == {"tick"}


def test_a_stream_that_is_refused_is_an_error(live: Live) -> None:
    """ST-06: a feed of a world that is not there ends with the node's own refusal."""
    found = live_node(live.data)
    assert found is not None
    with contextlib.closing(SocketClient(*found)) as client, pytest.raises(Refused) as caught:
        list(client.pour(Request("GET", "/v1/worlds/nowhere/feed")))
    assert (caught.value.code, caught.value.exit_code) == ("world.unknown", 2)


def test_files_alone_are_not_followed(tmp_path: Path) -> None:
    """K-45: without a node nothing can come; what is there is shown, then it is said."""
    folder = hello(tmp_path / "app")
    data = ("--data", str(folder / ".tally"), "--json")
    assert tally("world", "create", "main", "--bundle", str(folder / "app.py"), *data).code == 0
    done = tally("journal", "tail", "--follow", "--from", "1", *data)
    assert (done.code, done.problem["code"]) == (3, "node.not_running")
    assert [json.loads(line)["seq"] for line in done.out.splitlines()][:1] == [1]
