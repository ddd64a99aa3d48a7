"""The module ABI: what a tick is given and what it may answer (02 section 5).

Envelopes are canonical documents; optional fields are absent, never null.
Every runner (Python function, WASM, async, built-in) stands behind the one `Runner` protocol, so
the kernel never knows which lane a module runs in.

A runner may hand over `Admitted` values instead of bytes where it has already admitted them
under the workflow's own schema: a value is normalised once and encoded once.
"""

# tidy: the envelope tables and the runner protocol belong on one page.
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from tallystick.errors import TickFault
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.model.effects import KEY_BYTES_MAX
from tallystick.model.tuples import make
from tallystick.values import canon
from tallystick.values.schema import Admitted

Content = Callable[[str], bytes]
"""Reads a blob by hash text; offered to built-in and async modules only (03 section 5)."""

LEVELS: Final = frozenset({"debug", "info", "warning", "error"})


class Came(NamedTuple):
    """A settled effect as the code that asked sees it: its receipt without the envelope."""

    effect: str
    status: str
    payload: bytes
    issuer_ref: str | None
    intent: bytes


class Delivery(Protocol):
    """The event of a tick, in whichever form a lane works on."""

    def value(self) -> bytes:
        """The canonical document of the workflow's own event."""
        ...

    def plain(self) -> Any:
        """The same as a fresh plain value: what decoding the document gives."""
        ...

    def receipt(self) -> Came | None:
        """What a receipt brings, for a lane that shows no more of it; None for other events."""
        ...


class Context(Protocol):
    """What a tick may know of time, chance and place; a lane asks for as much as it needs."""

    @property
    def now_ns(self) -> int:
        """The logical time of the tick."""
        ...

    @property
    def world(self) -> str:
        """The id of the world."""
        ...

    def entropy(self) -> bytes:
        """The 64 bytes of chance of this tick."""
        ...

    def lot(self) -> int:
        """A number under 256, drawn by the delivery: who samples ticks samples the same again."""
        ...

    def document(self) -> bytes:
        """All of it as `sys/WorkflowContext@1`."""
        ...


class TickInput(NamedTuple):
    """One delivery: state and event as canonical documents, the context only if declared.

    A lane that works on plain values asks `event` for that and saves the way through bytes.
    `successor` is what a pinned flow may go on with when it starts anew.
    """

    state: bytes | None
    schema: str
    event: Delivery
    key: bytes | None
    ctx: Context | None
    successor: tuple[Catalogue, Workflow] | None = None

    def envelope(self) -> bytes:
        """The canonical document `{version, state, event, ctx?}`."""
        state, schema, event, key, ctx, _ = self
        value = event.value()
        own = b"" if key is None else _I["key"] + canon.put_bytes(key)
        return b"".join(
            (
                canon.PREFIX + canon.head(5, 3 + (ctx is not None)),
                b"" if ctx is None else _I["ctx"] + canon.put_bytes(ctx.document()),
                _I["event"] + canon.head(5, 2 + (key is not None)) + own,
                _I["value"] + canon.put_bytes(value),
                _I["schema"] + canon.put_text(schema),
                _I["state"] + (b"\xf6" if state is None else canon.put_bytes(state)),
                _VERSION,
            )
        )


_I: Final = {
    name: canon.put_key(name) for name in ("ctx", "key", "event", "value", "state", "schema")
}
_VERSION: Final = canon.put_key("version") + canon.put_int(1)


class EffectRequest(NamedTuple):
    """An effect that a tick asks for."""

    effect: str
    params: bytes | Admitted
    issuer_ref: str | None = None
    idempotency_key: bytes | None = None
    cap_slot: str | None = None
    timeout_ns: int | None = None


class EmittedEvent(NamedTuple):
    """A domain event that a tick emits."""

    schema: str
    value: bytes | Admitted
    key: bytes | None = None
    tags: tuple[str, ...] = ()


