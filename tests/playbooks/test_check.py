"""Static checks: a file that raises each code, and a near miss that does not."""

from __future__ import annotations

import pytest

from tallystick.playbooks import check_joins
from tallystick.playbooks.document import judge
from tallystick.playbooks.plan import Plan
from tests.playbooks.test_net import NOOP, book
from tests.reactions.scenario import planted

FAILS = "{when: '{{ outcome.error }}', then: {do: fail}}"
POLICY = "tool: {kind: noop, spec: {policy: {rules: [" + FAILS + "%s]}}}"
SOMETIMES = "{step: b, when: '{{ ctx.x }}'}"
NEVER = "{step: b, when: '{{ not ctx.x }}'}"
ON = "{step: b, when: \"{{ event.name == '%s' }}\"}"
GATE = "spec: {policy: {admit: {rules: [%s]}}}"
ALLOW = "{when: '{{ ctx.ok }}', then: {allow: true}}"
ELSE = ", {else: {then: {allow: false}}}"
BOTH = "next: {spec: {mode: inclusive}, arcs: [{step: %s}, {step: %s}]}"
BACK = "{step: a, when: '{{ event.result }}'}"
JUMP = "{name: x, kind: noop, spec: {policy: {rules: [{else: {then: {do: jump, to: x}}}]}}}"
BREAK = "{name: x, kind: noop, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}"
WRITES = (
    "loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}, tool: {kind: noop, spec: "
    "{policy: {rules: [{else: {then: {do: continue, set_ctx: {k: %s}}}}]}}}"
)
TO = "next: {arcs: [{step: %s}]}"
MEET = [f"step: {s}, {TO % 'j'}" for s in "bc"]
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
        "P307",
        book("step: a, next: {arcs: [{step: b, when: '{{ 1 > 2 }}'}]}", f"step: b, {NOOP}"),
        book("step: a, next: {arcs: [{step: b, when: '{{ ctx.n > 2 }}'}]}", f"step: b, {NOOP}"),
    ),
    (
        "P308",
        book(f"step: a, {NOOP}, {GATE % ALLOW}"),
        book(f"step: a, {NOOP}, set_ctx: {{ok: true}}, {GATE % (ALLOW + ELSE)}"),
    ),
    (
        "P308",
        book(f"step: a, {NOOP}, {GATE % (ALLOW + ELSE)}"),
        book(f"step: a, {NOOP}, {GATE % '{else: {then: {allow: true}}}'}"),
    ),
    (
        "P309",
        book("step: a, next: {arcs: [" + SOMETIMES + "]}", f"step: b, {NOOP}"),
        book("step: a, next: {arcs: [" + SOMETIMES + ", " + NEVER + "]}", f"step: b, {NOOP}"),
    ),
    (
        "P309",
        book("step: a, next: {arcs: [" + ON % "step.done" + "]}", f"step: b, {NOOP}"),
        book(
            "step: a, next: {arcs: [" + ON % "step.done" + ", " + ON % "step.failed" + "]}",
            f"step: b, {NOOP}",
        ),
    ),
    (
        "P310",
        book("step: a, next: {arcs: [" + ON % "loop.done" + "]}", f"step: b, {NOOP}"),
        book(
            "step: a, loop: {in: [1], iterator: n}, next: {arcs: [" + ON % "loop.done" + "]}",
            f"step: b, {NOOP}",
        ),
    ),
    (
        "P311",
        book("step: a, tool: {kind: sql, database: d, command: 'select {{ ctx.x }}'}"),
        book("step: a, tool: {kind: sql, database: d, command: 'select ?', params: [1]}"),
    ),
    (
        "P312",
        book(f"step: a, {TO % 'b'}", f"step: b, {TO % 'a'}"),
        book(f"step: a, {TO % 'b'}", "step: b, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
    ),
    (
        "P313",
        book("step: a, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
        book("step: a, set_ctx: {x: 1}, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
    ),
    (
        "P314",
        book(
            f"step: a, {BOTH % ('b', 'c')}",
            "step: b, next: {arcs: [" + BACK + "]}",
            f"step: c, {NOOP}",
        ),
        book(
            f"step: a, {BOTH % ('b', 'c')}",
            f"step: b, {TO % 'j'}",
            f"step: c, {TO % 'j'}",
            "step: j, join: all, next: {arcs: [" + BACK + "]}",
        ),
    ),
    (
        "P315",
        book(f"step: a, {BOTH % ('b', 'c')}", *MEET, f"step: j, {NOOP}"),
        book(f"step: a, {BOTH % ('b', 'c')}", *MEET, f"step: j, join: all, {NOOP}"),
    ),
    (
        "P316",
        book("step: a, tool: [" + JUMP + "]"),
        book("step: a, tool: [" + JUMP.replace("rules: [", "rules: [" + FAILS + ", ") + "]"),
    ),
    (
        "P316",
        book("step: a, tool: [" + BREAK + ", {name: y, kind: noop}]"),
        book("step: a, tool: [" + BREAK.replace("break", "continue") + ", {name: y, kind: noop}]"),
    ),
    (
        "P317",
        book("step: a, set_ctx: {y: '{{ nobody }}'}" + f", {NOOP}"),
        book("step: a, set_ctx: {y: '{{ nobody | default(1) }}'}" + f", {NOOP}"),
    ),
    (
        "P317",
        book(
            f"step: a, {NOOP}, next: {{arcs: [{SOMETIMES}, {{step: c}}]}}",
            f"step: b, {TO % 'c'}",
            f"step: c, set_ctx: {{y: '{{{{ b.x }}}}'}}, {NOOP}",
        ),
        book(f"step: b, {TO % 'c'}", f"step: c, set_ctx: {{y: '{{{{ b.x }}}}'}}, {NOOP}"),
    ),
    (
        "P317",
        book(
            f"step: a, {NOOP}, next: {{arcs: [{SOMETIMES}, {{step: c}}]}}",
            f"step: b, set_ctx: {{k: 1}}, {TO % 'c'}",
            f"step: c, set_ctx: {{y: '{{{{ ctx.k + 1 }}}}'}}, {NOOP}",
        ),
        book(
            f"step: b, set_ctx: {{k: 1}}, {TO % 'c'}",
            f"step: c, set_ctx: {{y: '{{{{ ctx.k + 1 }}}}'}}, {NOOP}",
        ),
    ),
    (
        "P318",
        book(
            f"step: a, {BOTH % ('b', 'c')}",
            *(f"step: {s}, set_ctx: {{k: 1}}, {NOOP}" for s in "bc"),
        ),
        book(
            f"step: a, {BOTH % ('b', 'c')}",
            f"step: b, set_ctx: {{k: 1}}, {NOOP}",
            f"step: c, set_ctx: {{l: 1}}, {NOOP}",
        ),
    ),
    (
        "P318",
        book("step: a, " + WRITES % "'{{ iter.n }}'"),
        book("step: a, " + WRITES % "1"),
    ),
    (
        "P320",
        book("step: a, set_ctx: {a: 1, y: '{{ a }}'}" + f", {NOOP}"),
        book("step: a, set_ctx: {b: 1, y: '{{ ctx.b }}'}" + f", {NOOP}"),
    ),
    (
        "P330",
        book(
            f"step: a, {BOTH % ('b', 'c')}", *MEET, f"step: j, join: {{mode: n_of_m, n: 3}}, {NOOP}"
        ),
        book(
            f"step: a, {BOTH % ('b', 'c')}", *MEET, f"step: j, join: {{mode: n_of_m, n: 2}}, {NOOP}"
        ),
    ),
    (
        "P319",
        book(f"step: a, {TO % 'b'}", f"step: b, {TO % 'a'}"),
        book(f"step: a, {TO % 'b'}", "step: b, next: {arcs: [{step: a, when: '{{ ctx.x }}'}]}"),
    ),
]


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(
    ("code", "bad", "near"), CASES, ids=[f"{i}-{row[0]}" for i, row in enumerate(CASES)]
)
def test_each_code_and_its_near_miss(code: str, bad: str, near: str) -> None:
    """PB-18: the net that has the fault is told of it with a line; its neighbour is not."""
    found = [f for f in judge(bad)[1] if f.code == code]
    assert found
    assert found[0].line > 4
    assert code not in [f.code for f in judge(near)[1]]


# ---- rarer remarks --------------------------------------------------------------------------


def codes(*steps: str, **more: str) -> list[str]:
    return [f.code for f in judge(book(*steps, **more))[1]]


ROUND = 'step: a, %s, next: {arcs: [{step: b, when: "{{ %s }}", args: {n: 1}}]}'
AGAIN = 'step: b, %s, next: {arcs: [{step: a, when: "{{ %s }}"}]}'


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("args.n > 1", "args.n > 1", False),
        ("args.m > 1", "args.m > 1", True),
        ("args", "args", False),
        ("a.n", "a.n", False),
        ("workload.n", "workload.n", True),
        ("ctx", "ctx", True),
    ],
)
def test_what_a_cycle_hangs_on(one: str, other: str, told: bool) -> None:
    """PB-18: P313 unless a round may change it: arguments of its arcs, results of its steps."""
    found = codes(ROUND % (NOOP, one), AGAIN % (NOOP, other))
    assert ("P313" in found) is told


