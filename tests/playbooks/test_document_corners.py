"""Every corner of reading a playbook: mistakes by their code, and rarer words that mean well."""

from __future__ import annotations

import pytest

from tallystick.playbooks.document import judge, load
from tallystick.playbooks.draw import FORMS, drawn
from tallystick.playbooks.plan import Plan
from tests.playbooks.test_document import HEAD, RULE, STEP, step, tool

GATE = "spec: {policy: {admit: %s}}"
# code, and a file that raises it in another way than the one that stands for the code
WRONG: list[tuple[str, str]] = [
    ("P107", HEAD + "workflow:\n  - just a word\n" + STEP),
    ("P110", tool("[3, {kind: noop}]")),
    ("P112", tool("{kind: noop, spec: {result: {select: [3]}}}")),
    ("P126", tool("{kind: noop, spec: {result: {inline_max_bytes: -1}}}")),
    ("P114", tool(RULE % "{then: {do: break}}")),
    ("P116", step("next: {arcs: [{step: a, do: fail}]}")),
    ("P116", step("next: {arcs: [{step: a, then: {do: fail}}]}")),
    ("P117", step("loop: {in: [1], iterator: ctx}")),
    ("P117", step("loop: {in: [1], iterator: 3}")),
    ("P121", step(GATE % "{rules: all}")),
    ("P121", step(GATE % "{rules: [{then: {allow: true}}]}")),
    ("P121", step("spec: {policy: {admit_denied: perhaps}}")),
    ("P123", step("join: {mode: all, cancel_rest: 1}")),
    ("P123", step("join: {mode: all, n: 2}")),
    ("P123", step("join: {mode: all, steps: []}")),
    ("P123", step("join: 3")),
    ("P124", HEAD + "workbook: 3\nworkflow:\n" + STEP),
    ("P124", HEAD + "workbook: [{name: 3, tool: {kind: noop}}]\nworkflow:\n" + STEP),
    ("P124", HEAD + "workbook: {tasks: {x: {kind: workbook, task: x}}}\nworkflow:\n" + STEP),
    ("P125", HEAD + "keychain: 3\nworkflow:\n" + STEP),
    ("P127", HEAD + "executor: {requires: {tools: [hammer]}}\nworkflow:\n" + STEP),
    ("P201", step(GATE % "{rules: [{when: 3, then: {allow: true}}]}")),
    ("P201", step(GATE % "{rules: [{when: '{{ 1 + }}', then: {allow: true}}]}")),
]


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(("code", "text"), WRONG)
def test_another_way_to_be_wrong_has_the_same_code(code: str, text: str) -> None:
    """PB-01: whatever form the mistake has, its code, line and hint are told."""
    found = [f for f in judge(text)[1] if f.code == code]
    assert found, [(f.code, f.message) for f in judge(text)[1]]
    assert found[0].line >= 1


BOOK = (
    HEAD
    + "workbook: {tasks: {greet: {kind: noop, args: {who: null, how: loud}}}}\nworkflow:\n"
    + "  - step: a\n    tool: {kind: workbook, task: greet, args: {who: ada}}\n"
)


@pytest.mark.clause("N-01")
def test_a_workbook_lends_its_tasks() -> None:
    """PB-01: the map form; the call has its own label, its arguments go over those of the entry."""
    (task,) = load(BOOK).document["steps"][0]["tool"]
    assert (task["kind"], task["name"]) == ("noop", "a_task")
    assert task["args"] == {"who": "ada", "how": "loud"}
    assert task["required"] == []
    listed = BOOK.replace("{tasks: {greet: {kind", "[{name: greet, tool: {kind").replace(
        "}}}}", "}}}]"
    )
    assert load(listed).document["steps"] == load(BOOK).document["steps"]


