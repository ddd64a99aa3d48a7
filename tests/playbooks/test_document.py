"""Reading playbooks: what is refused, with code, line and column; what the normal form is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tallystick.playbooks.document import judge, load
from tallystick.playbooks.finding import BadPlaybook
from tallystick.values import canon

HEAD = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: demo}\n"
STEP = "  - step: a\n    tool: {kind: noop}\n"
ONE = HEAD + "workflow:\n" + STEP


def tool(text: str) -> str:
    """A playbook of one step with this tool, which begins in line 6."""
    return HEAD + "workflow:\n  - step: a\n    tool: " + text + "\n"


def step(text: str) -> str:
    """A playbook of one noop step with one more key, in line 7."""
    return ONE + "    " + text + "\n"


LOOP = "loop: {in: [1], iterator: n}"
RULE = "{kind: noop, spec: {policy: {rules: [%s]}}}"

# code, line of the finding, text
REFUSED = [
    ("P101", 2, "a: 1\n  b: [\n"),
    ("P101", 1, "a: !!python/object:os.system 1\n"),
    ("P101", 2, "a: 1\n<<: {b: 1}\n"),
    ("P101", 2, "a: 1\n---\nb: 2\n"),
    ("P101", 1, "a: *nobody\n"),
    ("P101", 1, "1: one\n"),
    ("P101", 1, "[a, b]: one\n"),
    ("P101", 1, "a: .nan\n"),
    ("P101", 1, "a: 99999999999999999999\n"),
    ("P101", 1, "- a\n"),
    ("P102", 3, HEAD.replace("metadata", "kind")),
    ("P103", 1, ONE.replace("tally/v1", "noetl.io/v1")),
    ("P103", 2, ONE.replace("Playbook", "Workflow")),
    ("P104", 3, ONE.replace("{name: demo}", "{name: 'a b'}")),
    ("P104", 3, ONE.replace("{name: demo}", "{title: x}")),
    ("P105", 5, ONE.replace("workflow:", "vars: {}\nworkflow:").replace("vars", "\nvars")),
    ("P106", 4, HEAD + "workflow: []\n"),
    ("P106", 4, HEAD + "workflow: {a: 1}\n"),
    ("P107", 5, HEAD + "workflow:\n  - tool: {kind: noop}\n"),
    ("P107", 7, ONE + STEP),
    ("P107", 5, HEAD + "workflow:\n  - step: ctx\n    tool: {kind: noop}\n"),
    ("P108", 7, step("when: '{{ x }}'")),
    ("P108", 7, step("case: []")),
    ("P109", 5, HEAD + "workflow:\n  - step: a\n"),
    ("P110", 6, tool("{kind: fortran}")),
    ("P110", 6, tool("[]")),
    ("P111", 6, tool("{kind: http}")),
    ("P111", 6, tool("{kind: python}")),
    ("P112", 6, tool("{kind: noop, colour: red}")),
    ("P112", 6, tool("{kind: http, url: u, spec: {method: GET}}")),
    ("P113", 6, tool("[{name: x, kind: noop}, {name: x, kind: noop}]")),
    ("P113", 6, tool("[{name: 'a b', kind: noop}]")),
    ("P114", 6, tool("{kind: noop, spec: {policy: {}}}")),
    ("P114", 6, tool(RULE % "{when: true, then: {}}")),
    ("P114", 6, tool(RULE % "{when: true, then: {do: explode}}")),
    ("P114", 6, tool(RULE % "{when: true, then: {do: retry, attempts: 0}}")),
    ("P114", 6, tool(RULE % "{when: true, then: {do: retry, backoff: random}}")),
    ("P115", 6, tool(RULE % "{when: true, then: {do: jump, to: nowhere}}")),
    ("P116", 6, tool("{kind: noop, do: continue}")),
    ("P116", 7, step("spec: {policy: {admit: {rules: [{else: {then: {do: fail}}}]}}}")),
    ("P117", 7, step("loop: {iterator: n}")),
    ("P117", 7, step("loop: {in: [1]}")),
    ("P117", 7, step("loop: {in: [1], iterator: n, spec: {mode: sideways}}")),
    ("P117", 7, step("loop: {in: [1], iterator: n, spec: {mode: parallel, max_in_flight: 0}}")),
    ("P118", 7, step("next: [a]")),
    ("P118", 7, step("next: {spec: {mode: maybe}, arcs: []}")),
    ("P118", 7, step("spec: {next_mode: inclusive}")),
    ("P119", 7, step("next: {arcs: [{step: nobody}]}")),
    ("P120", 4, HEAD + "executor: {spec: {entry_step: nobody}}\nworkflow:\n" + STEP),
    ("P120", 4, HEAD + "executor: {spec: {final_step: nobody}}\nworkflow:\n" + STEP),
    ("P121", 7, step("spec: {policy: {admit: {rules: [{when: true, then: {allow: 'yes'}}]}}}")),
    ("P122", 7, step("set_ctx: {x: '{{ iter.n }}'}")),
    ("P122", 5, tool(RULE % "{when: true, then: {do: continue, set_iter: {a: 1}}}")),
    ("P123", 7, step("join: {mode: most}")),
    ("P123", 7, step("join: {mode: all, steps: [nobody]}")),
    ("P123", 7, step("join: {mode: n_of_m}")),
    ("P124", 5, tool("{kind: workbook, name: nobody}")),
    (
        "P124",
        4,
        HEAD + "workbook: [{name: w, tool: {kind: workbook, name: w}}]\nworkflow:\n" + STEP,
    ),
    ("P125", 4, HEAD + "keychain: [{name: k, provider: cloud, map: {}}]\nworkflow:\n" + STEP),
    ("P126", 4, HEAD + "executor: {spec: {deadline: soon}}\nworkflow:\n" + STEP),
    ("P126", 4, HEAD + "executor: {spec: {limits: {max_tokens: 0}}}\nworkflow:\n" + STEP),
    ("P127", 4, HEAD + "executor: {engine: fast}\nworkflow:\n" + STEP),
    ("P127", 4, HEAD + "executor: {requires: {tools: [fortran]}}\nworkflow:\n" + STEP),
    ("P201", 7, step("set_ctx: {x: '{{ 1 + }}'}")),
    ("P202", 7, step("set_ctx: {x: '{{ a.__class__ }}'}")),
    ("P203", 7, step("set_ctx: {x: '{{ a | explode }}'}")),
    ("P206", 7, step("set_ctx: {x: '{{ keychain.k.v }}'}")),
]


@pytest.mark.clause("N-01", "N-07")
@pytest.mark.parametrize(
    ("code", "line", "text"), REFUSED, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(REFUSED)]
)
def test_bad_files_are_refused(code: str, line: int, text: str) -> None:
    """PB-01: each code has a file that raises it, at its line, with a column, path and hint."""
    _, findings = judge(text)
    found = [f for f in findings if f.code == code and f.severity == "error"]
    assert found, [(f.code, f.line, f.message) for f in findings]
    assert found[0].line == line, found
    assert found[0].col >= 1
    assert found[0].hint
    with pytest.raises(BadPlaybook) as raised:
        load(text, "bad.yaml")
    assert raised.value.code == "playbook.invalid"
    assert raised.value.status == 422
    assert raised.value.where["findings"][0]["file"] == "bad.yaml"


@pytest.mark.clause("N-01")
def test_every_refusal_has_a_file() -> None:
    """PB-01: no code from P101 to P127 is without a file that raises it."""
    wanted = {f"P{n}" for n in range(101, 128)}
    assert wanted <= {code for code, _, _ in REFUSED}


@pytest.mark.clause("N-07")
def test_step_when_points_to_admission() -> None:
    """PB-01: `when` on a step is refused and the hint names admission; nothing else is found."""
    _, findings = judge(step("when: '{{ x }}'"))
    (found,) = findings
    assert "admit" in found.hint


@pytest.mark.clause("N-01")
def test_all_findings_come_in_one_run() -> None:
    """PB-01: three mistakes give three findings, by line."""
    steps = "  - step: a\n    tool: {kind: x}\n  - step: b\n    when: 1\n    next: {arcs: []}\n"
    text = HEAD + "colour: red\nworkflow:\n" + steps
    codes = [f.code for f in judge(text)[1]]
    assert codes == ["P105", "P110", "P108"]


@pytest.mark.clause("N-01")
def test_yaml_11_is_not_spoken() -> None:
    """PB-02: `no`, `on`, times, dates, leading zeros and underscores are what 1.2 says."""
    traps = "a: no, on: yes, t: 12:30, d: 2001-01-01, o: 010, u: 1_000, x: 0x1f, n: ~, f: 1e3"
    text = ONE.replace("workflow:", "workload: {" + traps + "}\nworkflow:")
    assert load(text).document["workload"] == {
        "a": "no", "on": "yes", "t": "12:30", "d": "2001-01-01", "o": 10, "u": "1_000",
        "x": 31, "n": None, "f": 1000.0,
    }  # fmt: skip


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(
    "text",
    [BOMB, "a: " + "[" * 100_000, "- " * 100_000, "a: " + "x" * (10 * 1024 * 1024)],
    ids=["aliases", "flow", "block", "scalar"],
)
def test_bombs_are_refused_before_they_grow(text: str) -> None:
    """PB-02: aliases, depth 100,000 and 10 MiB are P101, quickly (ten times the bound here)."""
    began = time.perf_counter()
    _, findings = judge(text)
    assert time.perf_counter() - began < 1.0
    assert [f.code for f in findings] == ["P101"]


MEASURED = """
import resource, sys, time
from tallystick.playbooks.document import judge
sys.path.insert(0, sys.argv[1])
from tests.playbooks.test_document import BOMB, ONE
judge(ONE)
bombs = [BOMB, "a: " + "[" * 100_000, "- " * 100_000, "a: " + "x" * (10 * 1024 * 1024)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
slowest = 0.0
for bomb in bombs:
    began = time.process_time()
    assert [found.code for found in judge(bomb)[1]] == ["P101"]
    slowest = max(slowest, time.process_time() - began)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown, slowest)
