"""Decisions: pure, complete, provable (S41 to S44, RX-03, RX-14)."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from tallystick.reactions import decide as deciding
from tallystick.reactions.decide import decide
from tallystick.reactions.document import load
from tallystick.reactions.finding import BadReaction
from tallystick.values import canon
from tests.modules.test_fuel import others
from tests.reactions.print_decisions import RULES, decisions, ruled, stored
from tests.reactions.scenario import at_desk, guarded

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).parent / "print_decisions.py"
GOLDEN = ROOT / "tests" / "golden" / "reactions" / "decisions.txt"


@contextmanager
def no_outside() -> Iterator[None]:
    """Whatever reads the clock or a file in here is found out."""

    class PolicyImpureError(AssertionError):
        """A decision looked outside of its facts."""

    def sprung(*_args: Any, **_more: Any) -> Any:
        raise PolicyImpureError

    traps = [(time, "time"), (time, "time_ns"), (builtins, "open"), (os, "getenv")]
    held = [(module, name, getattr(module, name)) for module, name in traps]
    try:
        for module, name in traps:
            setattr(module, name, sprung)
        yield
    finally:
        for module, name, was in held:
            setattr(module, name, was)


@pytest.mark.clause("F-02")
def test_s41_a_rule_cannot_look_outside() -> None:
    """S41: a rule that reads time or a file is refused by check; one that did would be found."""
    for reading in (
        "now()",
        "open('x')",
        "time.time()",
        "os.environ",
        "[].__class__",
        "x | sort_by_clock",
    ):
        with pytest.raises(BadReaction) as refused:
            load(ruled(f'{{id: r, when: "{{{{ {reading} }}}}", else: deny, code: c}}'), "r")
        assert {each.code for each in refused.value.findings} == {"reaction.expression"}
    definition = load(ruled(*RULES), "r")
    trigger, facts = stored(1)
    with no_outside():
        assert decide(definition, trigger, facts)["reasons"]
    compiled: Any = deciding._compiled

    def with_clock(source: str) -> Any:
        return compiled(source) if time.time() else None

    setattr(deciding, "_compiled", with_clock)  # noqa: B010 - the control plants a clock
    try:
        with no_outside(), pytest.raises(AssertionError):
            decide(definition, trigger, facts)
    finally:
        setattr(deciding, "_compiled", compiled)  # noqa: B010


def elsewhere(python: str, *words: str) -> list[str]:
    """The decisions of another interpreter, in other surroundings than these."""
    libraries = {str(Path(module.__file__ or "").parent.parent) for module in (yaml, jinja2)}
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sorted(libraries)]),
        "PYTHONHASHSEED": "77",
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
    }
    done = subprocess.run(
        [python, str(PROGRAM), *words],
        cwd="/",
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split()


def runs_here(python: str) -> bool:
    """Whether there is an interpreter behind a name."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def judged_elsewhere(python: str, *words: str) -> None:
    pairs = zip(elsewhere(python, *words), GOLDEN.read_text("utf-8").split(), strict=True)
    # The first one that differs: a diff of two lists of a thousand takes pytest minutes.
    assert next((pair for pair in pairs if pair[0] != pair[1]), None) is None


@pytest.mark.clause("F-02", "F-17")
def test_s42_a_thousand_decisions_are_golden() -> None:
    """S42, RX-03: 1,000 decisions evaluated twice are the committed ones, on whatever machine."""
    here = decisions()
    assert len(set(here)) == 1_000
    assert here == decisions()
    assert here == GOLDEN.read_text("utf-8").split()


@pytest.mark.clause("F-02", "F-17")
@pytest.mark.parametrize("python", [sys.executable, *others()])
def test_s42_a_thousand_decisions_are_proved_elsewhere(python: str) -> None:
    """S42: another process or Python, hash seed, locale, time zone and folder: the same ids.

    Interpreters are looked for on the path; `TALLY_PYTHONS` names more, separated by colons.
    """
    if not runs_here(python):
        pytest.skip(f"{python} is a name without an interpreter behind it")
    judged_elsewhere(python)


def test_s42_a_decision_by_chance_is_found_out() -> None:
    """RX-01: where a part of the decision hangs on the order of hashes, S42 fails."""
    with pytest.raises(AssertionError):
        judged_elsewhere(sys.executable, "planted")


@pytest.mark.clause("F-02")
def test_deny_beats_defer_and_every_reason_is_told() -> None:
    """P3: deny over defer over allow; all failing rules are listed; reasons are never empty."""
    definition = load(ruled(*RULES), "r")
    trigger, facts = stored(902)
    made = decide(definition, trigger, facts)
    assert made["outcome"] == "deny"
    assert [row["code"] for row in made["reasons"]] == ["eleven", "too_big"]
    trigger, facts = stored(13)
    made = decide(definition, trigger, facts)
    assert made["outcome"] == "defer"
    assert made["wake"] == {"after_ms": 5_000, "deadline_ms": 600_000}
    trigger, facts = stored(20)
    assert decide(definition, trigger, facts)["reasons"][0]["code"] == "rules_passed"


