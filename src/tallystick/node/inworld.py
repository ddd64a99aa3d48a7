"""Governance that workflows ask for by effects: each becomes an input of governance (06 section 8).

The kernel settles such an intent in the frame that records its outcome; only what it refuses to
record is settled here, as an error of the effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import DiskFull, JournalCorrupt, Rejected, TallyError
from tallystick.executors.base import Failed
from tallystick.kernel.inputs import Vote
from tallystick.node.governing import Asker, Trial, Wish
from tallystick.node.jobs import Published
from tallystick.node.node import Node
from tallystick.node.receipts import Ended
from tallystick.values import canon

PREFIX: Final = "sys/governance."
VERBS: Final = ("propose", "shadow", "prove", "approve", "apply")
_AGAIN_S: Final = 1.0
EFFECTS: Final = tuple(f"{PREFIX}{verb}@1" for verb in VERBS)


class InWorld:
    """The effects of governance that are on their way."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks: dict[tuple[str, bytes], asyncio.Task[None]] = {}

    def take(self, job: Published) -> None:
        """A workflow asks; what is on its way already is left alone."""
        key = (job.world, job.intent)
        if key in self._tasks:
            return
        task = self._tasks[key] = asyncio.create_task(self._run(job))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def works_for(self, world: str) -> bool:
        """True while something of a world is on its way."""
        return any(key[0] == world for key in self._tasks)

    async def close(self) -> None:
        """Give up; what is open is taken up at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, job: Published) -> None:
        params = canon.decode(job.params)
        while not self._node.stopping:
            asker = Asker(f"workflow:{job.workflow}", self._node.clock.sample(), job.intent)
            try:
                try:
                    await self._carry(job, params, asker)
                except Rejected as why:
                    await self._refuse(job, why)
            except (DiskFull, JournalCorrupt):
                await asyncio.sleep(_AGAIN_S)  # nothing can be written just now
                continue
            except TallyError:
                pass  # the node stops or lost the world: the intent stays open in the journal
            return

    async def _carry(self, job: Published, params: Mapping[str, Any], asker: Asker) -> None:
        governing, world = self._node.governing, job.world
        verb = job.effect.removeprefix(PREFIX).removesuffix("@1")
        if verb == "propose":
            wish = Wish(params["patch"], None, params["rebase"], params["description"])
            if params["bundle_ref"] is not None:
                wish = wish._replace(bundle=self._container(world, params["bundle_ref"]))
            await governing.propose(world, wish, asker)
        elif verb == "shadow":
            await governing.shadow(world, params["proposal"], Trial(params["tail"]), asker)
        elif verb == "prove":
            await governing.prove(world, params["proposal"], Trial(params["tail"]), asker)
        elif verb == "approve":
            await governing.vote(world, _vote(params, asker))
        else:
            trial = Trial(on=params["on"]) if params["prove"] else None
            await governing.apply(world, params["proposal"], asker, trial=trial)

    def _container(self, world: str, hash_text: str) -> bytes:
        found = self._node.outside.blob(world, canon.raw_of(hash_text))
        if found is None:
            raise Rejected(
                f"no blob {hash_text} here", code="blob.unknown", where={"blob": hash_text}
            )
        return found

    async def _refuse(self, job: Published, why: Rejected) -> None:
        """Settle what the kernel has not: a refused apply is on record and settled already."""
        still = await self._node.look(
            job.world, lambda world: world.intents.get(job.intent) is not None
        )
        if not still:
            return
        now_ns = self._node.clock.now_ns()
        outcome = Failed("client_error", why.code, why.message)
        await self._node.outside.settle(Ended(job, outcome, now_ns, now_ns, {}))


def _vote(params: Mapping[str, Any], asker: Asker) -> Vote:
    read = params["report_hash"]
    return Vote(
        asker.sample,
        params["proposal"],
        asker.principal,
        "approve",
        None if read is None else canon.raw_of(read),
        params["comment"],
        intent=asker.intent,
    )
