"""`blob.put` and `blob.get`: content by its hash, in the world that asks.

A put blob becomes durable with its receipt, together with an edge: a small document that names the
blob and the blobs it refers to, so that garbage collection keeps them as long as the edge is held.
Both effects are a pure function of their params, so a repeat changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.executors.base import ExecutorPorts, Failed, Job, Ok, Outcome, Repeat, Report
from tallystick.kernel.reach import EDGE
from tallystick.values import canon

PUT: Final = "sys/blob.put@1"
GET: Final = "sys/blob.get@1"
# A receipt is one document, and a document has its own bound.
BYTES_MAX: Final = canon.SIZE_MAX - 65_536


class BlobExecutor:
    """Performs `sys/blob.put@1` and `sys/blob.get@1`."""

    name = "blob"
    effects = frozenset((PUT, GET))
    repeat: Repeat = "same"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.slots = int(settings.get("slots", 64))

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Put or get, as the effect says."""
        del report
        return _put(job) if job.effect == PUT else _get(job)

    async def cancel(self, job: Job) -> None:
        """Nothing to tell: it is over at once."""

    async def close(self) -> None:
        """Nothing to give back."""


def _put(job: Job) -> Outcome:
    body: bytes = job.params["bytes"]
    if len(body) > _most(job):
        return _too_large(len(body))
    expected = job.params.get("blob_ref")
    if expected is not None and expected != canon.hash_of(body):
        return Failed("conflict", "blob.mismatch", f"the bytes are not those of {expected}")
    refs = job.params.get("refs") or []
    for ref in refs:
        if job.blobs.get(ref) is None:
            return Failed("not_found", "blob.unknown", f"this world has no blob {ref}")
    ref = job.blobs.put(body)
    edge = job.blobs.put(canon.encode({"$type": EDGE, "blob": ref, "refs": refs}))
    return Ok({"blob_ref": ref, "edge_ref": edge, "size": len(body)})


def _get(job: Job) -> Outcome:
    ref: str = job.params["blob_ref"]
    body = job.blobs.get(ref)
    if body is None:
        return Failed("not_found", "blob.unknown", f"this world has no blob {ref}")
    if len(body) > _most(job):
        return _too_large(len(body))
    return Ok({"blob_ref": ref, "size": len(body), "bytes": body})


def _most(job: Job) -> int:
    """The bound of the grant: for a blob that is read, only the executor knows its size."""
    granted = (job.grant or {}).get("max_bytes")
    return BYTES_MAX if granted is None else min(int(granted), BYTES_MAX)


def _too_large(size: int) -> Failed:
    return Failed("limit", "blob.too_large", f"the blob has {size} bytes, more than may be moved")


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> BlobExecutor:
    """The executor `blob` as settings describe it."""
    del ports
    return BlobExecutor(settings)
