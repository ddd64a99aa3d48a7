"""One tick as a value: state, event and context in, everything it asked for out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.model import envelopes
from tallystick.testing.metered import Metered
from tallystick.testing.sources import built
from tallystick.testing.world import START_NS, WORLD
from tallystick.values import canon
from tallystick.workflow.bundle import spec_of
from tallystick.workflow.codec import codec_of, time_ns
from tallystick.workflow.ctx import Ctx, plain_of


@dataclass(frozen=True, slots=True)
class Request:
    """An effect that the tick asked for."""

    params: Any
    corr: str | None
    key: bytes | None
    timeout_ns: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tick gave, and the steps that the lane counts for it."""

    state: Any
    status: str
    result: Any
    reason: Any
    events: list[Any]
    effects: list[Request]
    logs: list[Any]
    fuel: int


def tick(
    workflow: Any, state: Any, event: Any, *, now: int | str = START_NS, key: Any = None
) -> Outcome:
    """Run one transition of a reducer in this process; exceptions come out as they are.

    Outcomes of effects are given as objects: `Charge.Ok(value=...)`, `Charge.Timeout()`.
    What the lane would stop, as the end of the fuel, is raised with its code.
    """
    spec = spec_of(workflow)
    made = built(spec.bundle)
    catalogue = made.bundle.catalogue()
    given = _Given(spec.name, time_ns(now), key)
    ctx = Ctx(catalogue, spec.bundle, given)
    fuel = Metered(made, catalogue, catalogue.workflows[spec.name]).fuel(state, event, given)
    after = spec.tick(state, event, ctx)
    known = {spec.bundle.name_of(cls): cls for cls in _classes(spec)}
    return Outcome(
        state=after,
        status=ctx.status,
        result=None if ctx.result is None else canon.decode(ctx.result),
        reason=ctx.reason,
        events=[_value(known.get(e.schema), e.value) for e in ctx.emitted],
        effects=[_request(known.get(each.effect), each) for each in ctx.asked],
        logs=list(ctx.logs),
        fuel=fuel,
    )


def _request(cls: Any, asked: Any) -> Request:
    named = (asked.issuer_ref, asked.idempotency_key, asked.timeout_ns)
    return Request(_value(cls, asked.params), *named)


def _classes(spec: Any) -> list[Any]:
    scope = spec.tick.__globals__.values()
    return [value for value in scope if isinstance(value, type) and hasattr(value, "tally_named")]


def _value(cls: Any, document: Any) -> Any:
    plain = canon.decode(getattr(document, "bytes", document))
    return plain if cls is None else codec_of(cls).value(plain)


class _Given:
    """The context of a tick that stands alone."""

    world = WORLD

    def __init__(self, workflow: str, now_ns: int, key: Any) -> None:
        self.now_ns = now_ns
        self._workflow = workflow
        self._key = None if key is None else canon.encode(plain_of(key))

    def entropy(self) -> bytes:
        return bytes(64)

    def lot(self) -> int:
        return 0

    def document(self) -> bytes:
        return envelopes.context_document(
            envelopes.Context(
                now_ns=self.now_ns,
                logical_now_ns=self.now_ns,
                journal_height=1,
                entropy=self.entropy(),
                event_hash="sha256:" + "0" * 64,
                manifest_hash="sha256:" + "0" * 64,
                workflow=self._workflow,
                workflow_hash=None,
                key=self._key,
                cell_mode=self._key is not None,
                world=self.world,
                event_seq=1,
                state_version=1,
            )
        )
