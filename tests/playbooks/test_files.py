"""The tool `file` in a real node: every action, inside of what was granted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.rig import Ended, ended, playing, request
from tests.playbooks.test_played import HEAD

ALL = (
    HEAD
    + """workflow:
  - step: write
    tool:
      - {name: one, kind: file, action: write, path: out/a.txt, text: "1"}
      - {name: two, kind: file, action: append, path: out/a.txt, text: "2"}
      - {name: new, kind: file, action: append, path: out/b.txt, data: {n: 1}}
      - {name: gone, kind: file, action: write, path: out/c.txt, text: "x"}
      - {name: go, kind: file, action: delete, path: out/c.txt}
    next: {arcs: [{step: look}]}
  - step: look
    tool:
      - {name: text, kind: file, action: read, path: out/a.txt}
      - {name: below, kind: file, action: list, path: out}
      - {name: top, kind: file, action: list, path: "."}
    set_ctx:
      text: "{{ look.results.text.text }}"
      below: "{{ look.results.below.entries }}"
      top: "{{ look.results.top.count }}"
"""
)


def play(folder: Path, text: str, grant: dict[str, Any]) -> Ended:
    """One execution over a folder of its own."""
    (folder / "files").mkdir(exist_ok=True)

    async def main() -> Ended:
        enabled = ["timer", "file", "playbook"]
        settings = {"file": {"workspaces": {"project": str(folder / "files")}}}
        async with playing(folder / "data", enabled=enabled, executors=settings) as (node, world):
            await request(node, world, text, grants={"file": grant})
            return await ended(node, world)

    return asyncio.run(main())


@pytest.mark.clause("N-03", "N-20")
def test_every_action_of_files(tmp_path: Path) -> None:
    """write, append to a file that is there and to one that is not, delete, read, list."""
    found = play(tmp_path, ALL, {})
    assert found.status == "success", str(found.net["failures"])
    assert found.ctx["text"] == "12"
    assert found.ctx["below"] == [
        {"name": "a.txt", "kind": "file", "size": 2},
        {"name": "b.txt", "kind": "file", "size": 8},
    ]
    assert found.ctx["top"] == 1
    assert (tmp_path / "files/out/b.txt").read_text() == '{"n": 1}'
    assert not (tmp_path / "files/out/c.txt").exists()


@pytest.mark.clause("X-24")
@pytest.mark.parametrize(
    ("action", "grant"),
    [
        ("write, path: a, text: x", {"ops": ["read"]}),
        ("append, path: a, text: x", {"ops": ["read"]}),
        ("list, path: b", {"ops": ["read", "write"]}),
        ("list, path: b", {"path_prefixes": ["c"]}),
        ("list, path: .", {"path_prefixes": ["b"]}),
        ("read, path: b/x", {"roots": ["elsewhere"]}),
        ("delete, path: b/x", {"ops": ["write"]}),
        ("list, path: ../files", {}),
    ],
)
def test_a_grant_bounds_every_action(tmp_path: Path, action: str, grant: dict[str, Any]) -> None:
    """PB-22: what the grant does not cover is denied by the executor, and nothing changes."""
    (tmp_path / "files/b").mkdir(parents=True)
    (tmp_path / "files/b/x").write_text("kept")
    text = HEAD + f"workflow:\n  - {{step: a, tool: {{kind: file, action: {action}}}}}\n"
    found = play(tmp_path, text, grant)
    (row,) = found.net["failures"]
    assert (found.status, row["kind"]) == ("failed", "denied")
    assert (tmp_path / "files/b/x").read_text() == "kept"
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["b"]


@pytest.mark.clause("N-22")
def test_iterations_that_append_to_one_file(tmp_path: Path) -> None:
    """Each of twelve lines that are written at once is there: a write expects what was read."""
    text = HEAD + (
        "workflow:\n  - step: a\n"
        "    loop: {in: '{{ range(12) }}', iterator: i, spec: {mode: parallel, max_in_flight: 4}}\n"
        '    tool: {kind: file, action: append, path: log, text: "<{{ iter.i }}>"}\n'
    )
    found = play(tmp_path, text, {})
    assert found.status == "success", str(found.net["failures"])
    lines = (tmp_path / "files/log").read_text().replace("><", "> <").split()
    assert sorted(lines) == sorted(f"<{i}>" for i in range(12))
