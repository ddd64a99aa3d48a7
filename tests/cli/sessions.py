"""Sessions in documents: commands as people type them, and what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.cli.runs import Live

_HASH = re.compile(r"sha256:[0-9a-f]+(\.\.\.)?")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WORLD = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Said(NamedTuple):
    """One command of a session, and the lines that it prints."""

    command: str
    lines: list[str]


def sessions(page: Path) -> list[list[Said]]:
    """The blocks of a page that hold commands, in order."""
    found: list[list[Said]] = []
    for language, block in _BLOCK.findall(page.read_text("utf-8")):
        if language:
            continue
        said: list[Said] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                said.append(Said(line.removeprefix("$ "), []))
            elif said:
                said[-1].lines.append(line)
        if said:
            found.append(said)
    return found


def bare(text: str) -> str:
    """A text without what differs from run to run: hashes and the ids of worlds."""
    return _WORLD.sub("WORLD", _HASH.sub("HASH", text)).rstrip()


def told(live: Live, session: list[Said]) -> list[tuple[str, list[str], list[str]]]:
    """Run a session on a node: each command, what the page says, and what was printed."""
    rows = []
    for command, lines in session:
        words = shlex.split(command)
        assert words[0] == "tally", command
        done = live.run(*words[1:])
        printed = (done.out + done.err).splitlines()
        rows.append((command, [bare(line) for line in lines], [bare(line) for line in printed]))
    return rows
