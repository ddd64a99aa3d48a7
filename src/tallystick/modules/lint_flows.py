"""Rules about async workflows: TL40x."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeGuard

from tallystick.modules.lint_tree import FlowSite, Function, Program, Site, called_name, calls

TRAPS: Final = frozenset(
    ["call", "checkpoint", "effect", "gather", "outcome", "receive", "sleep", "spawn", "wait_first"]
)


def flow_sites(flow: FlowSite, program: Program) -> Iterator[Site]:
    """Everything these rules find in one workflow."""
    if not flow.is_async:
        return
    reach = program.reach(flow)
    yield from _unawaited(reach, program)
    yield from _swallowed(reach)
    for function in reach:
        yield from _endless(function)
    if flow.text("lifecycle", "process") == "process":
        yield from _unbounded(reach)


def _unawaited(reach: list[Function], program: Program) -> Iterator[Site]:
    """TL401: a trap, or an async function of the file, that is called and never awaited."""
    flows = {name for name, each in program.functions.items() if _is_async(each)}
    for function in reach:
        inner = {node.name for node in ast.walk(function) if _is_async(node) and node != function}
        above = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
        for call in ast.walk(function):
            named = call.func if isinstance(call, ast.Call) else None
            if not isinstance(named, ast.Name) or named.id not in TRAPS | flows | inner:
                continue
            if _is_lost(call, above, awaits=_is_async(_around(call, above))):
                message = f"{named.id}(...) is not awaited: nothing happens"
                yield Site("TL401", named.lineno, message, f"await {named.id}(...)")


def _is_async(node: ast.AST) -> TypeGuard[ast.AsyncFunctionDef]:
    return isinstance(node, ast.AsyncFunctionDef)


def _around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.AST:
    """The function or lambda that a node stands in."""
    while node in above and not isinstance(node, Function | ast.Lambda):
        node = above[node]
    return node


def _is_lost(node: ast.AST, above: dict[ast.AST, ast.AST], *, awaits: bool) -> bool:
    """True when nobody can await what an expression gives.

    A plain function may hand it on; whoever holds it in a call, a list or a name that goes there
    awaits it in the end.
    """
    holder = above[node]
    while isinstance(holder, ast.IfExp | ast.NamedExpr):
        holder = above[holder]
    match holder:
        case ast.Expr():
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            used = [n for n in above if isinstance(n, ast.Name) and n.id == name]
            loads = [n for n in used if isinstance(n.ctx, ast.Load)]
            return awaits and all(_is_lost(each, above, awaits=awaits) for each in loads)
        case ast.Return() | ast.Attribute() | ast.BinOp() | ast.Compare() | ast.JoinedStr():
            return awaits
        case _:
            return False


def _endless(function: Function) -> Iterator[Site]:
    """TL402: a loop that waits for ever makes a history that grows for ever."""
    for node in ast.walk(function):
        if not isinstance(node, ast.While) or not _is_true(node.test):
            continue
        inside = [n for part in node.body for n in ast.walk(part)]
        waits = any(isinstance(n, ast.Await) for n in inside)
        named = [called_name(n) for n in inside if isinstance(n, ast.Call)]
        leaves = any(isinstance(n, ast.Return | ast.Break) for n in inside)
        if waits and "checkpoint" not in named and not leaves:
            hint = "await checkpoint(value) now and then"
            yield Site("TL402", node.lineno, "this history grows for ever", hint)


def _unbounded(reach: list[Function]) -> Iterator[Site]:
    """TL403: a process that waits for an event without a limit may never end."""
    for function in reach:
        inside = [
            call
            for node in ast.walk(function)
            if isinstance(node, ast.AsyncWith) and "timeout" in ast.unparse(node.items[0])
            for call in calls_in(node)
        ]
        races = [c for race in calls(function, "wait_first") for c in calls_in(race)]
        restarts = any(calls(function, "checkpoint"))
        for call in calls(function, "receive"):
            if call not in inside and call not in races and not restarts:
                hint = 'write async with timeout("2d"):'
                yield Site("TL403", call.lineno, "this may wait for ever", hint)


def calls_in(node: ast.AST) -> list[ast.Call]:
    """The calls of `receive` below a node."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return [call for call in found if called_name(call) == "receive"]


def _swallowed(reach: list[Function]) -> Iterator[Site]:
    """TL404: a failed effect that nobody looks at."""
    for function in reach:
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                named = "EffectFailed" in ast.unparse(node.type)
                if named and all(isinstance(part, ast.Pass) for part in node.body):
                    hint = "handle it, or let it end the flow"
                    yield Site("TL404", node.lineno, "a failed effect is swallowed", hint)


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)
