"""Processes for a demonstration: a bank and a node, each a real one, on loopback, in one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tallystick.cli.client import SocketClient, live_node
from tallystick.cli.init import template
from tallystick.cli.problem import error_of
from tallystick.cli.request import Request
from tallystick.errors import Unavailable

PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.05
PORT: Final = "8099"


class Stage:
    """The folder of a demonstration and the processes that run in it; `close` ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger.jsonl"
        self.data = folder / ".tally"
        self._bank: subprocess.Popen[str] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self._client: SocketClient | None = None

    # ---- processes --------------------------------------------------------------------------

    def prepare(self, refusals: int) -> None:
        """Write the order world, start the bank, and let the world know the bank's port."""
        made = template("orders")
        for name, text in made.items():
            (self.folder / name).write_text(text, "utf-8")
        command = [sys.executable, "bank.py", "0", str(self.ledger), str(refusals)]
        self._bank = subprocess.Popen(  # noqa: S603  # our own file, our own interpreter
            command, cwd=self.folder, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert self._bank.stdout is not None, "the bank says its port"
        port = self._bank.stdout.readline().strip()
        if not port:
            raise Unavailable("the bank did not start", code="demo.no_bank")
        source = made["app.py"].replace(PORT, port)
        (self.folder / "app.py").write_text(source, "utf-8")

    def start(self) -> None:
        """Start a node on the folder, and wait until it answers."""
        command = [sys.executable, "-m", "tallystick", "serve", "--data", str(self.data)]
        command += ["--listen", "127.0.0.1:0", "--bundle", "app.py", "--json"]
        log = (self.folder / "node.log").open("ab")
        with log:
            self._node = subprocess.Popen(  # noqa: S603  # this very program
                command, cwd=self.folder, stdout=log, stderr=log, env=_environment()
            )
        found = self.until(self._found, "the node answers")
        self._client = SocketClient(*found)

    def _found(self) -> tuple[str, str] | None:
        assert self._node is not None, "a node was started"
        if self._node.poll() is not None:
            raise Unavailable(
                f"the node ended with {self._node.returncode}",
                code="demo.no_node",
                where={"log": (self.folder / "node.log").read_text("utf-8")[-2000:]},
            )
        return live_node(self.data)

    @property
    def pid(self) -> int:
        """The process id of the node."""
        assert self._node is not None, "a node was started"
        return self._node.pid

    def kill(self) -> None:
        """SIGKILL: the node gets no chance to say or save anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code of the node."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._node is not None, "a node was started"
        if self._client is not None:
            self._client.close()
            self._client = None
        self._node.send_signal(number)
        code = self._node.wait(PATIENCE_S)
        self._node = None
        return code

    def close(self) -> None:
        """End what still runs."""
        if self._node is not None:
            self._end(signal.SIGKILL)
        if self._bank is not None:
            self._bank.kill()
            self._bank.wait()
            assert self._bank.stdout is not None, "the bank says its port"
            self._bank.stdout.close()

    # ---- questions --------------------------------------------------------------------------

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """One request about the world; a refusal is raised."""
        assert self._client is not None, "a node was started"
        reply = self._client.ask(Request(method, f"/v1/worlds/main{path}", **more))
        if reply.status >= 400:
            raise error_of(reply)
        return json.loads(reply.body)

    def until(self, look: Any, what: str) -> Any:
        """Wait until a look finds something, and answer it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(LOOK_S)
        raise Unavailable(f"waited {PATIENCE_S:.0f} s until {what}", code="demo.too_slow")

    def entries(self) -> list[dict[str, Any]]:
        """What the bank wrote down."""
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text("utf-8").splitlines()]


def _environment() -> dict[str, str]:
    """Ours, without settings that would lead the node elsewhere."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TALLY_") or k == "TALLY_PURE"}
    # The processes must run the very package that started them.
    root = str(Path(__file__).resolve().parents[2])
    kept["PYTHONPATH"] = os.pathsep.join(p for p in (root, kept.get("PYTHONPATH")) if p)
    return kept
