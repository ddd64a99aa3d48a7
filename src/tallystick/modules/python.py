"""The plain Python runner: reducers as ordinary functions, in this process (D14: trusted code).

A reducer is `tick(state, event, ctx) -> Outcome | state`.
State and event come as fresh plain values decoded from canonical bytes, so a reducer that changes
what it was given changes nobody else's copy.
Values it returns are admitted under the workflow's own schemas here, once; the kernel does not
encode them again.
Whatever a reducer raises is a fault of its tick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallystick.errors import LimitExceeded, NotCanonical, SchemaMismatch, TickFault
from tallystick.model.abi import (
    Content,
    EffectRequest,
    EmittedEvent,
    Halted,
    Ran,
    TickInput,
    TickOutput,
    read_effect,
    read_event,
    read_output,
    write_output,
    write_plain,
)
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import COMPLETED, RUNNING
from tallystick.model.tuples import make
from tallystick.values import canon
from tallystick.values.schema import Admitted, Schema

ENGINE: Final = "python/0"  # lane 0: plain functions, no meter

Function = Callable[..., Any]


@dataclass(slots=True)
class Outcome:
    """What a reducer answers, with plain values in place of documents.

    `effects` are dicts of `effect`, `params` and the optional fields of the ABI; `events` are
    dicts of `schema`, `value` and optional `key`, `tags`.
    """

    state: Any
    status: str = RUNNING
    result: Any = None
    reason: Mapping[str, str] | None = None
    effects: Sequence[Mapping[str, Any]] = ()
    events: Sequence[Mapping[str, Any]] = ()
    ann: Any = None
    logs: Sequence[Mapping[str, Any]] = ()
    metrics: Mapping[str, int] | None = None


class PythonRunner:
    """Runs functions by (module, entrypoint)."""

    __slots__ = ("_functions",)

    def __init__(self, functions: Mapping[tuple[str, str], Function]) -> None:
        self._functions = dict(functions)

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery; every exception of the function is a fault."""
        del content  # plain reducers read no blobs
        function = self._functions.get((workflow.module, workflow.entrypoint))
        if function is None:
            return _halted("exception", f"no function {workflow.entrypoint} is loaded")
        data, _, event, _, about, _ = tick
        try:
            state = None if data is None else _plain_state(workflow, data)
            ctx = None if about is None else canon.decode(about.document())
            answer = function(state, event.plain(), ctx)
            output, envelope = _output(catalogue, workflow, answer)
            return make(Ran, (output, envelope, 0, ENGINE, False, True))
        except LimitExceeded as over:
            return Halted(over.code, over.message, 0, ENGINE, over.limit)
        except TickFault as fault:
            return _halted(fault.code, fault.message)
        except Exception as why:  # noqa: BLE001 - the fence around module code: any raise is a fault
            return _halted("exception", _said(why))

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """Plain functions have no init of their own."""
        del catalogue, workflow, tick
        return None

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Call a pure function: `{version, input, ctx?}` in, `{output}` out (K-02)."""
        del catalogue  # the functions were handed over by name
        function = self._functions.get((module, entrypoint))
        if function is None:
            return _halted("exception", f"no function {entrypoint} is loaded")
        try:
            given: dict[str, Any] = {"version": 1, "input": canon.decode(data)}
            if ctx is not None:
                given["ctx"] = canon.decode(ctx)
            answer = function(given)
            if type(answer) is not dict or answer.keys() != {"output"}:
                return _halted("bad_output", "a pure function answers {output} and nothing else")
            return canon.encode(answer["output"])
        except Exception as why:  # noqa: BLE001 - the fence around module code: any raise is a fault
            return _halted("exception", _said(why))


def _plain_state(workflow: Workflow, data: bytes) -> Any:
    """The state as a fresh plain value; the schema's own reader is the faster decoder."""
    try:
        return workflow.state.plain(data)
    except SchemaMismatch:
        return canon.decode(data)  # an older version that the workflow says it reads


