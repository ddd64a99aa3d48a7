"""The protocol between the node, which owns intents, and an executor, which performs them.

Theory of operation.
An executor gets one job: one attempt at one intent, whose frame is durable.
It answers with one outcome.
`Ok` means that the exchange took place: an HTTP 500 and an exit code 3 are `Ok`.
`Failed` means that it did not, or that nobody knows.
On the way it may report progress, which settles nothing and may be dropped.

An intent is settled exactly once and attempted at least once.
`dispatch_key` is equal for all attempts of an intent, so a target that knows it can refuse to act
twice; `repeat` says what a second attempt does.
A raise out of `perform` is for the node to name (`crash`); an executor catches what it understands.
Sealing, schema checks and scrubbing happen in the node, behind every executor, the custom ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

INLINE_BYTES_MAX: Final = 65_536  # larger values of a receipt are blobs (04 section 6)

Repeat: TypeAlias = Literal["same", "keyed", "again"]
ErrorKind: TypeAlias = Literal[
    "connection",
    "timeout",
    "rate_limit",
    "auth",
    "not_found",
    "client_error",
    "server_error",
    "schema",
    "limit",
    "scope",
    "conflict",
    "crash",
    "no_outcome",
    "outcome_unknown",
    "cancelled",
]
ERROR_KINDS: Final = frozenset(get_args(ErrorKind))


class Blobs(Protocol):
    """The blobs of one world, as one job may use them; hashes are `sha256:<hex>`."""

    def get(self, hash_text: str) -> bytes | None:
        """The bytes of a blob, or None when this world has none of that hash."""
        ...

    def put(self, body: bytes) -> str:
        """The hash of the bytes; they become durable together with the receipt of the job."""
        ...


class Origin(Protocol):
    """Who asked: the workflow and the key of the cell."""

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def key(self) -> bytes:
        """The key of the cell, in canonical bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one intent, as an executor sees it.

    `params` is the native value of the admitted params; a secret in it is still a reference.
    `secrets` maps the path of such a reference ("/headers/Authorization") to its plain value.
    `grant` holds the params of the grant that said yes, or None when the effect asks for none.
    `deadline_ns` is on the node's clock.
    """

    world: str
    intent: bytes
    dispatch_key: bytes
    effect: str
    executor: str
    params: Any
    grant: Mapping[str, Any] | None
    attempt: int
    deadline_ns: int | None
    origin: Origin
    secrets: Mapping[str, str]
    blobs: Blobs

    def __repr__(self) -> str:
        # Params and secrets stay out: a job may be logged.
        return f"Job({self.effect}, intent {self.intent.hex()[:16]}, attempt {self.attempt})"

    @property
    def mark(self) -> tuple[bytes, int]:
        """What tells this attempt from all that run beside it; two worlds may share an intent."""
        return self.dispatch_key, self.attempt

    def plain(self, *path: str) -> str | None:
        """The text at a position of type `sys/TextOrSecretRef@1`: the literal, or the secret.

        None when the position is empty.
        """
        found: Any = self.params
        for step in path:
            found = None if found is None else found.get(step)
        if found is None:
            return None
        if found["$tag"] == "literal":
            return str(found["$value"])
        return self.secrets[pointer(*path)]


def pointer(*path: str) -> str:
    """The RFC 6901 pointer of a path in params."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


@dataclass(frozen=True, slots=True)
class Ok:
    """The exchange took place; the value must fit the receipt schema of the effect."""

    value: Any
    usage: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The exchange did not take place, or nobody knows whether it did.

    Becomes status `error` with `sys/EffectError@1`.
    """

    kind: ErrorKind
    code: str
    message: str
    retryable: bool = False
    retry_after_ns: int | None = None
    details_ref: str | None = None

    def __post_init__(self) -> None:
        # What it quotes, such as the name of a file, may be no text that a document can hold.
        if not self.message.isascii():
            told = self.message.encode("utf-8", "replace").decode("utf-8")
            object.__setattr__(self, "message", told)


Outcome: TypeAlias = Ok | Failed


class Report(Protocol):
    """How an executor tells progress; waits when the job has no credit left."""

    async def __call__(self, kind: str, payload: Any) -> None:
        """Send one progress frame; after the outcome it is dropped."""
        ...


class Executor(Protocol):
    """Performs the effects it names, at most `slots` at a time."""

    @property
    def name(self) -> str:
        """The name that settings and receipts know it by."""
        ...

    @property
    def effects(self) -> frozenset[str]:
        """The names of the effects it serves."""
        ...

    @property
    def repeat(self) -> Repeat:
        """What a second attempt does: nothing new, what the target decides, or all of it again."""
        ...

    @property
    def slots(self) -> int:
        """How many jobs it takes at a time."""
        ...

    async def perform(self, job: Job, report: Report) -> Outcome:
        """Do what the job asks; the task is cancelled when the intent is."""
        ...

    async def cancel(self, job: Job) -> None:
        """Tell the outside that nobody waits any more; best effort, may do nothing."""
        ...

    async def close(self) -> None:
        """Give back every connection, file and process; no job is running then."""
        ...


AtOnce: TypeAlias = Callable[[Job], Outcome | None]
"""The outcome of a job that is answered by computing alone; None: `perform` is asked."""


def at_once_of(executor: Executor) -> AtOnce | None:
    """The method `at_once` of an executor that has one.

    It is asked on the kernel's thread, so all worlds of the node wait for it.
    """
    found: AtOnce | None = getattr(executor, "at_once", None)
    return found


class Secrets(Protocol):
    """Where the values of secrets come from; only executors and the node may ask."""

    def value(self, binding: str) -> str:
        """The value of `env:NAME`, `file:NAME` or `store:NAME`; UnknownName when it has none."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutorPorts:
    """What the node lends to an executor: its folder, its secrets and its clock."""

    folder: Path
    secrets: Secrets | None
    now_ns: Callable[[], int]


ExecutorFactory: TypeAlias = Callable[[Mapping[str, Any], ExecutorPorts], Executor]
