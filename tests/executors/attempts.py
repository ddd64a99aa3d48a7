"""Attempts as the node makes them: params through their schema, receipts checked against theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tallystick.executors.base import Executor, Failed, Job, Ok, Outcome
from tallystick.model import sys_definitions
from tallystick.model.records import Origin
from tallystick.values import canon
from tallystick.values.schema.schema import Schema, compile_schema

ORIGIN = Origin("workflow", "com.acme/a@1", b"", b"k", 1, 0)
KEY = bytes(range(32))


class KeptBlobs:
    """The blobs of one world, in memory."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = {canon.hash_of(body): body for body in bodies}

    def get(self, hash_text: str) -> bytes | None:
        return self.bodies.get(hash_text)

    def put(self, body: bytes) -> str:
        name = canon.hash_of(body)
        self.bodies[name] = body
        return name


def schema_of(effect: str, part: str) -> Schema:
    """The schema of an effect's `params` or `receipt`."""
    name = sys_definitions.of_kind("defeffect")[effect][part]
    return compile_schema(name, sys_definitions.type_of(name), sys_definitions.type_of)


def job_of(effect: str, params: Mapping[str, Any], **other: Any) -> Job:
    """A first attempt with these params, as admission leaves them."""
    made: dict[str, Any] = {
        "world": "w",
        "intent": b"\x01" * 32,
        "dispatch_key": KEY,
        "effect": effect,
        "executor": effect.partition("/")[2].partition("@")[0],
        "params": canon.decode(schema_of(effect, "params").admit(dict(params)).bytes),
        "grant": None,
        "attempt": 1,
        "deadline_ns": None,
        "origin": ORIGIN,
        "secrets": {},
        "blobs": KeptBlobs(),
    }
    return Job(**(made | other))


async def no_report(kind: str, payload: Any) -> None:
    """Progress that nobody reads."""


async def outcome_of(executor: Executor, job: Job) -> Outcome:
    """One attempt, and the executor closed behind it."""
    try:
        return await executor.perform(job, no_report)
    finally:
        await executor.close()


def done(executor: Executor, job: Job) -> Any:
    """The value of an attempt that must be ok, as a reader of its receipt sees it."""
    outcome = asyncio.run(outcome_of(executor, job))
    assert isinstance(outcome, Ok), outcome
    return canon.decode(schema_of(job.effect, "receipt").admit(outcome.value).bytes)


def failed(executor: Executor, job: Job) -> Failed:
    """The failure of an attempt that must fail."""
    outcome = asyncio.run(outcome_of(executor, job))
    assert isinstance(outcome, Failed), outcome
    return outcome