def _output(catalogue: Catalogue, workflow: Workflow, answer: Any) -> tuple[TickOutput, bytes]:
    """The output that a function answers, and its envelope."""
    if type(answer) is not Outcome and not isinstance(answer, Outcome):
        answer = Outcome(answer)
    state = answer.state
    if state is not None:
        try:
            state = workflow.state.admit(state)
        except (SchemaMismatch, NotCanonical) as why:
            raise _misfit("state", workflow.state, why) from why
    events = tuple([_event(catalogue, e) for e in answer.events]) if answer.events else ()
    effects = _effects(catalogue, answer.effects) if answer.effects else ()
    result = answer.result
    # The common answers need no envelope walk: every part is admitted or checked already.
    if answer.ann is None and answer.reason is None and not (answer.logs or answer.metrics):
        status = COMPLETED if answer.status == COMPLETED else RUNNING
        if status == COMPLETED or (answer.status == RUNNING and result is None):
            data = None if result is None else canon.encode(result)
            plain = (state, status, data, None, events, effects, None, (), None, None)
            output = make(TickOutput, plain)
            if events or state is None:
                return output, write_output(output)
            return output, write_plain(state.bytes, status, data, effects)
    output = read_output(_envelope(workflow, answer, state))
    output = output._replace(events=events, effects=effects)
    return output, write_output(output)


def _envelope(workflow: Workflow, answer: Outcome, state: Admitted | None) -> dict[str, Any]:
    """Any other answer goes through the envelope check that every lane passes."""
    raw: dict[str, Any] = {"state": state, "status": answer.status}
    if answer.result is not None:
        raw["result"] = canon.encode(answer.result)
    if answer.reason is not None:
        raw["reason"] = dict(answer.reason)
    if answer.ann is not None:
        schema = workflow.annotations
        fitted = None if schema is None else _fitted(schema, answer.ann)
        raw["ann"] = canon.encode(answer.ann) if fitted is None else fitted
    if answer.logs:
        raw["logs"] = [dict(entry) for entry in answer.logs]
    if answer.metrics:
        raw["metrics"] = dict(answer.metrics)
    return raw


def _event(catalogue: Catalogue, raw: Mapping[str, Any]) -> EmittedEvent:
    read = dict(raw)
    schema = catalogue.schemas.get(str(raw.get("schema")))
    read["value"] = _document(schema, raw.get("value"))
    return read_event(read)


def _effects(catalogue: Catalogue, asked: Sequence[Mapping[str, Any]]) -> tuple[EffectRequest, ...]:
    if len(asked) == 1:  # a comprehension costs more than this one
        return (_effect(catalogue, asked[0]),)
    return tuple([_effect(catalogue, raw) for raw in asked])


def _effect(catalogue: Catalogue, raw: Mapping[str, Any]) -> EffectRequest:
    name, given, slot = raw.get("effect"), raw.get("params"), raw.get("cap_slot")
    effect = catalogue.effects.get(name if type(name) is str else str(name))
    params = _document(None if effect is None else effect.params, given)
    usual = type(slot) is str and len(raw) == 3 and type(raw) is dict
    if usual and type(name) is str and given is not None:
        return make(EffectRequest, (name, params, None, None, slot, None))
    return read_effect(raw, params)


def _document(schema: Schema | None, value: Any) -> bytes | Admitted:
    """A value under its schema; one that does not fit goes on as it is, to be judged."""
    if schema is not None:
        try:
            return schema.admit(value)
        except SchemaMismatch:
            pass  # not swallowed: the kernel reads the bytes below and says what is wrong
    return canon.encode(value)


def _fitted(schema: Schema, value: Any) -> bytes:
    try:
        return schema.admit(value).bytes
    except (SchemaMismatch, NotCanonical) as why:
        raise _misfit("ann", schema, why) from why


def _misfit(what: str, schema: Schema, why: Exception) -> TickFault:
    return TickFault(f"{what} does not fit {schema.name}: {why}", code="bad_output")


def _said(why: Exception) -> str:
    """What an exception of module code says, if it can say anything."""
    try:
        return f"{type(why).__name__}: {why}"
    except Exception:  # noqa: BLE001 - the words of module code are module code too
        return type(why).__name__


def _halted(code: str, message: str) -> Halted:
    return Halted(code, message, 0, ENGINE)
