"""The net without a node: routing, gates, loops, joins, endings, as tables."""

# tidy: one table after the other, in the order of the design.
from __future__ import annotations

from typing import Any

import pytest

from tests.playbooks.stage import Stage, broken, done

HEAD = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: demo}\n"


def book(*steps: str, spec: str = "") -> str:
    """A playbook of steps in flow style."""
    head = HEAD + (f"executor: {{spec: {{{spec}}}}}\n" if spec else "")
    return head + "workflow:\n" + "".join(f"  - {{{step}}}\n" for step in steps)


WORK = "tool: {kind: python, code: x}"
NOOP = "tool: {kind: noop}"


def runs(stage: Stage) -> dict[str, int]:
    return dict(stage.net["counts"]["step_runs"])


@pytest.mark.clause("N-04", "N-05", "N-06", "N-13")
def test_entry_and_leaf() -> None:
    """PB-10: the first step, or entry_step, gets the one initial token; a leaf ends its branch."""
    stage = Stage(book(f"step: a, {NOOP}", f"step: b, {NOOP}"))
    assert (runs(stage), stage.net["status"]) == ({"a": 1}, "success")
    assert stage.net["counts"]["created"] == 1
    stage = Stage(book(f"step: a, {NOOP}", f"step: b, {NOOP}", spec="entry_step: b"))
    assert runs(stage) == {"b": 1}


ROUTES: list[tuple[str, list[str], dict[str, int]]] = [
    ("exclusive", ["true", "true", "true"], {"b": 1}),
    ("exclusive", ["false", "true", "true"], {"c": 1}),
    ("inclusive", ["true", "true", "true"], {"b": 1, "c": 1, "d": 1}),
    ("inclusive", ["false", "true", "false"], {"c": 1}),
    ("inclusive", ["false", "false", "false"], {}),
    ("", ["true", "true", "true"], {"b": 1}),
]


@pytest.mark.clause("N-09", "N-10", "N-11")
@pytest.mark.parametrize(("mode", "guards", "wanted"), ROUTES)
def test_routing(mode: str, guards: list[str], wanted: dict[str, int]) -> None:
    """PB-09: exclusive takes the first match and is the default, inclusive takes all."""
    arcs = ", ".join(f"{{step: {s}, when: {g}}}" for s, g in zip("bcd", guards, strict=True))
    router = f"spec: {{mode: {mode}}}, " if mode else ""
    leaves = [f"step: {s}, {NOOP}" for s in "bcd"]
    stage = Stage(book(f"step: a, next: {{{router}arcs: [{arcs}]}}", *leaves))
    assert runs(stage) == {"a": 1, **wanted}
    assert stage.net["status"] == "success"


FAILED = "\"{{ event.name == 'step.failed' }}\""
DONE = "\"{{ event.name == 'step.done' }}\""


@pytest.mark.clause("N-09")
def test_boundary_guards_fire_on_their_event_only() -> None:
    """PB-09: a guard on step.failed does not fire on step.done, and the reverse."""
    text = book(
        f"step: a, {WORK}, next: {{arcs: [{{step: bad, when: {FAILED}}}, "
        f"{{step: good, when: {DONE}}}]}}",
        f"step: good, {NOOP}",
        f"step: bad, {NOOP}",
    )
    assert runs(Stage(text).play()) == {"a": 1, "good": 1}
    failed = Stage(text).play(lambda _: broken())
    assert (runs(failed), failed.net["status"]) == ({"a": 1, "bad": 1}, "success")


@pytest.mark.clause("N-14")
def test_no_match_ends_the_branch_or_fails_by_policy() -> None:
    """PB-10: no match is a normal end; with no_next_is_error the execution fails, step named."""
    steps = ("step: a, next: {arcs: [{step: b, when: false}]}", f"step: b, {NOOP}")
    assert Stage(book(*steps)).net["status"] == "success"
    stage = Stage(book(*steps, spec="no_next_is_error: true"))
    assert stage.net["status"] == "failed"
    assert stage.net["doom"]["code"] == "P402"
    assert " a " in stage.net["doom"]["message"]


