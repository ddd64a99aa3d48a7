"""Runs: the terminal lock, retries, the kill switch, limits and scopes (S39, S40, S45 to S48)."""

# tidy: what runs may do and may not, side by side.
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed
from tallystick.kernel.quiescence import quiescence
from tallystick.model.records import IntentDenied, IntentOpened
from tallystick.reactions import cell_run, cell_workspace, rows, runs
from tallystick.reactions.document import load
from tallystick.reactions.finding import BadReaction
from tests.reactions.desk import Desk
from tests.reactions.scenario import at_desk, guarded, planted, without

QUEUED = 500 if os.environ.get("TALLY_MANY_RUNS") else 30

FIVE = """
reaction: five
on: [{files: [a.txt]}]
writes: {files: ["out/*"]}
cooldown: 0ms
EXTRA
actions:
  - {name: one, telemetry.emit: {name: five.began, value: 1, attrs: {of: "{{ target.kind }}"}}}
  - {name: two, file.write: {path: out/two, content: "2"}}
  - {name: three, file.write: {path: out/three, content: "3"}}
  - {name: four, file.write: {path: out/four, content: "4"}}
  - {name: five, file.write: {path: out/five, content: "{{ actions.two.post_id }}"}}
"""


def begun(desk: Desk) -> None:
    """An edit was observed, and the first action is published."""
    desk.write("a.txt", "0")
    desk.begin()
    desk.write("a.txt", "1")
    desk.observe()


def write(path: str, scope: str = "out/**") -> str:
    return f"""
reaction: write
on: [{{files: [a.txt]}}]
writes: {{files: ["{scope}"]}}
params: {{where: "{path}"}}
actions: [{{name: out, file.write: {{path: "{{{{ params.where }}}}", content: "x"}}}}]
"""


@pytest.mark.clause("F-16")
@guarded(is_terminal=False)
def test_s39_a_late_result_is_refused(root: Path) -> None:
    """S39: a result after the end: refused, its receipt is evidence, the hash stays."""
    with at_desk(root, FIVE.replace("EXTRA", "limits: {duration: 5s}")) as desk:
        begun(desk)
        desk.step()
        (job,) = desk.waiting_jobs()
        desk.pass_ms(6_000)
        (run,) = desk.runs()
        assert (run["outcome"], run["code"]) == ("failed", "run.timeout")
        body = desk.run_body(run["run_key"])
        desk.perform(job)
        assert desk.run_body(run["run_key"])["attempts"] == body["attempts"]
        assert desk.outcomes()[-1] == ("late_append_rejected", "run.terminal")
        with pytest.raises(runs.TerminalRunError) as refused:
            runs.append(body["attempts"][0], {"name": "late"})
        assert (refused.value.code, refused.value.status) == ("run.terminal", 409)


@pytest.mark.parametrize("stops", [True, False])
def test_a_run_that_ended_leaves_nothing_open(tmp_path: Path, stops: bool) -> None:
    """RX-18: the clock of a run ends with it, or an upgrade would wait; control: it goes on."""
    stop = cell_run._stop_clock if stops else lambda _turn, _body: None
    with (
        planted(cell_run, "_stop_clock", stop),
        at_desk(tmp_path / "w", FIVE.replace("EXTRA", "")) as desk,
    ):
        begun(desk)
        desk.rest()
        assert [run["outcome"] for run in desk.runs()] == ["complete"]
        assert not desk.records(IntentDenied)
        found = quiescence(desk.driver.world)
        opened = [each.detail["effect"] for each in found if each.kind == "intent_open"]
        assert opened == ([] if stops else ["sys/timer.set@1"])


