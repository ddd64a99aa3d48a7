"""A remote worker: an executor in a process of its own, which pulls jobs over `/v1/work`.

Theory of operation.
A job is leased for a while and the lease is renewed as long as the executor works.
A worker that was stopped for longer than its lease has lost the job: another may have it, so what
it still sends is refused with 409 `work.lease_lost`, and it lets the job go.
The receipt is sealed here, by a key that the world trusts; the values of secrets stay here too.
Bodies are canonical CBOR both ways, so bytes are bytes.
"""

# tidy: a job from its lease to its receipt is one story.
from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tallystick.cli.work_line import WAIT_MS, Held, Line, Place, hashes_in
from tallystick.cli.work_perform import perform, request_of
from tallystick.errors import Forbidden, TallyError, TooLarge, Unavailable
from tallystick.executors.base import Executor, Failed, Job, Ok, Outcome
from tallystick.executors.secrets import Bindings, SecretRequest
from tallystick.kernel.inputs import Receipt
from tallystick.kernel.settle import statement_of
from tallystick.node.attempt import LATE_NS, RAISED, crash_of
from tallystick.node.receipts import error_value, misfit
from tallystick.values import canon
from tallystick.values.seal import KeyPair, progress_statement, usage_of

PAUSE_S: Final = 1.0
LOST: Final = "work.lease_lost"


class Origin(NamedTuple):
    """Who asked: the workflow and the key of the cell."""

    workflow: str
    key: bytes


