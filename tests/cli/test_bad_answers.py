"""Answers that are cut, or that no node gave: each is told like a node that is not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.runs import tally
from tests.cli.stand_in import Said, stand_in

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CUT = {
    "in its body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "in a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nda",
    "between chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
}


@contextmanager
def cutting(answer: bytes) -> Iterator[str]:
    """Says this much to whoever asks, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65_536)
                line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("where", CUT)
def test_an_answer_that_is_cut_is_no_trace_of_python(where: str) -> None:
    """ST-06: a node that is killed in the middle of an answer is away: exit 3 and a hint."""
    with cutting(CUT[where]) as url:
        done = tally("world", "ls", "--url", url, "--json")
    assert (done.code, done.problem["code"]) == (3, "node.unreachable")
    assert done.problem["hint"]


@pytest.mark.parametrize("words", ["world ls", "cell ls", "journal tail"])
def test_who_answers_without_json_is_no_node(words: str) -> None:
    """ST-06: an address of some other server is told as that, with 3."""
    with stand_in(lambda asked: Said(200, b"<html>hello</html>", "text/html")) as url:
        done = tally(*words.split(), "--url", url, "--json")
    assert (done.code, done.problem["code"]) == (3, "node.bad_answer")
    assert "--url" in done.problem["hint"]