@pytest.mark.clause("F-08", "F-13")
@guarded(is_done=False)
def test_s40_a_retry_skips_what_was_done(root: Path) -> None:
    """S40: attempt 1 fails at action 3 of 5; attempt 2 has the same key and skips 1 and 2."""
    with at_desk(root, FIVE.replace("EXTRA", "")) as desk:
        begun(desk)
        desk.step()
        desk.step()
        desk.broken["sys/file.write@1"] = Failed("disk", "file.full", "no room")  # type: ignore[arg-type]
        desk.work()
        (first,) = desk.runs()
        assert (first["outcome"], first["code"]) == ("failed", "file.full")
        desk.command("retry", "five", run_key=first["run_key"])
        desk.work()
        second = desk.runs()[-1]
        assert second["run_key"] == first["run_key"]
        assert second["run_id"] != first["run_id"]
        assert (second["outcome"], second["kind"], second["attempt"]) == ("complete", "retry", 2)
        attempts = desk.run_body(first["run_key"])["attempts"]
        statuses = [[action["status"] for action in each["actions"]] for each in attempts]
        assert statuses == [["ok", "ok", "failed"], ["kept", "kept", "ok", "ok", "ok"]]
        assert len(desk.jobs.of("sys/telemetry.emit@1")) == 1
        assert (desk.read("out/five") or "").startswith("sha256:")
        assert attempts[1]["run_root"] == runs.run_root(attempts[1])


@pytest.mark.clause("F-08")
def test_a_retry_policy_tries_again_after_its_pause(tmp_path: Path) -> None:
    """08 section 9: `retry: {max: 1}` gives one more attempt after the backoff, and no third."""
    extra = "retry: {max: 1, backoff: 2s}"
    with at_desk(tmp_path / "w", FIVE.replace("EXTRA", extra)) as desk:
        begun(desk)
        for _ in range(2):
            desk.broken["sys/file.write@1"] = Failed("disk", "file.full", "no room")  # type: ignore[arg-type]
            desk.work()
            desk.pass_ms(2_500)
        desk.work()
        assert [run["outcome"] for run in desk.runs()] == ["failed", "failed"]
        assert [run["attempt"] for run in desk.runs()] == [1, 2]


MANY = """
reaction: many
target: {kind: file, match: "in/*"}
on: [{files: ["in/*"]}]
writes: {files: ["out/**"]}
actions:
  - {name: one, file.write: {path: "out/{{ target.name }}.1", content: "1"}}
  - {name: two, file.write: {path: "out/{{ target.name }}.2", content: "2"}}
"""


@pytest.mark.clause("F-22")
def test_s45_the_kill_switch(tmp_path: Path) -> None:
    """S45: many queued, then disable: no new action, each aborted, enable resurrects none.

    TALLY_MANY_RUNS=1 queues 500.
    """
    root = tmp_path / "w"
    # Fewer records per tick, so that a small queue is given up in more than one tick too.
    with planted(cell_workspace, "DRAIN", 12), at_desk(root, MANY, replays=QUEUED < 100) as desk:
        desk.write("in/none", "")
        desk.begin()
        for i in range(QUEUED + 8):
            desk.write(f"in/{i:03}", "x")
        desk.observe()
        assert len(desk.workspace()["active"]) == 8
        assert desk.workspace()["queued"] == QUEUED
        desk.command("disable", "many")
        assert desk.outcomes().count(("aborted", "disabled")) == QUEUED
        assert desk.workspace()["queued"] == 0
        desk.work()
        desk.settle_down()
        assert len(list((root / "out").iterdir())) == 8, "the current action ends, none begins"
        assert {run["outcome"] for run in desk.runs()} == {"aborted"}
        desk.command("enable", "many")
        desk.rest()
        assert len(desk.runs()) == 8
        desk.write("in/new", "y")
        desk.settle_down()
        assert desk.runs()[-1]["outcome"] == "complete"


@pytest.mark.clause("F-22")
def test_one_queued_run_is_aborted(tmp_path: Path) -> None:
    """08 section 9: an abort takes a run out of the queue, or stops it after its action."""
    root = tmp_path / "w"
    with at_desk(root, MANY) as desk:
        desk.write("in/none", "")
        desk.begin()
        for i in range(10):
            desk.write(f"in/{i:03}", "x")
        desk.observe()
        turn, queued = desk.turn(), desk.workspace()["queue"]["many"]
        waiting = turn.read(next(rows.every(turn, queued)))["run_key"]
        running = min(desk.workspace()["active"])
        desk.command("abort", "many", run_key=waiting)
        desk.command("abort", "many", run_key=running)
        desk.command("abort", "many")
        desk.command("reset", "many")
        assert desk.outcomes().count(("aborted", "aborted")) == 1
        desk.work()
        desk.settle_down()
        assert [run["run_key"] for run in desk.runs() if run["outcome"] == "aborted"] == [running]
        assert len(list((root / "out").iterdir())) == 8 * 2 + 1
        assert desk.workspace()["queued"] == 0


