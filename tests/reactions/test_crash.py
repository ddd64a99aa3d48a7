"""Crashes and clocks: what is left, what is done again, what is never done twice (S27 to S32)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.executors.base import Failed
from tallystick.reactions.cell_run import run
from tallystick.reactions.stamps import INTENDED, Stamps
from tests.reactions.desk import Desk
from tests.reactions.scenario import at_desk, guarded

NOTE = """
reaction: note
on: [{files: ["*.txt"]}]
writes: {files: ["*.txt"]}
overlap: managed
actions: [{name: out, file.write: {path: note.txt, content: "of {{ trigger.input_digest }}"}}]
"""
HOUR_MS = 3_600_000


def started(desk: Desk) -> Desk:
    """A run whose write is published, and not yet performed."""
    desk.write("a.txt", "one")
    desk.begin()
    desk.write("a.txt", "two")
    desk.observe()
    assert len(desk.waiting_jobs()) == 1
    return desk


@pytest.mark.clause("F-08", "F-10", "F-11")
@guarded(is_self=False)
def test_s27_killed_after_the_rename(root: Path) -> None:
    """S27: the bytes are there and no receipt is: recovered, not written again, suppressed."""
    with at_desk(root, NOTE) as desk:
        (job,) = started(desk).waiting_jobs()
        desk.outcome_of(job)  # and the process is gone before it could tell
        inode = (root / "note.txt").stat().st_ino
        desk.observe()
        assert desk.outcomes()[-1] == ("self_suppressed", None)
        desk.perform_again(job)
        assert (root / "note.txt").stat().st_ino == inode
        (run,) = desk.runs()
        assert run["outcome"] == "complete"
        held = desk.run_body(run["run_key"])["results"]["out"]["value"]
        assert held["status"] == "recovered"
        desk.done = len(desk.jobs.all)
        desk.rest()
        assert len(desk.runs()) == 1


@pytest.mark.clause("F-08")
@guarded(place__recover=None)
def test_s28_killed_before_the_rename(root: Path) -> None:
    """S28: nothing is there: done once, the stage file is gone, one receipt of one action key."""
    with at_desk(root, NOTE) as desk:
        (job,) = started(desk).waiting_jobs()

        def killed(step: str) -> None:
            if step == "staged":
                raise KeyboardInterrupt

        desk.files._at = killed
        with pytest.raises(KeyboardInterrupt):
            desk.outcome_of(job)
        assert desk.read("note.txt") is None
        assert [path.suffix for path in root.iterdir() if path.name.startswith(".")] == [".stage"]
        desk.files._at = lambda _step: None
        desk.perform_again(job)
        desk.done = len(desk.jobs.all)
        desk.settle_down()
        assert [path for path in root.iterdir() if path.suffix == ".stage"] == []
        (run,) = desk.runs()
        actions = desk.run_body(run["run_key"])["attempts"][0]["actions"]
        assert [(each["status"], each["name"]) for each in actions] == [("ok", "out")]


@pytest.mark.clause("F-11", "F-08")
@guarded(is_self=True)
def test_s29_killed_and_the_user_edits(root: Path) -> None:
    """S29: the user wrote the file before the restart: conflict, theirs stay, ours are kept."""
    with at_desk(root, NOTE) as desk:
        (job,) = started(desk).waiting_jobs()
        desk.write("note.txt", "mine")
        desk.perform_again(job)
        desk.done = len(desk.jobs.all)
        assert desk.read("note.txt") == "mine"
        (run,) = desk.runs()
        assert (run["outcome"], run["code"]) == ("failed", "conflict")
        wanted = desk.param(job)["stamp"]["post_id"]
        assert desk.blob(wanted) is not None, "the proposal is in the store"
        desk.observe()
        offered = desk.told("TriggerOffered")[-1]
        assert [change["path"] for change in offered["changes"]] == ["note.txt"]


@pytest.mark.clause("F-10")
@guarded(is_self=False)
def test_s30_the_watcher_is_faster_than_the_receipt(root: Path) -> None:
    """S30: an intended stamp matches already: self_suppressed before any receipt is there."""
    with at_desk(root, NOTE) as desk:
        (job,) = started(desk).waiting_jobs()
        desk.outcome_of(job)
        assert [stamp.state for stamp in desk.fold().entries()] == [INTENDED]
        desk.observe()
        assert desk.outcomes()[-1] == ("self_suppressed", None)
        desk.perform_again(job)
        desk.done = len(desk.jobs.all)
        again = Stamps()
        for record in desk.records():
            again.note(record, desk.driver.blobs.get)
        assert again.entries() == desk.fold().entries(), "the projection is rebuilt equal"


@pytest.mark.clause("F-15")
@guarded(is_cooling=False)
def test_s31_clock_jumps_move_no_window(root: Path) -> None:
    """S31: while the node is down the clock steps back an hour or on a day.

    Back: at most one window remains; on: none does; the run keys are the same in all.
    """
    found: list[list[str]] = []
    for jump_ms in (0, -HOUR_MS, 24 * HOUR_MS):
        with at_desk(root / str(jump_ms), NOTE) as desk:
            desk.write("a.txt", "one")
            desk.begin()
            desk.write("a.txt", "two")
            desk.settle_down()
            desk.restart(jump_ms)
            desk.write("a.txt", "three")
            desk.settle_down()
            open_ns = desk.lane_body("note")["cool_until_ns"] - desk.world.logical_ns
            assert open_ns <= 2_000 * 1_000_000
            assert len(desk.runs()) == (2 if jump_ms > 0 else 1)
            desk.rest(2_100)
            found.append([run["run_key"] for run in desk.runs()])
            assert len(found[-1]) == 2
    assert found[0] == found[1] == found[2]


@pytest.mark.clause("F-09")
@guarded(is_terminal=True)
def test_s32_one_run_key_has_one_run(root: Path) -> None:
    """S32: whoever starts the key second is attached, and there is one set of writes."""
    with at_desk(root, NOTE.replace("overlap", "cooldown: 0ms\noverlap")) as desk:
        started(desk)
        (first,) = desk.told("RunStart")
        desk.write("b.txt", "x")
        desk.observe()
        (root / "b.txt").unlink()
        desk.observe()
        assert desk.outcomes()[-1] == ("attached", None)
        # And if two requests did reach the cell, the second finds the first.
        turn = desk.turn()
        run(turn, desk.run_body(first["run_key"]), "Start", first)
        assert turn.asked == []
        assert [sent.value["outcome"] for sent in turn.sent] == ["attached", "refused"]
        desk.work()
        desk.settle_down()
        stamps = [desk.param(job)["stamp"] for job in desk.jobs.of("sys/file.write@1")]
        assert [stamp["run_key"] for stamp in stamps].count(first["run_key"]) == 1
        assert desk.read("note.txt") is not None


@pytest.mark.clause("F-08")
@pytest.mark.parametrize(("kind", "left"), [("conflict", []), ("disk", ["intended"])])
def test_only_a_write_in_doubt_leaves_a_stamp(tmp_path: Path, kind: str, left: list[str]) -> None:
    """G1, I29: what was surely not written explains no bytes; else they may stand."""
    with at_desk(tmp_path / "w", NOTE) as desk:
        (job,) = started(desk).waiting_jobs()
        desk.settle_with(job, Failed(kind, "file.failed", "it did not work"))  # type: ignore[arg-type]
        desk.done = len(desk.jobs.all)
        assert [stamp.state for stamp in desk.fold().entries()] == left
