"""Reactions, workspaces and provenance as people read them, without a running node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Live, Ran, tally
from tests.cli.stand_in import refusing, saying, stand_in

PAGE = """\
reaction: page
on: [{files: ["in/*"]}, {command: true}]
reads: {files: ["in/*"]}
writes: {files: ["out/**"]}
cooldown: 0s
actions:
  - {name: page, file.write: {path: "out/page.md", content: "{{ trigger.input_digest }}"}}
"""
ASKED = """\
reaction: asked
target: {kind: file, match: "in/*"}
on: [{command: true}]
writes: {files: ["asked/**"]}
params: {type: object, properties: {n: {type: integer}}}
actions: [{name: page, file.write: {path: "asked/{{ target.name }}", content: "asked"}}]
"""


class Place:
    """A directory with a reaction, watched and trusted, and commands about it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder = base / "ws"
        self.write(".reactions/page.yaml", PAGE)
        self.write("in/a", "1")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def run(self, *words: str, code: int = 0) -> Ran:
        done = tally(*words, "--data", str(self.base / ".tally"))
        assert done.code == code, (words, done)
        return done

    def json(self, *words: str) -> Any:
        return self.run(*words, "--json").value

    def changed(self, name: str, text: str) -> None:
        """A file is written, seen, and what follows from it has happened."""
        self.write(name, text)
        assert self.json("workspace", "scan", str(self.folder), "--wait", "30")["quiet"]

    def begin(self) -> None:
        self.run("workspace", "add", str(self.folder))
        self.run("workspace", "trust", str(self.folder), "--follow")
        self.changed("in/b", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("place"))
    made.begin()
    return made


# ---- reactions --------------------------------------------------------------------------------


def test_findings_are_shown_with_their_place(tmp_path: Path) -> None:
    """08 section 13: file, line, code and hint of each; a directory that is not there is said."""
    here = Place(tmp_path)
    here.write(".reactions/odd.yaml", "reaction: odd\ncolour: red\n")
    done = here.run("reaction", "check", str(here.folder), code=2)
    first, hint, *_ = done.out.splitlines()
    assert first.startswith(".reactions/odd.yaml:")
    assert " error " in first
    assert hint.startswith("    ")
    assert done.out.splitlines()[-1] == "refused"
    missing = here.run("reaction", "check", str(here.folder / "none"), "--json", code=2)
    assert missing.problem["code"] == "workspace.no_directory"


@pytest.mark.clause("F-02", "F-07")
def test_decisions_and_triggers_are_told_again_in_words(place: Place) -> None:
    """F-07: the list, one decided again, one trigger derived again, and all of them."""
    (row,) = place.json("reaction", "decisions")["items"]
    listed = place.run("reaction", "decisions").out
    assert f"page  allow  {row['decision_id']}" in listed
    again = place.run("reaction", "decisions", "--replay", row["decision_id"]).out
    assert again.splitlines()[1:] == [f"recomputed   {row['decision_id']}", "same         yes"]
    one = place.run("reaction", "replay", row["trigger_id"]).out.splitlines()
    assert one[-2:] == ["same        yes", "accepted"]
    whole = place.run("reaction", "replay", "--all").out
    assert whole.startswith("same       yes\ntriggers   1\n")


@pytest.mark.clause("F-17", "F-11")
def test_a_conflict_is_explained_with_its_diff(tmp_path: Path) -> None:
    """08 section 10: what the run would have written stands against what somebody wrote."""
    here = Place(tmp_path)
    here.begin()
    here.write("out/page.md", "mine\n")
    here.changed("in/c", "1")
    label = here.json("reaction", "runs")["items"][0]["label"]
    lines = here.run("explain", label).out.splitlines()
    assert "    -mine" in lines
    assert any(line.startswith("    +sha256:") for line in lines)


@pytest.mark.clause("F-01")
def test_a_command_asks_for_a_run_of_one_target(tmp_path: Path) -> None:
    """08 section 6: with args, and once for each key; a target that it does not have is refused."""
    here = Place(tmp_path)
    here.write(".reactions/asked.yaml", ASKED)
    live = Live(tmp_path)
    try:
        here.run("workspace", "add", str(here.folder))
        here.run("workspace", "trust", str(here.folder))
        here.run("workspace", "scan", str(here.folder), "--wait", "30")
        words = ("reaction", "run", "asked", "--path", str(here.folder / "in/a"))
        more = ("--args", '{"n": 1}', "--key", "k-1")
        for _ in range(2):
            assert here.json(*words, *more)["reaction"] == "asked"
        live.wait((here.folder / "asked/a").exists)
        here.run("workspace", "scan", str(here.folder), "--wait", "30")
        (ran,) = here.json("reaction", "runs", "asked")["items"]
        assert (ran["state"], ran["attempt"]) == ("complete", 1)
        whole = here.run("reaction", "run", "asked", "--json", code=1)
        assert whole.problem["code"] == "reaction.no_command"
    finally:
        live.close()