@pytest.mark.clause("F-03")
def test_a_definition_that_changed_meanwhile_does_not_run(tmp_path: Path) -> None:
    """RX-18: a trigger that waited while its definition was replaced starts nothing."""
    text = FIVE.replace("EXTRA", "").replace("cooldown: 0ms", "cooldown: 2s")
    with at_desk(tmp_path / "w", text) as desk:
        begun(desk)
        desk.work()
        desk.write("a.txt", "2")
        desk.observe()
        desk.load(text.replace('content: "2"', 'content: "22"'), trust=False)
        desk.pass_ms(3_000)
        assert desk.outcomes()[-1] == ("denied", "definition_changed")
        assert len(desk.runs()) == 1
        assert desk.lane_body("five")["active"] == {}
        assert len(desk.lane_body("five")["starts"]) == 1


@pytest.mark.clause("F-22")
@guarded(is_fan_out=False)
def test_s46_a_run_of_too_many_actions(root: Path) -> None:
    """S46: 300 actions are refused before the first of them."""
    rows = "".join(f'  - {{name: a{i}, telemetry.emit: {{name: "n"}}}}\n' for i in range(300))
    text = "reaction: wide\non: [{files: [a.txt]}]\nactions:\n" + rows
    with at_desk(root, text) as desk:
        begun(desk)
        ends = [(run["outcome"], run["code"]) for run in desk.runs()]
        assert ends == [("failed", "fanout_cap")]
        assert desk.jobs.of("sys/telemetry.emit@1") == []


@pytest.mark.clause("F-12")
@guarded(out_of_scope=None)
def test_s47_four_ways_out_of_scope(root: Path) -> None:
    """S47: by `..`, absolute, through a linked parent, by case: refused, nothing on disk."""
    outside = root.parent / "outside"
    outside.mkdir()
    cases = ["out/../a.txt", str(outside / "x"), "OUT/x", "out/link/x"]
    for i, path in enumerate(cases):
        place = root / str(i)
        (place / "out").mkdir(parents=True)
        (place / "out/link").symlink_to(outside)
        with at_desk(place, write(path)) as desk:
            desk.write("a.txt", "0")
            desk.begin()
            desk.write("a.txt", "1")
            desk.settle_down()
            (run,) = desk.runs()
            assert (run["outcome"], run["code"]) == ("failed", "scope_violation"), path
            # The guard refuses before anything is asked for; only the link is found at the disk.
            assert desk.records(IntentDenied) == []
            asked = [r for r in desk.records(IntentOpened) if r.effect == "sys/file.write@1"]
            assert len(asked) == (1 if path == "out/link/x" else 0)
            assert desk.read("a.txt") == "1"
            assert list(outside.iterdir()) == []


@pytest.mark.clause("F-12")
@guarded(out_of_scope=None)
def test_s48_the_definitions_are_never_written(root: Path) -> None:
    """S48: `.reactions/x.yaml` is refused at load; chosen at run time it is a scope violation."""
    literal = write("x").replace("{{ params.where }}", ".reactions/x.yaml")
    with pytest.raises(BadReaction) as refused:
        load(literal, "bad")
    assert [each.code for each in refused.value.findings] == ["reaction.state_path"]
    with at_desk(
        root, write(".reactions/x.yaml", "**").replace("writes", "overlap: managed\nwrites")
    ) as desk:
        begun(desk)
        desk.work()
        assert desk.runs()[-1]["code"] == "scope_violation"
        assert desk.jobs.of("sys/file.write@1") == [], "the executor is not even asked"
        assert not (root / ".reactions").exists()


