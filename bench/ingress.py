"""W7: events over HTTP to a real `tally serve`, 64 connections, each answer durable.

The client is another process (`bench/poster.py`); the server's processor time is read from outside.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from bench.hosted import APP, WORLD
from bench.options import Options, cpu_s, latency, rss_mb

import tallystick

CONNECTIONS: Final = 64
BATCH: Final = 100


async def w7(given: Options) -> dict[str, Any]:
    """Single events, then batches of them."""
    return await asyncio.to_thread(_measure, given)


def _measure(given: Options) -> dict[str, Any]:
    with serving(given.folder, given.limit_s) as (process, address):
        _post(address, min(given.n, 500), 1)
        single = _timed(process, address, given.n, 1)
        batched = _timed(process, address, given.n * 5, BATCH)
        memory = rss_mb(process.pid)
    return {
        **{name: single[name] for name in ("secs", "events_per_s", "us_cpu")},
        **single["latency"],
        "conns": CONNECTIONS,
        "batched": {"batch": BATCH, **{k: v for k, v in batched.items() if k != "latency"}},
        "batched_per_s": batched["events_per_s"],
        "rss_mb": round(memory, 1),
    }


@contextmanager
def serving(
    folder: Path, limit_s: float
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A node as a user starts it, and how to reach it."""
    data = folder / ".tally"
    command = [sys.executable, "-m", "tallystick", "serve", "--bundle", str(APP), "--quiet"]
    command += ["--data", str(data), "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tallystick.__file__).parents[1])}
    process = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        yield process, _address(process, data, limit_s)
        process.send_signal(signal.SIGTERM)
        process.wait(limit_s)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], data: Path, limit_s: float) -> dict[str, Any]:
    note, until = data / "run" / "node.json", time.monotonic() + limit_s
    while not note.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("w7: the node did not begin to answer")
        time.sleep(0.02)
    url = urlsplit(json.loads(note.read_text(encoding="utf-8"))["url"])
    token = (data / "run" / "token").read_text(encoding="utf-8").strip()
    path = f"/v1/worlds/{WORLD}/events"
    return {"host": url.hostname, "port": url.port, "token": token, "path": path}


def _post(address: dict[str, Any], count: int, batch: int) -> dict[str, Any]:
    asked = {**address, "n": count, "batch": batch, "conns": CONNECTIONS}
    command = [sys.executable, str(Path(__file__).with_name("poster.py"))]
    done = subprocess.run(
        command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _timed(
    process: subprocess.Popen[bytes], address: dict[str, Any], count: int, batch: int
) -> dict[str, Any]:
    cpu = cpu_s(process.pid)
    done = _post(address, count, batch)
    cpu = cpu_s(process.pid) - cpu
    return {
        "secs": round(done["secs"], 3),
        "events_per_s": round(count / done["secs"], 1),
        "us_cpu": round(cpu / count * 1e6, 1),
        "latency": latency(done["took"]),
    }
