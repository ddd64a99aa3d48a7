"""A pulse: one small event after the other beside whatever else happens, and how long each took."""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from tests.acceptance.kit.place import Place


class Pulse(threading.Thread):
    """Sends events until it is left; `pulse.p99_ms` is the slow end."""

    def __init__(self, place: Place, body: Any, gap_s: float = 0.01) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._body = body
        self._gap_s = gap_s
        self._over = threading.Event()
        self.taken_ms: list[float] = []
        self.refused = 0

    def run(self) -> None:
        """Send until told to end."""
        while not self._over.wait(self._gap_s):
            began = time.monotonic()
            status, _ = self._place.ask("POST", "/v1/worlds/main/events", self._body)
            self.taken_ms.append((time.monotonic() - began) * 1000)
            self.refused += status != 202

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(60)

    @property
    def p99_ms(self) -> float:
        """The slow end of all that were sent."""
        taken = sorted(self.taken_ms)
        return round(taken[len(taken) * 99 // 100], 2) if taken else 0.0


def twice(found: dict[str, Any]) -> list[str]:
    """What is wrong when an event may take at most twice as long as in calm."""
    calm, then = found["calm_p99_ms"], found["p99_ms"]
    return [f"p99 went from {calm} to {then} ms"] if then > 2 * calm else []
