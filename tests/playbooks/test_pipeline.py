"""Pipelines of tasks, driven by hand: every directive, and pauses on a clock that is only told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.playbooks.document import load
from tallystick.playbooks.moments import length_ns, moment_ns
from tallystick.playbooks.tasks import (
    Broken,
    Done,
    Layers,
    Pause,
    Perform,
    Pipeline,
    failure,
    new_frame,
)
from tallystick.values.expr import ExpressionFault
from tests.playbooks.stage import Stage
from tests.playbooks.test_net import HEAD, NOOP, book

Answer = Callable[[Perform], dict[str, Any]]
DOWN = {"status": "error", "error": failure("server_error", "http.503", "HTTP 503")}
FINE = {"status": "ok", "result": {"n": 1}}


def ran(tool: str, answer: Answer) -> tuple[list[Perform], list[float], Done | Broken, Pipeline]:
    """A pipeline to its end: what was performed, how long it paused, how it ended."""
    document = load(HEAD + f"workflow:\n  - {{step: a, tool: {tool}}}\n").document
    layers = Layers({"workload": {}}, {}, {}, {}, {})
    pipeline = Pipeline(document["steps"][0], new_frame({}), layers, 10_000)
    done: list[Perform] = []
    pauses: list[float] = []
    while True:
        act = pipeline.act()
        if isinstance(act, Pause):
            pauses.append(act.seconds)
        elif isinstance(act, Perform):
            done.append(act)
            pipeline.settle(answer(act))
        else:
            return done, pauses, act, pipeline


def task(name: str, *rules: str, **inputs: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in inputs.items())
    policy = f", spec: {{policy: {{rules: [{', '.join(rules)}]}}}}" if rules else ""
    return f"{{name: {name}, kind: python, code: x{more}{policy}}}"


def retry(**rules: Any) -> str:
    told = "".join(f", {key}: {value}" for key, value in rules.items())
    return f"{{when: \"{{{{ outcome.status == 'error' }}}}\", then: {{do: retry{told}}}}}"


NEXT = 'set_ctx: {p: "{{ (ctx.p or 1) + 1 }}"}'
ELSE = "{else: {then: {do: %s}}}"


@pytest.mark.clause("N-20", "N-21")
@pytest.mark.parametrize(
    ("rules", "performed", "pauses"),
    [
        ({}, 3, [1.0, 1.0]),
        ({"attempts": 1}, 1, []),
        ({"attempts": 4, "delay": 2}, 4, [2.0, 2.0, 2.0]),
        ({"attempts": 4, "delay": 2, "backoff": "none"}, 4, [2.0, 2.0, 2.0]),
        ({"attempts": 4, "delay": 2, "backoff": "linear"}, 4, [2.0, 4.0, 6.0]),
        ({"attempts": 5, "delay": 0.5, "backoff": "exponential"}, 5, [0.5, 1.0, 2.0, 4.0]),
        ({"attempts": 3, "delay": 7200}, 3, [3600.0, 3600.0]),
        ({"attempts": 3, "delay": '"{{ 2 + 3 }}"'}, 3, [5.0, 5.0]),
    ],
)
def test_retries_and_their_pauses(
    rules: dict[str, Any], performed: int, pauses: list[float]
) -> None:
    """PB-14: `attempts` counts all executions; then the pipeline fails with the last error."""
    done, waited, end, _ = ran(f"[{task('t', retry(**rules))}]", lambda _: DOWN)
    assert (len(done), waited) == (performed, pauses)
    assert [act.attempt for act in done] == list(range(1, performed + 1))
    assert {act.visit for act in done} == {1}, "a retry is the same visit, under the same key"
    assert isinstance(end, Broken)
    assert (end.error["code"], end.error["task"]) == ("http.503", "t")


@pytest.mark.clause("N-20", "N-21")
def test_retry_after_comes_from_the_outcome() -> None:
    """PB-14: a delay may be what the service asked for."""
    after = '"{{ outcome.error.retry_after }}"'
    busy = {"status": "error", "error": failure("rate_limit", "http.429", "x", retry_after=17)}
    answers = iter([busy, FINE])
    done, waited, end, _ = ran(f"[{task('t', retry(delay=after))}]", lambda _: next(answers))
    assert (len(done), waited, end) == (2, [17.0], Done({"n": 1}))


@pytest.mark.clause("N-20")
@pytest.mark.parametrize(
    ("do", "answer", "names", "end"),
    [
        ("continue", DOWN, ["t", "u"], Done({"n": 1})),
        ("break", DOWN, ["t"], Done(None)),
        ("break", FINE, ["t"], Done({"n": 1})),
        ("fail", FINE, ["t"], "task.failed"),
        ("fail", DOWN, ["t"], "http.503"),
        ("jump, to: v", DOWN, ["t", "v"], Done({"n": 1})),
    ],
)
def test_each_directive(do: str, answer: dict[str, Any], names: list[str], end: Any) -> None:
    """PB-14: continue goes on also after an error, break ends well, fail ends badly, jump goes."""
    tool = f"[{task('t', ELSE % do)}, {task('u', ELSE % 'break')}, {task('v')}]"
    done, _, found, _ = ran(tool, lambda act: answer if act.name == "t" else FINE)
    assert [act.name for act in done] == names
    told = found.error["code"] if isinstance(found, Broken) else found
    assert told == end


@pytest.mark.clause("N-20")
def test_no_policy_and_no_match() -> None:
    """PB-14: without a policy an error fails; a policy without a match goes on."""
    assert isinstance(ran(f"[{task('t')}, {task('u')}]", lambda _: DOWN)[2], Broken)
    never = "{when: false, then: {do: fail}}"
    done, _, end, _ = ran(f"[{task('t', never)}, {task('u')}]",
                          lambda act: DOWN if act.name == "t" else FINE)  # fmt: skip
    assert ([act.name for act in done], end) == (["t", "u"], Done({"n": 1}))


@pytest.mark.clause("N-20", "N-21")
def test_fifty_pages_with_one_error_each() -> None:
    """PB-14: the count of attempts begins anew with each page, so old errors do not add up.

    Control: five errors on one page are over the five attempts.
    """
    more = "{{ outcome.result.page < 50 }}"
    rules = (
        retry(attempts=5, delay=0, backoff="exponential"),
        f'{{when: "{more}", then: {{do: jump, to: get, {NEXT}}}}}',
        ELSE % "break",
    )
    page = '{p: "{{ ctx.p or 1 }}"}'
    tool = f"[{task('get', *rules, args=page)}]"

    def flaky(errors: int) -> Answer:
        def answer(act: Perform) -> dict[str, Any]:
            bad = act.attempt <= errors
            return DOWN if bad else {"status": "ok", "result": {"page": act.args["p"]}}

        return answer

    done, waited, end, pipeline = ran(tool, flaky(1))
    assert end == Done({"page": 50})
    assert (len(done), len(waited)) == (100, 50)
    assert [act.visit for act in done[::2]] == list(range(1, 51)), "each page has a key of its own"
    assert pipeline.frame["ctx"] == {"p": 50}
    assert isinstance(ran(tool, flaky(5))[2], Broken)


@pytest.mark.clause("N-20")
def test_patches_see_the_scopes_as_they_were() -> None:
    """PB-14: two patches of one rule do not see each other; those of a failing task still apply."""
    rule = '{else: {then: {do: fail, set_ctx: {a: "{{ (ctx.a or 0) + 1 }}", b: "{{ ctx.a }}"}}}}'
    *_, end, pipeline = ran(f"[{task('t', rule)}]", lambda _: DOWN)
    assert isinstance(end, Broken)
    assert pipeline.frame["ctx"] == {"a": 1, "b": None}


@pytest.mark.clause("N-20")
@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (90, 90 * 10**9), (0.5, 5 * 10**8), ("500ms", 5 * 10**8), ("30s", 30 * 10**9),
        ("2h", 7200 * 10**9), ("1d", 86_400 * 10**9), ("7", 7 * 10**9), (0, 0),
    ],
)  # fmt: skip
def test_lengths(value: Any, ns: int) -> None:
    """PB-20: a wait is seconds or a text with a unit."""
    assert length_ns(value) == ns


@pytest.mark.clause("N-20")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00Z", 951_825_600),
        ("2026-11-16T08:00:00Z", 1_794_816_000),
        ("2026-11-16T10:30:00+02:30", 1_794_816_000),
        ("2026-11-16 03:00:00-05:00", 1_794_816_000),
        (1_794_816_000, 1_794_816_000),
    ],
)
def test_moments(text: Any, seconds: int) -> None:
    """PB-20: `until` is a moment with its zone, or seconds since 1970."""
    assert moment_ns(text) == seconds * 10**9


@pytest.mark.clause("N-10", "N-20")
@pytest.mark.parametrize(
    "wait",
    [
        "for: '{{ workload.x }}'",
        "until: '{{ workload.x }}'",
        "signal: s, timeout: '{{ workload.x }}'",
    ],
)
@pytest.mark.parametrize("value", ["soon", "", -1, None, [1], "2026-02-30T00:00:00Z", "1e3"])
def test_a_bad_wait_is_an_error_and_no_wait(wait: str, value: Any) -> None:
    """PB-20: what is no length and no moment fails the task; it never waits no time at all."""
    text = book(f"step: a, tool: {{kind: wait, {wait}}}", f"step: b, {NOOP}")
    stage = Stage(text, workload={"x": value})
    if value is None and not wait.startswith("for"):
        return  # nothing was said, so nothing bounds it
    (row,) = stage.net["failures"]
    assert (row["kind"], row["code"], stage.net["status"]) == ("expression", "P126", "failed")
    with pytest.raises(ExpressionFault):
        (moment_ns if "until" in wait else length_ns)(value)
