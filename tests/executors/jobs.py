"""Jobs for tests: one attempt at one intent, with blobs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallystick.executors.base import Blobs, Job
from tallystick.model.records import Origin
from tallystick.values import canon


class MemoryBlobs:
    """The blobs of a world, in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, hash_text: str) -> bytes | None:
        return self.held.get(hash_text)

    def put(self, body: bytes) -> str:
        name = canon.hash_of(body)
        self.held[name] = body
        return name


@dataclass
class Heard:
    """A report that keeps what it is told."""

    frames: list[tuple[str, Any]] = field(default_factory=list)

    async def __call__(self, kind: str, payload: Any) -> None:
        self.frames.append((kind, payload))


def literal(text: str) -> dict[str, Any]:
    """A plain text at a position that may hold a secret."""
    return {"$tag": "literal", "$value": text}


def secret(alias: str, version: int = 1) -> dict[str, Any]:
    """A reference at a position that may hold a secret."""
    return {"$tag": "secret", "$value": {"alias": alias, "version": version}}


def job(
    effect: str,
    params: Mapping[str, Any],
    *,
    grant: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    blobs: Blobs | None = None,
    deadline_ns: int | None = None,
    intent: bytes = b"\x01" * 32,
) -> Job:
    """A job as dispatch makes it."""
    return Job(
        world="0b7a2f9e-7a53-4d5e-9c6b-2f1f0f4a9d11",
        intent=intent,
        dispatch_key=b"\x02" * 32,
        effect=effect,
        executor=effect.partition("/")[2].partition("@")[0],
        params=dict(params),
        grant=grant,
        attempt=1,
        deadline_ns=deadline_ns,
        origin=Origin("workflow", "com.acme/order@1", b"\x03" * 32, b"k", 7, 0),
        secrets=secrets or {},
        blobs=blobs if blobs is not None else MemoryBlobs(),
    )
