"""The shape of a workflow: its annotations read once.

Annotations are the definition (K-03): which state, which events in which order, which outcomes.
"""

from __future__ import annotations

import dis
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallystick.errors import BadDefinition
from tallystick.values.names import nearest
from tallystick.values.schema.annotations import type_of
from tallystick.workflow import outside
from tallystick.workflow.bundle import On, WorkflowSpec
from tallystick.workflow.codec import AS_IS, Codec, codec_of, fields_of, hints_of
from tallystick.workflow.effects import EffectType

RECEIPT: Final = "Receipt"
REJECTED: Final = "Rejected"
PROGRESS: Final = "Progress"
CANCEL: Final = "Cancel"
_KERNEL_ARMS: Final = {
    RECEIPT: "sys/EffectReceiptEnvelope@1",
    REJECTED: "sys/EffectReceiptRejected@1",
    PROGRESS: "sys/EffectStreamFrame@1",
    CANCEL: "sys/CancelRequested@1",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a workflow takes and gives.

    `arms` maps each tag of the event to its domain class; `kernel` the tags that the kernel fills.
    `effects` may be asked for; `heard` are those whose outcomes are named besides.
    `state` is None for an async workflow, whose state is its history.
    `may_end` is False when the annotation of the next state leaves out None, which ends the cell.
    """

    spec: WorkflowSpec
    state: Any
    state_codec: Codec
    arms: Mapping[str, type]
    codecs: Mapping[str, Codec]
    kernel: tuple[str, ...]
    effects: Mapping[str, EffectType]
    heard: Mapping[str, EffectType]
    read_codec: Codec
    starts: frozenset[str]
    may_end: bool

    @property
    def plain_event(self) -> bool:
        """True when the event is one record and no variant is needed."""
        return len(self.arms) == 1 and not self.kernel

    def kernel_arms(self) -> dict[str, str]:
        """The arms that the kernel fills, with their schemas."""
        return {tag: _KERNEL_ARMS[tag] for tag in self.kernel}


def shape_of(spec: WorkflowSpec) -> Shape:
    """The shape of a workflow; refuses annotations that say too little."""
    hints = _hints(spec)
    if spec.is_async:
        starting = _members(hints[1])
        state, members = None, [*starting, *_received(spec.code)]
    else:
        starting = []
        state, members = _state(hints[0]), _members(hints[1])
    arms = _arms(spec, members)
    classes = effect_classes(spec)
    # Only hand-written workflows can forget the arms of receipts (K-18).
    kernel = [RECEIPT, REJECTED] if classes else []
    if any(getattr(m, "__name__", "") == PROGRESS and not _is_domain(m) for m in members):
        kernel.append(PROGRESS)
    if outside.CancelRequested in members or spec.is_async:
        kernel.append(CANCEL)
    return Shape(
        spec=spec,
        state=state,
        state_codec=AS_IS if state is None else codec_of(state),
        arms=arms,
        codecs={tag: codec_of(cls) for tag, cls in arms.items()},
        kernel=tuple(kernel),
        effects={spec.bundle.name_of(cls): cls for cls in classes},
        heard={spec.bundle.name_of(cls): cls for cls in [*classes, *_heard(members)]},
        read_codec=_read_codec(spec),
        starts=frozenset(cls.__name__ for cls in starting),
        may_end=_may_end(spec),
    )


def effect_classes(spec: WorkflowSpec) -> list[Any]:
    """The effects a workflow may ask for, those that other options imply included."""
    said = spec.options
    found = list(said.effects)
    if spec.is_async:
        found.append(outside.Timer)
    if said.children:
        found += [outside.Spawn, outside.Call]
    if said.reads:
        found.append(outside.Read)
    if found:
        found.append(outside.Cancel)
    return list(dict.fromkeys(found))


def key_type(spec: WorkflowSpec, shape: Shape) -> dict[str, Any] | None:
    """The type of the key, read from the first subscribed event that has one."""
    for on in subscriptions(spec, shape):
        if on.key is not None:
            return type_of(_at(on.event, on.key))
    return None


def subscriptions(spec: WorkflowSpec, shape: Shape) -> list[On]:
    """What the workflow listens to: as it says, or the domain arms of its annotation in order."""
    said = spec.options
    if said.on is not None:
        return [on if on.key else On(on.event, _key(spec, on.event), *_rest(on)) for on in said.on]
    # What a flow only receives does not start one.
    return [
        On(cls, _key(spec, cls), create=not spec.is_async or tag in shape.starts)
        for tag, cls in shape.arms.items()
    ]


def _rest(on: On) -> tuple[Any, ...]:
    return on.origin, on.tags, on.create, on.init


def _key(spec: WorkflowSpec, event: type) -> str | None:
    key = spec.options.key
    return key.get(event) if isinstance(key, Mapping) else key


def _at(cls: Any, path: str) -> Any:
    for name in path.split("."):
        fields = fields_of(cls)
        if name not in fields:
            message = f"{cls.__name__} has no field {name} to be the key"
            hint = nearest(name, fields) or f"its fields are {', '.join(fields)}"
            raise BadDefinition(message, code="routing.key_path", where={"path": "/key"}, hint=hint)
        cls = fields[name]
    return cls


def _hints(spec: WorkflowSpec) -> list[Any]:
    code = spec.tick
    if code is None:
        hint = "write @staticmethod and def tick(state: S | None, event: E, ctx: Ctx) -> S in it"
        raise BadDefinition("the class has no tick", code="workflow.bad_event", hint=hint)
    hints = hints_of(code)
    count = 2 if spec.is_async else 3
    given = code.__code__.co_varnames[: code.__code__.co_argcount]
    wanted = given[1:2] if spec.is_async else given[:2]
    if len(given) != count or any(name not in hints for name in wanted):
        form = (
            "f(ctx: Flow, start: E) -> R"
            if spec.is_async
            else "f(state: S | None, event: E, ctx: Ctx) -> S"
        )
        bare = [name for name in wanted if name not in hints]
        message = (
            f"it takes {len(given)} things, not {count}"
            if len(given) != count
            else f"{bare[0]} has no annotation"
        )
        raise BadDefinition(message, code="workflow.bad_event", hint=f"write it as {form}")
    return [None, hints[given[1]]] if spec.is_async else [hints[given[0]], hints[given[1]]]


def _heard(members: list[Any]) -> list[Any]:
    """The effects whose outcomes an event names: a refusal of one may come though none is asked."""
    return [member.tally_effect for member in members if hasattr(member, "tally_effect")]


def _may_end(spec: WorkflowSpec) -> bool:
    """True unless the next state is annotated, and not with None."""
    said = hints_of(spec.tick).get("return", type(None))
    return said is Any or type(None) in _members(said)


def _state(annotation: Any) -> Any:
    """The annotation without its `| None`: a missing state is no value."""
    members = _members(annotation)
    some = [member for member in members if member is not type(None)]
    if len(some) == len(members):
        return annotation
    if len(some) == 1:
        return some[0]
    return typing.Union[tuple(some)]  # noqa: UP007 - the members are only known here


def _members(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return list(typing.get_args(annotation))
    return [annotation]


def _is_domain(member: Any) -> bool:
    return not hasattr(member, "tally_effect") and member is not outside.CancelRequested


def _arms(spec: WorkflowSpec, members: list[Any]) -> dict[str, type]:
    arms: dict[str, type] = {}
    for member in members:
        if isinstance(member, EffectType):
            message = f"{member.__name__} is an effect, and no event"
            hint = f"name what comes of it: {member.__name__}.Settled; a flow awaits it"
            raise BadDefinition(message, code="workflow.bad_event", hint=hint)
        if not _is_domain(member) or member is type(None):
            continue
        if not isinstance(member, type):
            message = f"{spec.name}: {member!r} is not an event"
            hint = "an event is a Record, or a union of Records"
            raise BadDefinition(message, code="workflow.bad_event", hint=hint)
        if arms.setdefault(member.__name__, member) is not member:
            message = f"{spec.name}: two events are called {member.__name__}"
            raise BadDefinition(message, code="workflow.bad_event", hint="rename one of them")
    for on in spec.options.on or ():
        arms.setdefault(on.event.__name__, on.event)
    return arms


def _read_codec(spec: WorkflowSpec) -> Codec:
    """How a read state is understood: as the one workflow that may be read, else as plain value."""
    reads = [r for r in spec.options.reads if not isinstance(r, str)]
    if len(reads) != 1 or len(spec.options.reads) != 1:
        return AS_IS
    other = reads[0].tally_workflow
    return AS_IS if other.is_async else codec_of(_state(_hints(other)[0]))


def _received(function: Any) -> list[Any]:
    """The classes that an async function names in `receive(...)`, in the order of its code."""
    found: dict[Any, None] = {}
    for name in _received_names(function.__code__, function.__globals__, set()):
        cls = function.__globals__.get(name)
        if isinstance(cls, type):
            found[cls] = None
    return list(found)


def _received_names(
    code: types.CodeType, scope: Mapping[str, Any], seen: set[types.CodeType]
) -> Iterator[str]:
    """Names given first to `receive` here, in inner functions, and in functions called by name."""
    seen.add(code)
    asked = False
    for step in dis.get_instructions(code):
        if step.opname != "LOAD_GLOBAL":
            continue
        if asked:
            yield str(step.argval)
        asked = step.argval == "receive"
        inner = getattr(scope.get(str(step.argval)), "__code__", None)
        if inner is not None and inner not in seen:
            yield from _received_names(inner, scope, seen)
    for part in code.co_consts:
        if isinstance(part, types.CodeType) and part not in seen:
            yield from _received_names(part, scope, seen)