@pytest.mark.clause("F-01")
def test_a_command_needs_no_running_node(tmp_path: Path) -> None:
    """08 section 6: a command that opens the files itself knows the reactions that are in them."""
    here = Place(tmp_path)
    here.begin()
    told = here.json("reaction", "run", "page")
    assert (told["reaction"], len(told["triggers"])) == ("page", 1)


# ---- workspaces -------------------------------------------------------------------------------


def test_a_workspace_is_called_by_its_name(place: Place) -> None:
    """08 section 3: the name serves as well as the directory; what is neither is unknown."""
    (row,) = place.json("workspace", "ls")["items"]
    told = place.json("workspace", "scan", row["name"])
    assert told["workspace_id"] == row["workspace_id"]
    nobody = place.run("workspace", "scan", "nobody", "--json", code=2)
    assert nobody.problem["code"] == "workspace.unknown"


@pytest.mark.clause("F-23")
def test_frames_and_stamps_are_listed_of_all_places(tmp_path: Path) -> None:
    """08 section 5: every stamp, every frame of a workspace, only those that went stale."""
    place = Place(tmp_path)
    place.begin()
    (stamp,) = place.json("stamp", "ls")["items"]
    assert (stamp["path"], stamp["reaction"]) == ("out/page.md", "page")
    target = str(place.write("in/noted", "1"))
    place.run("workspace", "scan", str(place.folder), "--wait", "30")
    none = place.run("frame", "get", target, "--type", "note", "--json", code=2)
    assert (none.problem["code"], none.problem["hint"]) == ("frame.unknown", "frame ls")
    note = str(place.write("note.md", "seen"))
    place.run("frame", "put", target, "--type", "note", "--file", note)
    assert place.run("frame", "get", target, "--type", "note").out == "seen"
    for words, count in ((("--in", "ws"), 1), (("--stale",), 0), ((), 1)):
        assert len(place.json("frame", "ls", *words)["items"]) == count, words
    place.changed("in/noted", "2")
    (stale,) = place.json("frame", "ls", "--stale")["items"]
    assert (stale["path"], stale["fresh"]) == ("in/noted", False)


def test_a_refusal_makes_no_world(tmp_path: Path) -> None:
    """ST-06: only a world that is not there is made; a node that says no is told on."""
    asked: list[str] = []

    def speak(each: Any) -> Any:
        asked.append(each.method)
        return refusing("auth.scope", 403, "Forbidden")

    with stand_in(speak) as url:
        for words in (("workspace", "add", str(tmp_path)), ("playbook", "run", "shop/daily")):
            done = tally(*words, "--url", url, "--json")
            assert (done.code, done.problem["code"]) == (1, "auth.scope")
    assert set(asked) == {"GET"}


# ---- provenance -------------------------------------------------------------------------------


@pytest.mark.clause("F-06", "F-19")
def test_the_origin_of_one_file_is_written_for_other_programs(place: Place) -> None:
    """S50: by its path, as a drawing in one piece or as a document a line."""
    path = ("--path", str(place.folder / "out/page.md"))
    drawn, lines = place.base / "page.dot", place.base / "page.jsonl"
    place.run("provenance", "export", "--format", "dot", *path, "-o", str(drawn))
    assert drawn.read_text("utf-8").startswith("digraph provenance {")
    place.run("provenance", "export", *path, "-o", str(lines))
    (statement,) = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert statement["subject"][0]["name"] == "out/page.md"


def test_a_broken_origin_is_named() -> None:
    """S49: what is broken first is said with its kind and why; the answer is no."""
    broken = {"kind": "blob", "id": "sha256:00", "why": "other bytes"}
    told = {"ok": False, "first_broken": broken, "checked": {"runs": 2, "blobs": 0}}
    with stand_in(lambda _asked: saying(told)) as url:
        done = tally("provenance", "verify", "--url", url)
    assert done.code == 1
    assert done.out.splitlines() == ["broken: blob sha256:00: other bytes", "no: 2 runs"]
