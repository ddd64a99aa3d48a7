"""The outside as dispatch needs it: receipts go to the engine, jobs come from it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tallystick.errors import SchemaMismatch
from tallystick.executors.base import Failed
from tallystick.executors.secrets import Bindings, SecretRequest
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Progress, Sample, Settle
from tallystick.node.dispatch import CARRIED_MAX
from tallystick.node.driver import Deferred, Ticket
from tallystick.node.jobs import Published
from tallystick.node.node import Node
from tallystick.node.receipts import Ended, receipts_of, settling
from tallystick.values import canon
from tallystick.values.schema.references import references

CREDITS: Final = 64  # progress frames of a node that may be on their way at a time, per job


class Outside:
    """Settles what ended, fetches what is wanted, keeps secrets out of sight."""

    def __init__(self, node: Node, bindings: Bindings) -> None:
        self._node = node
        self._bindings = bindings
        self._reader = node.journal.reader()
        self._credits: dict[tuple[str, bytes], asyncio.Semaphore] = {}

    def close(self) -> None:
        """Let go of the journal."""
        self._reader.close()

    def ended(self, jobs: list[Ended]) -> None:
        """Seal the outcomes of this turn together and hand them to the engine."""
        node = self._node
        receipts = receipts_of(node.key.pair, jobs)
        groups: dict[str, list[Ticket]] = {}
        for each, receipt in zip(jobs, receipts, strict=True):
            ticket = settling(each, receipt, node.clock.sample())
            groups.setdefault(receipt.world, []).append(ticket)
        for world, tickets in groups.items():
            hosted = node.engine.worlds.get(world)
            if hosted is not None:
                node.engine.offer(hosted, tickets, ingress=False)
        # Counted while the kernel's thread wakes: a chain waits for each receipt.
        for each, receipt in zip(jobs, receipts, strict=True):
            self._credits.pop((receipt.world, receipt.intent), None)
            self.count(each, receipt.status)

    def count(self, each: Ended, status: str) -> None:
        """Note that an attempt ended so."""
        seconds = (each.ended_ns - each.started_ns) / 1e9
        self._node.metrics.performed(each.job.effect, status, seconds)

    async def settle(self, ended: Ended, sample: Sample | None = None) -> Answer:
        """Settle one outcome and wait until that is durable."""
        node = self._node
        (receipt,) = receipts_of(node.key.pair, [ended])
        given = Settle(sample or node.clock.sample(), receipt, seal_ok=True)
        return await node.one(receipt.world, given)

    def wanted(self, names: list[Deferred]) -> None:
        """Ask the kernel for jobs by name; what is settled by now does not come."""
        engine = self._node.engine

        def fetch() -> None:
            for name in names:
                hosted = engine.worlds.get(name.world)
                if hosted is not None:
                    hosted.driver.publish(name.intent, wanted=True)
            engine.let_out()
            # Behind the jobs themselves: a slot that none of them took is free for others.
            self._node.loop.call_soon_threadsafe(self._node.dispatch.fetched, names)

        engine.call(fetch)

    async def progress(self, job: Published, seq: int, kind: str, payload: Any) -> None:
        """Note a progress frame; a job waits when too many of its frames are on their way."""
        effect = job.catalogue.effects[job.effect]
        try:
            data = (
                canon.encode(payload)
                if effect.progress is None
                else effect.progress.admit(payload).bytes
            )
        except SchemaMismatch:
            return  # a frame that does not fit is dropped: it settles nothing
        node = self._node
        hosted = node.engine.worlds.get(job.world)
        if hosted is None:
            return
        credit = self._credits.setdefault((job.world, job.intent), asyncio.Semaphore(CREDITS))
        await credit.acquire()
        given = Progress(node.clock.sample(), job.world, job.intent, job.attempt, seq, kind, data)
        ticket = Ticket(given, _Credit(credit))
        node.engine.offer(hosted, [ticket], ingress=False)
        node.feed.progress(job.world, (job, seq, kind, data))

    def settled(self, world: str, intent: bytes) -> None:
        """An intent is over, also without an outcome of its executor: no more is told of it."""
        self._credits.pop((world, intent), None)

    def has_secrets(self, job: Published) -> bool:
        """True when the params of the effect may refer to secrets."""
        return job.catalogue.effects[job.effect].secret

    async def secrets(self, job: Published, params: Any) -> dict[str, str] | Failed:
        """The plain values behind the references in a job's params."""
        found = references(job.catalogue.effects[job.effect].params.node, params)
        if not found:
            return {}
        request = SecretRequest(found, job.catalogue.secrets, job.grant)
        return await asyncio.get_running_loop().run_in_executor(
            self._node.threads, self._bindings.resolve, request
        )

    def blob(self, world: str, digest: bytes) -> bytes | None:
        """A durable blob."""
        return self._reader.blob(world, digest)

    def now_ns(self) -> int:
        """The node's time."""
        return self._node.clock.now_ns()

    def backlog(self, waiting: int) -> None:
        """Tell the engine to carry names only, or to take no new events for a while."""
        outlet, limit = self._node.engine.outlet, self._node.config.dispatch.max_backlog
        outlet.full = waiting >= CARRIED_MAX
        jammed = waiting > limit or (outlet.jammed and waiting > limit * 4 // 5)
        if outlet.jammed and not jammed:
            outlet.jammed = False
            self._node.engine.call(_nothing)  # wake it: the lane is open again
        outlet.jammed = jammed


class _Credit:
    """Gives a credit back when its progress frame has been dealt with."""

    __slots__ = ("_credit",)

    def __init__(self, credit: asyncio.Semaphore) -> None:
        self._credit = credit

    def told(self, ticket: Ticket) -> None:
        del ticket
        self._credit.release()


def _nothing() -> None:
    """A message that only wakes."""
