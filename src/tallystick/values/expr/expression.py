"""What other rooms hold: a compiled expression, or a whole value with templates inside.

A text that is exactly one `{{ expr }}` keeps the native type of its value; a newline at its end,
as YAML's block texts have, does not change that.
Any other text renders text; a text without markers is itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import nodes

from tallystick.values.expr.compile import Compiler
from tallystick.values.expr.fault import BUDGET, SYNTAX, TYPE, fault
from tallystick.values.expr.parts import Closure
from tallystick.values.expr.run import (
    DEPTH_MAX,
    RESULT_MAX,
    STEPS_MAX,
    Run,
    Undefined,
    written_size,
)
from tallystick.values.expr.source import has_markers, parse
from tallystick.values.expr.template import text_closure

Traced = tuple[Any, tuple[str, ...]]


class Expression:
    """One source, compiled; evaluating it changes nothing and may be repeated for ever."""

    __slots__ = ("_is_free", "_steps", "_work", "names", "source", "strict")

    def __init__(self, source: str, compiler: Compiler, work: Closure) -> None:
        self.source = source
        self.strict = compiler.strict
        self.names = frozenset(compiler.names)
        self._work = work
        self._steps = STEPS_MAX - compiler.count
        # A text with statements writes as it goes, which is paid for too.
        self._is_free = compiler.is_free and not compiler.has_locals

    def evaluate(self, scope: Mapping[str, Any], most: int = RESULT_MAX) -> Any:
        """The value over a scope; raises ExpressionFault, never anything else of its own.

        `most` bounds the result in bytes: where a stored value is only passed on, it may be large.
        """
        value = self._work(Run(scope, self._steps, self.strict))
        if value is True or value is False or value is None:
            return value
        return _bounded(value, most)

    def evaluate_in(self, run: Run) -> Any:
        """As `evaluate`, in a run that many expressions share; what spends budgets has its own."""
        if not self._is_free:
            run = Run(run.scope, self._steps, self.strict)
        value = self._work(run)
        if value is True or value is False:
            return value
        return _bounded(value, RESULT_MAX)

    def evaluate_traced(self, scope: Mapping[str, Any]) -> Traced:
        """The value, and the undefined paths met on the way, in the order they were met."""
        run = Run(scope, self._steps, self.strict)
        value = _bounded(self._work(run), RESULT_MAX)
        return value, tuple(run.undefined)


def shared_run(scope: Mapping[str, Any]) -> Run:
    """A run over a scope for strict expressions that are evaluated one after the other."""
    return Run(scope, STEPS_MAX, strict=True)


def _bounded(value: Any, most: int) -> Any:
    """A result: undefined is null, and one over its bound is a fault."""
    kind = type(value)
    if kind is Undefined:
        return None
    if kind is int or (kind is str and len(value) * 4 <= most):
        return value
    if written_size(value, most + 8) > most + 8:
        raise fault(BUDGET, f"the result is over {most} bytes")
    return value


class Template:
    """A value whose texts may be templates; each text is its own evaluation."""

    __slots__ = ("_parts", "names")

    def __init__(self, parts: Any, names: frozenset[str]) -> None:
        self._parts = parts
        self.names = names

    def evaluate(self, scope: Mapping[str, Any], most: int = RESULT_MAX) -> Any:
        """The value with every template in it evaluated; `most` bounds each of them."""
        return _fill(self._parts, scope, None, most)

    def evaluate_traced(self, scope: Mapping[str, Any]) -> Traced:
        """As `evaluate`, with the undefined paths of all texts in order."""
        met: dict[str, None] = {}
        return _fill(self._parts, scope, met, RESULT_MAX), tuple(met)


def compile_expression(source: Any, *, strict: bool = False) -> Expression:
    """One expression, written as `{{ expr }}` or bare.

    Refuses what is no text (P205), text around it (P201) and what the language does not have
    (P201 to P204, P208).
    """
    if type(source) is not str:
        raise fault(TYPE, "an expression is a text")
    tree = parse(source if has_markers(source) else "{{ " + source + " }}")
    lone = _lone(tree)
    if lone is None:
        raise fault(SYNTAX, "the text is not exactly one expression")
    return _native(source, lone, strict=strict)


def compile_template(value: Any, *, strict: bool = False) -> Template:
    """A text, or a map or list with texts inside, ready to be filled again and again."""
    names: dict[str, None] = {}
    parts = _compile_value(value, names, strict=strict, depth=0)
    return Template(parts, frozenset(names))


def _native(source: str, node: nodes.Node, *, strict: bool) -> Expression:
    compiler = Compiler(strict=strict)
    return Expression(source, compiler, _recursion_free(compiler.value, node))


def _recursion_free(work: Any, *args: Any) -> Closure:
    try:
        made: Closure = work(*args)
    except RecursionError:
        raise fault(BUDGET, f"nesting over {DEPTH_MAX}") from None
    return made


def _lone(tree: nodes.Template) -> nodes.Node | None:
    """The expression of a text that is nothing else, or None."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = tree.body[0].nodes
    if len(parts) == 2 and isinstance(parts[1], nodes.TemplateData) and parts[1].data == "\n":
        parts = parts[:1]
    if len(parts) != 1 or isinstance(parts[0], nodes.TemplateData):
        return None
    return parts[0]


def _compile_value(value: Any, names: dict[str, None], *, strict: bool, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise fault(BUDGET, f"nesting over {DEPTH_MAX}")
    if type(value) is str:
        if not has_markers(value):
            return value
        made = _compile_text(value, strict=strict)
        names.update(dict.fromkeys(sorted(made.names)))
        return made
    if type(value) is list:
        return [_compile_value(item, names, strict=strict, depth=depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {
            key: _compile_value(item, names, strict=strict, depth=depth + 1)
            for key, item in value.items()
        }
    return value


def _compile_text(source: str, *, strict: bool) -> Expression:
    tree = parse(source)
    lone = _lone(tree)
    if lone is not None:
        return _native(source, lone, strict=strict)
    compiler = Compiler(strict=strict)
    return Expression(source, compiler, _recursion_free(text_closure, compiler, tree))


def _fill(parts: Any, scope: Mapping[str, Any], met: dict[str, None] | None, most: int) -> Any:
    kind = type(parts)
    if kind is Expression:
        if met is None:
            return parts.evaluate(scope, most)
        value, undefined = parts.evaluate_traced(scope)
        met.update(dict.fromkeys(undefined))
        return value
    if kind is list:
        return [_fill(part, scope, met, most) for part in parts]
    if kind is dict:
        return {key: _fill(part, scope, met, most) for key, part in parts.items()}
    return parts
