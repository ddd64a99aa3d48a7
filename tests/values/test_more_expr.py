"""Corners of the expression language that only large data or a deep stack reach."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from tallystick.values.expr import ExpressionFault, compile_expression, compile_template
from tests.values.test_expr_hostile import ESCAPE, EXHAUSTION, outcome

HUGE = {"n": 10**400}


def code_of(source: str, scope: dict[str, Any]) -> str:
    with pytest.raises(ExpressionFault) as caught:
        compile_template(source).evaluate(scope)
    return caught.value.code


@pytest.mark.parametrize("source", ["n / 2", "n // 2.0", "n % 2.5", "n | round(1, 'floor')"])
def test_a_number_that_no_float_holds_is_a_fault(source: str):
    """PB-04: a huge integer from outside gives a fault of range, never an OverflowError."""
    with pytest.raises(ExpressionFault) as caught:
        compile_expression(source).evaluate(HUGE)
    assert caught.value.code == code_of("{{ 1 / 0 }}", {})


def test_a_key_that_no_map_has_is_undefined():
    """PB-04: a float is no key; the answer is undefined, not an error."""
    value, undefined = compile_expression("m[1.5]").evaluate_traced({"m": {"a": 1}})
    assert value is None or not value
    assert undefined


def test_blocks_nest_to_a_limit():
    """PB-03: a template of 60 nested blocks is filled, one of 80 is over budget."""
    made = "{% if a %}" * 60 + "x" + "{% endif %}" * 60
    assert compile_template(made).evaluate({"a": True}) == "x"
    assert code_of("{% if a %}" * 80 + "x" + "{% endif %}" * 80, {}) == "P204"


@pytest.mark.parametrize("source", ["{% for (a, (b, c)) in x %}{% endfor %}"])
def test_a_loop_binds_plain_names(source: str):
    """PB-05: a pattern inside a pattern is not part of the language."""
    assert code_of(source, {"x": []}) == code_of("{% for a in x recursive %}{% endfor %}", {})


@pytest.mark.parametrize(
    ("source", "value"), [(" + ".join(["1"] * 40), "40"), ("(" * 20 + "1" + ")" * 20, "1")]
)
def test_a_short_stack_is_a_fault_of_budget(source: str, value: str):
    """PB-03: wherever the stack ends, parsing or later, the answer is P204: no RecursionError."""

    def compile_under(frames: int) -> str:
        if frames:
            return compile_under(frames - 1)
        try:
            return str(compile_expression(source).evaluate({}))
        except ExpressionFault as why:
            return why.code

    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    most = sys.getrecursionlimit() - depth
    answers = [compile_under(frames) for frames in range(most - 500, most - 40, 4)]
    assert set(answers) == {value, "P204"}


@pytest.mark.clause("N-10", "X-12")
@pytest.mark.skipif("TALLY_LITERAL" not in os.environ, reason="TALLY_LITERAL=1 on a quiet machine")
def test_the_literal_bound() -> None:
    """PB-03: each of the corpus fails within 50 ms of processor time, on this machine as it is."""
    slowest = 0.0
    for source in (*ESCAPE, *EXHAUSTION):
        least = float("inf")
        for _ in range(5):
            began = time.process_time()
            assert outcome(source, strict=False) is not None
            least = min(least, time.process_time() - began)
        slowest = max(slowest, least)
    print(f"slowest of {len(ESCAPE) + len(EXHAUSTION)}: {slowest * 1e3:.1f} ms")
    assert slowest < 0.05
