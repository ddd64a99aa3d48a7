"""The note that a node leaves in run/: what is left of it after a power cut is no node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.cli.client import live_node


@pytest.mark.parametrize("left", ["", "\n", "\0" * 64])
def test_an_empty_note_is_no_node(tmp_path: Path, left: str) -> None:
    """AT-02: a file renamed and never synced may be empty or zeros; the files can still be used."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "node.json").write_text(left, encoding="utf-8")
    (run / "token").write_text(left, encoding="utf-8")
    assert live_node(tmp_path) is None
