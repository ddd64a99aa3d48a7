"""Rules about values and what a workflow gives back: TL307 and TL308 (ADR 0024).

TL307: a value of another type than its place has.
TL308: a workflow that does not say what it gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.errors import TallyError
from tallystick.modules.lint_kinds import NOTHING, Kinds, Names, inside, named, own_nodes
from tallystick.modules.lint_tree import FlowSite, Function, Program, Site
from tallystick.values.schema.annotations import type_of
from tallystick.values.schema.schema import compile_schema
from tallystick.workflow.codec import codec_of, fields_of, span_ns
from tallystick.workflow.records import RecordType

FIT: Final = "write a value of that type, or change the annotation"
NEVER_RECORDS: Final = (
    ast.BinOp, ast.Compare, ast.Dict, ast.DictComp, ast.JoinedStr, ast.List, ast.ListComp,
    ast.Set, ast.SetComp, ast.Tuple, ast.UnaryOp,
)  # fmt: skip


def default_sites(program: Program, scope: Mapping[str, Any]) -> Iterator[Site]:
    """Defaults of records that are not of the type of their field."""
    for name, node in program.classes.items():
        cls = scope.get(name)
        if not isinstance(cls, RecordType):
            continue
        for part in node.body:
            if isinstance(part, ast.AnnAssign):
                yield from _default(cls, part)


def _default(cls: RecordType, part: ast.AnnAssign) -> Iterator[Site]:
    field = ast.unparse(part.target)
    if field not in cls.tally_defaults:
        return
    value = cls.tally_defaults[field]
    why = _wrong(fields_of(cls)[field], value)
    if why is not None:
        optional = f"write {field}: {ast.unparse(part.annotation)} | None = None"
        hint = optional if value is None else "write a default of that type"
        yield Site("TL307", part.lineno, f"the default of {cls.__name__}.{field}: {why}", hint)


def misfit(annotation: Any, node: ast.expr) -> str | None:
    """Why a literal does not fit a field; None when it does, or is no literal."""
    try:
        value = ast.literal_eval(node)
    except (TypeError, ValueError):
        return None
    return _wrong(annotation, value)


def _wrong(annotation: Any, value: Any) -> str | None:
    """Why a value has no place under an annotation; None when it has."""
    try:
        schema = compile_schema("lint/Field@1", type_of(annotation), _no_refs)
        schema.admit(codec_of(annotation).plain(value))
    except (TallyError, AttributeError, KeyError, TypeError, ValueError):
        # A codec takes a value of its type for granted, and trips over others in its own way.
        return f"{value!r} is not of type {getattr(annotation, '__name__', annotation)}"
    return None


def _no_refs(name: str) -> Any:
    raise AssertionError(f"{name}: without names a type has no refs")


def is_span(text: str) -> bool:
    """True for the text of a duration."""
    try:
        span_ns(text)
    except ValueError:
        return False
    return True


# ---- what a workflow gives ----------------------------------------------------------------------


def gift_sites(flow: FlowSite, top: Names) -> Iterator[Site]:
    """What a workflow gives back, as far as its annotation and its returns say."""
    tick = flow.tick
    if tick.returns is None:
        held = "" if flow.is_async else _state_said(tick)
        hint = f"write -> {held or 'Result'} before the colon"
        yield Site("TL308", tick.lineno, f"{flow.name} does not say what it gives", hint)
    if flow.is_async or not tick.args.args:
        return
    state = top.said(tick.args.args[0].annotation)
    records = frozenset() if state is None else state - {NOTHING}
    if not records or not all(isinstance(cls, RecordType) for cls in records):
        return
    yield from _other_state(flow, top, records)


def _other_state(flow: FlowSite, top: Names, records: Kinds) -> Iterator[Site]:
    """What a reducer gives back is its state, and it gives one."""
    shown = named(records)
    hint = f"return a {shown}, or None to end the cell"
    said = top.said(flow.tick.returns)
    if said is not None and not said - {NOTHING} <= records:
        message = f"{flow.name} says that it gives {named(said)}, and its state is {shown}"
        yield Site("TL307", flow.tick.lineno, message, f"write -> {shown}")
    names = inside(flow.tick, top)
    backs = [node for node in own_nodes(flow.tick) if isinstance(node, ast.Return)]
    for node in backs:
        kinds = names.kinds(node.value)
        other = kinds is not None and bool(kinds) and not kinds & (records | {NOTHING})
        if isinstance(node.value, NEVER_RECORDS) or other:
            message = f"{flow.name} gives {ast.unparse(node.value or node)[:40]}, not its state"
            yield Site("TL307", node.lineno, message, hint)
    if not backs and said is not None and NOTHING not in said:
        yield Site("TL307", flow.tick.lineno, f"{flow.name} never gives a state back", hint)


def _state_said(tick: Function) -> str:
    first = tick.args.args[0].annotation if tick.args.args else None
    return "" if first is None else ast.unparse(first).replace(" | None", "")
