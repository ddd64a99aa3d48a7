"""Asks: questions to people, open until somebody answers or their time is over (04 section 6).

An ask has no executor and no attempts: it waits here, and its answer is a receipt sealed by the
node that says who gave it.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import Any, Final, NamedTuple

from tallystick.errors import Conflict, Forbidden, Rejected, TallyError
from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Sample
from tallystick.kernel.world import World
from tallystick.node.jobs import Published, job_of
from tallystick.node.node import Node
from tallystick.node.receipts import Ended
from tallystick.values import canon
from tallystick.values.schema import compile_schema

EFFECT: Final = "sys/human.ask@1"
NAME: Final = "human"  # by which settings enable it
AGAIN_NS: Final = 200_000_000  # between two tries to end an ask
EXPIRED: Final = Failed("timeout", "ask.expired", "nobody answered in time")


class Reply(NamedTuple):
    """What somebody answered."""

    by: str
    choice: str | None = None
    answer: Any = None
    comment: str | None = None


class Asks:
    """The open asks of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.open: dict[tuple[str, bytes], Published] = {}
        self._expiry: list[tuple[int, str, bytes]] = []
        self._bell = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Watch no more; the asks stay open in the journal."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def take(self, job: Published) -> None:
        """An ask is open."""
        self.open[job.world, job.intent] = job
        params = canon.decode(job.params)
        expires_ns = params["expires_at_ns"] if _unanswerable(params) is None else 0
        if expires_ns is not None:
            heapq.heappush(self._expiry, (expires_ns, job.world, job.intent))
            self._bell.set()

    def settled(self, world: str, intent: bytes) -> None:
        """An ask is over."""
        self.open.pop((world, intent), None)

    def lost(self, world: str) -> None:
        """A world is gone from here, and nobody is to be asked for it."""
        for key in [key for key in self.open if key[0] == world]:
            del self.open[key]

    async def answer(
        self, world: str, intent: bytes, reply: Reply, sample: Sample | None = None
    ) -> int:
        """Settle an ask; refuses who was not asked and what was not offered."""
        job = self.open.get((world, intent)) or await self._waiting(world, intent)
        if job is None:
            raise Conflict(
                "this is not an open ask", code="ask.not_open", hint="see `tally effect why`"
            )
        params = canon.decode(job.params)
        if params["to"] is not None and reply.by not in params["to"]:
            raise Forbidden(
                f"{reply.by} was not asked",
                code="ask.not_yours",
                where={"to": params["to"]},
                hint="let one of those answer who were asked",
            )
        _check(params, reply)
        outcome = self._outcome(reply)
        # Refused while somebody can do better: a receipt that does not fit would end the ask.
        job.catalogue.effects[job.effect].receipt.admit(outcome.value)
        answer = await self._settle(job, outcome, sample)
        return answer.seq

    async def _waiting(self, world: str, intent: bytes) -> Published | None:
        """An ask that nobody took up yet: the node has just started, or performs no effects.

        It is in the journal and in every list, so whoever sees it may answer it.
        """
        blobs = self._node.hosted(world, look=True).driver.blobs
        settings = self._node.config.executors

        def look(held: World) -> Published | None:
            found = held.intents.get(intent)
            if found is None or found.hold is not None or found.record.effect != EFFECT:
                return None
            if NAME not in settings.enabled:
                return None  # nobody is asked here
            if EFFECT in settings.routes or found.record.executor in settings.routes:
                return None  # others answer it
            return job_of(held, blobs, intent, found)

        job = await self._node.look(world, look)
        expires_ns = None if job is None else canon.decode(job.params)["expires_at_ns"]
        if expires_ns is not None and expires_ns <= self._node.clock.now_ns():
            return None  # too late: the node that takes it up lets it expire
        return job

    def _outcome(self, reply: Reply) -> Ok:
        return Ok({**reply._asdict(), "at_ns": self._node.clock.now_ns()})

    async def _settle(
        self, job: Published, outcome: Outcome, sample: Sample | None = None
    ) -> Answer:
        now_ns = self._node.clock.now_ns()
        ended = Ended(job, outcome, now_ns, now_ns, {})
        answer = await self._node.outside.settle(ended, sample)
        if answer.kind != "settled":
            raise Conflict("the ask was over by then", code="ask.not_open")
        return answer

    async def _run(self) -> None:
        """Let asks expire: with their default, or as a timeout."""
        while True:
            wait_s = None
            if self._expiry:
                wait_s = max(0.0, (self._expiry[0][0] - self._node.clock.now_ns()) / 1e9)
            self._bell.clear()
            try:
                await asyncio.wait_for(self._bell.wait(), wait_s)
            except TimeoutError:
                await self._expire()

    async def _expire(self) -> None:
        while self._expiry and self._expiry[0][0] <= self._node.clock.now_ns():
            _, world, intent = heapq.heappop(self._expiry)
            job = self.open.get((world, intent))
            if job is None:
                continue
            params = canon.decode(job.params)
            default = params["default"]
            outcome: Outcome = _unanswerable(params) or EXPIRED
            if outcome is EXPIRED and default is not None:
                outcome = self._outcome(Reply("default", default["choice"], default["answer"]))
            try:
                await self._settle(job, outcome)
            except TallyError:
                # Somebody was faster, or nothing can be written just now: then it ends later.
                later_ns = self._node.clock.now_ns() + AGAIN_NS
                heapq.heappush(self._expiry, (later_ns, world, intent))


def _check(params: Any, reply: Reply) -> None:
    choices = params["choices"]
    if choices is not None and reply.choice not in choices:
        raise Rejected(
            f"{reply.choice!r} was not offered",
            code="ask.bad_choice",
            where={"path": "/choice", "choices": choices},
            hint="choose one of those",
        )
    if params["form"] is not None:
        # Raises SchemaMismatch with the paths that do not fit.
        compile_schema("ask/Form@1", params["form"], _unknown).admit(reply.answer, "sugar")


def _unanswerable(params: Any) -> Failed | None:
    """Why nobody could ever answer: an error of who asked, who is told instead of waiting."""
    why = "it is put to nobody" if params["to"] == [] else None
    if params["form"] is not None:
        try:
            compile_schema("ask/Form@1", params["form"], _unknown)
        except TallyError as wrong:
            why = f"its form is no schema: {wrong.message}"
    return None if why is None else Failed("client_error", "ask.unanswerable", why)


def _unknown(name: str) -> Any:
    raise KeyError(name)
