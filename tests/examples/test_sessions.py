"""What the READMEs of the examples print is what the commands print, in a copy of their folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.runs import tally
from tests.cli.sessions import bare, sessions
from tests.conformance.abi_lanes import wasm

EXAMPLES = Path(__file__).parents[2] / "examples"
# Those whose commands are followed elsewhere: on a node or in a workspace.
ELSEWHERE = {"11-upgrade", "15-one-world", "16-docs-writer", "20-playbooks"}
FOLDERS = [each for each in sorted(EXAMPLES.iterdir()) if each.name not in ELSEWHERE]
ASYNC = {"07-saga", "14-meter"}
_SHORT = re.compile(r"\b[0-9a-f]{8}\b")


def plain(text: str, folder: Path) -> str:
    """A line without what differs from run to run; the state of an async workflow has entropy."""
    return _SHORT.sub("STATE", bare(text)) if folder.name in ASYNC else bare(text)


@pytest.mark.clause("K-46", "X-25")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_session_is_true(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AU-29: every command of the README ends well and prints what stands below it; offline."""
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "here"))
    if (folder / "counter.wat").exists():
        Path("counter.wasm").write_bytes(wasm("wat"))  # as good as that of a compiler: X-11
    (session,) = [each for each in sessions(folder / "README.md") if each]
    for command, lines in session:
        words = shlex.split(command)
        assert words[0] == "tally", command
        done = tally(*words[1:])
        assert done.code == 0, (command, done.err)
        printed = [plain(line, folder) for line in (done.out + done.err).rstrip().splitlines()]
        assert printed == [plain(line, folder) for line in lines], command


def test_every_example_shows_what_to_type() -> None:
    """AU-29: no example is without a session, here or where its own test is."""
    assert len(FOLDERS) == 15
    for folder in sorted(EXAMPLES.iterdir()):
        text = (folder / "README.md").read_text("utf-8")
        assert "tally " in text or "clang " in text, folder.name
