"""`Flow`: the context of an async workflow, which lives across ticks.

The object stays the same for the whole flow; each delivery gives it that delivery's time and
chance, and takes what was asked for since.
"""

from __future__ import annotations

from typing import Any

from tallystick.model.abi import EffectRequest, EmittedEvent
from tallystick.model.catalogue import Catalogue
from tallystick.values import canon
from tallystick.values.schema import Admitted
from tallystick.workflow import outside
from tallystick.workflow.bundle import Bundle
from tallystick.workflow.ctx import Asked, Chance


class Flow(Asked):
    """What an async workflow may ask beside its awaits: emit, log, count, now, key, chance."""

    def __init__(self, catalogue: Catalogue, bundle: Bundle) -> None:
        super().__init__(catalogue, bundle, None)
        self._context = {}

    def turn(self, catalogue: Catalogue, facts: dict[str, Any], at: int, seed: bytes) -> None:
        """Begin a delivery: its time, its chance, and nothing asked for yet.

        `facts` are those parts of the context that are the same for all ticks of a cell.
        """
        self._catalogue = catalogue
        self._context = {**facts, "logical_now_ns": at}
        self._chance = Chance(seed)
        self.asked, self.emitted, self.logs, self.counts = [], [], [], {}

    def ask(
        self,
        params: Any,
        corr: str,
        *,
        key: bytes | None = None,
        timeout_ns: int | None = None,
    ) -> None:
        """Ask for an effect under a correlation that the loop waits for."""
        self._ask(params, issuer_ref=corr, idempotency_key=key, timeout_ns=timeout_ns)

    def child(self, wanted: Any, corr: str) -> None:
        """Ask for a child cell."""
        cls: Any = outside.Call if wanted.wait else outside.Spawn
        params = self._child(wanted.workflow, wanted.key, wanted.event)
        self.ask(cls(**params), corr)

    def did(self) -> bytes:
        """The digest of everything that was asked for in this delivery, in order."""
        asked = [_written(request) for request in self.asked]
        emitted = [_told(event) for event in self.emitted]
        return canon.digest({"asked": asked, "emitted": emitted})


def _written(request: EffectRequest) -> list[Any]:
    params = request.params.bytes if isinstance(request.params, Admitted) else request.params
    key = request.idempotency_key
    return [request.effect, params, request.issuer_ref, key, request.timeout_ns]


def _told(event: EmittedEvent) -> list[Any]:
    value = event.value.bytes if isinstance(event.value, Admitted) else event.value
    return [event.schema, value, list(event.tags)]
