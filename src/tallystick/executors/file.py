"""The file executor: write, delete and read beneath the configured workspaces.

A second attempt changes nothing: the bytes on disk say whether the first one acted.
The grant is checked again here, where sizes by reference and the real directory are known.
Blocking calls run on threads of the executor, one for each slot.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tallystick.authority.enforcers import builtin
from tallystick.errors import BadDefinition
from tallystick.executors.base import (
    INLINE_BYTES_MAX,
    ExecutorPorts,
    Failed,
    Job,
    Ok,
    Outcome,
    Repeat,
    Report,
)
from tallystick.executors.file_announce import announce
from tallystick.executors.file_beneath import (
    Names,
    PathError,
    content_id,
    failed,
    judge_path,
    open_file,
    parent_of,
    read_all,
)
from tallystick.executors.file_change import CONFLICT, Change, expected, may_begin, overwrites
from tallystick.executors.file_list import listed
from tallystick.executors.file_place import place
from tallystick.executors.file_turns import OURS, Turns

WRITE: Final = "sys/file.write@1"
DELETE: Final = "sys/file.delete@1"
READ: Final = "sys/file.read@1"
LIST: Final = "sys/file.list@1"  # asked for by tasks of playbooks alone
_BYTES_MAX: Final = 64 << 20
_READS_MAX: Final = 5
_ANY_NAME: Final = "any-name-of-the-workspace"


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Which directories there are, how large a file may be, and how many jobs run at a time.

    `hidden` is the data folder, whatever its name; no job reaches into it.
    """

    workspaces: Mapping[str, Path]
    bytes_max: int = _BYTES_MAX
    slots: int = 8
    hidden: Path | None = None


def make(settings: Mapping[str, Any], ports: ExecutorPorts) -> FileExecutor:
    """The executor of `[executors.file]`; relative workspaces stand beside the data folder."""
    known = settings.get("workspaces", {"project": "."})
    if not isinstance(known, Mapping):
        raise BadDefinition("workspaces is a table of name and directory", code="config.value")
    base = ports.folder.absolute().parent
    return FileExecutor(
        FileSettings(
            {str(name): base / Path(str(place)) for name, place in known.items()},
            int(settings.get("max_bytes", _BYTES_MAX)),
            int(settings.get("slots", 8)),
            ports.folder.absolute(),
        ),
        turns=OURS,
    )


def _no_step(_step: str) -> None:
    return None