GATE = "step: g, spec: {policy: {admit: {rules: [{when: '{{ ctx.ok }}', then: {allow: true}}]}}}"


@pytest.mark.clause("N-07", "N-08")
def test_a_gate_waits_and_a_patch_opens_it() -> None:
    """PB-08: denied means pending and waiting, no run, no final step; a patch gives one run."""
    text = book(f"{GATE}, {NOOP}", f"step: end, {NOOP}", spec="final_step: end")
    stage = Stage(text)
    assert (stage.net["phase"], runs(stage)) == ("waiting", {})
    (token,) = stage.net["tokens"].values()
    assert (token["at"], token["waits"]) == ("pending", ["ctx"])
    stage.patch(other=1)
    assert stage.net["phase"] == "waiting"
    assert len(stage.told("policy.admit.evaluated")) == 1
    stage.patch(ok=True)
    assert (runs(stage), stage.net["status"]) == ({"g": 1, "end": 1}, "success")


@pytest.mark.clause("N-08")
def test_a_denied_token_may_be_discarded() -> None:
    """PB-08: admit_denied discard ends the token, and the execution is over."""
    stage = Stage(book(f"{GATE}, {NOOP}", spec="policy: {admit_denied: discard}"))
    assert (stage.net["status"], stage.net["counts"]["discarded"]) == ("success", 1)


OUTCOMES = {
    "none": (NOOP, "", done()),
    "unhandled": (WORK, "", broken()),
    "written": (
        WORK,
        ", next: {arcs: [{step: z, when: \"{{ event.name == 'step.failed' }}\"}]}",
        broken(),
    ),
    "unguarded": (WORK, ", next: {arcs: [{step: z}]}", broken()),
}
STATUS = {
    "fail_on_any_error": ("success", "failed", "success", "failed"),
    "fail_on_branch_error": ("success", "failed", "success", "success"),
    "allow_partial": ("success", "partial", "success", "partial"),
}


@pytest.mark.clause("N-16")
@pytest.mark.parametrize("policy", STATUS)
@pytest.mark.parametrize("case", OUTCOMES)
def test_status_policies(policy: str, case: str) -> None:
    """PB-12: three policies over four outcomes; another branch ends well beside each."""
    tool, arcs, receipt = OUTCOMES[case]
    text = book(
        "step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: y}]}",
        f"step: a, {tool}{arcs}",
        f"step: y, {NOOP}",
        f"step: z, {NOOP}",
        spec=f"policy: {{status: {policy}}}",
    )
    stage = Stage(text).play(lambda _: receipt)
    assert stage.net["status"] == STATUS[policy][list(OUTCOMES).index(case)]


@pytest.mark.clause("N-16")
@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("fail_on_any_error", "success"),
        ("fail_on_branch_error", "success"),
        ("allow_partial", "partial"),
    ],
)
def test_best_effort_iterations(policy: str, wanted: str) -> None:
    """PB-12: failed iterations of a best-effort loop count only where partial is allowed."""
    loop = "loop: {in: [1, 2], iterator: n}, spec: {policy: {failure: {mode: best_effort}}}"
    text = book(f"step: a, {loop}, {WORK}", spec=f"policy: {{status: {policy}}}")
    stage = Stage(text).play(lambda p: broken() if p["iteration"] else done())
    assert stage.net["status"] == wanted


