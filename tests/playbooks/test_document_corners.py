"""Every corner of reading a playbook: mistakes by their code, and rarer words that mean well."""

from __future__ import annotations

import pytest

from tallystick.playbooks.document import judge, load
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
