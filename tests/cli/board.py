"""A board of jobs for a worker of this process: a stand-in node that gives and takes what is said.

The worker is the real one, on a real connection; only what a node would answer is chosen.
"""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tallystick.cli.work import Worker
from tallystick.cli.work_line import CBOR, Place
from tallystick.executors.base import Job, Outcome, Repeat, Report
from tallystick.executors.secrets import Bindings
from tallystick.values import canon
from tallystick.values.seal import KeyPair
from tests.cli.stand_in import Asked, Said, saying, stand_in

WORLD = "w-1"
Act = Callable[[Job, Report], Awaitable[Outcome]]


class Hands:
    """An executor that does what a test gives it, and notes what was stopped."""

    name = "payments"
    effects = frozenset({"shop/Charge@1"})
    repeat: Repeat = "keyed"
    slots = 4

    def __init__(self, act: Act) -> None:
        self._act = act
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.closed = False

    async def perform(self, job: Job, report: Report) -> Outcome:
        self.begun.append(job.origin.workflow)
        return await self._act(job, report)

    async def cancel(self, job: Job) -> None:
        self.cancelled.append(job.origin.workflow)

    async def close(self) -> None:
        self.closed = True


class Board:
    """What the node has to give, how it answers, and all that was brought to it."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = list(jobs)
        self.blobs: dict[str, bytes] = {}
        self.answers: dict[str, list[Said]] = {}
        self.brought: list[tuple[str, Any]] = []
        self._empty = threading.Event()

    def script(self, verb: str, *answers: Said) -> None:
        """How the next requests of a verb are answered, before it is answered as usual."""
        self.answers[verb] = list(answers)

    def told(self, verb: str) -> list[Any]:
        """The bodies of a verb, in order."""
        return [body for word, body in list(self.brought) if word == verb]

    def speak(self, asked: Asked) -> Said:
        verb = asked.path.rpartition("/")[2]
        if asked.method == "GET":
            found = self.blobs.get(verb)
            return Said(404) if found is None else Said(200, found, "application/octet-stream")
        self.brought.append((verb, asked.body if verb == "blobs" else canon.decode(asked.body)))
        scripted = self.answers.get(verb)
        if scripted:
            return scripted.pop(0)
        return self._lease() if verb == "lease" else saying({})

    def _lease(self) -> Said:
        if not self.jobs:
            self._empty.wait(0.02)  # as a node does, which waits for work before it says no
            return Said(204)
        return Said(200, canon.encode({"items": [self.jobs.pop(0)]}), CBOR)


def job(name: str = "one", params: Any = None, **more: Any) -> dict[str, Any]:
    """A job as a lease gives it."""
    return {
        "lease": f"lease-{name}",
        "world": WORLD,
        "intent": canon.hash(name),
        "dispatch_key": "00" * 32,
        "effect": "shop/Charge@1",
        "executor": "payments",
        "params_cbor": b64encode(canon.encode(params or {})).decode(),
        "grant": b64encode(canon.encode({"max": 3})).decode(),
        "attempt": 1,
        "deadline_ns": None,
        "origin": {"workflow": name, "key": b64encode(canon.encode("k")).decode()},
        **more,
    }


class Shift:
    """One worker at one board: what it said, and how it ended."""

    def __init__(self, board: Board, act: Act, folder: Path, **environ: str) -> None:
        self.board = board
        self.hands = Hands(act)
        self.said: list[str] = []
        self.settled = 0
        self._bindings = Bindings(folder, environ)

    def until(
        self, look: Callable[[Shift], Any], *, lease_ms: int = 60_000, slots: int = 4
    ) -> Worker:
        """Work until a look finds something, then stop as a signal would."""

        async def main(url: str) -> Worker:
            place = Place(url, "token", "ann", ("cards",), slots, lease_ms)
            pair = KeyPair(bytes(32))
            worker = Worker(place, self.hands, pair, self._bindings, self.said.append)
            stop = asyncio.Event()
            working = asyncio.ensure_future(worker.run(stop))
            while not look(self) and not working.done():
                await asyncio.sleep(0.01)
                self.settled = worker.settled
            stop.set()
            await working
            return worker

        with stand_in(self.board.speak) as url:
            return asyncio.run(asyncio.wait_for(main(url), 120))
