"""A node that says what a test wants it to say, on loopback: for answers no sound node gives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

JSON = "application/json"


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.body)


class Said(NamedTuple):
    """One answer as it goes out."""

    status: int
    body: bytes = b""
    kind: str = JSON


SILENCE = Said(0)
"""No answer at all: the connection is cut."""
Speak = Callable[[Asked], Said]


def saying(value: Any, status: int = 200) -> Said:
    """An answer in JSON."""
    return Said(status, json.dumps(value).encode())


def refusing(code: str, status: int, title: str = "Rejected") -> Said:
    """A problem object, as a node gives it."""
    problem = {"title": title, "detail": "no", "code": code, "where": {}, "hint": "try again"}
    return saying({**problem, "status": status}, status)


class _Node(ThreadingHTTPServer):
    """The server of one test."""

    daemon_threads = True
    speak: Speak


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), body)
        assert isinstance(self.server, _Node)
        said = self.server.speak(asked)
        if said is SILENCE:
            self.close_connection = True
            return
        with suppress(ConnectionError):  # who asked may be gone
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815  # the names that the server looks for

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its own name
        """A test reads what was asked, not a log."""


@contextmanager
def stand_in(speak: Speak) -> Iterator[str]:
    """Answers every request by `speak`; gives the address."""
    server = _Node(("127.0.0.1", 0), _Handler)
    server.speak = speak
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
