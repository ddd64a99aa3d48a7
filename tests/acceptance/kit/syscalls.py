"""System calls of a node, seen and disturbed from outside by strace.

A timeline is what the operating system was asked, in order and with times of the same clock that
the ledger uses; so "before" and "after" are not a matter of what the node says of itself.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SHOWN: Final = 20_000
_LINE: Final = re.compile(r"^(\d+)\s+(\d+)\.(\d{6}) (.*)$")
_WHOLE: Final = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(.*?)(?: <(\d+\.\d+)>)?$", re.DOTALL)
_BEGUN: Final = re.compile(r"^(\w+)\((.*) <unfinished \.\.\.>$", re.DOTALL)
_ENDED: Final = re.compile(
    r"^<\.\.\. (\w+) resumed>(.*)\)\s+= (-?\d+)(.*?)(?: <(\d+\.\d+)>)?$", re.DOTALL
)


class SystemCall(NamedTuple):
    """One system call: when it began and ended, its arguments as text, and what it gave."""

    began_ns: int
    ended_ns: int
    name: str
    arguments: str
    result: int
    injected: bool

    @property
    def file(self) -> str:
        """The path of the first argument, when it is a descriptor of a file."""
        found = re.match(r"\d+<([^>]*)>", self.arguments)
        return found.group(1) if found else ""


def available() -> bool:
    """True where strace may look at a process."""
    return shutil.which("strace") is not None


def traced(out: Path, calls: str, *injected: str) -> list[str]:
    """The command that a node runs under, to write down these calls; some may be disturbed."""
    words = ["strace", "-f", "-qq", "-ttt", "-T", "-y", "-s", str(SHOWN), "-o", str(out)]
    words += ["-e", f"trace={calls}", "-e", "signal=none"]
    for one in injected:
        words += ["-e", f"inject={one}"]
    return words


def read(path: Path) -> list[SystemCall]:
    """Every finished call of a timeline, in order of its end."""
    return sorted(_calls(path), key=_ended_ns)


def _ended_ns(call: SystemCall) -> int:
    return call.ended_ns


def _calls(path: Path) -> Iterator[SystemCall]:
    begun: dict[str, tuple[str, str, int]] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line.rstrip("\n"))
            if found is None:
                continue
            thread, seconds, micros, text = found.groups()
            at_ns = int(seconds) * 10**9 + int(micros) * 1000
            if (start := _BEGUN.match(text)) is not None:
                begun[thread] = (start.group(1), start.group(2), at_ns)
            elif (whole := _WHOLE.match(text)) is not None:
                name, arguments, result, rest, took = whole.groups()
                length_ns = int(float(took or 0) * 10**9)
                times = (at_ns, at_ns + length_ns)
                yield SystemCall(*times, name, arguments, int(result), "INJECTED" in rest)
            elif (end := _ENDED.match(text)) is not None and thread in begun:
                name, arguments, began_ns = begun.pop(thread)
                text, result, rest = arguments + end.group(2), end.group(3), end.group(4)
                times = (began_ns, at_ns)
                yield SystemCall(*times, name, text, int(result), "INJECTED" in rest)


def syncs(calls: list[SystemCall]) -> list[SystemCall]:
    """The calls that make the journal durable."""
    return [
        call
        for call in calls
        if call.name in ("fdatasync", "fsync") and "tally.db" in call.file and call.result == 0
    ]