def test_the_rarer_words_of_a_step_are_kept() -> None:
    """PB-01: arguments, what a denied token does, and how a result is kept, of step and task."""
    text = step(
        "args: {n: 1}\n    spec: {policy: {admit: {rules: [{else: {then: {allow: true}}}]},"
        " admit_denied: discard}, result: {inline_max_bytes: 9, select: [a.b, {path: c}]}}"
    )
    (made,) = load(text).document["steps"]
    assert made["args"] == {"n": 1}
    assert made["admit_denied"] == "discard"
    assert made["result"]["inline_max_bytes"] == 9
    assert made["result"]["select"] == [{"path": "a.b", "as": "b"}, {"path": "c", "as": "c"}]
    task = load(tool("{kind: noop, spec: {result: {preview_max_bytes: 3}}}")).document["steps"][0]
    assert task["tool"][0]["result"] == {"preview_max_bytes": 3}


@pytest.mark.parametrize("written", ["next: b", "next: {step: b}"])
def test_an_arc_in_short_is_taken_and_remarked(written: str) -> None:
    """PB-01: what it means is one arc, and P302 says how to write it."""
    text = HEAD + f"workflow:\n  - {{step: a, tool: {{kind: noop}}, {written}}}\n  - step: b\n"
    made = load(text + "    tool: {kind: noop}\n")
    assert made.document["steps"][0]["next"]["arcs"] == [{"step": "b"}]
    assert "P302" in [f.code for f in made.findings]


def test_a_playbook_that_is_called_is_given_its_payload() -> None:
    """PB-01: `payload` and `args` are two words for what a child is given."""
    one = load(tool("{kind: playbook, path: p, payload: {n: 1}}")).document["steps"][0]["tool"][0]
    two = load(tool("{kind: playbook, path: p, args: {n: 1}}")).document["steps"][0]["tool"][0]
    assert one["args"] == two["args"] == {"n": 1}


def test_what_a_playbook_asks_of_its_host_is_read() -> None:
    """PB-01: known tools and features are taken, keys of a keychain are kept by their names."""
    text = HEAD + (
        "executor: {requires: {tools: [http], features: [joins]}}\n"
        "keychain: [{name: k, provider: env, map: {token: TOKEN}}]\nworkflow:\n"
    )
    made = load(text + STEP)
    assert made.document["keychain"] == [
        {"name": "k", "provider": "env", "map": {"token": "TOKEN"}}
    ]
    assert made.findings == ()


def test_how_a_step_lives_and_keeps() -> None:
    """PB-01: the life of a step, and a result that stands at the step itself."""
    life = "{timeout_s: 5, on_takeover: fail, max_takeovers: 1}"
    text = step(f"spec: {{policy: {{lifecycle: {life}}}}}\n    result: {{inline_max_bytes: 7}}")
    (made,) = load(text).document["steps"]
    assert made["lifecycle"] == {"timeout_ns": 5 * 10**9, "on_takeover": "fail", "max_takeovers": 1}
    assert made["result"] == {"inline_max_bytes": 7}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("P127", HEAD + "executor: {spec: {no_next_is_error: 3}}\nworkflow:\n" + STEP),
        ("P110", HEAD + "workbook: [{name: w, tool: {kind: odd}}]\nworkflow:\n" + STEP),
    ],
)
def test_flags_and_entries_of_the_wrong_kind(code: str, text: str) -> None:
    """PB-01: a flag that is none, and a workbook entry without a known kind."""
    assert code in [f.code for f in judge(text)[1]]


def test_python_that_takes_the_context_is_given_all() -> None:
    """PB-14: code that names `context` may read anything, so nothing is left out for it."""
    code = "{kind: python, code: 'def main(%s): return 1'}"
    reads = [Plan(load(tool(code % word)).document).reads("a") for word in ("context", "n")]
    assert reads == [None, frozenset()]


def test_an_arc_to_no_step_is_not_drawn() -> None:
    """PB-25: also a net that was refused can be looked at."""
    document, findings = judge(step("next: {arcs: [{step: nobody}]}"))
    assert [f.code for f in findings] == ["P119"]
    assert document is not None
    for form in FORMS:
        assert "nobody" not in drawn(document, form)
