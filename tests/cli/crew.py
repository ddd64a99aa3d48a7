"""A node that leaves an effect to workers, and the workers that a test starts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.runs import Live, environment

TOML = '[executors]\nroutes = { payments = "pool:cards" }\n'


class Crew:
    """A node whose payments are left to workers, and the workers that a test starts."""

    def __init__(self, folder: Path, executors: str = "payments") -> None:
        self.folder = folder
        self.node = Live(folder, "--bundle", "app.py")
        self.key = self.node.json("key", "new")["key"]
        assert self.node.run("key", "trust", self.key, "--executors", executors).code == 0
        made = self.node.json("token", "create", "crew", "--scopes", "work,read,send")
        self.token = made["token"]
        self.workers: list[subprocess.Popen[str]] = []

    def worker(
        self, lease_s: float = 30.0, spec: str = "crew:Payments", **more: str
    ) -> subprocess.Popen[str]:
        """Start a worker in a process of its own."""
        url = json.loads((self.node.data / "run" / "node.json").read_text())["url"]
        command = [sys.executable, "-m", "tallystick", "worker", "--executor", spec]
        command += ["--pool", "cards", "--url", url, "--token", self.token, "--json"]
        command += ["--data", str(self.node.data), "--key", self.key, "--lease", str(lease_s)]
        env = {**environment(), "PAYMENTS_FOLDER": str(self.folder), **more}
        with (self.folder / "workers.log").open("a") as log:
            made = subprocess.Popen(
                command, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True, env=env
            )
        self.workers.append(made)
        return made

    def place(self, order: str) -> None:
        self.node.json("send", "shop/Placed@1", json.dumps({"order_id": order}))

    def cell(self, order: str) -> Any:
        return self.node.json("cell", "show", "shop/orders@1", order)

    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def ended(self, order: str) -> Any:
        """Wait until an order is over; answers its cell."""
        self.node.wait(lambda: self.cell(order)["status"] in ("completed", "failed"))
        return self.cell(order)

    def close(self) -> None:
        for each in self.workers:
            each.send_signal(signal.SIGCONT)
            each.kill()
            each.wait()
            assert each.stdout is not None
            each.stdout.close()
        self.node.close()