"""


@pytest.mark.clause("N-01")
def test_bombs_take_no_memory() -> None:
    """PB-02: the four bombs in a process of their own: resident memory grows by less than 30 MB.

    The 100 ms of processor time are asserted with TALLY_LITERAL=1, ten times as much otherwise.
    """
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, str(root)],
        capture_output=True, check=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    grown_kib, slowest_s = ran.stdout.split()
    assert int(grown_kib) < 30 * 1024
    assert float(slowest_s) < (0.1 if "TALLY_LITERAL" in os.environ else 1.0)


def test_the_bomb_is_only_refused_for_its_size() -> None:
    """PB-02, control: the same aliases in a small number are an ordinary value."""
    small = ONE.replace("workflow:", "workload: {a: &a [1, 2], b: [*a, *a]}\nworkflow:")
    assert load(small).document["workload"]["b"] == [[1, 2], [1, 2]]


@pytest.mark.clause("N-01")
def test_the_normal_form_is_the_identity() -> None:
    """Order of keys, comments, sugar and second spellings do not change the hash; a word does."""
    sugar = tool("{kind: http, endpoint: 'http://h/'}")
    plain = tool("{url: 'http://h/', kind: http}  # a comment")
    assert load(sugar).hash == load(plain).hash
    assert load(sugar).hash != load(plain.replace("/h/", "/i/")).hash
    made = load(plain)
    assert canon.decode(made.bytes) == made.document
    assert canon.hash_of(made.bytes) == made.hash


def test_task_labels_of_every_spelling() -> None:
    """A single tool, a list with and without names and the labelled form have their labels."""
    assert [t["name"] for t in load(tool("{kind: noop}")).document["steps"][0]["tool"]] == [
        "a_task"
    ]
    many = load(tool("[{kind: noop}, {name: x, kind: noop}, {y: {kind: noop}}]"))
    assert [t["name"] for t in many.document["steps"][0]["tool"]] == ["task_0", "x", "y"]


def test_else_without_then_is_taken_and_remarked() -> None:
    """`else: {do}` means what it says, and P301 says how to write it."""
    made = load(tool(RULE % "{else: {do: break}}"))
    assert made.document["steps"][0]["tool"][0]["rules"] == [{"do": "break"}]
    assert [f.code for f in made.findings] == ["P301"]


def test_loops_know_their_scope() -> None:
    """P122, near miss: `iter` and `set_iter` are at home in a loop."""
    text = ONE + "    " + LOOP + "\n    set_ctx: {x: '{{ iter.n }}'}\n"
    assert judge(text)[1] == []


@pytest.mark.clause("N-01")
@pytest.mark.parametrize(
    ("step", "code", "word"),
    [
        ("step: a, tool: {kind: htpp, url: x}", "P110", "http"),
        ("step: a, tool: {kind: python, cod: x, code_b64: eA==}", "P112", "code"),
        ("step: a, toool: {kind: noop}, next: {arcs: []}", "P108", "tool"),
        ("step: first, next: {arcs: [{step: frist}]}", "P119", "first"),
        ("step: a, next: {spec: {mode: inclusve}, arcs: []}", "P118", "inclusive"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_the_word(step: str, code: str, word: str) -> None:
    """PB-01: an unknown word close to a known one is met with that one."""
    head = "apiVersion: tally/v1\nkind: Playbook\nmetadata: {name: a}\n"
    _, findings = judge(head + f"workflow:\n  - {{{step}}}\n")
    hints = [finding.hint for finding in findings if finding.code == code]
    assert f"did you mean {word}?" in " ".join(hints), findings
