"""The docs writer of the example by the command line, as a newcomer runs it (F-20; 08 s. 13)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Live, tally

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "16-docs-writer"


class Desk:
    """A copy of the example, and a node that serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ws"
        shutil.copytree(EXAMPLE, self.folder)
        # The data folder is elsewhere, so that a workspace can be any directory.
        self.live = Live(folder)
        self.said = self.tally("workspace", "add", str(self.folder))
        self.played: dict[str, Any] = {}

    def tally(self, *words: str, code: int = 0) -> Any:
        done = tally(*words, "--data", str(self.live.data), "--json")
        assert done.code == code, done.out + done.err
        return json.loads(done.out) if done.out else done.problem

    def scan(self) -> Any:
        return self.tally("workspace", "scan", str(self.folder), "--wait", "20")

    @property
    def page(self) -> Path:
        return self.folder / "design/generated/tree.md"

    def play(self) -> dict[str, Any]:
        """The session of the example, and what each command said."""
        said: dict[str, Any] = {"check": self.tally("reaction", "check", str(self.folder))}
        (self.folder / "src/tree/b.py").write_text("B = 1\n")
        self.scan()
        said["untrusted runs"] = self.tally("reaction", "runs")["items"]
        said["untrusted"] = self.tally("reaction", "triggers")["items"]
        self.tally("workspace", "trust", str(self.folder), "--follow")
        (self.folder / "src/tree/b.py").write_text("B = 2\n")
        self.scan()
        # The first trigger was denied, and its cooldown holds the second one back for a while.
        self.live.wait(lambda: self.page.exists() and "B = 2" in self.page.read_text())
        self.scan()
        said["runs"] = self.tally("reaction", "runs")["items"]
        said["reflected"] = self.tally("reflection", "runs")["items"]
        self.scan()
        said["later runs"] = self.tally("reaction", "runs")["items"]
        said["why"] = self.tally("why", str(self.page))
        return said


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(tmp_path_factory.mktemp("desk"))
    try:
        made.played = made.play()
        yield made
    finally:
        made.live.close()


@pytest.mark.clause("F-20", "F-06", "F-17")
def test_a_session_with_the_docs_writer(desk: Desk) -> None:
    """F-20, RX-14, RX-18: check, nothing untrusted, then one run each; the page starts nothing."""
    said = desk.played
    assert desk.said["n"] == 1
    assert said["check"]["ok"]
    assert said["check"]["reactions"][0]["matches"]["./**/*.py"] == ["src/tree/a.py"]
    assert said["untrusted runs"] == []
    codes = [(row["outcome"], row["code"]) for row in said["untrusted"]]
    assert ("denied", "untrusted") in codes
    assert sorted(row["reaction"] for row in said["runs"]) == ["docs-context", "docs-writer"]
    assert said["runs"] == said["reflected"] == said["later runs"]
    assert (said["why"]["state"], said["why"]["reaction"]) == ("generated", "docs-writer")
    assert said["why"]["because"][-1]["text"] == "src/tree/b.py modified"


@pytest.mark.clause("F-06", "F-19")
def test_provenance_by_command(desk: Desk) -> None:
    """S49, S50: verify from all and from a run; export of one file, plain and sealed."""
    label = desk.played["runs"][0]["label"]
    assert desk.tally("why", str(desk.folder / "nowhere"), code=1)["known"] is False
    assert desk.tally("provenance", "verify")["ok"]
    assert desk.tally("provenance", "verify", label)["ok"]
    assert desk.tally("provenance", "verify", "nobody", code=2)["code"] == "provenance.unknown"
    run = ("--run", desk.played["why"]["run"])
    (statement,) = desk.tally("provenance", "export", *run)["documents"]
    assert statement["subject"][0]["name"] == "design/generated/tree.md"
    (sealed,) = desk.tally("provenance", "export", "--sign", *run)["documents"]
    assert sealed["payloadType"] == "application/vnd.in-toto+json"
    assert len(sealed["signatures"]) == 1
    for form in ("openlineage", "prov", "dot"):
        assert desk.tally("provenance", "export", "--format", form)["documents"]


@pytest.mark.clause("F-02", "F-07")
def test_what_was_decided_comes_out_again(desk: Desk) -> None:
    """P5, F-07: a decision and a trigger are made again from records, exit 0; none is unknown."""
    rows = desk.tally("reaction", "decisions")["items"]
    assert rows
    assert desk.tally("reaction", "decisions", "--replay", rows[0]["decision_id"])["same"]
    assert desk.tally("reaction", "replay", rows[0]["trigger_id"])["same"]
    assert desk.tally("reaction", "replay", "sha256:" + "0" * 64, code=2)["code"] == (
        "trigger.unknown"
    )


@pytest.mark.clause("F-23")
def test_frames_stamps_and_names_that_are_no_text(desk: Desk) -> None:
    """S22, RX-16: frames by path, stamps by path, adopt; an undecodable name goes through JSON."""
    (desk.folder / os.fsdecode(b"bad\xff.txt")).write_text("1")
    seen = desk.scan()
    assert seen["name_collision_risk"] == []
    note = desk.folder.parent / "note"
    note.write_text("a note\n")
    words = ("frame", "put", "bad\\xff.txt", "--type", "note", "--file", str(note), "--in", "ws")
    assert desk.tally(*words)["path"] == "bad\\xff.txt"
    head = desk.tally("frame", "get", "bad\\xff.txt", "--type", "note", "--in", "ws")
    assert (head["content"], head["fresh"]) == ("a note\n", True)
    kinds = [row["type"] for row in desk.tally("frame", "ls", "--in", "ws")["items"]]
    assert "note" in kinds
    page = str(desk.folder / "design/generated/tree.md")
    assert {row["reaction"] for row in desk.tally("stamp", "ls", page)["items"]} == {"docs-writer"}
    assert desk.tally("stamp", "adopt", page)["verb"] == "adopt"
    assert {row["state"] for row in desk.tally("stamp", "ls", page)["items"]} == {"adopted"}
    assert desk.tally("why", page)["state"] == "adopted"


@pytest.mark.clause("F-22")
def test_a_reaction_is_simulated_and_switched(desk: Desk) -> None:
    """08 section 13: simulate tells the stages and writes nothing; disable and enable are kept."""
    before = len(desk.tally("reaction", "triggers")["items"])
    path = str(desk.folder / "src/tree/a.py")
    stages = desk.tally("reaction", "simulate", "docs-context", "--path", path)["stages"]
    assert [row["stage"] for row in stages] == [1, 4, 5, 5, 6, 7, 8]
    assert stages[-2]["result"] == "allow: rules_passed"
    assert len(desk.tally("reaction", "triggers")["items"]) == before
    desk.tally("reaction", "disable", "docs-writer")
    rows = {row["reaction"]: row for row in desk.tally("reaction", "ls")["items"]}
    assert not rows["docs-writer"]["enabled"]
    desk.tally("reaction", "enable", "docs-writer")
    assert desk.tally("reaction", "show", "docs-writer")["enabled"]
    assert desk.tally("reaction", "show", "nobody", code=2)["code"] == "reaction.unknown"
