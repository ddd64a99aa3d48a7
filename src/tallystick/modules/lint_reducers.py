"""Rules about what workflows ask for and how they take the answers: TL104, TL20x, TL30x, TL503."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tallystick.modules.lint_tree import (
    FlowSite,
    Function,
    Program,
    Site,
    called_name,
    calls,
    is_record,
    keyword,
    resolved,
)

_FAILURES: Final = ("Failed", "Settled", "Error", "Timeout", "Denied")
_SECRET_WORDS: Final = ("password", "secret", "api_key", "apikey", "authorization", "passwd")


def flow_sites(flow: FlowSite, program: Program) -> Iterator[Site]:
    """Everything these rules find in one workflow."""
    reach = program.reach(flow)
    yield from _effects(flow, reach, program)
    yield from _cells(flow, reach)
    yield from _broad(reach)
    if not flow.is_async:
        yield from _matches(flow, reach, program)
    for function in reach:
        yield from _captures(function, program)
        yield from _after_the_end(function)


_ASKS: Final = ("effect", "outcome", "timer", "sleep", "emit", "spawn", "call", "cancel", "receive")


def pure_sites(program: Program) -> Iterator[Site]:
    """Pure functions, upcasts and migrations that ask for something (K-02)."""
    for pure in program.pure:
        for function in program.reach_of(pure):
            for call in calls(function, *_ASKS):
                message = f"{pure.name} is pure and asks for something: {ast.unparse(call)[:60]}"
                hint = "give the answer back, and let the workflow that calls it ask"
                yield Site("TL201", call.lineno, message, hint)


def asked(reach: list[Function], program: Program) -> tuple[str, ...]:
    """The effect classes that code asks for, as far as its text says."""
    found: dict[str, None] = {}
    for function in reach:
        for call in calls(function, "effect", "outcome"):
            name = resolved(call.args[0] if call.args else None, function)
            if name in program.effects():
                found[str(name)] = None
        if any(calls(function, "timer")) or _sleeps(function) or _waits(function):
            found["Timer"] = None
        for node in ast.walk(function):
            # A class that is made and handed on, as `book(Hotel(...))`, is asked for in the end.
            name = called_name(node) if isinstance(node, ast.Call) else None
            if name in program.classes and name in program.effects():
                found[str(name)] = None
    return tuple(sorted(found))


def _sleeps(function: Function) -> bool:
    """True for our own `sleep`: another module's is another matter."""
    return any(isinstance(call.func, ast.Name) for call in calls(function, "sleep"))


def _waits(function: Function) -> bool:
    """True for a flow that asks for time by a limit or by trying again."""
    tries = (keyword(call, "retry") for call in calls(function, "effect", "outcome"))
    limits = calls(function, "timeout") if isinstance(function, ast.AsyncFunctionDef) else ()
    return any(limits) or any(given is not None for given in tries)


