"""One attempt: what its executor is given, and what is made of whatever comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tallystick.executors.base import Blobs, Failed, Job, Ok, Outcome
from tallystick.node.jobs import Published
from tallystick.values import canon

# the owner's clock ends an intent and stops its executor; an executor that watches the
# deadline itself must not be the first to speak.
LATE_NS: Final = 1_000_000_000
# The fence around executors: a raise is an outcome, and an exit ends the attempt, not the node.
RAISED: Final = (Exception, SystemExit)


class Origin(NamedTuple):
    """The cell that asked."""

    workflow: str
    key: bytes


class Shelf:
    """The blobs of a job's world, and those that become durable with its receipt."""

    __slots__ = ("_read", "_world", "put_now")

    def __init__(self, world: str, read: Callable[[str, bytes], bytes | None]) -> None:
        self._world = world
        self._read = read
        self.put_now: dict[bytes, bytes] = {}

    def get(self, hash_text: str) -> bytes | None:
        """The bytes of a blob of this world."""
        digest = canon.raw_of(hash_text)
        mine = self.put_now.get(digest)
        return self._read(self._world, digest) if mine is None else mine

    def put(self, body: bytes) -> str:
        """Keep bytes for the receipt's commit."""
        digest = canon.digest_of(body)
        self.put_now[digest] = body
        return canon.text_of(digest)


_NO_SECRETS: Final[Mapping[str, str]] = {}


def outcome_of(given: object) -> Outcome:
    """What an executor answered; anything but an outcome is none."""
    if isinstance(given, Ok | Failed):
        return given
    return Failed("no_outcome", "effect.no_outcome", "the executor gave no outcome")


def crash_of(why: BaseException) -> Failed:
    """What a raise out of an executor is called; its text is written by whoever made it."""
    try:
        text = str(why)
    except Exception:  # noqa: BLE001 - a text that cannot be shown
        text = ""
    return Failed("crash", "effect.crash", f"{type(why).__name__}: {text}")


def job_for(
    job: Published, params: Any, blobs: Blobs, secrets: Mapping[str, str] = _NO_SECRETS
) -> Job:
    """One attempt as its executor sees it."""
    return Job(
        world=job.world,
        intent=job.intent,
        dispatch_key=job.dispatch_key,
        effect=job.effect,
        executor=job.executor,
        params=params,
        grant=job.granted,
        attempt=job.attempt,
        deadline_ns=None if job.deadline_ns is None else job.deadline_ns + LATE_NS,
        origin=Origin(job.workflow, job.key),
        secrets=secrets,
        blobs=blobs,
    )
