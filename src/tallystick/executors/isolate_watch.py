"""Watching a program in its sandbox: its output, its time, and its end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple, Self

from tallystick.executors.base import Failed

_LOOK_S: Final = 0.05
_WEIGH_S: Final = 0.2  # looking at every process of the machine costs, so not too often
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PATIENCE_S: Final = 10.0


class Notes(NamedTuple):
    """What is passed between the node and a sandbox, in files that have no name.

    `spec` says what to do, `word` whether it began; `answer` and `stdin` belong to the program.
    """

    spec: FileIO
    word: FileIO
    answer: FileIO
    stdin: FileIO


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the project and our own data are, and until when the job may run."""

    folder: Path
    timeout_s: float
    stopped: Callable[[], bool]


class Sandbox:
    """A started sandbox: its launcher waits until it is let go, or nobody can do so any more."""

    def __init__(
        self, process: subprocess.Popen[bytes], notes: Notes, go: FileIO, held: ExitStack
    ) -> None:
        self.process = process
        self.notes = notes
        self._go = go
        self._held = held

    def let_go(self) -> None:
        """Let the launcher read what to do; one that died is seen by whoever watches."""
        with suppress(BrokenPipeError):
            self._go.write(b"!")
        self._go.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def discard(self) -> None:
        """Wait for its end: a launcher that still waits to be let go ends by itself."""
        self._held.close()
        with self.process:
            try:
                self.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Allowed(NamedTuple):
    """What a program may leave, and what all of its processes may hold in memory together."""

    bytes_max: int
    memory: int
    walled: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; an end by signal n is the exit code 128 + n.

    An answer over the limit is cut one byte behind it.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool
    answer: bytes
    total_ns: int


class Watch:
    """A running sandbox: its output so far, and the eye on the clock."""

    def __init__(
        self,
        sandbox: Sandbox,
        around: Surroundings,
        allowed: Allowed,
    ) -> None:
        self._process = sandbox.process
        self._notes = sandbox.notes
        self._bytes_max, self._memory, self._walled = allowed
        self._stopped = around.stopped
        self._began = self._weighed = time.monotonic()
        self._until = self._began + around.timeout_s
        self._kept: dict[int, bytearray] = {}
        self._truncated = False
        self._total_ns = 0

    def follow(self) -> Failed | None:
        """Read until the program has ended, or kill it; why it had to be killed."""
        try:
            with self._process:
                try:
                    return self._read()
                finally:
                    self._kill()
        finally:
            self._total_ns = round((time.monotonic() - self._began) * 1e9)

    def ended(self) -> Ended:
        """What the program left, once it has ended."""
        code = self._process.returncode
        stdout, stderr = self._kept.values()
        return Ended(
            exit_code=code if code >= 0 else 128 - code,
            stdout=bytes(stdout),
            stderr=bytes(stderr),
            truncated=self._truncated,
            answer=os.pread(self._notes.answer.fileno(), self._bytes_max + 1, 0),
            total_ns=self._total_ns,
        )

    def _read(self) -> Failed | None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        handles = (self._process.stdout.fileno(), self._process.stderr.fileno())
        self._kept = {handle: bytearray() for handle in handles}
        with selectors.DefaultSelector() as selector:
            for handle in handles:
                selector.register(handle, selectors.EVENT_READ)
            while selector.get_map():
                over = self._over()
                if over is not None:
                    return over
                if not self._take(selector):
                    break
        return self._wait()

    def _over(self) -> Failed | None:
        """Why the program must end now: nobody waits, its time is over, or it holds too much."""
        now = time.monotonic()
        if self._stopped():
            return Failed("cancelled", "sandbox.cancelled", "nobody waits any more")
        if now >= self._until:
            return Failed("timeout", "sandbox.timeout", "the program ran out of time")
        if now - self._weighed < _WEIGH_S:
            return None
        self._weighed = now
        # The limit of the kernel holds for one process; many could share the machine out.
        if memory_of(self._process.pid) <= self._memory:
            return None
        text = f"its processes hold more than {self._memory} bytes together"
        return Failed("limit", "sandbox.memory", text)

    def _take(self, selector: selectors.BaseSelector) -> bool:
        """Take what there is; False when the program is gone and only its orphans hold on."""
        ready = selector.select(_LOOK_S)
        for key, _ in ready:
            part = os.read(key.fd, 65_536)
            kept = self._kept[key.fd]
            room = self._bytes_max - len(kept)
            kept += part[:room]
            self._truncated = self._truncated or len(part) > room
            if not part:
                selector.unregister(key.fd)
        return bool(ready) or self._process.poll() is None

    def _wait(self) -> Failed | None:
        """The outputs are closed; a program may still run without them, until its time is over."""
        while self._process.poll() is None:
            over = self._over()
            if over is not None:
                return over
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_S)
        return None

    def _kill(self) -> None:
        """End all that is behind the walls, and then their builder.

        When the first process of a process space ends, the kernel ends all others before the
        builder hears of it; so once the builder is gone, all are.
        Without walls there is no such space, and only the group of the program is ended.
        """
        if self._walled and self._process.poll() is None:
            for child in _children(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def memory_of(root: int) -> int:
    """The bytes that a process and all below it hold for themselves, as the kernel counts them."""
    below: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        below.setdefault(parent, []).append(child)
    waiting, total = [root], 0
    while waiting:
        pid = waiting.pop()
        waiting += below.get(pid, ())
        with suppress(OSError):
            # Size, resident, shared, ...: what is shared is the program itself, and counts once.
            fields = Path("/proc", str(pid), "statm").read_bytes().split()
            total += (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
    return total


def _children(parent: int) -> list[int]:
    """The processes that this process has started, as the kernel knows them."""
    return [child for child, found in _parents().items() if found == parent]


def _parents() -> dict[int, int]:
    """Every process of the machine with the one that started it."""
    found: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                # The name stands in brackets and may hold anything, so the fields are behind it.
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                found[int(entry.name)] = int(fields[1])
    return found