@pytest.mark.clause("F-02")
def test_s43_a_missing_fact_is_a_denial(tmp_path: Path) -> None:
    """S43: a fact that nobody has is denied, and its name is told."""
    rule = '{id: odd, when: "{{ facts.node.colour == 1 }}", else: deny, code: c}'
    with at_desk(tmp_path / "w", ruled(rule)) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.settle_down()
        assert desk.outcomes() == [("denied", "fact_missing")]
        (decision,) = desk.told("Decision")
        assert "facts.node.colour" in decision["reasons"][0]["detail"]
        assert desk.runs() == []


WAITING = ruled(
    '{id: plan, when: "{{ facts.frames.plan.present }}", else: defer, code: no_plan,'
    " wake: 30s, deadline: 2m}"
)


@pytest.mark.clause("F-17", "F-01")
@guarded(is_known=True)
def test_s44_a_deferred_trigger_waits_for_a_frame(root: Path) -> None:
    """S44: deferred until the head exists; then a linked decision allows it, once."""
    with at_desk(root, WAITING) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.settle_down()
        assert desk.outcomes() == [("deferred", "no_plan")]
        desk.pass_ms(31_000)
        assert desk.outcomes()[-1] == ("deferred", "no_plan"), "its timer woke it, in vain"
        desk.put_frame("", "plan", b"what to do")
        desk.settle_down()
        first, second, third = desk.told("Decision")
        assert second["previous_decision_id"] == first["decision_id"]
        assert third["previous_decision_id"] == second["decision_id"]
        assert third["outcome"] == "allow"
        desk.rest(200_000)
        assert [run["outcome"] for run in desk.runs()] == ["complete"]
        assert len(desk.told("Decision")) == 3


@pytest.mark.clause("F-17")
def test_s44_a_deferral_ends_at_its_deadline(tmp_path: Path) -> None:
    """S44: past the deadline the trigger is denied, by a decision that says so."""
    with at_desk(tmp_path / "w", WAITING) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.settle_down()
        for _ in range(6):
            desk.pass_ms(30_000)
        assert desk.outcomes()[-1] == ("denied", "defer_expired")
        assert desk.runs() == []
        count = len(desk.told("Decision"))
        desk.pass_ms(600_000)
        assert len(desk.told("Decision")) == count


P4 = (
    (
        "facts.node.path == '' and facts.node.kind == 'd' and facts.node.size > 0"
        " and facts.node.node_id != none"
    ),
    (
        "facts.changes.kinds == ['modified'] and facts.changes.count == 1"
        " and facts.changes.paths == ['a.txt']"
    ),
    (
        "facts.frames.plan.present and facts.frames.plan.content == 'what to do'"
        " and facts.frames.plan.fresh and facts.frames.plan.frame_id != none"
        " and facts.frames.plan.content_id != none and facts.frames.plan.meta == {}"
    ),
    (
        "facts.history.runs_in_window == 0 and facts.history.failures_in_row == 0"
        " and facts.history.last_outcome == none and facts.history.last_input_digest == none"
    ),
    "not facts.guards.untrusted and not facts.guards.hop_limit",
    (
        "facts.workspace.tree_id == trigger.tree_after and facts.workspace.git_commit == 'c0ffee'"
        " and facts.workspace.flags == ['rescan']"
    ),
    "facts.lane.mode == 'coalesce' and facts.lane.queued == 0 and facts.lane.active == 0",
    "facts.at.time > 0 and facts.at.seq > 0",
)


@pytest.mark.clause("F-17", "F-18")
@pytest.mark.parametrize("place", range(len(P4)))
def test_rx14_every_fact_is_recorded_and_usable(tmp_path: Path, place: int) -> None:
    """RX-14: each fact of P4 stands in the recorded blob, and a rule can use it."""
    rule = f'{{id: fact, when: "{{{{ {P4[place]} }}}}", else: deny, code: not_so}}'
    with at_desk(tmp_path / "w", ruled(rule), replays=False) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.put_frame("", "plan", b"what to do", tree=desk.look())
        desk.fold()
        desk.moved.clear()
        desk.observe(flags=("rescan",), git_commit="c0ffee")
        (decision,) = desk.told("Decision")
        assert decision["outcome"] == "allow", decision["reasons"]
        facts = canon.decode(desk.blob(decision["evaluated_facts"]) or b"")
        groups = {"node", "changes", "frames", "history", "guards", "workspace", "lane", "at"}
        assert groups <= set(facts)
        (offered,) = desk.told("TriggerOffered")
        assert decide(desk.definitions[0], offered, facts) == decision, "P5: proved by its facts"
