"""`Ctx`: what a reducer asks for while it computes its next state.

It only notes: nothing happens before the tick as a whole is accepted and durable.
Time, key and chance are those of `sys/WorkflowContext@1` (K-28), so they are equal at replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeVar
from uuid import UUID

from tallystick.errors import NotCanonical, SchemaMismatch, TickFault
from tallystick.model.abi import LEVELS, Context, EffectRequest, EmittedEvent, TickOutput
from tallystick.model.catalogue import Catalogue
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.values import canon
from tallystick.values.schema import Admitted, Schema
from tallystick.workflow import outside
from tallystick.workflow.bundle import Bundle, name_of_workflow
from tallystick.workflow.codec import codec_of, span_ns
from tallystick.workflow.records import RecordType

T = TypeVar("T")

# Parameters of ours that hold text or a secret.
_SECRETS: Final[Mapping[Any, str]] = {
    outside.Http: "headers",
    outside.Shell: "env",
    outside.Llm: "api_key",
}


class Chance:
    """Numbers derived from the entropy of a tick: equal at replay, never drawn again."""

    def __init__(self, entropy: bytes) -> None:
        self._entropy = entropy
        self._drawn = 0

    def draw(self) -> int:
        """The next 256 bits."""
        seed = self._entropy + self._drawn.to_bytes(8, "big")
        self._drawn += 1
        return int.from_bytes(sha256(seed).digest(), "big")


class Asked:
    """What every workflow may ask of its context, in whichever form it is written."""

    _tick: Context | None
    _context: dict[str, Any] | None
    _chance: Chance | None

    def __init__(
        self, catalogue: Catalogue, bundle: Bundle, tick: Context | None, key: bytes | None = None
    ) -> None:
        self._catalogue = catalogue
        self._bundle = bundle
        self._tick = tick
        self._key = key  # that of the context, when it is known without reading all of it
        self._context = None
        self._chance = None
        self.asked: list[EffectRequest] = []
        self.emitted: list[EmittedEvent] = []
        self.logs: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}

    # ---- what is so -------------------------------------------------------------------------

    def given(self) -> dict[str, Any]:
        """The context of this tick as it was journaled."""
        known = self._context
        if known is None:
            assert self._tick is not None, "the kit declares the context for every workflow"
            known = self._context = canon.decode(self._tick.document())
        return known

    @property
    def now(self) -> int:
        """The logical time of this tick in nanoseconds."""
        # Each receipt asks for the time, few for the rest.
        tick = self._tick
        return int(self.given()["logical_now_ns"]) if tick is None else tick.now_ns

    @property
    def seq(self) -> int:
        """The journal sequence of the event."""
        return int(self.given()["event_seq"])

    @property
    def world(self) -> str:
        """The id of the world."""
        return str(self.given()["world"])

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        return str(self.given()["workflow"])

    @property
    def key(self) -> Any:
        """The key of the cell, None in a workflow without keys."""
        raw = self._key or self.given()["key"]
        return None if raw is None else canon.decode(raw)

    # ---- chance -----------------------------------------------------------------------------

    def _draw(self) -> int:
        if self._chance is None:
            assert self._tick is not None, "a flow is given its chance with each delivery"
            self._chance = Chance(self._tick.entropy())
        return self._chance.draw()

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return self._draw() % limit

    def random(self) -> float:
        """A number from 0 to 1, 1 excluded."""
        return (self._draw() >> 203) / (1 << 53)

    def uuid(self) -> UUID:
        """A uuid of version 4."""
        return UUID(int=self._draw() >> 128, version=4)

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    # ---- notes ------------------------------------------------------------------------------

    def emit(self, event: Any, *, tags: Sequence[str] = ()) -> None:
        """Emit a domain event; it is routed like any other."""
        name = self._bundle.name_of(type(event))
        value = self._document(self._catalogue.schemas.get(name), plain_of(event))
        self.emitted.append(EmittedEvent(name, value, None, tuple(tags)))

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """A line in the log of this tick; refuses an unknown level."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is not one of {sorted(LEVELS)}")
        entry: dict[str, Any] = {"level": level, "message": message}
        if fields:
            entry["fields"] = {name: plain_of(value) for name, value in fields.items()}
        self.logs.append(entry)

    def count(self, name: str, n: int = 1) -> None:
        """Add to a metric of this tick."""
        self.counts[name] = self.counts.get(name, 0) + n

    # ---- effects ----------------------------------------------------------------------------

    def _ask(self, params: Any, **named: Any) -> None:
        """Ask for an effect; `named` are the optional fields of the request."""
        cls = type(params)
        name = self._bundle.name_of(cls)
        plain = codec_of(cls).plain(params)
        secret = _SECRETS.get(cls)
        if secret is not None:
            plain[secret] = outside.secrets_written(plain[secret])
        effect = self._catalogue.effects.get(name)
        document = self._document(None if effect is None else effect.params, plain)
        self.asked.append(EffectRequest(name, document, **named))

    def _child(self, workflow: Any, key: Any, event: Any) -> dict[str, Any]:
        """The parameters of a spawn or a call."""
        schema = self._bundle.name_of(type(event))
        value = self._document(self._catalogue.schemas.get(schema), plain_of(event))
        raw = value.bytes if isinstance(value, Admitted) else value
        return {
            "workflow": name_of_workflow(workflow),
            "key": None if key is None else canon.encode(plain_of(key)),
            "payload": {"schema": schema, "value": raw},
        }

    def _document(self, schema: Schema | None, plain: Any) -> bytes | Admitted:
        """A value under its schema; one that does not fit goes on as it is, to be judged."""
        if schema is not None:
            try:
                return schema.admit(plain)
            except SchemaMismatch:
                pass  # not swallowed: the kernel reads the bytes below and says what is wrong
        return canon.encode(plain)


