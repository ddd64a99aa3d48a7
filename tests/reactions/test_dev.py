"""`tally dev` with reactions beside the app: edits of both are taken up (08 section 3)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.runs import Live

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/15-one-world"
EXTRA = """\
reaction: count-notes
on: [{files: ["inbox/*.txt"]}]
reads: {files: ["inbox/*.txt"]}
writes: {files: [count.md]}
cooldown: 0s
actions:
  - {name: in, file.read: {paths: ["inbox/*.txt"]}}
  - {name: out, file.write: {path: count.md, content: "first: {{ actions.in.files | length }}"}}
"""


# tidy: one session of a developer.
@pytest.mark.clause("F-03", "X-25")
def test_dev_follows_reactions_and_app(tmp_path: Path) -> None:
    """08 section 3: an edit of a trusted reaction runs without another word; a mistake is told.

    What was there before the mistake goes on, and the app is taken up beside it.
    """
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "library"))
    extra, count = folder / ".reactions/count-notes.yaml", folder / "count.md"
    extra.write_text(EXTRA, "utf-8")
    (folder / ".tallyignore").write_text("node.log\n", "utf-8")  # what this node says is no news
    (folder / "inbox").mkdir()
    node = Live(folder, "app.py", verb="dev")
    try:

        def note(name: str) -> None:
            (folder / "inbox" / name).write_text("a note\n", "utf-8")
            node.json("workspace", "scan", str(folder), "--wait", "20")

        node.json("workspace", "add", str(folder))
        node.wait(lambda: "not trusted, run: tally workspace trust" in node.log)
        note("a.txt")
        assert not count.exists(), "nobody has trusted it"
        app = folder / "app.py"
        told = "[*shelf.titles, event.title]"
        text = app.read_text("utf-8").replace(told, told.replace("event.", "'card ' + event."))
        app.write_text(text, "utf-8")
        node.wait(lambda: "runs sha256:" in node.log)
        node.json("workspace", "trust", str(folder))
        note("b.txt")
        node.wait(lambda: count.exists() and count.read_text("utf-8") == "first: 2")
        before = node.log.count("reactions of library: ")
        extra.write_text(EXTRA.replace("first:", "second:"), "utf-8")
        node.wait(lambda: node.log.count("reactions of library: ") > before)
        note("c.txt")
        node.wait(lambda: count.read_text("utf-8") == "second: 3")
        extra.write_text(EXTRA.replace("writes:", "wirtes:"), "utf-8")
        node.wait(lambda: "it goes on as it was" in node.log)
        note("d.txt")
        node.wait(lambda: count.read_text("utf-8") == "second: 4")
        shelf = node.json("cell", "show", "library/shelves@1", "notes")
        assert shelf["state"]["titles"][-1] == "card d.txt"
        assert node.end() == 0
    finally:
        node.close()
