"""What the outside may say to an open effect, in the words of a test.

Each answer goes through a sealed receipt or through time, as it does on a node; none reaches into
the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tallystick.values import canon
from tallystick.workflow.ctx import plain_of


class Crash(BaseException):
    """The process dies here; a world answers by opening its journal again."""


class Said(Protocol):
    """An answer that can be given to one open request."""

    def settle(self, world: Any, job: Any) -> None:
        """Give it."""
        ...


@dataclass(frozen=True, slots=True)
class Payload:
    """A receipt with this status and payload."""

    status: str
    payload: Any

    def settle(self, world: Any, job: Any) -> None:
        """Hand in the receipt."""
        world.receipt(job, self.bytes_for(world, job), self.status)

    def bytes_for(self, world: Any, job: Any) -> bytes:
        """The payload in canonical form, under the schema of the effect if it fits."""
        plain = plain_of(self.payload)
        if self.status != "ok":
            return canon.encode(plain)
        schema = world.driver.world.active.catalogue.effects[job.effect].receipt
        data: bytes = schema.admit(plain).bytes
        return data


@dataclass(frozen=True, slots=True)
class Malformed:
    """A sealed receipt whose payload nobody can read."""

    def settle(self, world: Any, job: Any) -> None:
        """Hand in bytes that are no document."""
        world.receipt(job, b"\xff not a document", "ok")


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Silence until the deadline; `at_once` leaves the clock and all other waits alone."""

    at_once: bool = False

    def settle(self, world: Any, job: Any) -> None:
        """Let the deadline pass; an error of the test if the request has none."""
        assert job.deadline_ns is not None, f"{job.effect} has no timeout: nothing would happen"
        if self.at_once:
            world.end_by_kernel(job.intent, "timeout")
        else:
            world.tick_clock(job.deadline_ns)


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule says no to a request that waited: nothing goes out."""

    rule: str

    def settle(self, world: Any, job: Any) -> None:
        """Deny the open request."""
        world.end_by_kernel(job.intent, "denied", self.rule)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An operator cancels the request."""

    def settle(self, world: Any, job: Any) -> None:
        """Cancel the open request."""
        world.withdraw(job.intent)


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """Silence until the deadline, and then an answer after all."""

    said: Payload

    def settle(self, world: Any, job: Any) -> None:
        """Let the deadline pass, then hand in the receipt."""
        TimedOut().settle(world, job)
        self.said.settle(world, job)


@dataclass(frozen=True, slots=True)
class DuplicateAnswer:
    """The same receipt twice."""

    said: Payload

    def settle(self, world: Any, job: Any) -> None:
        """Hand it in and hand it in again."""
        self.said.settle(world, job)
        self.said.settle(world, job)


def ok(value: Any) -> Payload:
    """It was done."""
    return Payload("ok", value)


def error(code: str, message: str = "", *, kind: str = "error", retryable: bool = False) -> Payload:
    """The executor says that it failed."""
    payload = {
        "kind": kind,
        "code": code,
        "message": message,
        "retryable": retryable,
        "retry_after_ns": None,
        "details_ref": None,
    }
    return Payload("error", payload)


def timeout(*, at_once: bool = False) -> TimedOut:
    """Nobody answers before the deadline; time moves there, unless it is `at_once`."""
    return TimedOut(at_once)


def denied(rule: str = "testing") -> Refused:
    """A rule says no to a request that was held, as when nobody approves it."""
    return Refused(rule)


def cancelled() -> Withdrawn:
    """An operator cancels the request."""
    return Withdrawn()


def malformed() -> Malformed:
    """A receipt that cannot be read."""
    return Malformed()


def late(said: Payload) -> LateAnswer:
    """The answer comes after the deadline."""
    return LateAnswer(said)


def duplicate(said: Payload) -> DuplicateAnswer:
    """The answer comes twice."""
    return DuplicateAnswer(said)
