"""Processes that die by SIGKILL in the middle of an effect, many of them quickly.

One program imports once and forks a child for each act: the child is killed, the program lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def die() -> None:
    """End this process as a kill from outside would: nothing is flushed, nothing is closed."""
    os.kill(os.getpid(), signal.SIGKILL)


def serve(act: Callable[..., None]) -> None:
    """Run one act per line of standard input, each in a child; answer how the child ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                act(*json.loads(line))
                code = 0
            except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Killing:
    """The program, as a test sees it."""

    def __init__(self, program: str) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> None:
        """Run one act, which must die by SIGKILL."""
        assert self.ended(*words) == -signal.SIGKILL

    def ended(self, *words: str) -> int:
        """How one act ended: its exit code, or minus the signal."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(words) + "\n")
        self._program.stdin.flush()
        return int(self._program.stdout.readline())

    def close(self) -> None:
        """End the program."""
        with self._program:
            assert self._program.stdin is not None
            self._program.stdin.close()
