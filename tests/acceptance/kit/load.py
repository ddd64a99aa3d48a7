"""The load: clients in a process of their own that send orders and keep a ledger of the answers.

A line of the ledger is `time_ns order status milliseconds`, written after the answer came.
A client whose connection breaks sends the same order again, under the same Idempotency-Key, until
it is answered: so a kill of the node can neither lose an order unseen nor excuse a doubled one.
Closed loop by default; with a rate, orders are due at fixed times whatever the answers do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tests.acceptance.kit.env import plain_environment

if TYPE_CHECKING:  # a client starts quickly when it does not import a node's world
    from tests.acceptance.kit.place import Place


class Ack(NamedTuple):
    """One answer that a client got."""

    at_ns: int
    order: str
    status: int
    took_ms: float


@dataclass(slots=True)
class Load:
    """A running load, seen from a test."""

    ledger: Path
    process: subprocess.Popen[bytes]

    def size(self) -> int:
        """Where the ledger ends now, for `acks` of what comes behind it."""
        return self.ledger.stat().st_size

    def acks(self, behind: int = 0) -> list[Ack]:
        """Every answer so far, or those behind a place in the ledger.

        Reading all of a long ledger takes the machine from whom it measures.
        """
        found = []
        with self.ledger.open("rb") as file:
            file.seek(behind)
            text = file.read().decode()
        for line in text[: text.rfind("\n") + 1].splitlines():
            at, order, status, took = line.split(" ")
            found.append(Ack(int(at), order, int(status), float(took)))
        return found

    def wait_for(self, answers: int, wait_s: float = 60.0) -> None:
        """Wait until that many answers are in the ledger."""
        until = time.monotonic() + wait_s
        while self.ledger.read_bytes().count(b"\n") < answers and self.process.poll() is None:
            assert time.monotonic() < until, f"fewer than {answers} answers in {wait_s} s"
            time.sleep(0.01)

    def stop(self, wait_s: float = 60.0) -> None:
        """No new orders; wait until those on their way are answered."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(wait_s)

    def close(self) -> None:
        """Leave nothing running."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start_load(place: Place, sink: str, **options: Any) -> Load:
    """Start clients against a place: `connections`, `rate`, `count`, `name`, `again`."""
    name = options.get("name", "o")
    ledger = place.folder / f"ledger-{name}.log"
    ledger.touch()
    words = [sys.executable, "-m", __name__, str(place.port), str(place.data), sink, str(ledger)]
    for option, value in options.items():
        words += [f"--{option}", str(value)]
    return Load(ledger, subprocess.Popen(words, env=plain_environment()))


# ---- the process ----------------------------------------------------------------------------


class _Clients:
    def __init__(self, given: argparse.Namespace, ledger: IO[str]) -> None:
        self.given = given
        self.ledger = ledger
        self.number = 0
        self.stopping = False
        self.began = time.monotonic()

    def next_order(self) -> int | None:
        """The number of the next order, or None when there are no more."""
        if self.stopping or (self.given.count and self.number >= self.given.count):
            return None
        self.number += 1
        return self.number

    async def client(self) -> None:
        """One connection, one order at a time."""
        reader = writer = None
        while (number := self.next_order()) is not None:
            due = self._due(number)
            if due > time.monotonic():
                await asyncio.sleep(due - time.monotonic())
            while True:
                try:
                    if writer is None:
                        reader, writer = await asyncio.open_connection("127.0.0.1", self.given.port)
                    assert reader is not None
                    answered = await self._one(reader, writer, number, due)
                except (OSError, asyncio.IncompleteReadError):
                    if writer is not None:
                        writer.close()
                    reader = writer = None
                    answered = False
                if answered or not self.given.again:
                    break
                await asyncio.sleep(0.02)
        if writer is not None:
            writer.close()

    def _due(self, number: int) -> float:
        if not self.given.rate:
            return time.monotonic()
        due: float = self.began + number / self.given.rate
        return due

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, due: float
    ) -> bool:
        """Send one order; True when the answer is final."""
        order = f"{self.given.name}{number}"
        writer.write(self._request(order, number))
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        await reader.readexactly(length)
        took = (time.monotonic() - due) * 1000
        self.ledger.write(f"{time.time_ns()} {order} {status} {took:.3f}\n")
        self.ledger.flush()
        return status < 429

    def _request(self, order: str, number: int) -> bytes:
        # Read again for each order: a node that starts anew writes a new token.
        token = (Path(self.given.data) / "run" / "token").read_text("utf-8").strip()
        cents = number if self.given.effects else 2 * number
        value = {"id": order, "cents": cents, "sink": self.given.sink}
        value |= {"due_ns": None, "timeout_ns": None}
        body = json.dumps({"schema": "kit/Order@1", "value": value}).encode()
        head = (
            "POST /v1/worlds/main/events HTTP/1.1\r\n"
            f"host: 127.0.0.1:{self.given.port}\r\nauthorization: Bearer {token}\r\n"
            f"idempotency-key: {order}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def stop(self) -> None:
        """Begin no new order."""
        self.stopping = True


async def _main(given: argparse.Namespace, ledger: IO[str]) -> None:
    clients = _Clients(given, ledger)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, clients.stop)
    await asyncio.gather(*(clients.client() for _ in range(given.connections)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("data")
    parser.add_argument("sink")
    parser.add_argument("ledger")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--name", default="o")
    parser.add_argument("--again", type=int, default=1)
    parser.add_argument("--effects", type=int, default=1)
    options = parser.parse_args()
    with Path(options.ledger).open("a", encoding="utf-8") as file:
        asyncio.run(_main(options, file))
