"""Print the waits of many back-off schedules; equal on every CPython (AU-05).

Needs nothing but the standard library and the package, so that any interpreter can run it.
"""

from __future__ import annotations

import json
from hashlib import sha256
from random import Random

from tallystick.workflow.retry import Backoff, Retry
from tests.workflow.nothing import asked


class Given:
    """As much of a tick's context as chance needs."""

    def __init__(self, seed: int) -> None:
        self._seed = sha256(seed.to_bytes(8, "big")).digest() * 2

    def entropy(self) -> bytes:
        return self._seed


def schedule(seed: int) -> Backoff:
    chance = Random(seed)
    first = chance.randrange(1, 10**10)
    return Backoff(
        first=first,
        factor=chance.randrange(1, 5),
        ceiling=first + chance.randrange(10**12),
        attempts=chance.randrange(1, 12),
        jitter=chance.randrange(0, 101),
    )


def waits(seed: int) -> list[int | None]:
    """Every wait of one schedule, the last one None; the chance of each is that of its tick."""
    policy, retry, made = schedule(seed), Retry(), []
    while not made or made[-1] is not None:
        retry, wait = retry.again(policy, asked(Given(seed * 1000 + len(made))))
        made.append(wait)
    return made


if __name__ == "__main__":
    print(json.dumps([waits(seed) for seed in range(200)]))
