"""Simulated clock, chance and outside: what a node meets, drawn from the seed alone.

One stream of chance per subsystem, seeded by SHA-256 of seed and name, so that one more draw in
one place does not reshuffle the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from random import Random
from typing import Any, Final, NamedTuple

from tallystick.kernel.inputs import Receipt, Sample
from tallystick.kernel.settle import statement_of
from tallystick.node.jobs import Published
from tallystick.values import canon
from tallystick.values.seal import KeyPair

MS: Final = 1_000_000
SECOND: Final = 1000 * MS
YEAR: Final = 365 * 86_400 * SECOND
START_NS: Final = 1_700_000_000 * SECOND

NODE: Final = KeyPair(sha256(b"simulated node").digest())
SECOND_KEY: Final = KeyPair(sha256(b"simulated executor").digest())
OUTSIDER: Final = KeyPair(sha256(b"simulated outsider").digest())
WORLD: Final = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
ELSEWHERE: Final = "00000000-0000-4000-8000-00000000beef"


def stream(seed: str, name: str) -> Random:
    """The chance of one subsystem of one run."""
    return Random(sha256(f"{seed}/{name}".encode()).digest())  # noqa: S311 - repeatable on purpose


class SimClock:
    """Wall time that jumps, freezes and steps back over the steady time of the simulation."""

    def __init__(self, seed: str) -> None:
        self.steady_ns = 0
        self._offset_ns = START_NS
        self._frozen_at: int | None = None
        self._seed = seed.encode()
        self._count = 0

    def jump(self, by_ns: int) -> None:
        """Step the wall clock, forwards or back."""
        self._offset_ns += by_ns

    def freeze(self) -> None:
        """The wall clock stands still until `thaw`."""
        self._frozen_at = self.wall_ns()

    def thaw(self) -> None:
        """The wall clock runs again from where it stood."""
        if self._frozen_at is not None:
            self._offset_ns = self._frozen_at - self.steady_ns
            self._frozen_at = None

    def wall_ns(self) -> int:
        """What the node would read now."""
        return self.steady_ns + self._offset_ns if self._frozen_at is None else self._frozen_at

    def sample(self) -> Sample:
        """Time and entropy for one input; entropy is counted from the seed."""
        self._count += 1
        half = sha256(b"%s entropy %d" % (self._seed, self._count)).digest()
        return Sample(self.wall_ns(), half + sha256(half).digest())


class Delivery(NamedTuple):
    """Something that an executor sends after a while; `frame` marks a progress frame."""

    after_ns: int
    receipt: Receipt | None
    progress: tuple[int, bytes] | None = None
    job: Published | None = None


def sealed(
    job: Published, status: str, payload: bytes, pair: KeyPair = NODE, **changed: Any
) -> Receipt:
    """A receipt as an executor seals it; `changed` are its lies."""
    made = Receipt(
        world=job.world,
        intent=job.intent,
        effect=job.effect,
        status=status,
        payload=payload,
        executor=job.executor,
        attempt=job.attempt,
        started_ns=1,
        ended_ns=2,
        usage=None,
        seal={},
    )._replace(**changed)
    return made._replace(seal=pair.sign(statement_of(made)))


def _error() -> bytes:
    return canon.encode(
        {
            "kind": "remote",
            "code": "sim.error",
            "message": "drawn",
            "retryable": False,
            "retry_after_ns": None,
            "details_ref": None,
        }
    )


class SimExecutor:
    """Performs what is published, once per dispatch key, and answers as the faults say."""

    def __init__(
        self,
        seed: str,
        faults: dict[int, str],
        answer: Callable[[Published], tuple[str, bytes]],
        usage: Callable[[Published], Mapping[str, int] | None],
    ) -> None:
        self._chance = stream(seed, "outside")
        self._faults = faults
        self._answer = answer
        self._usage = usage
        self.published = 0
        self.performed: dict[bytes, tuple[str, bytes]] = {}
        self.attempts: dict[bytes, int] = {}
        self.calm = False
        self.struck: dict[str, int] = {}

    def take(self, job: Published) -> list[Delivery]:
        """Perform a published job: what will be delivered, and when."""
        fault = None if self.calm else self._faults.get(self.published)
        self.published += 1
        self.attempts[job.dispatch_key] = self.attempts.get(job.dispatch_key, 0) + 1
        status, payload = self.outcome(job)
        used = self._usage(job)
        delay = self._delay()
        if fault is None:
            pair = SECOND_KEY if self._chance.random() < 0.1 else NODE
            # The second key may not be trusted, or not any more: the true one follows.
            made = [Delivery(delay, sealed(job, status, payload, pair, usage=used))]
            if pair is SECOND_KEY:
                made.append(Delivery(delay * 2, sealed(job, status, payload, usage=used)))
            return made
        self.struck[fault] = self.struck.get(fault, 0) + 1
        return _answers(job, sealed(job, status, payload, usage=used), fault, delay)

    def outcome(self, job: Published) -> tuple[str, bytes]:
        """Do a job; the target honours the key: a second attempt finds the first one's outcome."""
        if job.dispatch_key not in self.performed:
            self.performed[job.dispatch_key] = self._answer(job)
        return self.performed[job.dispatch_key]

    def _delay(self) -> int:
        """Mostly a few milliseconds, sometimes minutes."""
        if self.calm:
            return MS
        return int(MS * min(self._chance.paretovariate(0.6), 60_000))


OUTSIDE_FAULTS: Final = (
    "lost",
    "duplicate",
    "late",
    "error",
    "malformed",
    "not_canonical",
    "bad_status",
    "bad_seal",
    "foreign_key",
    "foreign_world",
    "wrong_attempt",
    "wrong_intent",
    "progress",
)


def _answers(job: Published, good: Receipt, fault: str, delay: int) -> list[Delivery]:
    lie = _lie(job, good, fault)
    if lie is not None:
        # A forgery comes first; the true receipt must still settle the intent.
        return [Delivery(delay // 2, lie), Delivery(delay, good)]
    match fault:
        case "lost":
            return []
        case "duplicate":
            return [Delivery(delay, good), Delivery(delay + 1, good), Delivery(delay * 3, good)]
        case "late":
            return [Delivery(delay + 300 * SECOND, good)]
        case "error":
            return [Delivery(delay, sealed(job, "error", _error()))]
        case "malformed":
            return [Delivery(delay, sealed(job, "ok", canon.encode({"other": 1})))]
        case "not_canonical":
            return [Delivery(delay, sealed(job, "ok", b"\x00junk"))]
        case "bad_status":
            return [Delivery(delay, sealed(job, "cancelled", good.payload))]
    frames = [
        Delivery(delay // 4 + i, None, (seq, canon.encode(seq)), job)
        for i, seq in enumerate((1, 2, 2, 5))
    ]
    return [*frames, Delivery(delay, good), Delivery(delay + 5, None, (6, b""), job)]


def _lie(job: Published, good: Receipt, fault: str) -> Receipt | None:
    match fault:
        case "bad_seal":
            return good._replace(payload=canon.encode({"ref": "forged"}))
        case "foreign_key":
            return sealed(job, "ok", good.payload, OUTSIDER)
        case "foreign_world":
            return sealed(job, "ok", good.payload, world=ELSEWHERE)
        case "wrong_attempt":
            return sealed(job, "ok", good.payload, attempt=job.attempt + 1)
        case "wrong_intent":
            return sealed(job, "ok", good.payload, intent=sha256(job.intent).digest())
    return None
