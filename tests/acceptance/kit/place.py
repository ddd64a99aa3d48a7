"""A place: a folder with a node in a process of its own, started, killed and asked from outside.

Only the command line and HTTP are used, so what is shown is what a user would see.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.env import plain_environment

START_S: Final = 60.0


def free_port() -> int:
    """A port of loopback that nobody uses now; a node keeps it over restarts."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@dataclass(slots=True)
class Place:
    """A folder, its settings, and the node that serves it now, if any.

    `world` is the bundle that is served; `planted` names a defect of `kit/planted.py` that the node
    runs with; `prefix` is a command that the node runs under, such as strace.
    """

    folder: Path
    settings: str = ""
    planted: str = ""
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    world: bytes = field(default_factory=zipped)
    starts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tally.toml").write_text(self.settings, encoding="utf-8")
        self.bundle.write_bytes(self.world)

    # ---- the process ------------------------------------------------------------------------

    @property
    def bundle(self) -> Path:
        """What the world is made from when it is not there yet."""
        return self.folder / "kit.tally.zip"

    @property
    def data(self) -> Path:
        """Where the node keeps its files."""
        return self.folder / ".tally"

    def command(self, *words: str) -> list[str]:
        """A command line of `tally` for this place."""
        tally = [sys.executable, "-m", "tallystick"]
        if self.planted:
            tally = [sys.executable, "-m", "tests.acceptance.kit.planted", self.planted]
        return [*tally, "--data", str(self.data), *words]

    def launch(self) -> subprocess.Popen[bytes]:
        """Start a node and do not wait for it."""
        listen = f"127.0.0.1:{self.port}"
        words = self.command("serve", "--listen", listen, "--bundle", str(self.bundle))
        with (self.folder / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._surroundings(),
            )
        return self.process

    def start(self, wait_s: float = START_S) -> float:
        """Start a node and wait until it answers; the seconds that took."""
        began = time.monotonic()
        process = self.launch()
        while not self.healthy():
            if process.poll() is not None:
                raise AssertionError(f"the node ended with {process.returncode}: {self.said()}")
            if time.monotonic() - began > wait_s:
                raise AssertionError(f"the node did not come up: {self.said()}")
            time.sleep(0.02)
        took = time.monotonic() - began
        self.starts.append(took)
        return took

    def kill(self) -> None:
        """SIGKILL, at once."""
        self._end(signal.SIGKILL)

    def stop(self, wait_s: float = 30.0) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM, wait_s)

    def wait(self, wait_s: float) -> int:
        """The exit code of a node that ends by itself."""
        assert self.process is not None
        return self.process.wait(wait_s)

    def node_pid(self) -> int:
        """The process id of the node itself, also under a prefix."""
        assert self.process is not None
        if not self.prefix:
            return self.process.pid
        return int(json.loads((self.data / "run" / "node.json").read_text("utf-8"))["pid"])

    def _end(self, number: int, wait_s: float = 30.0) -> int:
        process = self.process
        assert process is not None
        if process.poll() is None:
            os.kill(self.node_pid(), number)
        return process.wait(wait_s)

    def close(self) -> None:
        """Leave nothing running: what runs under a prefix outlives it, so it goes first."""
        process = self.process
        if process is not None and process.poll() is None:
            for pid in _children(process.pid) if self.prefix else ():
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def said(self) -> str:
        """The end of what the node wrote."""
        path = self.folder / "node.log"
        return path.read_text("utf-8", "replace")[-2000:] if path.exists() else ""

    def tally(self, *words: str, wait_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run one command for this place."""
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=wait_s,
            cwd=self.folder,
            env=self._surroundings(),
            check=False,
        )

    def _surroundings(self) -> dict[str, str]:
        """The environment of a node; a defect is planted into Python, not into compiled code."""
        pure = {"TALLY_PURE": "1"} if self.planted else {}
        return {**plain_environment(), **pure, **self.environment}

    # ---- asking -----------------------------------------------------------------------------

    def token(self) -> str:
        """The local token, as the node wrote it."""
        return (self.data / "run" / "token").read_text("utf-8").strip()

    def healthy(self) -> bool:
        """True once the node answers."""
        try:
            status, _ = self.ask("GET", "/v1/health", wait_s=5.0)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and (self.data / "run" / "token").exists()

    def ask(
        self, method: str, path: str, body: Any = None, *, wait_s: float = 60.0, **headers: str
    ) -> tuple[int, Any]:
        """One request; status and decoded body."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=wait_s)
        try:
            fields = {name.replace("_", "-"): value for name, value in headers.items()}
            token = self.data / "run" / "token"
            if token.exists():
                fields["Authorization"] = f"Bearer {self.token()}"
            data = None
            if body is not None:
                data = json.dumps(body).encode()
                fields["Content-Type"] = "application/json"
            line.request(method, path, data, fields)
            reply = line.getresponse()
            raw = reply.read()
            return reply.status, json.loads(raw) if raw else None
        finally:
            line.close()

    def get(self, path: str) -> Any:
        """The answer of a read of the main world; anything but 200 is a failure."""
        status, found = self.ask("GET", f"/v1/worlds/main{path}")
        assert status == 200, (path, status, found)
        return found

    def rows(self, kind: str) -> Iterator[dict[str, Any]]:
        """Every journal row of a kind, page by page."""
        after = ""
        while True:
            page = self.get(f"/journal?kind={kind}&limit=1000{after}")
            yield from page["items"]
            if page["next"] is None:
                return
            after = f"&after={page['next']}"

    def root(self) -> Mapping[str, Any]:
        """Both roots and the position."""
        found: Mapping[str, Any] = self.get("/root")
        return found

    def send(self, order: str, cents: int, sink: str, **more: Any) -> tuple[int, Any]:
        """Send one order, under its own name as Idempotency-Key."""
        value = {"id": order, "cents": cents, "sink": sink, "due_ns": None, "timeout_ns": None}
        body = {"schema": "kit/Order@1", "value": {**value, **more}}
        return self.ask("POST", "/v1/worlds/main/events", body, Idempotency_Key=order)

    def settled(self, wait_s: float = 60.0) -> bool:
        """Wait until no effect is open and no cell is ready; False when that does not come in time.

        An event is acknowledged before its ticks run, and so before its effects are open.
        """
        return self._comes(
            wait_s, lambda found: not (found["ready"] or found["effects"]["counted"])
        )

    def ran(self, wait_s: float = 60.0, world: str = "main") -> bool:
        """Wait until no cell is ready; False when that does not happen in time."""
        return self._comes(wait_s, lambda found: not found["ready"], world)

    def _comes(self, wait_s: float, holds: Callable[[Any], bool], world: str = "main") -> bool:
        """Look at the figures of a world until they are so; one look is of one moment."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            status, found = self.ask("GET", f"/v1/worlds/{world}/stats")
            assert status == 200, found
            if holds(found):
                return True
            time.sleep(0.1)
        return False


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in listed.split()]
