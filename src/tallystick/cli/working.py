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
from tallystick.executors.base import ExecutorPorts
from tallystick.executors.catalogue import make_executor
from tallystick.executors.secrets import Bindings
from tallystick.values.seal import KeyPair


def run(place: Place, spec: str, pair: KeyPair, call: Any) -> dict[str, int]:
    """Work until SIGTERM or SIGINT; answers how many jobs were settled and how many were lost."""
    # A worker is started where its code lies, as a script would be.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    bindings = Bindings(call.data, os.environ)
    ports = ExecutorPorts(call.data, bindings, time.time_ns)
    settings: Mapping[str, Any] = call.config.executors.of(spec)
    say = sayer(call)
    made = make_executor(spec, settings, ports)
    worker = Worker(place, made, pair, bindings, lambda text: say("work.told", text))
    return asyncio.run(_run(worker))


async def _run(worker: Worker) -> dict[str, int]:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await worker.run(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return {"settled": worker.settled, "lost": worker.lost}
