"""Work for remote workers: leases with an end, and receipts that only a lease holder can bring.

Theory of operation.
An effect that is routed to a pool waits here until a worker leases it.
A lease is a row in the journal before the worker sees the job, so it survives a restart.
A lease that ends without a receipt is lost: the next attempt is journaled, then the job waits
again; the old worker's receipt names an old attempt and settles nothing (N-23).
"""

# tidy: the life of a lease is one story.
from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tallystick.errors import Conflict, NotOwner, Rejected, TallyError
from tallystick.journal.base import WorkRow
from tallystick.kernel.draft import Answer
from tallystick.kernel.inputs import Operate, Progress, Receipt, Sample, Settle
from tallystick.kernel.settle import statement_of
from tallystick.node.jobs import Published
from tallystick.node.leases import Lease, Leases, Waits, Wish
from tallystick.node.node import Node
from tallystick.values import canon, seal
from tallystick.values.schema.references import references

DONE_MAX: Final = 10_000
_BEAT_S: Final = 0.2


class Brought(NamedTuple):
    """A receipt as a worker brings it; intent and attempt are its lease's."""

    executor: str
    status: str
    payload: bytes
    started_ns: int
    ended_ns: int
    usage: Mapping[str, int] | None
    seal: Mapping[str, Any]


class Done(NamedTuple):
    """A lease that brought its receipt: the same receipt again gets the same answer.

    Many are remembered, so what may be large of them is a digest, or left out.
    """

    lease: Lease
    brought: Brought
    answer: Answer


