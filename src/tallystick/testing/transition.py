"""One tick as a value: state, event and context in, everything it asked for out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tallystick.model import envelopes
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
    """What a tick gave."""

    state: Any
    status: str
    result: Any
    reason: Any
    events: list[Any]
    effects: list[Request]
    logs: list[Any]


def tick(
    workflow: Any, state: Any, event: Any, *, now: int | str = START_NS, key: Any = None
) -> Outcome:
    """Run one transition of a reducer in this process; exceptions come out as they are.

    Outcomes of effects are given as objects: `Charge.Ok(value=...)`, `Charge.Timeout()`.
    """
    spec = spec_of(workflow)
    made = built(spec.bundle)
    catalogue = made.bundle.catalogue()
    ctx = Ctx(catalogue, spec.bundle, _context(spec.name, time_ns(now), key))
    after = spec.tick(state, event, ctx)
    known = {spec.bundle.name_of(cls): cls for cls in _classes(spec)}
    return Outcome(
        state=after,
        status=ctx.status,
        result=None if ctx.result is None else canon.decode(ctx.result),
        reason=ctx.reason,
        events=[_value(known.get(e.schema), e.value) for e in ctx.emitted],
        effects=[
            Request(
                _value(known.get(e.effect), e.params), e.issuer_ref, e.idempotency_key, e.timeout_ns
            )
            for e in ctx.asked
        ],
        logs=list(ctx.logs),
    )


def _classes(spec: Any) -> list[Any]:
    scope = spec.tick.__globals__.values()
    return [value for value in scope if isinstance(value, type) and hasattr(value, "tally_named")]


def _value(cls: Any, document: Any) -> Any:
    plain = canon.decode(getattr(document, "bytes", document))
    return plain if cls is None else codec_of(cls).value(plain)


def _context(workflow: str, now: int, key: Any) -> bytes:
    return envelopes.context_document(
        envelopes.Context(
            now_ns=now,
            logical_now_ns=now,
            journal_height=1,
            entropy=bytes(64),
            event_hash="sha256:" + "0" * 64,
            manifest_hash="sha256:" + "0" * 64,
            workflow=workflow,
            workflow_hash=None,
            key=None if key is None else canon.encode(plain_of(key)),
            cell_mode=key is not None,
            world=WORLD,
            event_seq=1,
            state_version=1,
        )
    )
