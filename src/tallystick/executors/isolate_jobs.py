"""The jobs that run in sandboxes: one thread each, and one end for all of them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from tallystick.executors.base import ExecutorPorts, Failed, Job
from tallystick.executors.isolate import Bounds, Program, run_in, unavailable
from tallystick.executors.isolate_spares import IDLE_S, Spares
from tallystick.executors.isolate_watch import Ended, Surroundings


class SandboxJobs:
    """Runs the programs of jobs on threads; a cancelled job's sandbox is killed."""

    def __init__(self, name: str, bounds: Bounds, ports: ExecutorPorts) -> None:
        self._bounds = bounds
        self._ports = ports
        self._threads = ThreadPoolExecutor(bounds.slots, f"tally-{name}")
        self._running: dict[tuple[bytes, int], threading.Event] = {}
        self._spares = Spares(bounds)
        self._idle: asyncio.TimerHandle | None = None

    async def run(self, job: Job, program: Program) -> Ended | Failed:
        """Run the program of a job within its time: deadline, settings and grant."""
        stop = self._running.setdefault(job.mark, threading.Event())
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._run, job, program, stop)
        finally:
            stop.set()  # also when the task that waits here is cancelled
            self._running.pop(job.mark, None)
            self._rest(loop)

    def cancel(self, job: Job) -> None:
        """Kill the sandbox of a job, if it has one."""
        stop = self._running.get(job.mark)
        if stop is not None:
            stop.set()

    async def close(self) -> None:
        """Kill every sandbox and wait for the threads."""
        for stop in self._running.values():
            stop.set()
        if self._idle is not None:
            self._idle.cancel()
        await asyncio.to_thread(self._end)

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the spares end when no job has ended for a while."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(IDLE_S, self._threads.submit, self._spares.drop)

    def _end(self) -> None:
        self._spares.close()
        self._threads.shutdown()

    def _run(self, job: Job, program: Program, stop: threading.Event) -> Ended | Failed:
        timeout_s = self._bounds.timeout_s
        granted = (job.grant or {}).get("max_seconds")
        if granted is not None:
            timeout_s = min(timeout_s, granted)
        if job.deadline_ns is not None:
            timeout_s = min(timeout_s, (job.deadline_ns - self._ports.now_ns()) / 1e9)
        around = Surroundings(self._ports.folder.absolute(), timeout_s, stop.is_set)
        refused = unavailable(self._bounds)
        if refused is not None:
            return refused
        sandbox = self._spares.take(program, around)
        return run_in(
            sandbox, program, self._bounds, around, lambda: self._spares.stock(program, around)
        )
