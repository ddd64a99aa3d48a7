"""`telemetry.emit`: one line of JSON in `logs/telemetry.jsonl`, for whoever collects such files.

Telemetry is news, not truth: the journal has the intent and its receipt.
Lines are appended, without sync; one that finds no room is a failure, and the next one begins
behind what is left of it.
A repeat writes its line again; world and intent are in it, so a reader can tell a repeat from a
second event.
A file that has grown to 64 MiB is moved aside once, so that it never takes more than twice that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok, Outcome, Repeat, Report

FILE_BYTES_MAX: Final = 64 * 2**20


class TelemetryExecutor:
    """Performs `sys/telemetry.emit@1`."""

    name = "telemetry"
    effects = frozenset(("sys/telemetry.emit@1",))
    repeat: Repeat = "again"

    def __init__(self, settings: Mapping[str, Any], ports: ExecutorPorts) -> None:
        self.slots = int(settings.get("slots", 1_000))
        self._path = ports.folder / "logs" / "telemetry.jsonl"
        self._now_ns = ports.now_ns
        self._handle: int | None = None
        self._torn = False  # the last line has no end

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Append the line; a disk that refuses it is a failure that may be tried again."""
        del report
        try:
            self._append(self._line(job))
        except OSError as why:
            message = f"{self._path}: {why.strerror}"
            return Failed("server_error", "telemetry.unwritable", message, retryable=True)
        return Ok({})

    async def cancel(self, job: Job) -> None:
        """Nothing to tell: it is over at once."""

    async def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _line(self, job: Job) -> bytes:
        told = {
            "ts_ns": self._now_ns(),
            "world": job.world,
            "workflow": job.origin.workflow,
            "intent": job.intent.hex(),
            "attempt": job.attempt,
            "name": job.params["name"],
            "value": job.params.get("value"),
            "attrs": job.params["attrs"],
        }
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _append(self, line: bytes) -> None:
        if self._handle is not None and os.fstat(self._handle).st_size >= FILE_BYTES_MAX:
            os.close(self._handle)
            self._handle, self._torn = None, False
            self._path.replace(self._path.with_suffix(".1.jsonl"))
        if self._handle is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o600)
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
            self._torn = len(rest) > 0


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> TelemetryExecutor:
    """The executor `telemetry` as settings describe it."""
    return TelemetryExecutor(settings, ports)
