"""One attempt of a remote worker: the executor with its secrets, and nothing of them in the answer.

A job names its secrets and how they are bound; the values are this machine's own and never travel.
What comes back is scrubbed here, before it is sealed, as a node does it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tallystick.executors.base import Executor, Failed, Job, Outcome, Report
from tallystick.executors.scrub import ScrubbedBlobs, Scrubber, StreamScrubber
from tallystick.executors.secrets import Bindings, SecretRequest
from tallystick.node.attempt import RAISED, crash_of, outcome_of
from tallystick.values.schema.references import Reference


def request_of(leased: dict[str, Any]) -> SecretRequest | None:
    """What a job asks for, or None when it asks for nothing."""
    asked = leased.get("secrets")
    if not asked:
        return None
    found = tuple(Reference(path, name) for path, name in asked["references"])
    return SecretRequest(found, asked["definitions"], asked["grant"])


async def perform(
    executor: Executor, job: Job, tell: Report, wanted: tuple[Bindings, SecretRequest | None]
) -> Outcome:
    """The outcome of a job; whatever an executor raises is one, too."""
    bindings, request = wanted
    if request is None:
        return await _attempt(executor, job, tell)
    try:
        values = await asyncio.to_thread(bindings.resolve, request)
    except RAISED as why:
        return crash_of(why)
    if isinstance(values, Failed):
        return values
    scrubber = Scrubber.of(replace(job, secrets=values))
    stream = StreamScrubber(scrubber)
    guarded = replace(job, secrets=values, blobs=ScrubbedBlobs(job.blobs, scrubber))

    async def clean(kind: str, payload: Any) -> None:
        # A secret may come in two pieces, so the stream is scrubbed as a whole.
        for frame in stream.feed(kind, payload):
            await tell(*frame)

    outcome = await _attempt(executor, guarded, clean)
    for frame in stream.rest():
        await tell(*frame)
    return scrubber.outcome(outcome)


async def _attempt(executor: Executor, job: Job, tell: Report) -> Outcome:
    try:
        return outcome_of(await executor.perform(job, tell))
    except asyncio.CancelledError as why:
        # An executor whom nobody cancelled has given up by itself: the intent is open.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return crash_of(why)
    except RAISED as why:
        return crash_of(why)
