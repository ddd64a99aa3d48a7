"""Static checks: a file that raises each code, and a near miss that does not."""

from __future__ import annotations

import pytest

from tallystick.playbooks.document import judge
from tests.playbooks.test_net import NOOP, book

FAILS = "{when: '{{ outcome.error }}', then: {do: fail}}"
POLICY = "tool: {kind: noop, spec: {policy: {rules: [" + FAILS + "%s]}}}"
SOMETIMES = "{step: b, when: '{{ ctx.x }}'}"
TO = "next: {arcs: [{step: %s}]}"
# code, a net that has it, a near miss
CASES: list[tuple[str, str, str]] = [
    (
        "P303",
        book(f"step: a, {NOOP}", f"step: b, {NOOP}"),
        book(f"step: a, {TO % 'b'}", f"step: b, {NOOP}"),
    ),
    (
        "P304",
        book(f"step: a, {TO % 'z'}", f"step: z, {NOOP}", spec="final_step: z"),
        book(f"step: a, {NOOP}", f"step: z, {NOOP}", spec="final_step: z"),
    ),
    (
        "P305",
        book(f"step: a, {NOOP}", f"step: z, {TO % 'a'}", spec="final_step: z"),
        book(f"step: a, {NOOP}", f"step: z, {NOOP}", spec="final_step: z"),
    ),
    (
        "P306",
        book("step: a, " + POLICY % ""),
        book("step: a, " + POLICY % ", {else: {then: {do: continue}}}"),
    ),
    (
        "P307",
        book("step: a, next: {arcs: [{step: b}, " + SOMETIMES + "]}", f"step: b, {NOOP}"),
        book("step: a, next: {arcs: [" + SOMETIMES + ", {step: b}]}", f"step: b, {NOOP}"),
    ),
    (
        "P312",
        book(f"step: a, {TO % 'b'}", f"step: b, {TO % 'a'}"),
        book(f"step: a, {TO % 'b'}", "step: b, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
    ),
    (
        "P319",
        book(f"step: a, {TO % 'b'}", f"step: b, {TO % 'a'}"),
        book(f"step: a, {TO % 'b'}", "step: b, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
    ),
]


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(("code", "bad", "near"), CASES, ids=[row[0] for row in CASES])
def test_each_code_and_its_near_miss(code: str, bad: str, near: str) -> None:
    """PB-18: the net that has the fault is told of it with a line; its neighbour is not."""
    found = [f for f in judge(bad)[1] if f.code == code]
    assert found
    assert found[0].line > 4
    assert code not in [f.code for f in judge(near)[1]]