@pytest.mark.clause("F-12", "F-03")
@guarded(is_untrusted=False)
def test_rx18_trust(root: Path) -> None:
    """RX-18: what nobody trusts runs nothing, nor what changed; trust is no wider than writes."""
    with at_desk(root, FIVE.replace("EXTRA", ""), trust=False) as desk:
        begun(desk)
        assert desk.outcomes() == [("denied", "untrusted")]
        assert desk.jobs.all == []
        (decision,) = desk.told("Decision")
        assert decision["outcome"] == "deny"
        desk.trust(desk.definitions[0].hash)
        desk.write("a.txt", "2")
        desk.settle_down()
        assert desk.runs()[-1]["outcome"] == "complete"
        granted = desk.jobs.of("sys/file.write@1")[0].granted
        assert granted is not None
        assert granted["globs"] == ["out/*"]
        assert granted["ops"] == ["delete", "write"]
        desk.load(FIVE.replace("EXTRA", "").replace('content: "2"', 'content: "22"'), trust=False)
        desk.write("a.txt", "3")
        desk.settle_down()
        assert desk.outcomes()[-1] == ("denied", "untrusted")


@pytest.mark.clause("F-12")
def test_rx18_admission_refuses_what_the_grant_does_not_name(tmp_path: Path) -> None:
    """RX-18 control: without the guard in front, the grant itself refuses the write (D6)."""
    with without("out_of_scope", None), at_desk(tmp_path / "w", write("elsewhere.txt")) as desk:
        begun(desk)
        desk.work()
        assert desk.runs()[-1]["code"] == "scope_violation"
        (denied,) = desk.records(IntentDenied)
        assert denied.stage == "capability"
        assert desk.read("elsewhere.txt") is None


@pytest.mark.clause("F-04", "F-19")
def test_a_run_record_holds_all_of_it(tmp_path: Path) -> None:
    """F-04: id, state, times, decision, actions and result; its root is recomputed from them."""
    with at_desk(tmp_path / "w", FIVE.replace("EXTRA", "")) as desk:
        begun(desk)
        desk.work()
        (run,) = desk.runs()
        (attempt,) = desk.run_body(run["run_key"])["attempts"]
        assert attempt["state"] == "complete"
        assert attempt["started_ns"] < attempt["ended_ns"]
        assert attempt["decision_id"] == desk.told("Decision")[0]["decision_id"]
        assert attempt["label"] == f"five@{run['run_key'][7:19]}#1"
        assert attempt["run_root"] == runs.run_root(attempt)
        moved: dict[str, Any] = {**attempt, "actions": attempt["actions"][::-1]}
        assert runs.run_root(moved) != attempt["run_root"]
        (told,) = desk.told("Provenance")
        assert told["object"]["run_root"] == attempt["run_root"]
        assert told["object"]["actor"] == {"kind": "external", "id": ""}
        outputs = {row["name"]: row["outputs"] for row in told["object"]["actions"]}
        assert outputs["two"][0][0] == "out/two"


@pytest.mark.clause("F-22")
@pytest.mark.parametrize("mode", ["coalesce", "{queue: 2}", "restart", "{parallel: 2}"])
def test_modes(tmp_path: Path, mode: str) -> None:
    """08 section 9: while a run is active, each mode keeps what it says, and records the excess."""
    with at_desk(tmp_path / "w", FIVE.replace("EXTRA", f"mode: {mode}")) as desk:
        begun(desk)
        for i in range(2, 6):
            desk.write("a.txt", f"{i}")
            desk.observe()
        outcomes = desk.outcomes()
        excess = [each for each in outcomes if each[0] in ("deduped", "denied")]
        desk.work()
        desk.settle_down()
        ends = [run["outcome"] for run in desk.runs()]
        if mode == "coalesce":
            assert (excess, ends) == ([("deduped", "coalesced")] * 3, ["complete"] * 2)
        elif mode == "{queue: 2}":
            assert (excess, ends) == ([("denied", "queue_full")] * 2, ["complete"] * 3)
        elif mode == "restart":
            assert (excess, ends) == ([("deduped", "coalesced")] * 3, ["aborted", "complete"])
        else:
            assert (excess, len(ends)) == ([("deduped", "coalesced")] * 2, 3)
