"""How a test runs a command: in this process, with its output, error stream and exit code."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, NamedTuple

from tallystick.cli.main import main


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The one object on the output."""
        return json.loads(self.out)

    @property
    def problem(self) -> dict[str, Any]:
        """The problem object on the error stream."""
        found: dict[str, Any] = json.loads(self.err.strip().splitlines()[-1])
        return found


def tally(*words: str, stdin: str = "") -> Ran:
    """Run `tally` with these words."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["tally", *words], io.StringIO(stdin)
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdin = before
    return Ran(int(code or 0), out.getvalue(), err.getvalue())
