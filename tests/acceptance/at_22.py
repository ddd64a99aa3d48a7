"""AT-22 expression-escape (RL-08, RL-19): hostile guards of a playbook are errors, never true."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.values.test_expr_hostile import ESCAPE, EXHAUSTION

HEAD = {"apiVersion": "tally/v1", "kind": "Playbook", "metadata": {"name": "guarded"}}


def playbook(guard: str) -> dict[str, Any]:
    """A playbook whose second step is reached when the guard is true."""
    arc = {"step": "end", "when": guard}
    return {
        **HEAD,
        "workload": {"data": {"a": {"b": 1}}, "a": [1, 2, 3]},
        "workflow": [
            {"step": "begin", "tool": {"kind": "noop"}, "next": {"arcs": [arc]}},
            {"step": "end", "tool": {"kind": "noop"}},
        ],
    }


def run(bench: Bench) -> dict[str, Any]:
    """Play a playbook for each hostile guard, and an honest one; then run it all again."""
    # Some need values that only a unit test can put into a scope.
    known = [each for each in [*ESCAPE, *EXHAUSTION] if not re.search(r"\b(trap|big)\b", each)]
    hostile = known[: bench["strings"]]
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        passed, refused, failed = [], 0, 0
        for number, guard in enumerate(hostile):
            status, _ = _played(place, f"x{number}", guard)
            if status >= 400:
                refused += 1
            elif "end" in _end(place, f"x{number}"):
                passed.append(guard[:80])
            else:
                failed += 1
        _played(place, "good", "{{ 1 + 1 == 2 }}")
        good = _end(place, "good")
        place.stop()
        again = place.tally("--json", "replay", "--from", "genesis", "--verify")
    return {
        "strings": len(hostile),
        "refused": refused,
        "failed": failed,
        "passed": passed,
        "good": good,
        "replay_exit": again.returncode,
    }


def _played(place: Place, name: str, guard: str) -> tuple[int, Any]:
    body = {"playbook": json.dumps(playbook(guard)), "execution": name}
    return place.ask("POST", "/v1/worlds/main/executions", body)


def _end(place: Place, name: str) -> list[str]:
    """How an execution ended, and the steps that were run."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = place.get(f"/executions/{name}")
        if found["status"] not in ("running", "waiting"):
            return [found["status"], *sorted(found["step_runs"])]
        time.sleep(0.02)
    return ["running"]


def faults(found: dict[str, Any]) -> list[str]:
    """A guard that was true, an honest one that was not, a replay that ended otherwise."""
    wrong = [f"true: {found['passed'][:3]}"] if found["passed"] else []
    if found["good"] != ["success", "begin", "end"]:
        wrong.append(f"an honest guard: {found['good']}")
    if found["replay_exit"]:
        wrong.append(f"the replay ended with {found['replay_exit']}")
    return wrong


CASE = Case(
    number="at-22",
    name="expression-escape",
    rows="RL-08 RL-19",
    run=run,
    faults=faults,
    planted="faults_are_true",
    small={"strings": 12},
    full={"strings": 400},
)