class TickOutput(NamedTuple):
    """What a tick answers; `state` None deletes a keyed cell or resets an unkeyed one."""

    state: bytes | Admitted | None
    status: str = RUNNING
    result: bytes | None = None
    reason: Mapping[str, str] | None = None
    events: tuple[EmittedEvent, ...] = ()
    effects: tuple[EffectRequest, ...] = ()
    ann: bytes | None = None
    logs: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, int] | None = None
    blobs: Mapping[str, bytes] | None = None


class Ran(NamedTuple):
    """A tick that answered: the output, its canonical envelope, and what it cost.

    `moved` says that the successor of the workflow gave it.
    `written` says that the lane encoded the result itself: nobody needs to read it again.
    """

    output: TickOutput
    envelope: bytes
    fuel: int
    engine: str
    moved: bool = False
    written: bool = False


class Halted(NamedTuple):
    """A run that ended in a fault: the code and what it had cost."""

    code: str
    message: str
    fuel: int
    engine: str
    limit: Mapping[str, Any] | None = None


class Runner(Protocol):
    """How module code runs; the kernel is handed one and imports none."""

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery of a workflow; never raises for what module code does."""
        ...

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """The first state of a new cell by the module's own init; None when it has none."""
        ...

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Call a pure function with one canonical document; the answer is its output document."""
        ...


# ---- reading an output ----------------------------------------------------------------------

_OUTPUT: Final = frozenset(
    {
        "state",
        "status",
        "result",
        "reason",
        "domain_events",
        "effects",
        "ann",
        "logs",
        "metrics",
        "blobs",
    }
)
_EFFECT: Final = frozenset(
    {"effect", "params", "issuer_ref", "idempotency_key", "cap_slot", "timeout_ns"}
)
_EVENT: Final = frozenset({"schema", "value", "key", "tags"})
_LOG: Final = frozenset({"level", "message", "fields"})


def bad_output(message: str) -> TickFault:
    """The fault of an answer that is not an output."""
    return TickFault(message, code="bad_output")


def read_output(raw: Any) -> TickOutput:
    """The output behind a decoded envelope, or a `bad_output` fault (K-34)."""
    _fields(raw, _OUTPUT, "output")
    if "state" not in raw:
        raise bad_output("output has no state")
    state = raw["state"]
    if state is not None:
        state = _doc(state, "state")
    status = raw.get("status", RUNNING)
    if status not in (RUNNING, COMPLETED, FAILED):
        raise bad_output(f"status {status!r} is not running, completed or failed")
    return TickOutput(
        state=state,
        status=status,
        result=_result(raw, status),
        reason=_reason(raw, status),
        events=tuple(read_event(e) for e in _list(raw, "domain_events")),
        effects=tuple(read_effect(e) for e in _list(raw, "effects")),
        ann=_opt(raw, "ann", bytes),
        logs=tuple(_log(entry) for entry in _list(raw, "logs")),
        metrics=_metrics(raw),
        blobs=_blobs(raw),
    )


_K: Final = {name: canon.put_key(name) for name in _OUTPUT}
_E: Final = {name: canon.put_key(name) for name in _EFFECT}


def write_output(output: TickOutput) -> bytes:
    """The canonical envelope of an output."""
    held, status, result, reason, events, effects, ann, logs, metrics, blobs = output
    state = held.bytes if type(held) is Admitted else _raw(held)
    rare = events or logs or metrics or blobs or reason is not None or ann is not None
    if rare or state is None:
        return _write_walked(output, state)
    return write_plain(state, status, result, effects)


def write_plain(
    state: bytes, status: str, result: bytes | None, effects: tuple[EffectRequest, ...]
) -> bytes:
    """The envelope of a state, a status, a result and effects: what nearly every tick answers."""
    n = 1
    out = [b"", _OCTETS[len(state)], state]
    if result is not None:
        out += (_RESULT, _OCTETS[len(result)], result)
        n += 1
    if status != RUNNING:
        out.append(_STATUS[status])
        n += 1
    if effects:
        if len(effects) == 1:  # a comprehension costs more than this one
            out += (_ONE_EFFECT, _write_effect(effects[0]))
        else:
            out.append(_write_effects(effects))
        n += 1
    out[0] = _MAPS[n]
    return b"".join(out)


def _write_walked(output: TickOutput, state: bytes | None) -> bytes:
    """Any envelope; the pieces stand in canonical order: by length of the key, then by letters."""
    out: list[bytes] = []
    if output.ann is not None:
        out.append(_K["ann"] + canon.put_bytes(output.ann))
    if output.logs:
        out.append(_K["logs"] + canon.encode_item([dict(entry) for entry in output.logs]))
    if output.blobs:
        out.append(_K["blobs"] + canon.encode_item(dict(output.blobs)))
    out.append(_K["state"] + (b"\xf6" if state is None else canon.put_bytes(state)))
    if output.reason is not None:
        out.append(_K["reason"] + canon.encode_item(dict(output.reason)))
    if output.result is not None:
        out.append(_K["result"] + canon.put_bytes(output.result))
    if output.status != RUNNING:
        out.append(_K["status"] + canon.put_text(output.status))
    if output.effects:
        out.append(_write_effects(output.effects))
    if output.metrics:
        out.append(_K["metrics"] + canon.encode_item(dict(output.metrics)))
    if output.events:
        events = [_write_event(e) for e in output.events]
        out.append(_K["domain_events"] + canon.encode_item(events))
    return canon.PREFIX + canon.head(5, len(out)) + b"".join(out)


_MAPS: Final = tuple(canon.PREFIX + canon.head(5, n) + _K["state"] for n in range(5))
_RESULT: Final = _K["result"]
_STATUS: Final = {name: _K["status"] + canon.put_text(name) for name in (COMPLETED, FAILED)}
_ONE_EFFECT: Final = _K["effects"] + canon.head(4, 1)
_OCTETS: Final = canon.OCTETS
_NAMES: Final = canon.NAMES


def _write_effects(effects: tuple[EffectRequest, ...]) -> bytes:
    many = [_write_effect(effect) for effect in effects]
    return _K["effects"] + canon.head(4, len(many)) + b"".join(many)


def _write_event(event: EmittedEvent) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": event.schema, "value": _raw(event.value)}
    if event.key is not None:
        body["key"] = event.key
    if event.tags:
        body["tags"] = list(event.tags)
    return body


def _write_effect(effect: EffectRequest) -> bytes:
    name, params, issuer_ref, idempotency_key, cap_slot, timeout_ns = effect
    raw = params.bytes if isinstance(params, Admitted) else params
    out = [_EFFECTS[2], _NAMES[name], _PARAMS, _OCTETS[len(raw)], raw]
    n = 2
    if cap_slot is not None:
        out += (_CAP_SLOT, _NAMES[cap_slot])
        n = 3
    if issuer_ref is None and timeout_ns is None and idempotency_key is None:
        out[0] = _EFFECTS[n]
        return b"".join(out)
    if issuer_ref is not None:
        out.append(_E["issuer_ref"] + canon.put_text(issuer_ref))
        n += 1
    if timeout_ns is not None:
        out.append(_E["timeout_ns"] + canon.put_int(timeout_ns))
        n += 1
    if idempotency_key is not None:
        out.append(_E["idempotency_key"] + canon.put_bytes(idempotency_key))
        n += 1
    out[0] = _EFFECTS[n]
    return b"".join(out)


_EFFECTS: Final = tuple(canon.head(5, n) + _E["effect"] for n in range(7))
_PARAMS: Final = _E["params"]
_CAP_SLOT: Final = _E["cap_slot"]


def _raw(value: bytes | Admitted | None) -> bytes | None:
    return value.bytes if isinstance(value, Admitted) else value


def _fields(raw: Any, known: frozenset[str], what: str) -> None:
    if type(raw) is not dict:
        raise bad_output(f"{what} is not a map")
    for name in raw:
        if name not in known:
            raise bad_output(f"{what} has an unknown field {name!r}")
        if raw[name] is None and name != "state":
            raise bad_output(f"{what}.{name} is null: leave an optional field out")


def _opt(raw: Mapping[str, Any], name: str, kind: type) -> Any:
    value = raw.get(name)
    if value is not None and type(value) is not kind:
        raise bad_output(f"{name} is not {kind.__name__}")
    return value


def _list(raw: Mapping[str, Any], name: str) -> list[Any]:
    value = raw.get(name, [])
    if type(value) is not list:
        raise bad_output(f"{name} is not a list")
    return value


def _doc(value: Any, what: str) -> bytes | Admitted:
    if type(value) is bytes or type(value) is Admitted:
        return value
    raise bad_output(f"{what} is not a document")


def _text(raw: Mapping[str, Any], name: str, what: str) -> str:
    value = raw.get(name)
    if type(value) is not str:
        raise bad_output(f"{what}.{name} is not text")
    return value


def _result(raw: Mapping[str, Any], status: str) -> bytes | None:
    result: bytes | None = _opt(raw, "result", bytes)
    if result is not None and status != COMPLETED:
        raise bad_output("result stands only with status completed")
    return result


def _reason(raw: Mapping[str, Any], status: str) -> Mapping[str, str] | None:
    reason = raw.get("reason")
    if (reason is not None) != (status == FAILED):
        raise bad_output("reason stands with status failed, always and only")
    if reason is None:
        return None
    _fields(reason, frozenset({"code", "message"}), "reason")
    return {"code": _text(reason, "code", "reason"), "message": _text(reason, "message", "reason")}


def read_event(raw: Any) -> EmittedEvent:
    """One emitted event of an envelope, or a `bad_output` fault."""
    _fields(raw, _EVENT, "event")
    tags = raw.get("tags", [])
    if type(tags) is not list or not all(type(t) is str for t in tags):
        raise bad_output("event.tags is not a list of text")
    value = _doc(raw.get("value"), "event.value")
    return EmittedEvent(_text(raw, "schema", "event"), value, _opt(raw, "key", bytes), tuple(tags))


def read_effect(raw: Any, params: bytes | Admitted | None = None) -> EffectRequest:
    """One requested effect of an envelope, or a `bad_output` fault.

    A lane that has made the params document already passes it.
    """
    _fields(raw, _EFFECT, "effect")
    if params is None:
        params = _doc(raw.get("params"), "effect.params")
    name = _text(raw, "effect", "effect")
    if len(raw) == 2:
        return make(EffectRequest, (name, params, None, None, None, None))
    key = _opt(raw, "idempotency_key", bytes)
    if key is not None and not 1 <= len(key) <= KEY_BYTES_MAX:
        raise bad_output(f"idempotency_key has {len(key)} bytes, not 1 to {KEY_BYTES_MAX}")
    timeout = _opt(raw, "timeout_ns", int)
    if timeout is not None and timeout < 0:
        raise bad_output("timeout_ns is negative")
    slot = _opt(raw, "cap_slot", str)
    return EffectRequest(name, params, _opt(raw, "issuer_ref", str), key, slot, timeout)


def _log(raw: Any) -> Mapping[str, Any]:
    _fields(raw, _LOG, "log")
    if _text(raw, "level", "log") not in LEVELS:
        raise bad_output(f"log level {raw.get('level')!r} is not one of {sorted(LEVELS)}")
    _text(raw, "message", "log")
    if type(raw.get("fields", {})) is not dict:
        raise bad_output("log.fields is not a map")
    return dict(raw)


def _metrics(raw: Mapping[str, Any]) -> Mapping[str, int] | None:
    metrics = _opt(raw, "metrics", dict)
    for name, value in (metrics or {}).items():
        if type(name) is not str or type(value) is not int:
            raise bad_output("metrics is not a map of names to integers")
    return metrics  # type: ignore[no-any-return]  # checked above


def _blobs(raw: Mapping[str, Any]) -> Mapping[str, bytes] | None:
    blobs = _opt(raw, "blobs", dict)
    for name, value in (blobs or {}).items():
        if type(value) is not bytes or canon.hash_of(value) != name:
            raise bad_output("blobs is not a map of hashes to the bytes they name")
    return blobs  # type: ignore[no-any-return]  # checked above