class FileExecutor:
    """Performs `sys/file.*`.

    `at` is called at each step of the protocol, so that tests can stop or race it there.
    `names` is how names are changed; where a file system cannot, it says so.
    """

    name = "file"
    effects = frozenset((WRITE, DELETE, READ))
    repeat: Repeat = "same"

    def __init__(
        self,
        settings: FileSettings,
        at: Callable[[str], None] = _no_step,
        names: Names | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.slots = settings.slots
        self._settings = settings
        self._at = at
        self._names = names or Names()
        self._threads = ThreadPoolExecutor(settings.slots, "tally-file")
        self._waiting: dict[tuple[bytes, int], threading.Event] = {}
        self._turns = turns or Turns()
        self._admitted: dict[tuple[str, str], tuple[Path, Path | None]] = {}

    def admit(self, workspace: tuple[str, str], root: Path, stamps: Path | None = None) -> None:
        """Let jobs of a world name a directory more; a shared one announces writes in `stamps`."""
        self._admitted[workspace] = (root, stamps)

    def forget(self, workspace: tuple[str, str]) -> None:
        """Let no job of a world name a directory any more."""
        self._admitted.pop(workspace, None)

    def _root(self, job: Job) -> tuple[Path | None, Path | None]:
        """The directory that a job names, and where its writes are announced."""
        name = job.params["workspace"]
        configured = self._settings.workspaces.get(name), None
        return self._admitted.get((job.world, name), configured)

    async def perform(self, job: Job, report: Report) -> Outcome:  # noqa: ARG002 - the protocol
        """Do it on a thread; once begun it is finished, since half a step helps nobody."""
        stop = self._waiting.setdefault(job.mark, threading.Event())
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._perform, job, stop)
        finally:
            self._waiting.pop(job.mark, None)

    async def cancel(self, job: Job) -> None:
        """Keep a job that still waits for its thread from starting."""
        stop = self._waiting.get(job.mark)
        if stop is not None:
            stop.set()

    async def close(self) -> None:
        """Wait for the threads; the steps they are in are short."""
        await asyncio.to_thread(self._threads.shutdown)

    def _perform(self, job: Job, stop: threading.Event) -> Outcome:
        if stop.is_set():
            return Failed("cancelled", "file.cancelled", "the job was cancelled before it began")
        try:
            return self._judged(job)
        except PathError as error:
            if error.failed.code == CONFLICT:
                return replace(error.failed, details_ref=_proposal(job))
            return error.failed
        except OSError as error:
            return failed(error)

    def _judged(self, job: Job) -> Outcome:
        looks = job.effect in (READ, LIST)
        whole = job.effect == LIST and job.params["path"] in ("", ".")
        path = "." if whole else judge_path(job.params["path"], writes=not looks)
        if job.grant is not None:
            # Whoever lists a whole workspace must be allowed to see any name in it.
            params = {**job.params, "path": _ANY_NAME} if whole else job.params
            answer = builtin(
                "file", {"cap_params": job.grant, "params": params, "effect": job.effect}
            )
            if not answer.ok:
                return Failed("scope", "file.not_granted", answer.message or "not granted")
        root, stamps = self._root(job)
        if root is None:
            return Failed("not_found", "file.workspace_unknown", "no such workspace is configured")
        if job.effect == READ:
            return self._read(job, str(root), path)
        if job.effect == LIST:
            return listed(str(root), path, self._settings.hidden)
        return self._change(job, (str(root), stamps), path)

    def _bytes_max(self, job: Job) -> int:
        granted = (job.grant or {}).get("max_bytes")
        return min(
            self._settings.bytes_max, self._settings.bytes_max if granted is None else granted
        )

    # ---- write, delete ----------------------------------------------------------------------

    def _change(self, job: Job, into: tuple[str, Path | None], path: str) -> Outcome:
        root, stamps = into
        wanted: bytes | None = None
        if job.effect == WRITE:
            content = _content(job)
            if isinstance(content, Failed):
                return content
            if len(content) > self._bytes_max(job):
                return Failed("limit", "file.too_large", "the content is over the limit")
            wanted = content
        post_id = None if wanted is None else content_id(wanted)
        stamp = job.params.get("stamp")
        if stamp is not None and (stamp["path"], stamp["post_id"]) != (path, post_id):
            return Failed(
                "client_error", "file.stamp_untrue", "the stamp is of other bytes or path"
            )
        if stamps is not None and stamp is not None:
            announce(job.world, stamps, stamp)
        turn, hidden = self._turns.of(root, path), self._settings.hidden
        # Where the place must not be empty, no folders are made for a write that is refused.
        create = wanted is not None and may_begin(job.params)
        with turn, parent_of(root, path, create=create, hidden=hidden) as found:
            if found is None and wanted is not None:
                raise PathError("conflict", CONFLICT, "there is no file where one was expected")
            if found is None:
                status = "recovered" if job.attempt > 1 else "unchanged"
                return _receipt(path, None, None, 0, status)
            placed = place(self._asked(job, found, wanted))
        return _receipt(path, placed.pre_id, post_id, len(wanted or b""), placed.status)

    def _asked(self, job: Job, found: tuple[int, str], wanted: bytes | None) -> Change:
        here, name = found
        return Change(
            here=here,
            name=name,
            key=job.dispatch_key,
            wanted=wanted,
            expect=expected(job.params),
            overwrite=overwrites(job.params),
            attempt=job.attempt,
            bytes_max=self._settings.bytes_max,
            blobs=job.blobs,
            at=self._at,
            names=self._names,
        )

    # ---- read -------------------------------------------------------------------------------

    def _read(self, job: Job, root: str, path: str) -> Outcome:
        asked = job.params.get("max")
        most = self._bytes_max(job) if asked is None else min(asked, self._bytes_max(job))
        with parent_of(root, path, create=False, hidden=self._settings.hidden) as found:
            handle = None if found is None else open_file(*found)
        if handle is None:
            return Failed("not_found", "file.absent", "there is no such file")
        try:
            body = _settled(handle, most)
        finally:
            os.close(handle)
        if body is None:
            return Failed(
                "conflict", "file.moving", "the file changes all the time", retryable=True
            )
        inline = len(body) <= INLINE_BYTES_MAX
        return Ok(
            {
                "path": path,
                "content_id": content_id(body),
                "size": len(body),
                "bytes": body if inline else None,
                "ref": None if inline else job.blobs.put(body),
            }
        )


def _settled(handle: int, most: int) -> bytes | None:
    """The bytes of a file that did not change while it was read; None when it always does."""
    for _ in range(_READS_MAX):
        before = os.fstat(handle)
        os.lseek(handle, 0, os.SEEK_SET)
        body = read_all(handle, most)
        after = os.fstat(handle)
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, len(body)):
            return body
    return None


def _content(job: Job) -> bytes | Failed:
    """The bytes to write, inline or by reference; exactly one of both."""
    content, ref = job.params.get("content"), job.params.get("content_ref")
    if (content is None) == (ref is None):
        return Failed("client_error", "file.content", "give content or content_ref, one of both")
    if ref is None:
        return bytes(content)
    found = job.blobs.get(ref)
    if found is None:
        return Failed("not_found", "file.content_missing", "the world has no blob of that hash")
    return found


def _proposal(job: Job) -> str | None:
    """What the job wanted to write, kept so that a person can compare."""
    if job.effect != WRITE:
        return None
    content = _content(job)
    return None if isinstance(content, Failed) else job.blobs.put(content)


def _receipt(path: str, pre_id: str | None, post_id: str | None, size: int, status: str) -> Ok:
    return Ok({"path": path, "pre_id": pre_id, "post_id": post_id, "size": size, "status": status})