@pytest.mark.clause("N-17", "N-18", "N-19")
def test_the_final_step_runs_once_with_a_summary() -> None:
    """PB-13: after quiescence, once, with counts, results and failures; its arcs are ignored."""
    text = book(
        f"step: a, {WORK}, next: {{arcs: [{{step: b}}]}}",
        f"step: b, {WORK}",
        f"step: end, {WORK}, next: {{arcs: [{{step: b}}]}}",
        spec="final_step: end",
    )
    seen: list[dict[str, Any]] = []

    def worker(params: dict[str, Any]) -> Any:
        if params["step"] == "end":
            seen.append(params["data"]["args"]["v"])
        return broken() if params["step"] == "b" else done()

    stage = Stage(text).play(worker)
    assert (runs(stage), stage.net["status"]) == ({"a": 1, "b": 1, "end": 1}, "failed")
    (summary,) = seen
    assert summary["status"] == "failed"
    assert summary["counts"]["step_runs"] == 2
    assert [row["step"] for row in summary["failures"]] == ["b"]
    failing = text.replace(
        "final_step: end", "final_step: end, policy: {on_final_failure: partial}"
    )
    last = Stage(failing).play(lambda p: broken() if p["step"] == "end" else done())
    assert last.net["status"] == "partial"


@pytest.mark.clause("N-22")
@pytest.mark.parametrize("size", [0, 1, 200])
def test_loops(size: int) -> None:
    """PB-15: loop.done once, each item once, at most 7 open, results in the order of the items."""
    rules = "iterator: n, spec: {mode: parallel, max_in_flight: 7}"
    loop = f"loop: {{in: '{{{{ range({size}) }}}}', {rules}}}"
    stage = Stage(
        book(f"step: a, {loop}, {WORK}, next: {{arcs: [{{step: b}}]}}", f"step: b, {NOOP}")
    )
    most = 0
    seen: list[int] = []
    while stage.open:
        most = max(most, len(stage.open))
        ref = list(stage.open)[-1]
        params = stage.open[ref].params
        seen.append(params["iter"]["n"])
        stage.settle(ref, done(params["iter"]["n"] * 2))
    assert sorted(seen) == list(range(size))
    assert most <= 7
    assert len(stage.told("loop.done")) == 1
    assert (runs(stage), stage.net["status"]) == ({"a": 1, "b": 1}, "success")
    kept = stage.net["results"]["a"]["v"]
    from tallystick.playbooks.values import Values

    value = Values(stage.blobs.__getitem__).read(kept)
    assert value["results"] == [2 * n for n in range(size)]
    assert value["stats"] == {"total": size, "success": size, "failed": 0}
    assert stage.replays()


@pytest.mark.clause("N-22")
def test_a_failing_iteration_ends_a_fail_fast_loop() -> None:
    """PB-15: nothing more starts, what is open is cancelled, and the step fails."""
    loop = "loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel, max_in_flight: 2}}"
    stage = Stage(book(f"step: a, {loop}, {WORK}"))
    first = next(iter(stage.open))
    stage.settle(first, broken())
    assert (stage.open, stage.net["status"]) == ({}, "failed")
    assert stage.net["counts"]["iterations"] == {"a": 2}


@pytest.mark.clause("N-22")
def test_parallel_iterations_may_not_write_two_values() -> None:
    """PB-15: P404 fails the later iteration; equal values and distinct keys pass."""
    loop = "loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}"
    text = book(f"step: a, {loop}, {WORK}")
    same = Stage(text).play(lambda _: done(patches={"k": 1}))
    assert same.net["status"] == "success"
    other = Stage(text).play(lambda p: done(patches={"k": p["iteration"]}))
    assert other.net["failures"][0]["code"] == "P404"


