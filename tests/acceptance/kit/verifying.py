"""Verifying: the command `tally verify --full` over many folders, in one process.

Most of what the command costs is its start, and a journal of a few hundred frames is read in a
moment: so whoever has many folders to verify starts it once for a lot of them.
What runs is the command itself, from its words to its exit code.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.kit.env import plain_environment

WORDS = ("--json", "verify", "--full")
WAIT_S = 600.0


class Verdict(NamedTuple):
    """How the command ended, and what it said."""

    code: int
    said: str
    complained: str

    @property
    def broke(self) -> bool:
        """True when it did not judge, but fell over."""
        return "Traceback" in self.complained


def verdicts(folders: Sequence[Path], planted: str = "") -> list[Verdict]:
    """What the command says of each folder; one process, with a planted defect if any is named."""
    pure = {"TALLY_PURE": "1"} if planted else {}
    done = subprocess.run(
        [sys.executable, "-m", __name__, planted, *map(str, folders)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAIT_S,
        env={**plain_environment(), **pure},
        check=True,
    )
    found = [Verdict(*json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(folders), "every folder has its verdict"
    return found


# ---- the process ----------------------------------------------------------------------------


def _verdict(folder: str) -> Verdict:
    from tallystick.cli.main import main  # whoever only asks needs no node

    said, complained, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["tally", "--data", folder, *WORDS]
    with redirect_stdout(said), redirect_stderr(complained):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception:  # noqa: BLE001 - as an interpreter ends: with 1, and the trace is told
            code = 1
            traceback.print_exc()
    return Verdict(code, said.getvalue(), complained.getvalue())


def _main(planted: str, *folders: str) -> None:
    if planted:
        from tests.acceptance.kit.planted import DEFECTS  # only a control does

        DEFECTS[planted]()
    for folder in folders:
        sys.stdout.write(json.dumps(_verdict(folder)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