def cells_named(reach: list[Function]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The workflows that code reads, and those it spawns or calls."""
    reads: dict[str, None] = {}
    children: dict[str, None] = {}
    for function in reach:
        for call in calls(function, "read"):
            if _is_ctx(call) and call.args:
                reads[ast.unparse(call.args[0])] = None
        for call in calls(function, "spawn", "call"):
            if call.args and len(call.args) >= 3:
                children[ast.unparse(call.args[0])] = None
    return tuple(sorted(reads)), tuple(sorted(children))


def _effects(flow: FlowSite, reach: list[Function], program: Program) -> Iterator[Site]:
    declared = flow.names("effects")
    known = program.effects()
    for function in reach:
        for call in calls(function, "effect", "outcome"):
            given = call.args[0] if call.args else None
            name = resolved(given, function)
            if name is None and not _is_parameter(given, function):
                hint = "make the request where it is asked for"
                yield Site("TL204", call.lineno, "which effect this is, nobody can see", hint)
            elif name in known and name not in program.classes:
                continue  # one of ours: declared below by name
            elif name in known and _is_risky(str(name), call, program):
                message = f"{name} has no key: asked twice it is done twice"
                yield Site("TL205", call.lineno, message, 'add key="..." (K-47)')
    for name in asked(reach, program):
        if name not in declared and not (flow.is_async and name == "Timer"):
            hint = f"add it: effects=[{', '.join([*declared, name])}]"
            yield Site("TL201", flow.line, f"{flow.name} asks for {name} undeclared", hint)
    for name in declared:
        if name not in asked(reach, program):
            message = f"{flow.name} declares {name} and never asks for it"
            yield Site("TL202", flow.line, message, "take it out of effects=[...]")


def _is_risky(name: str, call: ast.Call, program: Program) -> bool:
    """True for a request that may be performed twice, and would matter twice."""
    return keyword(call, "key") is None and not program.is_forgiving(name)


def _is_parameter(given: ast.expr | None, function: Function) -> bool:
    """True for a parameter: the caller has made the request, and is looked at itself."""
    names = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    inner = [n for n in ast.walk(function) if isinstance(n, Function)]
    names += [a.arg for other in inner for a in other.args.args]
    return isinstance(given, ast.Name) and given.id in names


def _is_ctx(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "ctx"


def _cells(flow: FlowSite, reach: list[Function]) -> Iterator[Site]:
    reads, children = cells_named(reach)
    for name in reads:
        if name not in flow.names("reads"):
            hint = f"add it: reads=[{name}]"
            yield Site("TL203", flow.line, f"{flow.name} reads {name} undeclared", hint)
    for name in children:
        if name not in flow.names("children"):
            hint = f"add it: children=[{name}]"
            yield Site("TL203", flow.line, f"{flow.name} calls {name} undeclared", hint)


def _broad(reach: list[Function]) -> Iterator[Site]:
    for function in reach:
        for node in ast.walk(function):
            if not isinstance(node, ast.Try):
                continue
            inside = [n for part in node.body for n in ast.walk(part)]
            touches = any(isinstance(n, ast.Await) for n in inside) or any(
                isinstance(n, ast.Name) and n.id == "ctx" for n in inside
            )
            for handler in node.handlers:
                broad = isinstance(handler.type, ast.Name) and handler.type.id == "Exception"
                if broad and touches:
                    hint = "name what can be raised; a bug should be a fault"
                    yield Site("TL106", handler.lineno, "except Exception around ctx", hint)


# ---- matching -------------------------------------------------------------------------------


def _matches(flow: FlowSite, reach: list[Function], program: Program) -> Iterator[Site]:
    patterns = [p for f in reach for p in _patterns(f)]
    if not patterns:
        return
    for name in flow.names("effects"):
        seen = [p.split(".")[1] for p in patterns if p.startswith(f"{name}.")]
        waited = name != "Timer"
        if waited and seen and not any(part in _FAILURES for part in seen):
            hint = f"add a case {name}.Failed(code=code)"
            yield Site("TL206", flow.line, f"{flow.name} has no case for a failed {name}", hint)
    if _falls_through(flow.tick):
        return
    for arm in _arms(flow.tick):
        if arm.partition(".")[0] in program.classes and not _matched(arm, patterns):
            hint = f"add a case {arm}(), or return the state at the end"
            yield Site("TL304", flow.line, f"{flow.name} never matches {arm}", hint)


def _patterns(function: Function) -> list[str]:
    return [ast.unparse(n.cls) for n in ast.walk(function) if isinstance(n, ast.MatchClass)]


def _arms(tick: Function) -> list[str]:
    """The classes in the annotation of the event, and the outcomes: `Placed`, `Charge.Settled`."""
    arguments = tick.args.args
    annotation = arguments[1].annotation if len(arguments) > 1 else None
    nodes = list(ast.walk(annotation)) if annotation else []
    owners = [n.value for n in nodes if isinstance(n, ast.Attribute)]
    return [
        ast.unparse(n) for n in nodes if isinstance(n, ast.Name | ast.Attribute) and n not in owners
    ]


def _matched(arm: str, patterns: list[str]) -> bool:
    """True when some case takes it; of what is settled, which outcome lacks is TL206's."""
    effect, _, outcome = arm.rpartition(".")
    if outcome == "Settled":
        told = f"{effect}.Progress"
        return any(each.startswith(f"{effect}.") and each != told for each in patterns)
    return arm in patterns


def _falls_through(tick: Function) -> bool:
    """True when something stands behind the last match: it takes what no case took."""
    last = tick.body[-1]
    if not isinstance(last, ast.Match):
        return True
    final = last.cases[-1].pattern
    return isinstance(final, ast.MatchAs) and final.pattern is None


def _captures(function: Function, program: Program) -> Iterator[Site]:
    for node in ast.walk(function):
        name = node.name if isinstance(node, ast.MatchAs) and node.pattern is None else None
        if name is not None and (name in program.classes or name[:1].isupper()):
            line = getattr(node, "lineno", 0)
            yield Site("TL303", line, f"case {name} takes everything", f"write {name}()")


def _after_the_end(function: Function) -> Iterator[Site]:
    for node in ast.walk(function):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list):
                yield from _block(body)


def _block(body: list[ast.stmt]) -> Iterator[Site]:
    ended = False
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and _is_ctx(call):
            if called_name(call) in ("complete", "fail"):
                ended = True
            elif called_name(call) in ("effect", "timer", "call", "read") and ended:
                hint = "ask before the end, or do not end yet"
                yield Site("TL305", call.lineno, "nobody will hear the answer: it ended", hint)


# ---- classes --------------------------------------------------------------------------------


def record_fields(program: Program) -> Iterator[Site]:
    """TL104: floats in what has a schema; TL302: types that the lane cannot read."""
    for cls in program.classes.values():
        if not is_record(cls):
            continue
        for node in cls.body:
            if not isinstance(node, ast.AnnAssign):
                continue
            name = ast.unparse(node.target)
            if isinstance(node.annotation, ast.Constant) and type(node.annotation.value) is str:
                hint = "write the annotation without quotes, below what it names"
                yield Site("TL302", node.lineno, f"{cls.name}.{name}: an annotation as text", hint)
            if _names_float(node.annotation):
                hint = "use Decimal, or an int of the smallest unit"
                yield Site("TL104", node.lineno, f"{cls.name}.{name} is a float", hint)


def _names_float(annotation: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "float" for n in ast.walk(annotation))


def literal_secrets(program: Program) -> Iterator[Site]:
    """TL503: a text that looks like a secret where a request is made."""
    for function in program.functions.values():
        for call in calls(function, *program.effects()):
            for name in _literal_secrets(call):
                hint = "use Secret(alias=...): the value stays with the node"
                yield Site("TL503", call.lineno, f"{name} is written into the journal", hint)


def _literal_secrets(call: ast.Call) -> Iterator[str]:
    for given in call.keywords:
        text = isinstance(given.value, ast.Constant) and given.value.value
        if text and any(word in (given.arg or "").lower() for word in _SECRET_WORDS):
            yield str(given.arg)
