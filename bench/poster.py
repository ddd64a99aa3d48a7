"""A client of W7 in a process of its own: plain sockets, one request at a time on each.

It knows as little HTTP as the answers need, so that the server is what is measured.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
from time import perf_counter
from typing import Any


class Line:
    """One connection with at most one request on its way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun = 0.0
        self._got = b""

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self.begun = perf_counter()
        self.socket.sendall(request)

    def answer(self) -> int | None:
        """The status once the whole answer is here."""
        more = self.socket.recv(1 << 20)
        if not more:
            raise SystemExit("w7: the server closed the line")
        self._got += more
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return None
        fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
        length = next(int(value) for name, _, value in fields if name.lower() == b"content-length")
        if len(body) < length:
            return None
        self._got = body[length:]
        return int(head[9:12])


def request_of(given: dict[str, Any], first: int) -> bytes:
    """A request with a batch of events from a number on; one event goes without a batch."""
    events = [
        {"schema": "bench/Note@1", "value": {"name": f"c{number % 1000}", "by": 1}}
        for number in range(first, first + given["batch"])
    ]
    body = json.dumps(events[0] if given["batch"] == 1 else {"events": events}).encode()
    head = (
        f"POST {given['path']} HTTP/1.1\r\nHost: {given['host']}:{given['port']}\r\n"
        f"Authorization: Bearer {given['token']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run(given: dict[str, Any]) -> dict[str, Any]:
    """Send all events; seconds of each request and of the whole."""
    requests = iter([request_of(given, at) for at in range(0, given["n"], given["batch"])])
    took: list[float] = []
    begun = perf_counter()
    with selectors.DefaultSelector() as selector:
        lines = [Line((given["host"], given["port"])) for _ in range(given["conns"])]
        for line in lines:
            _next(selector, line, next(requests, None), begin=True)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.data
                status = line.answer()
                if status is None:
                    continue
                if status != 202:
                    raise SystemExit(f"w7: answered {status}")
                took.append(perf_counter() - line.begun)
                _next(selector, line, next(requests, None), begin=False)
        for line in lines:
            line.socket.close()
    return {"secs": perf_counter() - begun, "took": took}


def _next(
    selector: selectors.BaseSelector, line: Line, request: bytes | None, *, begin: bool
) -> None:
    if request is None:
        if not begin:
            selector.unregister(line.socket)
        return
    if begin:
        selector.register(line.socket, selectors.EVENT_READ, line)
    line.ask(request)


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))
