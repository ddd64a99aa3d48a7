"""The sink: an HTTP server in a process of its own that writes down each call it gets.

A line of its log is `time_ns idempotency_key body`.
With a delay it answers late, with a stall it never does: then an executor hangs.
It outlives every kill of a node, so what reached the outside is counted outside.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple


class Call(NamedTuple):
    """One call that reached the outside."""

    at_ns: int
    key: str
    body: str

    @property
    def order(self) -> str:
        """Which order was charged."""
        return self.body.removeprefix("charge:").removesuffix(".")


@dataclass(slots=True)
class Sink:
    """A running sink, seen from a test."""

    url: str
    log: Path
    process: subprocess.Popen[str]

    def calls(self) -> list[Call]:
        """Every call so far, in order."""
        found = []
        for line in self.log.read_text("utf-8").splitlines():
            at, key, body = line.split(" ", 2)
            found.append(Call(int(at), key, body))
        return found

    def close(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_sink(folder: Path, *, delay_ms: int = 0, stall: bool = False) -> Sink:
    """Start a sink on a free port of loopback."""
    log = folder / "sink.log"
    log.touch()
    command = [sys.executable, "-m", __name__, str(log), "--delay-ms", str(delay_ms)]
    if stall:
        command.append("--stall")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    return Sink(f"http://127.0.0.1:{port}/charge", log, process)


# ---- the process ----------------------------------------------------------------------------


class _Server:
    def __init__(self, log: IO[str], delay_s: float, *, stall: bool) -> None:
        self.log = log
        self.delay_s = delay_s
        self.stall = stall

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer calls of one connection until it closes."""
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a node that is killed breaks its connections
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = {}
        for line in head.decode("latin-1").split("\r\n")[1:]:
            name, found, value = line.partition(":")
            if found:
                fields[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        key = fields.get("idempotency-key", "-")
        self.log.write(f"{time.time_ns()} {key} {body.decode('utf-8')}\n")
        self.log.flush()
        if self.stall:
            await asyncio.sleep(3600)
        await asyncio.sleep(self.delay_s)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        return fields.get("connection", "").lower() != "close"


async def _main(log: IO[str], delay_s: float, *, stall: bool) -> None:
    made = _Server(log, delay_s, stall=stall)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--stall", action="store_true")
    given = parser.parse_args()
    with Path(given.log).open("a", encoding="utf-8") as file:
        asyncio.run(_main(file, given.delay_ms / 1000, stall=given.stall))
