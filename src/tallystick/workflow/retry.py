"""`Retry`: attempts counted in the state, waits computed from it (X-15).

Integer nanoseconds and the entropy of the tick: the same waits at replay and on every Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.errors import BadDefinition
from tallystick.values.schema.annotations import Duration, Nat
from tallystick.workflow.codec import span_ns
from tallystick.workflow.records import Record


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often to try and how long to wait: `min(ceiling, first * factor**n)` plus jitter."""

    first: int | str = "1s"
    factor: int = 2
    ceiling: int | str = "1m"
    attempts: int = 5
    jitter: int = 10  # percent of the wait, at most

    def __post_init__(self) -> None:
        """Refuses a schedule that never waits or never ends."""
        first, ceiling = span_ns(self.first), span_ns(self.ceiling)
        if not 0 < first <= ceiling or self.factor < 1 or self.attempts < 1:
            message = "a back-off has 0 < first <= ceiling, factor >= 1 and attempts >= 1"
            raise BadDefinition(message, code="def.bad_value")
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "ceiling", ceiling)

    def wait_ns(self, attempt: int, ctx: Any) -> int | None:
        """The wait after a failed attempt, counted from 1; None when none is left."""
        if attempt >= self.attempts:
            return None
        wait, ceiling = int(self.first), int(self.ceiling)  # nanoseconds since __post_init__
        for _ in range(attempt - 1):
            wait = min(wait * self.factor, ceiling)
        extra: int = ctx.below(wait * self.jitter // 100 + 1)
        return wait + extra


class Retry(Record):
    """How many attempts have failed; kept in the state, so it is seen and replayed."""

    attempt: Nat = 0
    waited: Duration = 0

    def again(self, policy: Backoff, ctx: Any) -> tuple[Retry, int | None]:
        """Count a failed attempt; the wait before the next one, or None when exhausted."""
        wait = policy.wait_ns(self.attempt + 1, ctx)
        counted = self.replace(attempt=self.attempt + 1, waited=self.waited + (wait or 0))
        return counted, wait
