"""The tool `file` of a playbook where it is more than one job: append reads, then writes.

Those of one node take turns; the write expects the bytes that were read, so that nothing of
others who write the file is lost either.
A run that is taken over in between appends again, as every task of it is performed again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

from tallystick.executors.base import Executor, Failed, Job, Ok, Outcome, Report
from tallystick.values import canon

READ: Final = "sys/file.read@1"
WRITE: Final = "sys/file.write@1"
_CONFLICT: Final = "file.conflict"
_TRIES_MAX: Final = 10  # for what others write meanwhile
_TURNS: Final = 64


class Appends:
    """A turn for every file, of which some files share one."""

    def __init__(self) -> None:
        self._turns = [asyncio.Lock() for _ in range(_TURNS)]

    async def append(self, inner: Executor, job: Job, report: Report) -> Outcome:
        """Read and write when nobody else of this node is between the two."""
        name = f"{job.params['workspace']}\0{job.params['path']}".encode("utf-8", "surrogateescape")
        async with self._turns[crc32(name) % _TURNS]:
            return await _append(inner, job, report)


async def _append(inner: Executor, job: Job, report: Report) -> Outcome:
    """Write what a file holds and the content of the job behind it; a missing file is empty."""
    place = {key: job.params[key] for key in ("workspace", "path")}
    found: Outcome = Failed("conflict", _CONFLICT, "the file changes all the time")
    for number in range(_TRIES_MAX):
        found = await inner.perform(_asked(job, READ, {**place, "max": None}, number), report)
        before, expect = _before(job, found)
        if before is None:
            return found
        content = before + job.params["content"]
        rest = {"content_ref": None, "expect": expect, "mode": "keep", "stamp": None}
        found = await inner.perform(
            _asked(job, WRITE, {**place, "content": content, **rest}, number), report
        )
        if not isinstance(found, Failed) or found.code != _CONFLICT:
            return found
    return found


def _before(job: Job, found: Outcome) -> tuple[bytes | None, dict[str, Any]]:
    """What stands there, and what the write expects; no bytes when they cannot be read."""
    if isinstance(found, Ok):
        raw = found.value["bytes"]
        body = job.blobs.get(found.value["ref"]) if raw is None else raw
        return body, {"$tag": "content", "$value": found.value["content_id"]}
    if found.code == "file.absent":
        return b"", {"$tag": "absent", "$value": None}
    return None, {}


def _asked(job: Job, effect: str, params: dict[str, Any], number: int) -> Job:
    key = canon.digest_of(job.dispatch_key + effect.encode() + bytes([number]))
    name = effect.partition("/")[2].partition("@")[0]
    return replace(job, dispatch_key=key, effect=effect, executor=name, params=params)
