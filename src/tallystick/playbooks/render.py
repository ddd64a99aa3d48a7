"""Templates and guards of a playbook, compiled once per text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tallystick.playbooks.values import plain
from tallystick.values.expr import Expression, compile_expression, compile_template, truth
from tallystick.values.expr.expression import Template
from tallystick.values.expr.run import RESULT_MAX

PASSED_MAX: Final = 8 * 1024 * 1024

_template = lru_cache(maxsize=4096)(compile_template)
_expression = lru_cache(maxsize=4096)(compile_expression)


def template(source: str) -> Template:
    """A text, compiled."""
    return _template(source)


def expression(source: str) -> Expression:
    """A guard, compiled."""
    return _expression(source)


def fill(value: Any, scope: Mapping[str, Any], most: int = RESULT_MAX) -> Any:
    """A value with every template in it evaluated; plain, so that it can be written down."""
    return plain(_fill(value, scope, most))


def passed(value: Any, scope: Mapping[str, Any]) -> Any:
    """As `fill`, where a value may only be passed on: items of a loop, args, variables."""
    return fill(value, scope, PASSED_MAX)


def _fill(value: Any, scope: Mapping[str, Any], most: int) -> Any:
    if isinstance(value, str):
        return template(value).evaluate(scope, most)
    if isinstance(value, Mapping):
        return {key: _fill(item, scope, most) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, scope, most) for item in value]
    return value


def holds(when: Any, scope: Mapping[str, Any]) -> tuple[bool, tuple[str, ...]]:
    """Whether a guard holds, and the undefined paths it met; an error raises, it is never false."""
    if type(when) is bool:
        return when, ()
    value, undefined = expression(when).evaluate_traced(scope)
    return truth(value), undefined


def names_in(value: Any) -> frozenset[str]:
    """The names that the templates of a value read."""
    if isinstance(value, str):
        return template(value).names
    if isinstance(value, Mapping):
        return frozenset().union(*(names_in(item) for item in value.values()))
    if isinstance(value, list):
        return frozenset().union(*(names_in(item) for item in value))
    return frozenset()
