"""How a test runs a command, here or against a node in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import tallystick
from tallystick.cli.client import SocketClient, live_node
from tallystick.cli.main import main
from tallystick.cli.request import Request


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


class Live:
    """A node of its own in a process of its own, in a folder; ended by `close`."""

    def __init__(
        self, folder: Path, *words: str, verb: str = "serve", port: int = 0, listen: str = ""
    ) -> None:
        self.folder = folder
        self.data = folder / ".tally"
        command = [sys.executable, "-m", "tallystick", verb, *words]
        command += ["--data", str(self.data), "--listen", listen or f"127.0.0.1:{port}"]
        self._log = (folder / "node.log").open("wb")
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=self._log, stderr=self._log, env=environment()
        )
        try:
            self.wait(lambda: live_node(self.data))
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> str:
        """What the node said so far."""
        return (self.folder / "node.log").read_text("utf-8", "replace")

    def wait(self, look: Callable[[], Any], patience_s: float = 60.0) -> Any:
        """Wait until a look finds something; the node must not end meanwhile."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        raise AssertionError(f"not seen in time; the node said: {self.log}")

    def run(self, *words: str, stdin: str = "") -> Ran:
        """A command about this node; what was sent has run when it returns."""
        done = tally(*words, "--data", str(self.data), stdin=stdin)
        if "send" in words and done.code == 0:
            self._ran(words[words.index("-w") + 1] if "-w" in words else "main")
        return done

    def _ran(self, world: str) -> None:
        """Wait until no cell is ready: an event is acknowledged before its ticks run."""
        found = live_node(self.data)
        if found is not None:
            stats = Request("GET", f"/v1/worlds/{world}/stats")
            with contextlib.closing(SocketClient(*found)) as client:
                self.wait(lambda: json.loads(client.ask(stats).body)["ready"] == 0)

    def json(self, *words: str, stdin: str = "") -> Any:
        """The answer of a command that has to succeed."""
        done = self.run(*words, "--json", stdin=stdin)
        assert done.code == 0, done.err
        return done.value

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the node by a signal; answers its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self) -> None:
        """End the node however it stands."""
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        self._log.close()


def environment() -> dict[str, str]:
    """The environment of a process that runs the package under test."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TALLY_")}
    kept["PYTHONPATH"] = str(Path(tallystick.__file__).parents[1])
    return kept


def hello(folder: Path) -> Path:
    """A folder with the template `hello`."""
    assert tally("init", str(folder)).code == 0
    return folder