@pytest.mark.clause("N-01")
def test_a_cycle_of_splits_that_never_ends() -> None:
    """PB-18: P312 for an inclusive router too: one sure arc keeps a token inside for ever."""
    inside = "next: {spec: {mode: inclusive}, arcs: [{step: %s}, {step: c, when: '{{ ctx.x }}'}]}"
    found = codes(f"step: a, {inside % 'b'}", f"step: b, {inside % 'a'}", f"step: c, {NOOP}")
    assert "P312" in found


@pytest.mark.clause("N-01")
def test_bare_names_of_ctx_and_steps_that_nobody_comes_to() -> None:
    """PB-18: a bare name is looked for in ctx; a step out of reach is surely before nobody."""
    reads = "set_ctx: {y: '{{ k }}'}"
    found = codes(f"step: a, set_ctx: {{k: 1}}, {TO % 'b'}", f"step: b, {reads}, {NOOP}")
    assert "P317" not in found
    lost = codes(f"step: b, {reads}, {NOOP}", f"step: a, set_ctx: {{k: 1}}, {NOOP}")
    assert {"P303", "P317"} <= set(lost)


@pytest.mark.clause("N-01")
def test_writers_on_one_branch_are_not_side_by_side() -> None:
    """PB-18, near miss of P318: of three writers only two stand in different branches."""
    found = judge(
        book(
            f"step: a, {BOTH % ('b', 'c')}",
            f"step: b, set_ctx: {{k: 1}}, {TO % 'd'}",
            f"step: d, set_ctx: {{k: 2}}, {NOOP}",
            f"step: c, set_ctx: {{k: 3}}, {NOOP}",
        )
    )[1]
    assert [f.message.split(" write")[0] for f in found if f.code == "P318"] == ["b and c"]


def test_a_search_that_is_too_long_says_so() -> None:
    """PB-17: beyond its bound nothing is known; arcs that never match are not walked."""
    net = book(
        f"step: a, {BOTH % ('b', 'c')}",
        "step: b, next: {arcs: [{step: c, when: '{{ 1 > 2 }}'}, {step: j}]}",
        f"step: c, {TO % 'j'}",
        f"step: j, join: all, {NOOP}",
    )
    document, _ = judge(net)
    assert document is not None
    assert check_joins.unsound(Plan(document)) == ([], True)
    with planted(check_joins, "STATES_MAX", 2):
        assert check_joins.unsound(Plan(document)) == ([], False)