@pytest.mark.clause("N-10")
@pytest.mark.parametrize(
    ("step", "code"),
    [
        (f"step: a, {NOOP}, next: {{arcs: [{{step: a, when: '{{{{ 1 / 0 }}}}'}}]}}", "P401"),
        (
            (
                f"step: a, {NOOP}, next: {{arcs: [{{step: a, when: '{{{{ not ctx.n }}}}',"
                " args: {x: '{{ 1 / 0 }}'}}]}"
            ),
            "P401",
        ),
        (f"step: a, {NOOP}, set_ctx: {{x: '{{{{ 1 / 0 }}}}'}}", "P208"),
        (f"step: a, {NOOP}, loop: {{in: '{{{{ 1 / 0 }}}}', iterator: n}}", "P208"),
        (f"step: a, {NOOP}, loop: {{in: '{{{{ 7 }}}}', iterator: n}}", "P209"),
        (
            (
                f"step: a, {NOOP}, spec: {{policy: {{admit: {{rules: [{{when: '{{{{ 1 / 0 }}}}',"
                " then: {allow: true}}]}}}"
            ),
            "P208",
        ),
    ],
)
def test_an_expression_error_is_never_false(step: str, code: str) -> None:
    """PB-04: an error in when, arc args, set_ctx, loop.in or admit fails, with its code."""
    stage = Stage(book(step))
    assert stage.net["status"] == "failed"
    found = stage.net["doom"] or stage.net["failures"][0]
    assert found["code"] == code


SPLIT = "step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}"
JOINS: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("join: all", {"j": 1}, {"absorbed": 0}),
    ("join: any", {"j": 1}, {"absorbed": 2}),
    ("join: {mode: n_of_m, n: 2}", {"j": 1}, {"absorbed": 1}),
    ("join: {mode: any, cancel_rest: true}", {"j": 1}, {"absorbed": 0}),
    ("join: {mode: all, steps: [a, b]}", {"j": 1}, {"absorbed": 0}),
]


@pytest.mark.clause("N-22")
@pytest.mark.parametrize(("join", "wanted", "counts"), JOINS)
def test_joins(join: str, wanted: dict[str, int], counts: dict[str, int]) -> None:
    """PB-16: all, any, n_of_m, steps and cancel_rest fire once for the group of their split."""
    arcs = "next: {arcs: [{step: j}]}"
    text = book(SPLIT, *(f"step: {s}, {WORK}, {arcs}" for s in "abc"), f"step: j, {join}, {NOOP}")
    stage = Stage(text).play()
    assert stage.net["status"] == "success"
    assert {k: v for k, v in runs(stage).items() if k == "j"} == wanted
    assert {k: stage.net["counts"][k] for k in counts} == counts
    assert len(stage.told("join.fired")) == 1
    assert stage.replays()


@pytest.mark.clause("N-22")
def test_ended_branches_do_not_hold_a_join() -> None:
    """PB-16: a branch that ends elsewhere no longer counts; too few for `steps` is P405."""
    steps = (SPLIT, f"step: a, {WORK}, next: {{arcs: [{{step: j}}]}}",
             f"step: b, {WORK}, next: {{arcs: [{{step: j}}]}}", f"step: c, {WORK}")  # fmt: skip
    good = Stage(book(*steps, f"step: j, join: all, {NOOP}")).play()
    assert (runs(good)["j"], good.net["status"]) == (1, "success")
    short = Stage(book(*steps, f"step: j, join: {{mode: n_of_m, n: 3}}, {NOOP}")).play()
    assert short.net["failures"][0]["code"] == "P405"


@pytest.mark.clause("N-22")
def test_a_join_sees_who_came() -> None:
    """PB-16: `join` tells who arrived and with what, and how many branches ended or failed."""
    text = book(
        SPLIT,
        f"step: a, {NOOP}, next: {{arcs: [{{step: j, args: {{x: 1}}}}]}}",
        f"step: b, {NOOP}",
        f"step: c, {WORK}",
        "step: j, join: all, set_ctx: {seen: '{{ join }}'}, tool: {kind: python, code: x, "
        "args: {n: '{{ join.arrived }}'}}",
    )
    told: list[Any] = []

    def worker(params: dict[str, Any]) -> Any:
        if params["step"] == "j":
            told.append(params["data"]["join"]["v"]["arrived"])
        return broken() if params["step"] == "c" else done()

    stage = Stage(text).play(worker)
    assert stage.net["ctx"]["seen"]["v"]["v"] == {
        "arrived": 1,
        "ended": 1,
        "failed": 1,
        "tokens": [{"from": "a", "args": {"x": 1}}],
    }
    assert told == [1]


