"""Answers at the edges of packets: pieces of an encoding, last words without an end."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.isolate_bubblewrap import PROJECT, walls
from tests.executors.servers import Answer, serving
from tests.executors.test_http import asking as web
from tests.executors.test_http import perform
from tests.executors.test_llm_remote import KEY, OPENAI, ask, sse, with_keys


def test_an_encoded_body_comes_in_pieces() -> None:
    """04 section 6: one gzip over many chunks is one body, wherever the chunks are cut."""
    whole = b"some text, " * 200
    packed = gzip.compress(whole)
    parts = [packed[:5], packed[5:20], packed[20:]]
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)

    async def run() -> None:
        async with serving(lambda _: Answer(raw=head + body + b"0\r\n\r\n")) as site:
            got = await perform(web(f"http://127.0.0.1:{site.port}/"))
        assert got["body"] == whole

    asyncio.run(run())


def test_a_stream_may_end_without_a_line_end() -> None:
    """04 section 6: the last line of a model's stream counts, though nothing follows it."""
    got, _, _ = asyncio.run(ask(sse(OPENAI, end="data: [DONE]")))
    assert (got["text"], got["finish"]) == ("Hello é", "stop")


def test_the_beginning_of_a_key_is_told_when_it_is_none(tmp_path: Path) -> None:
    """04 section 7: held back while it may become the key, and told at the end of the stream."""
    deltas: list[Any] = [
        {"choices": [{"delta": {"content": text}}]} for text in ("it is ", KEY[:9])
    ]
    ports = with_keys(tmp_path, {"MODEL_KEY": KEY})
    settings = {"api_key": "env:MODEL_KEY"}
    deltas.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    got, heard, _ = asyncio.run(ask(sse(deltas), ports=ports, settings=settings))
    assert got["text"] == f"it is {KEY[:9]}"
    assert "".join(payload["text"] for _, payload in heard.frames) == got["text"]


@pytest.mark.parametrize("inside", [True, False])
def test_keys_beside_the_project_need_no_wall(tmp_path: Path, inside: bool) -> None:
    """AT-26: the data folder is covered where the project would show it, and only there."""
    project = tmp_path / "project"
    hidden = (project if inside else tmp_path) / ".tally"
    hidden.mkdir(parents=True)
    project.mkdir(exist_ok=True)
    command = walls("/bin/true", net=False, project=project, hidden=hidden, tmp=1 << 20)
    assert str(project) in command
    assert (f"{PROJECT}/.tally" in command) is inside
    assert str(tmp_path / ".tally") not in command
