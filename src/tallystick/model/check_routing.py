"""Routing under check: does each subscription deliver, under a key, to a cell that can begin?

A key path is read in the event's own value.
Where the workflow's event is a variant, an arm may also be reached as `$value.x`, because that is
where the field stands once the event is wrapped (K-33).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.errors import SchemaMismatch
from tallystick.model.check_flows import arms_of
from tallystick.model.check_work import Definition, Place, Work
from tallystick.values import names
from tallystick.values.schema import Schema

# Ordinary events that the kernel makes (02 section 5); every other `sys/` value has one addressee.
SUBSCRIBABLE: Final = frozenset({"sys/WorkflowFault@1", "sys/WorkflowCompleted@1"})
SPAWNING: Final = ("sys/workflow.spawn@1", "sys/workflow.call@1")


def check_routing(work: Work) -> None:
    """Every subscription, and workflows that nothing reaches."""
    for at, row in work.subscriptions():
        event, flow = row["event"], None
        if not work.blamed(at):
            flow = work.refer("defworkflow", row["workflow"], at / "workflow")
        work.schema(event, at / "event")
        if names.is_reserved(event) and event not in SUBSCRIBABLE:
            message = f"{event} goes to the cell it belongs to and cannot be subscribed to"
            hint = "add an arm for it to the workflow's event"
            work.add("routing.reserved_event", at / "event", message, hint)
        for i, origin in enumerate(row.get("filter", {}).get("origin", ())):
            source = origin.removeprefix("workflow:")
            if source != origin and not source.endswith("*"):
                work.refer("defworkflow", source, at / "filter" / "origin" / i)
        if flow is not None:
            _delivered(work, at, row, flow)
    if work.whole:
        _unreachable(work)


def subscribed(work: Work, name: str) -> bool:
    """True when a subscription leads to the workflow."""
    return any(row["workflow"] == name for _, row in work.subscriptions())


def _delivered(work: Work, at: Place, row: Mapping[str, Any], flow: Definition) -> None:
    event, arms = row["event"], arms_of(work, flow)
    readable = event in work.schemas and flow["event"] in work.schemas
    if readable and event != flow["event"] and event not in arms:
        message = f"{event} is neither the event of {flow['name']} nor an arm of it"
        hint = f"add an arm for it to {flow['event']}"
        work.add("routing.not_deliverable", at / "event", message, hint)
        readable = False
    _key(work, at, row, flow, readable=readable)
    # A whole variant comes with its arms, so a function over it would read several schemas.
    reads = event if not (event == flow["event"] and arms) else None
    _first_state(work, at, row, flow, reads)
    if "key_fn" in row:
        made = work.call(row["key_fn"], at / "key_fn", (reads, None))
        key = work.schemas.get(flow.get("key_schema", ""))
        answer = work.schemas.get(made[1]) if made is not None else None
        if key is not None and answer is not None and _plain(answer.type) != _plain(key.type):
            _wrong_key(work, at / "key_fn", answer.name, key)


def _unreachable(work: Work) -> None:
    spawns = any(
        effect in SPAWNING
        for _, flow in work.own("defworkflow")
        for effect in flow["effects_emitted"]
    )
    for at, _ in work.own("defworkflow"):
        if not spawns and not subscribed(work, at.def_name):
            message = f"no subscription leads to {at.def_name} and no workflow can spawn it"
            hint = "list an event for it under routing.subscriptions"
            work.add("routing.unreachable_workflow", at / "name", message, hint)


# ---- keys -----------------------------------------------------------------------------------


def _key(
    work: Work, at: Place, row: Mapping[str, Any], flow: Definition, *, readable: bool
) -> None:
    given = [word for word in ("key_field", "key_fn") if word in row]
    if "key_schema" not in flow:
        for word in given:
            message = f"{flow['name']} has no key"
            hint = "give the workflow a key_schema, or take the key away"
            work.add("routing.unexpected_key", at / word, message, hint)
        return
    if not given:
        message = f"{flow['name']} is keyed and nothing says where the key stands"
        work.add("routing.no_key", at, message, "write key_field or key_fn")
    elif len(given) == 2:
        message = "key_field and key_fn both say what the key is"
        work.add("routing.unexpected_key", at / "key_fn", message, "keep one of them")
    key = work.schemas.get(flow["key_schema"])
    if "key_field" in row and readable and key is not None:
        _key_field(work, at / "key_field", row, flow, key)


def _key_field(
    work: Work, at: Place, row: Mapping[str, Any], flow: Definition, key: Schema
) -> None:
    parts = row["key_field"].split(".")
    for name, path in _readings(work, row["event"], flow, parts):
        found = type_at(work.schemas[name].type, path)
        if found is None:
            message = f"{name} has nothing at {'.'.join(path)}"
            hint = f"its fields are {', '.join(_fields(work.schemas[name])) or 'none'}"
            work.add("routing.key_path", at, message, hint)
        elif _plain(found) != _plain(key.type):
            _wrong_key(work, at, f"{name} at {'.'.join(path)}", key)


def _readings(
    work: Work, event: str, flow: Definition, parts: list[str]
) -> list[tuple[str, list[str]]]:
    """Each (schema, path) that the key is read by.

    A subscription on the whole variant takes every arm, so the path must hold in each of them;
    what only the kernel makes is never routed.
    """
    arms = arms_of(work, flow)
    entered = parts[1:] if parts[0] == "$value" else parts
    if event == flow["event"] and arms and parts[0] == "$value":
        return [(arm, entered) for arm in arms if not names.is_reserved(arm)]
    if event in arms and "variant" not in work.schemas[event].type:
        return [(event, entered)]
    return [(event, parts)]


def type_at(type_: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    """The type at a path, None where the shape has none for certain.

    An optional member on the way may be null, so a path through it leads nowhere for certain;
    a path through a variant must hold in every arm, with one type.
    """
    if not path:
        return type_
    ((word, inner),) = _bare(type_).items()
    if word == "record" and path[0] in inner:
        return type_at(inner[path[0]], path[1:])
    if word == "variant" and path[0] == "$value":
        found = [type_at(arm, path[1:]) for arm in inner.values()]
        same = all(one is not None and _plain(one) == _plain(found[0] or {}) for one in found)
        return found[0] if same else None
    return None


def _wrong_key(work: Work, at: Place, what: str, key: Schema) -> None:
    message = f"{what} is not of the type of {key.name}"
    hint = "name a field of that type, or change the key_schema"
    work.add("routing.key_type", at, message, hint)


def _bare(type_: Mapping[str, Any]) -> Mapping[str, Any]:
    while "where" in type_:
        type_ = type_["where"]["type"]
    return type_


def _plain(type_: Mapping[str, Any]) -> Any:
    """The type without bounds: a key of a narrower schema is refused at ingress, by its value."""
    bare = _bare(type_)
    if "record" in bare:
        return {"record": {name: _plain(bare["record"][name]) for name in bare["record"]}}
    return bare


def _fields(schema: Schema) -> list[str]:
    return list(_bare(schema.type).get("record", {}))


# ---- first states ---------------------------------------------------------------------------


def _first_state(
    work: Work, at: Place, row: Mapping[str, Any], flow: Definition, reads: str | None
) -> None:
    state = work.schemas.get(flow["state"])
    if row.get("init_state") is not None and state is not None:
        try:
            state.admit(row["init_state"], "sugar")
        except SchemaMismatch as error:
            for fault in error.errors:
                here = Place(at.def_name, f"{at.path}/init_state{fault['path']}")
                message = f"expected {fault['expected']}, got {fault['got']}"
                work.add("routing.bad_init", here, message, f"it must be a {state.name}")
    if "init_fn" in row:
        made = work.call(row["init_fn"], at / "init_fn", (reads, None))
        if made is not None and made[1] != flow["state"]:
            message = f"the function answers {made[1]}, the state is {flow['state']}"
            hint = "name a function that answers the state"
            work.add("routing.bad_init", at / "init_fn", message, hint)
