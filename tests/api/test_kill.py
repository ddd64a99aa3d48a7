"""One key across SIGKILL, from outside the process (ND-11, AT-10)."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import orders

ROOT = Path(__file__).parent.parent.parent
CALLERS = 100
EVENTS = "/v1/worlds/main/events"


class Caller:
    """Asks a node over sockets of its own, one for each question."""

    def __init__(self, folder: Path) -> None:
        run = folder / ".tally" / "run"
        self.address = json.loads((run / "node.json").read_text("utf-8"))["url"].split("//")[1]
        self.token = (run / "token").read_text("utf-8").strip()

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Status and bytes of an answer; None when the line was cut."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        line = http.client.HTTPConnection(self.address, timeout=60)
        try:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            return answer.status, answer.read()
        except (ConnectionError, http.client.HTTPException):
            return None
        finally:
            line.close()

    def place(self, order_id: str, key: str | None) -> Any:
        """Place an order."""
        value = {"order_id": order_id, "cents": 5}
        return self.ask("POST", EVENTS, {"schema": orders.PLACED, "value": value}, key)

    def events(self) -> list[Any]:
        """The hashes of all placed orders in the journal."""
        _, body = self.ask("GET", "/v1/worlds/main/journal?kind=event&limit=1000")
        rows = [row["record"] for row in json.loads(body)["items"]]
        return [row["event_hash"] for row in rows if row["schema"] == orders.PLACED]


@contextmanager
def node(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Caller]]:
    """A node process that answers."""
    command = [sys.executable, "-m", "tests.api.serve_me", str(folder)]
    note = folder / ".tally" / "run" / "node.json"
    note.unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        until = time.monotonic() + 60
        while not note.exists():
            assert process.poll() is None, "the node ended"
            assert time.monotonic() < until, "the node did not begin to answer"
            time.sleep(0.05)
        yield process, Caller(folder)
    finally:
        process.kill()
        process.wait()


@pytest.mark.clause("K-09", "X-07")
def test_one_key_many_callers_and_a_kill(tmp_path: Path) -> None:
    """ND-11, AT-10: 100 callers with one key, killed meanwhile: one event, one answer, then 409."""
    with node(tmp_path) as (process, caller), ThreadPoolExecutor(32) as pool:
        asked = [pool.submit(caller.place, "a", "one key") for _ in range(CALLERS)]
        while not any(each.done() for each in asked):
            time.sleep(0.001)
        process.kill()
        told = {each.result() for each in asked} - {None}
    with node(tmp_path) as (process, caller):
        told |= {caller.place("a", "one key") for _ in range(3)}
        assert len(told) == 1, "every caller that was answered got the same answer"
        status, body = told.pop()
        assert status == 202
        assert caller.events() == [json.loads(body)["event"]]
        assert caller.place("b", "one key")[0] == 409
        assert len(caller.events()) == 1


@pytest.mark.clause("K-09")
def test_without_a_key_nothing_is_fenced(tmp_path: Path) -> None:
    """ND-11 control: the same test without the key counts two events."""
    with node(tmp_path) as (_, caller):
        assert caller.place("a", None)[0] == 202
    with node(tmp_path) as (_, caller):
        assert caller.place("a", None)[0] == 202
        assert len(caller.events()) == 2
