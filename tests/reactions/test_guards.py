"""Guards that no scenario of the table names alone, profiles, and that none is left out (RX-01)."""

from __future__ import annotations

import inspect
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tallystick.reactions import guards
from tallystick.reactions.stamps import Stamp
from tests.reactions.scenario import at_desk, guarded, planted

HERE = Path(__file__).parent


def watching(name: str = "watch", *lines: str) -> str:
    more = "\n".join(lines)
    return f"""
reaction: {name}
on: [{{files: ["in/**"]}}]
writes: {{files: ["out/**"]}}
cooldown: 0ms
{more}
actions: [{{name: w, file.write: {{path: 'out/x', content: "{{{{ trigger.input_digest }}}}"}}}}]
"""


def test_rx01_every_guard_is_switched_off_somewhere() -> None:
    """RX-01: no guard is without a scenario that fails when it gives another answer."""
    known = {
        name
        for name, value in vars(guards).items()
        if inspect.isfunction(value) and value.__module__ == guards.__name__
    }
    switched: Counter[str] = Counter()
    for path in HERE.glob("test_*.py"):
        text = path.read_text("utf-8")
        for body in re.findall(r"@guarded\((.*?)\)\n", text, re.DOTALL):
            switched.update(re.findall(r"(\w+)=", body))
    assert sorted(known - set(switched)) == []


@pytest.mark.clause("F-12")
@guarded(is_ignored=None)
def test_denied_globs_are_not_watched(root: Path) -> None:
    """G3: a path under `ignore` starts nothing and is no input; the rule is told."""
    with at_desk(root, watching("watch", 'ignore: ["in/vendor/**"]')) as desk:
        desk.begin()
        desk.write("in/vendor/x", "1")
        desk.settle_down()
        assert desk.outcomes() == [("ignored", "in/vendor/**")]
        assert desk.runs() == []


def _flat(stamps: Sequence[Stamp]) -> tuple[int, list[str], Stamp]:
    """A broken rule: whatever an output causes begins anew at depth 0."""
    return 0, [], stamps[0]


FAN = """
reaction: fan
on: [{files: [a.txt]}]
writes: {files: ["in/**"]}
actions:
"""


@pytest.mark.clause("F-14", "F-22")
@guarded(is_over_cause=False, writer_of=None, derived=_flat)
def test_rx11_one_edit_causes_no_more_than_its_share(root: Path) -> None:
    """RX-11: all runs that one edit causes are counted to it, and end at the cap."""
    rows = [f'  - {{name: w{i}, file.write: {{path: in/{i}, content: "{i}"}}}}' for i in range(6)]
    each = watching("each", 'target: {kind: file, match: "in/*"}')
    each = each.replace('["in/**"]}]', '["in/*"], generated: true}]').replace(
        "out/x", "out/{{ target.name }}"
    )
    # A small cap, so that few runs reach it.
    with planted(guards, "CAUSE_MAX", 4), at_desk(root, FAN + "\n".join(rows), each) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.settle_down()
        assert len(desk.runs()) == 4
        assert desk.outcomes("each").count(("denied", "cause_cap")) == 3
        roots = {row["root_trigger_id"] for row in desk.told("TriggerOffered")}
        assert len(roots) == 1
        assert {row["depth"] for row in desk.told("TriggerOffered")} == {0, 1}


@pytest.mark.skipif(not os.environ.get("TALLY_MANY_RUNS"), reason="set TALLY_MANY_RUNS=1")
@pytest.mark.clause("F-14", "F-22")
def test_rx11_the_cap_itself_is_reached(tmp_path: Path) -> None:
    """RX-11: one edit writes 130 files, and each is a trigger of two reactions: 256 runs in all.

    Runs with TALLY_MANY_RUNS=1.
    """
    rows = [f'  - {{name: w{i}, file.write: {{path: in/{i}, content: "{i}"}}}}' for i in range(130)]
    each = watching("each", 'target: {kind: file, match: "in/*"}')
    each = each.replace('["in/**"]}]', '["in/*"], generated: true}]')
    each = each[: each.index("actions:")] + "actions: [{name: t, telemetry.emit: {name: n}}]\n"
    too = each.replace("reaction: each", "reaction: each-too")
    with at_desk(tmp_path / "w", FAN + "\n".join(rows), each, too, replays=False) as desk:
        desk.write("a.txt", "0")
        desk.begin()
        desk.write("a.txt", "1")
        desk.settle_down(rounds=400)
        (caused,) = Counter(run["root_trigger_id"] for run in desk.runs()).values()
        assert caused == guards.CAUSE_MAX == 256
        denied = [
            desk.outcomes(name).count(("denied", "cause_cap")) for name in ("each", "each-too")
        ]
        assert sum(denied) == 1 + 260 - 256


@pytest.mark.clause("F-21")
def test_profiles(tmp_path: Path) -> None:
    """F-21: careful waits after a start, manual takes commands alone, observe only decides."""
    cases = {
        "careful": [("deferred", "unsettled"), ("accepted", None)],
        "manual": [("denied", "manual_only")],
        "observe": [("denied", "observe_only")],
        "standard": [("accepted", None)],
    }
    for profile, wanted in cases.items():
        with at_desk(
            tmp_path / profile, watching("watch", f"policy: {{profile: {profile}}}")
        ) as desk:
            desk.begin()
            desk.write("in/x", "1")
            desk.settle_down(flags=("startup",))
            desk.rest(31_000)
            assert desk.outcomes() == wanted


@pytest.mark.clause("F-01")
def test_schedules_and_first_scans(tmp_path: Path) -> None:
    """08 section 2: `every` gives a trigger of its own kind; a first scan fires if asked to."""
    every = watching("tick").replace('on: [{files: ["in/**"]}]', "on: [{every: 1h}]")
    first = watching("first", "on_first_scan: true")
    with at_desk(tmp_path / "w", every, first, watching("third")) as desk:
        desk.write("in/x", "1")
        desk.settle_down()
        assert {run["reaction"] for run in desk.runs()} == {"first"}
        desk.settle_down(due=("tick",))
        offered = desk.told("TriggerOffered")[-1]
        assert (offered["kind"], offered["actor"]["kind"]) == ("schedule", "schedule")
        ran = len(desk.runs("tick"))
        desk.settle_down(due=("tick",))
        assert len(desk.runs("tick")) == ran, "the same state is the same run"
