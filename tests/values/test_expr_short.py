"""The short ways of expressions: a field, a comparison with a literal, a run that many share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import nodes

from tallystick.values.expr import ExpressionFault, compile_expression, shared_run
from tallystick.values.expr.compile import Compiler
from tallystick.values.expr.run import STEPS_MAX, Run
from tallystick.values.expr.source import parse

PLAIN = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab0", max_size=2)
)
HELD = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.sampled_from(("x", "y")), PLAIN)
SIGNS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
LITERALS = ("0", "1", "-1", "1.5", "'a'", "''", "true", "none")
SCOPES = st.dictionaries(st.sampled_from(("a", "b")), HELD)


def said(expression: Any, scope: dict[str, Any]) -> tuple[Any, ...]:
    """The value and its type with the undefined paths, or the fault."""
    try:
        value, undefined = expression.evaluate_traced(scope)
    except ExpressionFault as fault:
        return "fault", fault.code, fault.message
    return type(value), value, undefined


def at_length(source: str, scope: dict[str, Any], *, strict: bool) -> tuple[Any, ...]:
    """What the closures say that know of no field: names might be local."""
    compiler = Compiler(strict=strict)
    compiler.has_locals = True
    output = parse("{{ " + source + " }}").body[0]
    assert isinstance(output, nodes.Output)
    run = Run(scope, STEPS_MAX, strict)
    try:
        value = compiler.value(output.nodes[0])(run)
    except ExpressionFault as fault:
        return "fault", fault.code, fault.message
    value = None if type(value).__name__ == "Undefined" else value
    return type(value), value, tuple(run.undefined)


@given(SCOPES, st.booleans(), st.sampled_from(("a.x", "b.y", "not a.x", "a.x and b.y", "a.x.z")))
def test_a_field_reads_as_its_parts_do(scope: dict[str, Any], strict: bool, source: str):
    """PB-04: a field has the value, the fault and the undefined paths of the long way."""
    short = compile_expression(source, strict=strict)
    assert said(short, scope) == at_length(source, scope, strict=strict)


@given(SCOPES, st.booleans(), st.sampled_from(SIGNS), st.sampled_from(LITERALS))
def test_a_literal_compares_as_any_value(
    scope: dict[str, Any], strict: bool, sign: str, literal: str
):
    """PB-04: a comparison with a literal says what one with the same value of the scope says."""
    value = compile_expression(literal).evaluate({})
    short = compile_expression(f"a.x {sign} {literal}", strict=strict)
    long = compile_expression(f"a.x {sign} held", strict=strict)
    assert said(short, {**scope, "held": value}) == said(long, {**scope, "held": value})


@pytest.mark.parametrize(
    "source", ["n in many", "many | length > 1", "(many + many) | length > 1", "[n, n]"]
)
def test_what_spends_budgets_shares_none(source: str):
    """PB-03: of one run, each expression that pays has all of its budget, however many ran."""
    scope = {"n": -1, "many": [*range(4_000)]}
    expression = compile_expression(source, strict=True)
    run = shared_run(scope)
    first = expression.evaluate_in(run)
    assert all(expression.evaluate_in(run) == first for _ in range(20))
    assert (run.steps, run.room) == (shared_run(scope).steps, shared_run(scope).room)


def test_a_shared_run_bounds_each_result():
    """PB-03: also where nothing is paid for, a result over the bound is a fault."""
    expression = compile_expression("{{ a.x }}", strict=True)
    run = shared_run({"a": {"x": "b" * 70_000}})
    with pytest.raises(ExpressionFault) as caught:
        expression.evaluate_in(run)
    assert caught.value.code == "P204"
