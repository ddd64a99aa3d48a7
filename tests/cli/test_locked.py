"""A node that is about to answer is waited for; one that does not come is told of."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tallystick.cli import call
from tallystick.node.files import Files, Lock
from tests.cli.runs import Live, hello, tally


def test_a_command_waits_for_a_node_that_is_starting(tmp_path: Path) -> None:
    """04 section 9: a lock without a note is a start; the command goes on once it is over."""
    folder = hello(tmp_path / "app")
    node = Live(folder, "--bundle", "app.py")
    try:
        note = node.data / "run" / "node.json"
        text = note.read_text("utf-8")
        note.unlink()
        back = threading.Timer(0.5, note.write_text, [text])
        back.start()
        done = tally("world", "ls", "--data", str(node.data), "--json")
        back.join()
        assert (done.code, len(done.value["items"])) == (0, 1)
        assert node.process.poll() is None
    finally:
        node.close()


def test_a_lock_that_stays_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """04 section 9: patience ends; the answer is 3, and names the lock."""
    monkeypatch.setattr(call, "LOCKED_S", 0.3)
    data = hello(tmp_path / "app") / ".tally"
    files = Files(data)
    files.make()
    lock = Lock(files)
    begun = time.monotonic()
    try:
        done = tally("world", "ls", "--data", str(data), "--json")
    finally:
        lock.release()
    assert (done.code, done.problem["code"]) == (3, "node.locked")
    assert time.monotonic() - begun >= 0.3
