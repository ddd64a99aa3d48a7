"""The stream: events in great numbers, sent by a process of its own that costs little.

Coins go to a bounded set of purses; each order and each bill makes a cell of its own.
Open loop with a rate: a coin is due at its time whatever the answers do, and its answer counts from
then, also while it waits for a connection; closed loop without one.
Only plain sockets and ready-made requests, so that the node is what is measured.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from tests.acceptance.kit.env import plain_environment

if TYPE_CHECKING:  # a client starts quickly when it does not import a node's world
    from tests.acceptance.kit.place import Place

PURSES: Final = 1_000


def stream(place: Place, wait_s: float = 600.0, **wishes: Any) -> dict[str, Any]:
    """Send `count` events: `rate` a second, or 0; `batch` to a request; over `lines` connections.

    `kind` is coin, order or bill; the last two are numbered from `first` on.
    How many were answered with 202, in how many seconds, and how long after its due time each
    request was answered.
    """
    usual = {"batch": 1, "rate": 0, "kind": "coin", "first": 0}
    given = {"port": place.port, "token": place.token(), **usual, **wishes}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        timeout=wait_s,
        env=plain_environment(),
        check=False,
    )
    assert done.returncode == 0, f"the stream ended before its time: {place.said()[-500:]}"
    told: dict[str, Any] = json.loads(done.stdout)
    took = sorted(told["took_ms"])
    assert took, f"nothing was accepted: {told['others'][:5]} {place.said()[-500:]}"
    return {
        "accepted": told["accepted"],
        "others": told["others"],
        "per_s": round(told["accepted"] / max(told["seconds"], 1e-9), 1),
        "p50_ms": round(took[len(took) // 2], 2),
        "p99_ms": round(took[len(took) * 99 // 100], 2),
        "worst_ms": round(took[-1], 2),
    }


# ---- the process ----------------------------------------------------------------------------


def _coin(number: int) -> dict[str, Any]:
    return {"id": f"p{number % PURSES}", "cents": 1}


def _bill(number: int) -> dict[str, Any]:
    return {"id": f"i{number}", "cents": 5}


def _order(number: int) -> dict[str, Any]:
    """An even amount: its cell is done at once."""
    value = {"id": f"o{number}", "cents": 2, "sink": "http://127.0.0.1:1/"}
    return value | {"due_ns": None, "timeout_ns": None}


_KINDS: Final = {"coin": _coin, "bill": _bill, "order": _order}


def _request(given: dict[str, Any], first: int) -> bytes:
    schema, value_of = f"kit/{given['kind'].title()}@1", _KINDS[given["kind"]]
    numbers = range(first, first + given["batch"])
    events = [{"schema": schema, "value": value_of(number)} for number in numbers]
    body = json.dumps(events[0] if given["batch"] == 1 else {"events": events}).encode()
    head = (
        "POST /v1/worlds/main/events HTTP/1.1\r\n"
        f"host: 127.0.0.1:{given['port']}\r\nauthorization: Bearer {given['token']}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Line:
    """One connection with at most one request on its way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self._got = b""

    def answer(self) -> int | None:
        """The status once the whole answer is here."""
        more = self.socket.recv(1 << 20)
        if not more:
            raise SystemExit("the node closed the line")
        self._got += more
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return None
        fields = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
        length = next(int(value) for name, _, value in fields if name == b"content-length")
        if len(body) < length:
            return None
        self._got = body[length:]
        return int(head[9:12])


@dataclass(slots=True)
class _Sender:
    given: dict[str, Any]
    ready: list[bytes]  # the requests, where they come round again
    free: deque[_Line]  # the one that rested longest goes first: an idle line is cut
    began: float
    sent: int = 0

    def request(self, number: int) -> bytes:
        """The request of a number."""
        if self.ready:
            return self.ready[number % len(self.ready)]
        return _request(self.given, self.given["first"] + number * self.given["batch"])

    def due(self, number: int, now: float) -> float:
        """When a request is to be sent; at once without a rate."""
        rate = self.given["rate"]
        return self.began + number * self.given["batch"] / rate if rate else now

    def send(self) -> float | None:
        """Send what is due over what is free; the seconds until more is, None if none is free."""
        while self.free and self.sent < self.given["count"] // self.given["batch"]:
            now = perf_counter()
            due = self.due(self.sent, now)
            if due > now:
                return due - now
            line = self.free.popleft()
            line.due = due
            line.socket.sendall(self.request(self.sent))
            self.sent += 1
        return None


def _run(given: dict[str, Any]) -> dict[str, Any]:
    rounds = range(0, PURSES, given["batch"]) if given["kind"] == "coin" else range(0)
    requests = [_request(given, first) for first in rounds]
    lines = [_Line(given["port"]) for _ in range(given["lines"])]
    sender = _Sender(given, requests, deque(lines), perf_counter())
    took: list[float] = []
    others: list[int] = []
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.socket, selectors.EVENT_READ, line)
        while len(took) + len(others) < given["count"] // given["batch"]:
            for key, _ in selector.select(sender.send()):
                line = key.data
                status = line.answer()
                if status is None:
                    continue
                if status == 202:
                    took.append((perf_counter() - line.due) * 1000)
                else:
                    others.append(status)
                sender.free.append(line)
    seconds = perf_counter() - sender.began
    for line in lines:
        line.socket.close()
    accepted = len(took) * given["batch"]
    return {"accepted": accepted, "others": others, "seconds": seconds, "took_ms": took}


if __name__ == "__main__":
    json.dump(_run(json.load(sys.stdin)), sys.stdout)
