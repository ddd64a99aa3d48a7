"""Commands that read a whole journal wait for as long as that takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tallystick.cli import call
from tests.cli.runs import tally

JUDGED = {"ok": True, "level": "full", "world": "w", "head": 1, "records": 1, "problems": []}


class Slow(BaseHTTPRequestHandler):
    """A node that says nothing until the caller who hurries has left."""

    hurried: threading.Event

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hurried.wait(60)
        body = json.dumps(JUDGED).encode()
        with suppress(ConnectionError):  # who hurries has left
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """A test says nothing."""


@pytest.fixture
def slow() -> Iterator[tuple[str, threading.Event]]:
    hurried = threading.Event()
    handler = type("Handler", (Slow,), {"hurried": hurried})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", hurried
    hurried.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_verification_is_waited_for(
    slow: tuple[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AT-32: a million records take longer than an answer may take; the command waits for them.

    Control: a question that is not of that kind gives up at the node that says nothing.
    """
    url, hurried = slow
    monkeypatch.setattr(call, "TIMEOUT_S", 0.2)
    gave_up = tally("--url", url, "--json", "world", "ls")
    assert gave_up.code == 3
    assert gave_up.problem["code"] == "node.unreachable"
    timer = threading.Timer(1.0, hurried.set)
    timer.start()
    waited = tally("--url", url, "--json", "verify")
    timer.join()
    assert waited.code == 0, waited.err
    assert waited.value["ok"]
