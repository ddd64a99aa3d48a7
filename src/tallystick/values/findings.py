"""What is wrong with a file that people write, and where: one shape for all that is found in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tallystick.errors import Rejected
from tallystick.values.yaml12 import Path


class Finding(NamedTuple):
    """One thing that was found; `line` and `col` count from 1."""

    code: str
    severity: str
    line: int
    col: int
    path: str
    message: str
    hint: str

    def shown(self, file: str) -> dict[str, Any]:
        """The finding as people and programs read it."""
        return {"code": self.code, "severity": self.severity, "file": file, **self._asdict()}


class BadFile(Rejected):
    """A file that its checker refuses; `findings` holds them all, by line."""

    status = 422
    default_hint = "correct the file at the lines that are named, then check it again"

    def __init__(self, file: str, findings: Sequence[Finding]) -> None:
        first = findings[0]
        rest = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        message = f"{file}:{first.line}:{first.col} {first.code} {first.message}{rest}"
        shown = [finding.shown(file) for finding in findings]
        super().__init__(message, where={"findings": shown}, hint=first.hint)
        self.findings = tuple(findings)


def spelled(path: Path) -> str:
    """A path as text: `workflow[0].tool.kind`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out