class Ctx(Asked):
    """The context of a reducer; the function's return value is the next state."""

    def __init__(
        self, catalogue: Catalogue, bundle: Bundle, tick: Context | None, key: bytes | None = None
    ) -> None:
        super().__init__(catalogue, bundle, tick, key)
        self.status = RUNNING
        self.result: bytes | None = None
        self.reason: dict[str, str] | None = None

    def complete(self, result: Any = None) -> None:
        """End the cell well, with a result for whoever called it."""
        self.status, self.reason = COMPLETED, None
        self.result = None if result is None else canon.encode(plain_of(result))

    def fail(self, code: str, message: str = "") -> None:
        """End the cell as failed."""
        self.status, self.result = FAILED, None
        self.reason = {"code": code, "message": message}

    def effect(
        self,
        params: Any,
        *,
        corr: str | None = None,
        key: str | bytes | None = None,
        timeout: int | str | None = None,
        slot: str | None = None,
    ) -> None:
        """Ask for an effect; `key` names the intent, `corr` comes back with its outcome (K-47)."""
        self._ask(
            params,
            issuer_ref=corr or type(params).__name__,
            idempotency_key=key.encode() if isinstance(key, str) else key,
            timeout_ns=span_ns(timeout),
            cap_slot=slot,
        )

    def timer(self, after: int | str, corr: str = "Timer") -> None:
        """Ask to be woken after a span of logical time: `Timer.Fired(corr=...)`."""
        due = self.now + span_ns(after)
        self._ask(outside.Timer(deliver_at_ns=due, key=corr), issuer_ref=corr)

    def cancel(self, corr: str) -> None:
        """Cancel the open effects of this cell with that correlation."""
        self._ask(outside.Cancel(issuer_ref=corr), issuer_ref=f"cancel {corr}")

    def spawn(self, workflow: Any, key: Any, event: Any, corr: str = "Spawn") -> None:
        """Start a child cell; nobody waits for it."""
        self._ask(outside.Spawn(**self._child(workflow, key, event)), issuer_ref=corr)

    def call(self, workflow: Any, key: Any, event: Any, corr: str = "Call") -> None:
        """Start a child cell; `Call.Ok` or `Call.Failed` comes when it ends (X-17, X-18)."""
        self._ask(outside.Call(**self._child(workflow, key, event)), issuer_ref=corr)

    def read(self, workflow: Any, key: Any = None, corr: str = "Read") -> None:
        """Read the state of a cell of a workflow that `reads` names (X-27)."""
        raw = None if key is None else canon.encode(plain_of(key))
        self._ask(
            outside.Read(workflow=name_of_workflow(workflow), key=raw),
            issuer_ref=corr,
        )

    def output(self, schema: Schema, state: Any) -> TickOutput:
        """The output of the tick with this next state; refuses one that does not fit."""
        held: Admitted | None = None
        if state is not None:
            try:
                held = schema.admit(state)
            except (SchemaMismatch, NotCanonical) as why:
                message = f"state does not fit {schema.name}: {why}"
                raise TickFault(message, code="bad_output") from why
        return TickOutput(
            held,
            self.status,
            self.result,
            self.reason,
            tuple(self.emitted),
            tuple(self.asked),
            None,
            tuple(self.logs),
            self.counts or None,
        )


def plain_of(value: Any) -> Any:
    """The plain value of anything a workflow hands over."""
    if isinstance(type(value), RecordType):
        return codec_of(type(value)).plain(value)
    if isinstance(value, dict):
        return {key: plain_of(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_of(part) for part in value]
    if isinstance(value, UUID):
        return str(value)
    return value