@pytest.mark.clause("N-22")
def test_two_joins_of_one_group_starve() -> None:
    """PB-16: neither can ever fire, so both fail at quiescence with P406."""
    text = book(
        "step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}",
        f"step: a, {WORK}, next: {{arcs: [{{step: j}}]}}",
        f"step: b, {WORK}, next: {{arcs: [{{step: k}}]}}",
        f"step: j, join: all, {NOOP}",
        f"step: k, join: all, {NOOP}",
    )
    stage = Stage(text).play()
    assert [row["code"] for row in stage.net["failures"]] == ["P406", "P406"]
    assert stage.net["status"] == "failed"


@pytest.mark.clause("N-20")
def test_waits_and_signals_hold_no_worker() -> None:
    """PB-20: a wait is a timer, a signal is kept until somebody waits, none in time is an error."""
    text = book("step: a, tool: {kind: wait, for: 2h}, next: {arcs: [{step: b}]}",
                "step: b, tool: {kind: wait, signal: go, timeout: 1h}")  # fmt: skip
    stage = Stage(text)
    (timer,) = stage.open.values()
    assert timer.params["deliver_at_ns"] == stage.now_ns + 7200 * 10**9
    stage.take("Signalled", {"execution": "e1", "name": "go", "value": 7, "principal": "ana"})
    stage.play()
    assert stage.net["status"] == "success"
    assert stage.net["results"]["b"]["v"] == {"v": 7}
    late = Stage(text).play()
    assert late.net["failures"][0]["kind"] == "timeout"


@pytest.mark.clause("N-15")
def test_limits_and_deadline_still_run_the_final_step() -> None:
    """PB-11: P403 and P407 end as failed, the final step included; cancel runs none."""
    guard = "when: '{{ ctx.n != 1 }}'"
    cycle = f"step: a, {NOOP}, next: {{arcs: [{{step: a, {guard}}}]}}"
    text = book(cycle, f"step: end, {NOOP}", spec="final_step: end, limits: {max_step_runs: 20}")
    stage = Stage(text).play()
    assert (stage.net["status"], stage.net["doom"]["code"]) == ("failed", "P403")
    assert runs(stage)["end"] == 1
    text = book(f"step: a, {WORK}", f"step: end, {NOOP}", spec="final_step: end, deadline: 1h")
    stage = Stage(text)
    stage.settle("deadline", {"delivered_at_ns": 1, "key": None})
    assert (stage.net["doom"]["code"], runs(stage)) == ("P407", {"a": 1, "end": 1})
    stage = Stage(text)
    stage.take("Cancel", {"reason": "enough", "principal": "ana", "deadline_ns": None})
    assert (stage.net["status"], runs(stage)) == ("cancelled", {"a": 1})


@pytest.mark.clause("N-15")
def test_a_long_chain_of_noops_lets_others_have_a_turn() -> None:
    """After 256 runs in one tick the cell goes on in a later one, by a timer that is due."""
    cycle = f"step: a, {NOOP}, set_ctx: {{n: '{{{{ (ctx.n or 0) + 1 }}}}'}}"
    text = book(f"{cycle}, next: {{arcs: [{{step: a, when: '{{{{ ctx.n < 600 }}}}'}}]}}")
    stage = Stage(text)
    assert stage.net["status"] is None
    stage.play()
    assert (stage.net["status"], runs(stage)) == ("success", {"a": 600})
    assert len(stage.ticks) == 3


def test_a_late_receipt_finds_nobody() -> None:
    """A receipt of a unit that is gone changes nothing."""
    stage = Stage(book(f"step: a, {WORK}"))
    ref, asked = next(iter(stage.open.items()))
    stage.settle(ref, done(1))
    before = stage.net["status"]
    stage.open[ref] = asked
    stage.settle(ref, broken())
    assert (before, stage.net["status"]) == ("success", "success")
