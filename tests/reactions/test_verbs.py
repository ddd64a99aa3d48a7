"""Every verb about workspaces, reactions and provenance, by the command line (08 section 13)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reactions.test_command import Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("verbs"))
    try:
        made.played = made.play()
        yield made
    finally:
        made.live.close()


@pytest.mark.clause("F-18")
def test_both_nouns_show_the_same(desk: Desk) -> None:
    """RX-14: `tally reflection` is `tally reaction`, verb for verb."""
    where, path = str(desk.folder), ("--path", "src/tree/b.py")
    said = [
        (desk.tally("reflection", "ls"), desk.tally("reaction", "ls")),
        (
            desk.tally("reflection", "show", "docs-writer"),
            desk.tally("reaction", "show", "docs-writer"),
        ),
        (desk.tally("reflection", "check", where), desk.tally("reaction", "check", where)),
        (
            desk.tally("reflection", "simulate", "docs-context", *path),
            desk.tally("reaction", "simulate", "docs-context", *path),
        ),
        (desk.tally("reflection", "decisions"), desk.tally("reaction", "decisions")),
        (desk.tally("reflection", "triggers"), desk.tally("reaction", "triggers")),
    ]
    assert all(one == other for one, other in said)
    listed, shown, checked = (one for one, _ in said[:3])
    assert [row["reaction"] for row in listed["items"]] == ["docs-context", "docs-writer"]
    assert (shown["trusted"], shown["enabled"], checked["ok"]) == (True, True, True)


@pytest.mark.clause("F-07", "F-16")
def test_what_a_person_may_do_to_runs(desk: Desk) -> None:
    """S39, F-07: retry, abort, reset and replay; a run that is over takes no abort."""
    rows = desk.tally("reaction", "runs")["items"]
    ident = next(row["run_id"] for row in rows if row["state"] == "complete")
    for verb in (desk.tally("reaction", "retry", ident), desk.tally("reflection", "retry", ident)):
        assert verb["verb"] == "retry"
    assert desk.tally("reaction", "abort", ident, code=1)["code"] == "run.terminal"
    assert desk.tally("reflection", "abort", ident, code=1)["code"] == "run.terminal"
    assert desk.tally("reaction", "reset", "docs-writer")["verb"] == "reset"
    assert desk.tally("reflection", "reset", "docs-writer")["verb"] == "reset"
    offered = [row for row in desk.tally("reaction", "triggers")["items"] if row["trigger_id"]]
    assert desk.tally("reflection", "replay", offered[0]["trigger_id"])["same"] is True


# tidy: one story, told whole.
@pytest.mark.clause("F-17", "F-06")
def test_explain_says_why_it_fired_or_not(desk: Desk) -> None:
    """D13: a trigger, a run, its first digits and a path say each stage; silence has a reason."""
    (run, *_) = [row for row in desk.played["runs"] if row["reaction"] == "docs-writer"]
    offered = [row for row in desk.tally("reaction", "triggers")["items"] if row["trigger_id"]]
    told = desk.tally("explain", "run", run["label"])
    assert told["subject"]["reaction"] == "docs-writer"
    codes = [reason["code"] for reason in told["reasons"]]
    assert codes[0] == "fired"
    assert {"decision.allow", "accepted"} <= set(codes)
    assert codes[-1] in ("run.complete", "run.reused", "reused")
    trigger = told["subject"]["trigger"]
    assert desk.tally("explain", run["label"]) == told
    assert desk.tally("explain", trigger)["subject"] == told["subject"]
    assert desk.tally("explain", trigger[7:19])["subject"] == told["subject"]
    denied = next(row for row in offered if row["code"] == "untrusted")
    why = desk.tally("explain", "trigger", denied["trigger_id"])
    assert why["status"] == "denied(untrusted)"
    assert "workspace trust" in why["reasons"][-1]["text"]
    source = desk.tally("explain", str(desk.folder / "src/tree/b.py"))
    assert source["reasons"][0]["code"] == "fired"
    page = desk.tally("explain", str(desk.page))
    assert (page["status"], len(page["reasons"])) == ("unseen", 1), "it follows a frame, no file"
    assert desk.tally("explain", "0" * 12, code=2)["code"] == "event.unknown"
    assert desk.tally("explain", "trigger", "0" * 12, code=2)["code"] == "trigger.unknown"


@pytest.mark.clause("F-11")
def test_explain_shows_the_diff_of_a_conflict(desk: Desk) -> None:
    """08 section 10: the user's bytes stay, and what the run would have written is shown."""
    desk.page.write_text("mine\n")
    desk.scan()
    (desk.folder / "src/tree/b.py").write_text("B = 33\n")

    def conflicts() -> list[dict[str, Any]]:
        desk.scan()
        rows = desk.tally("reaction", "runs")["items"]
        return [row for row in rows if row["code"] == "conflict"]

    desk.live.wait(conflicts)
    told = desk.tally("explain", conflicts()[0]["label"])
    assert told["status"] == "run.failed(conflict)"
    diff = told["reasons"][-1]["detail"]["conflict"]["diff"]
    assert "-mine" in diff
    assert any("B = 33" in line for line in diff)
    assert desk.page.read_text() == "mine\n"


@pytest.mark.clause("F-22")
def test_a_reaction_is_switched_off_and_on(desk: Desk) -> None:
    """08 section 9: disable and enable are journaled, and seen in the list."""

    def enabled() -> list[bool]:
        return [row["enabled"] for row in desk.tally("reaction", "ls")["items"]]

    desk.tally("reflection", "disable", "docs-writer")
    assert enabled() == [True, False]
    desk.tally("reflection", "enable", "docs-writer")
    assert enabled() == [True, True]


@pytest.mark.clause("F-06")
def test_workspaces_and_provenance_are_listed(desk: Desk) -> None:
    """08 section 13: what is watched, and what was made of it."""
    (row,) = desk.tally("workspace", "ls")["items"]
    assert (row["name"], row["status"], row["follow"]) == ("ws", "watched", True)
    said = desk.tally("workspace", "confirm", str(desk.folder))
    assert said["workspace_id"] == row["workspace_id"]
    kept = [each["object"] for each in desk.tally("provenance", "ls")["items"]]
    assert {each["$type"] for each in kept} == {"provenance@1"}


@pytest.mark.clause("F-18")
def test_a_workspace_goes_and_comes_back(tmp_path: Path) -> None:
    """08 section 3: `rm` stops watching and keeps the history; `add` watches the same one again."""
    desk = Desk(tmp_path)
    try:
        (before,) = desk.tally("workspace", "ls")["items"]
        desk.tally("workspace", "rm", str(desk.folder))
        (gone,) = desk.tally("workspace", "ls")["items"]
        assert (before["status"], gone["status"]) == ("watched", "away")
        again = desk.tally("workspace", "add", str(desk.folder))
        assert again["workspace_id"] == before["workspace_id"]
    finally:
        desk.live.close()
