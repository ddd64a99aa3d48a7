"""Sandboxes for tests, and the reason when this machine cannot build them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts, Failed
from tallystick.executors.isolate import Bounds, Program, run
from tallystick.executors.isolate_watch import Surroundings
from tallystick.executors.python import RUN as PYTHON
from tallystick.executors.python import PythonExecutor
from tallystick.executors.shell import RUN as SHELL
from tallystick.executors.shell import ShellExecutor
from tests.executors.attempts import done, failed, job_of


@cache
def missing() -> str | None:
    """Why no walls can be built here, or None."""
    around = Surroundings(Path("/nowhere/.tally"), 30, lambda: False)
    ended = run(Program(("true",)), Bounds(), around)
    return f"{ended.code}: {ended.message}" if isinstance(ended, Failed) else None


def need_walls() -> None:
    """Skip, and say why, where bubblewrap is not installed or may not work."""
    reason = missing()
    if reason is not None:
        pytest.skip(f"no sandbox on this machine, {reason}")


def ports(folder: Path) -> ExecutorPorts:
    return ExecutorPorts(folder / ".tally", None, lambda: 0)


class Box:
    """A folder, and programs run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bounds = Bounds()

    def shell(self, *argv: str, bounds: Bounds | None = None, **params: Any) -> Any:
        """The receipt of a program that must run."""
        return done(*self._shell(argv, bounds, params))

    def no_shell(self, *argv: str, bounds: Bounds | None = None, **params: Any) -> Failed:
        """The failure of a program that must not."""
        return failed(*self._shell(argv, bounds, params))

    def _shell(self, argv: Any, bounds: Bounds | None, params: Any) -> Any:
        job = {key: params.pop(key) for key in ("grant", "secrets", "blobs") if key in params}
        executor = ShellExecutor(bounds or self.bounds, ports(self.folder))
        return executor, job_of(SHELL, {"argv": list(argv)} | params, **job)

    def python(self, code: str, args: Any = None, bounds: Bounds | None = None, **job: Any) -> Any:
        """The receipt of code that must give a result."""
        return done(*self._python(code, args, bounds, job))

    def no_python(
        self, code: str, args: Any = None, bounds: Bounds | None = None, **job: Any
    ) -> Failed:
        """The failure of code that must fail."""
        return failed(*self._python(code, args, bounds, job))

    def _python(self, code: str, args: Any, bounds: Bounds | None, job: Any) -> Any:
        params = {"code": code, "args": args} | job.pop("params", {})
        executor = PythonExecutor(bounds or self.bounds, ports(self.folder))
        return executor, job_of(PYTHON, params, **job)
