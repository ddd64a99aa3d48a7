"""The life of a worker's process: load its executor, work until a signal, say what was done."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallystick.cli.serve import sayer
from tallystick.cli.work import Worker
from tallystick.cli.work_line import Place
from tallystick.executors.base import Executor, ExecutorPorts
from tallystick.executors.catalogue import make_executor
from tallystick.executors.secrets import Bindings
from tallystick.values.seal import KeyPair


def run(place: Place, spec: str, pair: KeyPair, call: Any) -> dict[str, int]:
    """Work until SIGTERM or SIGINT; answers how many jobs were settled and how many were lost."""
    # A worker is started where its code lies, as a script would be.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    ports = ExecutorPorts(call.data, Bindings(call.data, os.environ), time.time_ns)
    settings: Mapping[str, Any] = call.config.executors.of(spec)
    return asyncio.run(_run(place, make_executor(spec, settings, ports), pair, call))


async def _run(place: Place, executor: Executor, pair: KeyPair, call: Any) -> dict[str, int]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    say = sayer(call)
    worker = Worker(place, executor, pair, lambda text: say("work.told", text))
    try:
        await worker.run(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return {"settled": worker.settled, "lost": worker.lost}
