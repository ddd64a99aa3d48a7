"""Text templates: data, output, if, for and set; everything else of Jinja is refused.

A `set` inside a loop lives for that turn only, as in Jinja.
Each turn of a loop pays for all nodes of its body before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import nodes

from tallystick.values.expr.access import check_name, items_of
from tallystick.values.expr.compile import Compiler
from tallystick.values.expr.fault import BUDGET, FORBIDDEN, TYPE, fault
from tallystick.values.expr.operate import text_of, truth
from tallystick.values.expr.parts import Closure
from tallystick.values.expr.run import RESULT_MAX, Run, text_size

Writer = Callable[[Run, list[str]], None]


def text_closure(compiler: Compiler, tree: nodes.Template) -> Closure:
    """The text of a whole template."""
    compiler.has_locals = True
    body = _block(compiler, tree.body)

    def work(run: Run) -> str:
        out: list[str] = []
        body(run, out)
        return "".join(out)

    return work


def _write(run: Run, out: list[str], text: str) -> None:
    run.written += text_size(text)
    if run.written > RESULT_MAX:
        raise fault(BUDGET, f"the result is over {RESULT_MAX} bytes")
    out.append(text)


def _block(compiler: Compiler, body: Sequence[nodes.Node]) -> Writer:
    # The condition or the list before a block is one level down too, and is refused first.
    compiler.depth += 1
    writers = [_statement(compiler, node) for node in body]
    compiler.depth -= 1

    def work(run: Run, out: list[str]) -> None:
        for writer in writers:
            writer(run, out)

    return work


def _statement(compiler: Compiler, node: nodes.Node) -> Writer:
    compiler.count += 1
    work = _STATEMENTS.get(type(node))
    if work is None:
        raise fault(FORBIDDEN, f"{type(node).__name__} is not part of the language")
    return work(compiler, node)


def _output(compiler: Compiler, node: nodes.Output) -> Writer:
    parts: list[Closure | str] = [
        part.data if isinstance(part, nodes.TemplateData) else compiler.value(part)
        for part in node.nodes
    ]

    def work(run: Run, out: list[str]) -> None:
        for part in parts:
            text = part if isinstance(part, str) else text_of(run, part(run))
            _write(run, out, text)

    return work


def _if(compiler: Compiler, node: nodes.If) -> Writer:
    before = compiler.bound
    branches: list[tuple[Closure, Writer]] = []
    for branch in (node, *node.elif_):
        test = compiler.value(branch.test)
        branches.append((test, _block(compiler, branch.body)))
        # A name set in one branch may be unset behind it, so it still counts as read.
        compiler.bound = before
    otherwise = _block(compiler, node.else_)
    compiler.bound = before

    def work(run: Run, out: list[str]) -> None:
        for test, body in branches:
            if truth(test(run)):
                body(run, out)
                return
        otherwise(run, out)

    return work


# tidy: compiles a loop and holds the closure that runs it.
def _for(compiler: Compiler, node: nodes.For) -> Writer:
    if node.recursive:
        raise fault(FORBIDDEN, "a recursive loop is not part of the language")
    source = compiler.value(node.iter)
    names = _targets(node.target)
    before, counted = compiler.bound, compiler.count
    compiler.bound = (*before, *names, "loop")
    test = None if node.test is None else compiler.value(node.test)
    body = _block(compiler, node.body)
    price = 1 + compiler.count - counted
    compiler.bound = before
    otherwise = _block(compiler, node.else_)
    unpack = isinstance(node.target, nodes.Tuple)

    def work(run: Run, out: list[str]) -> None:
        outer = run.local
        turns: list[dict[str, Any]] = []
        for item in items_of(run, source(run)):
            run.spend(price)
            run.local = {**(outer or {}), **_bind(names, item, unpack=unpack)}
            if test is None or truth(test(run)):
                turns.append(run.local)
        for index, local in enumerate(turns):
            local["loop"] = _loop(index, len(turns))
            run.local = local
            body(run, out)
        run.local = outer
        if not turns:
            otherwise(run, out)

    return work


def _targets(node: nodes.Node) -> list[str]:
    targets = node.items if isinstance(node, nodes.Tuple) else [node]
    names: list[str] = []
    for target in targets:
        if not isinstance(target, nodes.Name):
            raise fault(FORBIDDEN, "a loop binds plain names")
        names.append(check_name(target.name))
    return names


def _bind(names: list[str], item: Any, *, unpack: bool) -> dict[str, Any]:
    if not unpack:
        return {names[0]: item}
    if type(item) is not list or len(item) != len(names):
        raise fault(TYPE, f"an item cannot be unpacked into {len(names)} names")
    return dict(zip(names, item, strict=True))


def _loop(index: int, length: int) -> dict[str, Any]:
    return {
        "index": index + 1,
        "index0": index,
        "first": index == 0,
        "last": index == length - 1,
        "length": length,
    }


def _assign(compiler: Compiler, node: nodes.Assign) -> Writer:
    if not isinstance(node.target, nodes.Name):
        raise fault(FORBIDDEN, "set binds one plain name")
    name = check_name(node.target.name)
    held = compiler.value(node.node)
    compiler.bound = (*compiler.bound, name)

    def work(run: Run, _out: list[str]) -> None:
        value = held(run)
        if run.local is None:
            run.local = {}
        run.local[name] = value

    return work


_STATEMENTS: Mapping[type[nodes.Node], Callable[[Compiler, Any], Writer]] = {
    nodes.Output: _output,
    nodes.If: _if,
    nodes.For: _for,
    nodes.Assign: _assign,
}
