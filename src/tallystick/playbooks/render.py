"""Templates and guards of a playbook, compiled once per text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tallystick.playbooks.values import plain
from tallystick.values.expr import Expression, compile_expression, compile_template, truth
from tallystick.values.expr.expression import Template

_template = lru_cache(maxsize=4096)(compile_template)
_expression = lru_cache(maxsize=4096)(compile_expression)


def template(source: str) -> Template:
    """A text, compiled."""
    return _template(source)


def expression(source: str) -> Expression:
    """A guard, compiled."""
    return _expression(source)


def fill(value: Any, scope: Mapping[str, Any]) -> Any:
    """A value with every template in it evaluated; plain, so that it can be written down."""
    return plain(_fill(value, scope))


def _fill(value: Any, scope: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return template(value).evaluate(scope)
    if isinstance(value, Mapping):
        return {key: _fill(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, scope) for item in value]
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
