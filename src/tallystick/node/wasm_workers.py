"""The worker processes of a node: where modules run that nobody of this node vouches for.

A worker is started when one is needed and serves again and again; threads take turns.
One that does not answer, or dies, is killed and another is started.
Starting one counts against no tick: the watchdog looks at what modules do.
A run has no effect but its answer, so what a dead worker was asked is asked once more.
That a worker was lost says nothing about the module, so it is never the outcome of a tick: the
second loss is raised, and the node suspends the cell as it does when the watchdog stops one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Final, Protocol

from tallystick.errors import BadDefinition, LaneMissing
from tallystick.model.abi import Halted
from tallystick.modules.wasm_call import Answered, Blobs, Call, Place, code_at
from tallystick.node import wasm_worker
from tallystick.node.wasm_wire import Waiting, WireError, put, take
from tallystick.node.watchdog import uncounted

IDLE_MAX: Final = 4  # workers that are kept while nobody asks
ANSWER_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05
_PROGRAM: Final = wasm_worker.__name__


class Vouching(Protocol):
    """Who knows which modules somebody of this node answers for."""

    def has(self, artifact: str, /) -> bool:
        """True when the module may run in the node itself."""
        ...


class Worker:
    """One process, and the socket to it; used by one thread at a time."""

    def __init__(self, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._answer_s_max = answer_s_max
        self._greeted = False
        self._sent: dict[str, None] = {}
        self.wire, theirs = socket.socketpair()
        self.wire.settimeout(_LOOK_S)  # a thread that waits must notice when it is stopped
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", _PROGRAM, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                # No secret of the node is in there, and an interrupt of its terminal is not for it.
                env={"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
                cwd="/",
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def ask(self, said: dict[str, Any], body: bytes, code: Any) -> tuple[dict[str, Any], bytes]:
        """One question and its answer; `code` gives the module if the worker has never seen it."""
        waiting = _Patience(self._answer_s_max)
        artifact = said["artifact"]
        if not self._greeted:
            with uncounted():
                self.greet(waiting)
        if artifact not in self._sent:
            put(self.wire, {"do": "code", "artifact": artifact}, code(), waiting)
            self._sent[artifact] = None
        put(self.wire, said, body, waiting)
        return take(self.wire, waiting)

    def greet(self, waiting: Waiting) -> None:
        """Wait until the process is ready."""
        if not self._greeted:
            take(self.wire, waiting)
            self._greeted = True

    def is_there(self) -> bool:
        """True while the process lives."""
        return self.process.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.wire.close()
        self.process.kill()
        self.process.wait()


class _Patience:
    """Waits for so long and no longer; each look lets an exception of the watchdog arrive."""

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s

    def __call__(self) -> None:
        if time.monotonic() > self._until:
            raise WireError("no answer in time")


class Workers:
    """The workers of one node; any thread may ask."""

    def __init__(self, vouched: Vouching, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._vouched = vouched
        self._answer_s_max = answer_s_max
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self.started = 0

    def place(self, artifact: str, blobs: Blobs) -> Place | None:
        """A worker for a module that nobody vouches for; None for the others."""
        return None if self._vouched.has(artifact) else _Elsewhere(self, blobs)

    def warm(self) -> None:
        """Have a worker ready, so that the first tick need not wait for one to start.

        One that does not start is no matter here: the first tick says so.
        """
        worker = self._take()
        try:
            worker.greet(_Patience(self._answer_s_max))
        except WireError:
            worker.close()
        else:
            self._give_back(worker)

    def ask(self, said: dict[str, Any], body: bytes, code: Any) -> tuple[dict[str, Any], bytes]:
        """The answer of some worker; raises `wasm.worker_lost` when two were lost over it."""
        for _ in range(2):
            worker = self._take()
            try:
                answer = worker.ask(said, body, code)
                _check(answer[0])
            except WireError:
                worker.close()
                continue
            except BadDefinition:
                self._give_back(worker)  # it was asked nothing
                raise
            except BaseException:
                worker.close()  # stopped in the middle: the next answer would be to this question
                raise
            self._give_back(worker)
            return answer
        raise LaneMissing(
            f"two workers were lost over {said['artifact']}",
            code="wasm.worker_lost",
            hint="resume the cell to try again; if it happens each time, the module is at fault",
        )

    def close(self) -> None:
        """End every worker that waits; those at work end with their thread."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def _take(self) -> Worker:
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return self._new()
            if worker.is_there():
                return worker
            worker.close()

    def _new(self) -> Worker:
        self.started += 1
        with uncounted():
            return Worker(self._answer_s_max)

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(worker)
                return
        worker.close()


def _check(said: dict[str, Any]) -> None:
    """Refuse an answer of a shape that no worker of ours gives."""
    match said:
        case {"entries": [*names]} if all(type(name) is str for name in names):
            return
        case {"refused": [str(), str()]}:
            return
        case {"halted": [str(), str(), int(), str(), dict() | None]}:
            return
        case {"fuel": int(fuel)} if fuel >= 0:
            return
    raise WireError("an answer that is none")


class _Elsewhere:
    """The modules of one world, run by workers."""

    def __init__(self, workers: Workers, blobs: Blobs) -> None:
        self._workers = workers
        self._blobs = blobs
        self._known: dict[str, frozenset[str]] = {}

    def entries(self, artifact: str) -> frozenset[str]:
        """What a module exports as entrypoints; refuses one that does not keep the ABI."""
        known = self._known.get(artifact)
        if known is None:
            said, _ = self._ask({"do": "entries", "artifact": artifact}, b"")
            known = self._known[artifact] = frozenset(said["entries"])
        return known

    def run(self, call: Call) -> Answered | Halted:
        """One run to its end; whatever the module does wrong is in the answer."""
        asked = {
            "do": "run",
            "artifact": call.artifact,
            "entrypoint": call.entrypoint,
            "fuel": call.fuel,
            "memory_bytes": call.memory_bytes,
        }
        said, data = self._ask(asked, call.data)
        return Halted(*said["halted"]) if "halted" in said else Answered(data, said["fuel"])

    def _ask(self, said: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        found = self._workers.ask(said, body, lambda: code_at(self._blobs, said["artifact"]))
        if "refused" in found[0]:
            code, message = found[0]["refused"]
            raise BadDefinition(message, code=code)
        return found