class Work:
    """Jobs that wait for workers, and leases."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._leases = Leases()
        self._done: OrderedDict[str, Done] = OrderedDict()
        self._bell = asyncio.Event()
        self.asking = 0  # workers that wait for a job now
        self._task = asyncio.create_task(self._run())

    async def open(self, world: str) -> None:
        """Remember the leases of a world that were granted before a restart."""
        self._leases.remember(world, await self._node.read(lambda reader: reader.work(world)))

    async def close(self) -> None:
        """Watch no more; leases stay in the journal."""
        self._task.cancel()
        await asyncio.wait([self._task])

    # ---- what comes from dispatch -----------------------------------------------------------

    def taker(self, pool: str) -> Callable[[Published], None]:
        """How dispatch hands jobs to a pool."""
        return lambda job: self._take(pool, job)

    def _take(self, pool: str, job: Published) -> None:
        if self._leases.take(pool, job):
            self._bell.set()

    def settled(self, world: str, intent: bytes) -> None:
        """An intent is over, by whomever."""
        lease = self._leases.settled((world, intent))
        if lease is not None:
            self._node.loop.create_task(self._forget(lease))

    def rest(self, world: str) -> None:
        """Hand out nothing more of a world that stands still; who has a job may bring it."""
        self._leases.rest(world)

    def lost(self, world: str) -> None:
        """A world is gone from here: its jobs are nobody's, and nobody has one of them."""
        self._leases.forget(world)

    def running(self, world: str) -> dict[bytes, int]:
        """The attempt of each intent of a world that a worker has."""
        jobs = [lease.job for lease in self._leases.held.values()]
        return {job.intent: job.attempt for job in jobs if job.world == world}

    def pools(self, world: str) -> dict[bytes, str]:
        """The pool of each intent of a world that waits for a worker."""
        waiting = self._leases.waiting.items()
        return {intent: pool for (its, intent), (pool, _) in waiting if its == world}

    # ---- what workers ask -------------------------------------------------------------------

    async def lease(
        self, wish: Wish, allowed: Callable[[str], bool], gone: asyncio.Future[None] | None = None
    ) -> list[dict[str, Any]]:
        """Jobs that fit, each leased; waits up to `wait_ms` for the first.

        `gone` is done once the worker has left: what it did not get to see is free again.
        """
        until = self._node.loop.time() + wish.wait_ms / 1000
        while gone is None or not gone.done():
            found = self._leases.fitting(wish, allowed)
            left_s = until - self._node.loop.time()
            if found or left_s <= 0:
                leases = await self._grant(wish, found)
                if gone is None or not gone.done():
                    return [_shown(lease) for lease in leases if lease.id in self._leases.held]
                await self._take_back(leases)
                break
            self._bell.clear()
            await self._wait(left_s, gone)
        return []

    async def _wait(self, seconds: float, gone: asyncio.Future[None] | None) -> None:
        """Until a job comes, the worker leaves, or the time is over."""
        ring = asyncio.ensure_future(self._bell.wait())
        whom: set[asyncio.Future[Any]] = {ring} if gone is None else {ring, gone}
        self.asking += 1
        try:
            await asyncio.wait(whom, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.asking -= 1
            ring.cancel()

    async def _take_back(self, leases: list[Lease]) -> None:
        """Free jobs that nobody has seen: no attempt was made, so none is journaled."""
        for lease in [each for each in leases if each.id in self._leases.held]:
            self._leases.put_back(lease)
            await self._forget(lease)
        self._bell.set()

    async def _grant(self, wish: Wish, found: list[Waits]) -> list[Lease]:
        clock = self._node.clock
        until_ns = clock.now_ns() + self._length_ns(wish.lease_ms)
        leases = [
            self._leases.grant(waits, clock.sample().entropy[:16].hex(), wish.worker, until_ns)
            for waits in found
        ]
        try:
            # Durable before the worker sees it: after a restart the lease still counts.
            await self._keep(leases)
        except BaseException:
            for lease in [each for each in leases if each.id in self._leases.held]:
                self._leases.put_back(lease)
            self._bell.set()
            raise
        return leases

    def _length_ns(self, lease_ms: int | None) -> int:
        settings = self._node.config.work
        wanted_s = settings.lease_s if lease_ms is None else lease_ms / 1000
        return int(min(wanted_s, settings.max_lease_s) * 1_000_000_000)

    def find(self, name: str) -> Lease:
        """A lease by name; refuses one that was lost."""
        lease = self._leases.held.get(name)
        if lease is None:
            done = self._done.get(name)
            if done is not None:
                return done.lease
            raise _lost(name)
        return lease

    async def extend(self, lease: Lease, lease_ms: int | None) -> dict[str, Any]:
        """Keep a job longer; `cancel` says that nobody wants its result any more."""
        if lease.id not in self._leases.held:
            return {"lease_until_ns": lease.until_ns, "cancel": True}
        lease.until_ns = self._node.clock.now_ns() + self._length_ns(lease_ms)
        await self._keep([lease])
        return {"lease_until_ns": lease.until_ns, "cancel": lease.id not in self._leases.held}

    async def progress(self, lease: Lease, given: Progress) -> Answer:
        """Note a progress frame of a leased job; refuses one that does not fit its effect."""
        if lease.id not in self._leases.held:
            raise _lost(lease.id)
        job = lease.job
        schema = job.catalogue.effects[job.effect].progress
        if schema is not None:
            schema.read(given.payload)  # refuses what a cell could not read
        made = given._replace(world=job.world, intent=job.intent, attempt=job.attempt)
        return await self._node.one(job.world, made)

    async def receipt(self, lease: Lease, brought: Brought) -> Answer:
        """Settle a leased job; the same receipt again gets the same answer."""
        done = self._done.get(lease.id)
        if done is not None:
            if done.brought == _small(brought):
                return done.answer._replace(kind="seen")
            raise _lost(lease.id)
        answer = await self.deliver(_receipt(lease.job, brought))
        if answer.kind == "settled":
            job = lease.job._replace(params=b"", granted=None)
            self._done[lease.id] = Done(replace(lease, job=job), _small(brought), answer)
            while len(self._done) > DONE_MAX:
                self._done.popitem(last=False)
        return answer

    async def deliver(self, receipt: Receipt, sample: Sample | None = None) -> Answer:
        """Settle by a receipt from outside; its seal is checked here, off the kernel's thread."""
        node = self._node
        key_id = str(receipt.seal.get("key"))
        trust = await node.look(receipt.world, lambda live: live.keys.get(key_id))
        good = None
        if trust is not None:
            statement = statement_of(receipt)
            good = await node.loop.run_in_executor(
                node.threads, seal.verify, trust.public_key, statement, dict(receipt.seal)
            )
        return await node.one(receipt.world, Settle(sample or node.clock.sample(), receipt, good))

    async def release(self, lease: Lease) -> None:
        """Give a job back: somebody else makes the next attempt."""
        if lease.id not in self._leases.held:
            raise _lost(lease.id)
        await self._again(lease, "released")

    # ---- the end of a lease -----------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            now_ns = self._node.clock.now_ns()
            for lease in self._leases.over(now_ns):
                await self._again(lease, "lease_lost")

    async def _again(self, lease: Lease, reason: str) -> None:
        """Journal the next attempt; it comes back through dispatch when that is durable."""
        job = lease.job
        self._leases.drop(lease.place)
        given = Operate(self._node.clock.sample(), "attempt", "node", reason, intent=job.intent)
        try:
            await self._node.one(job.world, given)
        except (Rejected, NotOwner):
            await self._forget(lease)
            return  # settled meanwhile, or the world is gone
        except TallyError:
            # Nothing can be written just now: it is lost, or given back, as soon as that can be.
            lease.until_ns = 0
            self._leases.hold(lease)
            return
        await self._forget(lease)  # by then somebody may have the next attempt
        text = f"{lease.worker} let {job.effect} go: {reason}"
        self._node.log.say("info", "work.lease_ended", text, world=job.world)

    async def _keep(self, leases: list[Lease]) -> None:
        rows: dict[str, list[WorkRow]] = {}
        for lease in leases:
            rows.setdefault(lease.world, []).append(lease.row("leased"))
        for world, held in rows.items():
            await self._put(world, held)

    async def _put(self, world: str, rows: list[WorkRow]) -> None:
        await self._node.write(lambda journal: journal.put_work(world, *rows))

    async def _forget(self, lease: Lease) -> None:
        try:
            await self._put(lease.world, [lease.row("settled")])
        except TallyError:
            return  # the row only names a lease; the intent is settled without it


def _small(brought: Brought) -> Brought:
    return brought._replace(payload=canon.digest_of(brought.payload))


def _receipt(job: Published, brought: Brought) -> Receipt:
    return Receipt(
        world=job.world,
        intent=job.intent,
        effect=job.effect,
        status=brought.status,
        payload=brought.payload,
        executor=brought.executor,
        attempt=job.attempt,
        started_ns=brought.started_ns,
        ended_ns=brought.ended_ns,
        usage=brought.usage,
        seal=brought.seal,
    )


def _shown(lease: Lease) -> dict[str, Any]:
    """A job as a worker reads it."""
    job = lease.job
    return {
        "lease": lease.id,
        "world": job.world,
        "intent": canon.text_of(job.intent),
        "dispatch_key": job.dispatch_key.hex(),
        "effect": job.effect,
        "executor": job.executor,
        "params": job.catalogue.effects[job.effect].params.render(canon.decode(job.params)),
        "params_cbor": b64encode(job.params).decode(),
        "origin": {"workflow": job.workflow, "key": b64encode(job.key).decode()},
        "grant": None if job.granted is None else b64encode(canon.encode(job.granted)).decode(),
        "secrets": _secrets(job),
        "attempt": job.attempt,
        "deadline_ns": job.deadline_ns,
        "lease_until_ns": lease.until_ns,
    }


def _secrets(job: Published) -> dict[str, Any] | None:
    """Which secrets the params refer to and how they are bound; values are the worker's own."""
    params = job.catalogue.effects[job.effect].params
    found = references(params.node, canon.decode(job.params))
    if not found:
        return None
    known = job.catalogue.secrets
    return {
        "references": [[each.path, each.name] for each in found],
        "definitions": {each.name: known[each.name] for each in found if each.name in known},
        "grant": job.grant,
    }


def _lost(name: str) -> Conflict:
    return Conflict(
        "the lease is over",
        code="work.lease_lost",
        where={"lease": name},
        hint="drop the job: another attempt has it, or it is settled",
    )


def pool_of(route: str) -> str:
    """The pool that a route names: `pool:gpu`."""
    if not route.startswith("pool:") or len(route) == len("pool:"):
        raise Rejected(
            f"{route!r} is no route",
            code="config.route",
            where={"route": route},
            hint="a route is pool:NAME or the name of an executor",
        )
    return route.removeprefix("pool:")