class Worker:
    """Pulls jobs for one executor until it is told to stop."""

    def __init__(
        self,
        place: Place,
        executor: Executor,
        pair: KeyPair,
        bindings: Bindings,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._place = place
        self._executor = executor
        self._pair = pair
        self._bindings = bindings
        self._say = say
        self._line = Line(place)
        self._running: set[asyncio.Task[None]] = set()
        self.settled = 0
        self.lost = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then give back what is not done."""
        try:
            while not stop.is_set():
                free = self._place.slots - len(self._running)
                if free <= 0:
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                    continue
                asked_s = time.monotonic()
                for job in await self._lease(free, stop):
                    task = asyncio.create_task(self._do(job, asked_s))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._executor.close()
            await self._line.close()

    async def _lease(self, free: int, stop: asyncio.Event) -> list[dict[str, Any]]:
        body = {
            "worker": self._place.name,
            "pools": list(self._place.pools),
            "effects": sorted(self._executor.effects),
            "max": free,
            "wait_ms": WAIT_MS,
            "lease_ms": self._place.lease_ms,
        }
        asking = asyncio.ensure_future(self._line.post("/v1/work/lease", body))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not asking.done():
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return []
        try:
            found = asking.result()
        except TallyError as why:
            if why.exit_code != Unavailable.exit_code:
                raise  # not a matter of waiting: what is asked for, or who asks, is refused
            self._say(f"{why.code}: {why.message}; trying again")
            await asyncio.sleep(PAUSE_S)
            return []
        return [] if found is None else list(found["items"])

    # ---- one job ----------------------------------------------------------------------------

    async def _do(self, leased: dict[str, Any], asked_s: float) -> None:
        path = f"/v1/work/{leased['lease']}"
        if not await self._still_ours(path, asked_s):
            return
        started_ns = time.time_ns()
        held = await self._fetched(leased)
        if held is None:
            return
        job = _job(leased, held)
        doing = asyncio.ensure_future(self._perform(job, path, request_of(leased)))
        renewing = asyncio.ensure_future(self._renew(path, job, doing))
        try:
            outcome = await doing
        except asyncio.CancelledError:
            if renewing.done():
                return  # no longer ours, or no longer wanted
            await self._release(path, job)
            raise
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        await self._settle(path, job, outcome, (started_ns, held))

    async def _still_ours(self, path: str, asked_s: float) -> bool:
        """False when the lease may have run out before we came to read of it, and has.

        A worker that was stopped finds an old answer in its socket; nothing may begin on that.
        """
        if (time.monotonic() - asked_s) * 2000 < self._place.lease_ms:
            return True
        try:
            await self._line.post(f"{path}/extend", {"lease_ms": self._place.lease_ms})
        except TallyError as why:
            self.lost += why.code == LOST
            self._say(f"not begun: {why.code}: {why.message}")
            return False
        return True

    async def _fetched(self, leased: dict[str, Any]) -> Held | None:
        """Every blob that the params name, for executors to read; None, and said, if one cannot."""
        found: dict[str, bytes] = {}
        try:
            for text in hashes_in(params_of(leased)):
                body = await self._line.blob(leased["world"], text)
                if body is not None:
                    found[text] = body
        except TallyError as why:
            self._say(f"not begun: {why.code}: {why.message}")
            return None
        return Held(found)

    async def _perform(self, job: Job, path: str, request: SecretRequest | None) -> Outcome:
        count = 0

        async def tell(kind: str, payload: Any) -> None:
            nonlocal count
            try:
                news = canon.encode(payload)
            except TallyError as why:
                # As a node drops it: it settles nothing, and the work goes on.
                self._say(f"{job!r} news dropped: {why.code}")
                return
            count += 1
            await self._progress(path, job, (count, kind, news))

        return await perform(self._executor, job, tell, (self._bindings, request))

    async def _progress(self, path: str, job: Job, news: tuple[int, str, bytes]) -> None:
        seq, kind, payload = news
        statement = progress_statement(
            world=job.world,
            intent=canon.text_of(job.intent),
            attempt=job.attempt,
            seq=seq,
            kind=kind,
            payload_hash=canon.hash_of(payload),
        )
        body = {"seq": seq, "kind": kind, "payload": payload, "seal": self._pair.sign(statement)}
        try:
            await self._line.post(f"{path}/progress", body)
        except TallyError as why:
            # News settles nothing and may be lost; the work goes on without it.
            self._say(f"{job!r} news lost: {why.code}")

    async def _renew(self, path: str, job: Job, doing: asyncio.Future[Outcome]) -> None:
        """Keep the lease while the work goes on; a lost or unwanted job is stopped."""
        while True:
            await asyncio.sleep(self._place.lease_ms / 3000)
            try:
                found = await self._line.post(f"{path}/extend", {"lease_ms": self._place.lease_ms})
            except TallyError as why:
                if why.code != LOST:
                    continue  # the node is away; the lease may still be ours when it is back
                self.lost += 1
                self._say(f"{job!r} lost: {why.code}")
                doing.cancel()
                return
            if found.get("cancel"):
                try:
                    await self._executor.cancel(job)
                except RAISED as why:  # best effort: the work itself is stopped behind it
                    self._say(f"{job!r} cannot be cancelled: {crash_of(why).message}")
                doing.cancel()
                return

    async def _release(self, path: str, job: Job) -> None:
        """Give the job back, so that another worker need not wait for the lease to run out."""
        try:
            await self._line.post(f"{path}/release", {})
        except TallyError as why:
            self._say(f"{job!r} not given back: {why.code}: {why.message}")

    async def _settle(self, path: str, job: Job, outcome: Outcome, began: tuple[int, Held]) -> None:
        started_ns, held = began
        why = await self._deliver(path, job, self._sealed(job, outcome, started_ns), held.new)
        failed = None if why is None else _undelivered(why)
        if failed is not None:
            # Whoever did the work again would be told the same.
            why = await self._deliver(path, job, self._sealed(job, failed, started_ns), {})
        if why is not None:
            self.lost += why.code == LOST
            self._say(f"{job!r} refused: {why.code}: {why.message}")

    def _sealed(self, job: Job, outcome: Outcome, started_ns: int) -> dict[str, Any]:
        """The body of a receipt."""
        status, payload = payload_of(outcome)
        usage = outcome.usage if isinstance(outcome, Ok) and status == "ok" else None
        receipt = Receipt(
            world=job.world,
            intent=job.intent,
            effect=job.effect,
            status=status,
            payload=payload,
            executor=job.executor,
            attempt=job.attempt,
            started_ns=started_ns,
            ended_ns=time.time_ns(),
            usage=usage,
            seal={},
        )
        body = {
            "executor": receipt.executor,
            "status": status,
            "payload": payload,
            "started_ns": receipt.started_ns,
            "ended_ns": receipt.ended_ns,
            "seal": self._pair.sign(statement_of(receipt)),
        }
        return body if usage is None else {**body, "usage": dict(usage)}

    async def _deliver(
        self, path: str, job: Job, body: dict[str, Any], blobs: Mapping[str, bytes]
    ) -> TallyError | None:
        """Send the receipt, and what it names before it, until somebody has answered.

        The same one again changes nothing; the work is done, and must not be done again.
        """
        while True:
            try:
                for data in blobs.values():
                    await self._line.keep(job.world, data)
                await self._line.post(f"{path}/receipt", body)
            except TallyError as why:
                if why.exit_code != Unavailable.exit_code:
                    return why
                await asyncio.sleep(PAUSE_S)
            else:
                self.settled += 1
                self._say(f"{job!r} {body['status']}")
                return None


def payload_of(outcome: Outcome) -> tuple[str, bytes]:
    """Status and canonical payload; what has no canonical form is the executor's error."""
    if isinstance(outcome, Ok):
        try:
            usage_of(outcome.usage)
            return "ok", canon.encode(outcome.value)
        except TallyError as why:
            outcome = misfit(why)
    try:
        return "error", canon.encode(error_value(outcome))
    except TallyError as why:
        return "error", canon.encode(error_value(misfit(why)))


def _undelivered(why: TallyError) -> Failed | None:
    """The outcome in place of one that the node will never take; None for any other refusal."""
    if why.status == TooLarge.status or why.code == "value.too_large":
        text = f"the node takes no outcome of this size: {why.message}"
        return Failed("limit", "effect.too_large", text)
    if why.status == Forbidden.status:
        return Failed("auth", "effect.undelivered", f"the outcome may not be kept: {why.message}")
    return None


def _job(leased: dict[str, Any], held: Held) -> Job:
    grant, deadline_ns = leased["grant"], leased["deadline_ns"]
    return Job(
        world=leased["world"],
        intent=canon.raw_of(leased["intent"]),
        dispatch_key=bytes.fromhex(leased["dispatch_key"]),
        effect=leased["effect"],
        executor=leased["executor"],
        params=params_of(leased),
        grant=None if grant is None else canon.decode(b64decode(grant)),
        attempt=leased["attempt"],
        deadline_ns=None if deadline_ns is None else deadline_ns + LATE_NS,
        origin=Origin(leased["origin"]["workflow"], b64decode(leased["origin"]["key"])),
        secrets={},
        blobs=held,
    )


def params_of(leased: dict[str, Any]) -> Any:
    """The params of a job as native values."""
    return canon.decode(b64decode(leased["params_cbor"]))
