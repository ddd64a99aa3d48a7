"""Remote workers: real processes over /v1/work, with leases, renewals and fencing (ND-16)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Live, environment, tally

APP = """
from tallystick import Bundle, Ctx, Effect, Record

app = Bundle("shop")


class Placed(Record):
    order_id: str


class Charged(Record):
    ref: str


class Charge(Effect[Charged], executor="payments"):
    token: str


class Order(Record):
    ref: str = ""


@app.workflow(key="order_id", effects=[Charge])
def orders(state: Order | None, event: Placed | Charge.Settled, ctx: Ctx) -> Order | None:
    match event:
        case Placed(order_id=order_id):
            ctx.effect(Charge(token=order_id), key=order_id)
            return Order()
        case Charge.Ok(value=Charged(ref=ref)):
            ctx.complete(ref)
            return Order(ref=ref)
        case Charge.Failed(code=code):
            ctx.fail(code)
            return Order(ref=code)
    return state
"""
EXECUTOR = '''
import asyncio, os
from pathlib import Path
from tallystick.executors.base import Failed, Ok


class Payments:
    """Notes each start; waits while a file `hold` is there; refuses `bad`, breaks on `crash`."""

    name = "payments"
    effects = frozenset({"shop/Charge@1"})
    repeat = "keyed"
    slots = 4

    def __init__(self, settings, ports):
        self.folder = Path(os.environ["PAYMENTS_FOLDER"])

    async def perform(self, job, report):
        with (self.folder / "calls").open("a") as file:
            file.write(f"{job.params['token']} {job.attempt} {os.getpid()}\\n")
        await report("began", {"attempt": job.attempt})
        while (self.folder / "hold").exists():
            await asyncio.sleep(0.02)
        if job.params["token"] == "crash":
            raise RuntimeError("broken")
        if job.params["token"] == "bad":
            return Failed("auth", "card.refused", "no", retryable=False)
        return Ok({"ref": f"pay-{job.params['token']}-{job.attempt}"})

    async def cancel(self, job):
        pass

    async def close(self):
        pass
'''
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


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "crew.py").write_text(EXECUTOR)
    (tmp_path / "tally.toml").write_text(TOML)
    made = Crew(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.clause("N-23", "K-27")
def test_a_stopped_worker_loses_its_lease(crew: Crew):
    """ND-16: SIGSTOP past the lease: a later attempt settles; the late receipt is refused."""
    (crew.folder / "hold").touch()
    first = crew.worker(lease_s=1.0)
    crew.place("o-1")
    crew.node.wait(lambda: len(crew.calls()) == 1)
    first.send_signal(signal.SIGSTOP)
    (crew.folder / "hold").unlink()
    crew.worker()
    ref = crew.ended("o-1")["state"]["ref"]
    settled = int(ref.rpartition("-")[2])
    assert settled >= 2, "a later attempt settled"
    root = crew.node.json("world", "root")["state_root"]
    first.send_signal(signal.SIGCONT)
    crew.node.wait(lambda: "work.lease_lost" in (crew.folder / "workers.log").read_text())
    first.send_signal(signal.SIGTERM)
    told = json.loads(first.communicate(timeout=60)[0])
    assert told["settled"] == 0
    assert told["lost"] >= 1
    rows = crew.node.json("journal", "tail", "--from", "1", "--limit", "1000")["items"]
    kinds = [row["record"]["record"] for row in rows]
    assert kinds.count("EffectAttempted") == settled - 1, "each is journaled before it starts"
    assert kinds.count("ReceiptSettled") == 1
    # A lease that ran out in a stopped worker's socket is never begun.
    assert [call[1] for call in crew.calls()] == ["1", str(settled)]
    assert crew.node.json("world", "root")["state_root"] == root


@pytest.mark.clause("K-27", "N-23")
def test_outcomes_of_a_worker_reach_the_cell(crew: Crew):
    """04 section 10: ok, error and a crash are receipts; a renewed lease outlives its length."""
    (crew.folder / "hold").touch()
    worker = crew.worker(lease_s=1.0)
    for order in ("good", "bad", "crash"):
        crew.place(order)
    crew.node.wait(lambda: len(crew.calls()) == 3)
    began = time.monotonic()
    crew.node.wait(lambda: time.monotonic() > began + 2.5)
    assert [row["attempts"] for row in crew.node.json("effect", "ls")["items"]] == [1, 1, 1]
    (crew.folder / "hold").unlink()
    assert crew.ended("good")["state"] == {"ref": "pay-good-1"}, "renewed: still the first attempt"
    assert crew.ended("bad")["state"] == {"ref": "card.refused"}
    assert crew.ended("crash")["state"] == {"ref": "effect.crash"}
    worker.send_signal(signal.SIGTERM)
    assert json.loads(worker.communicate(timeout=60)[0]) == {"settled": 3, "lost": 0}


@pytest.mark.clause("X-07", "N-23")
def test_a_worker_outlives_its_node(crew: Crew):
    """04 section 4: the node is killed while a worker works; the receipt settles after it."""
    (crew.folder / "hold").touch()
    crew.worker()
    crew.place("o-1")
    crew.node.wait(lambda: len(crew.calls()) == 1)
    url = json.loads((crew.node.data / "run" / "node.json").read_text())["url"]
    crew.node.end(signal.SIGKILL)
    crew.node.close()
    (crew.folder / "hold").unlink()
    crew.node = Live(crew.folder, port=int(url.rpartition(":")[2]))
    assert crew.ended("o-1")["state"]["ref"].startswith("pay-o-1-")


SECRET_APP = """
from tallystick import Bundle, Ctx, Http, Record

app = Bundle(
    "shop",
    definitions=[
        {
            "$kind": "defsecret",
            "name": "shop/api@1",
            "binding_id": "env:SHOP_API",
            "allowed_caps": ["http.out"],
        }
    ],
)


class Placed(Record):
    order_id: str


class Order(Record):
    said: bytes = b""


@app.workflow(key="order_id", effects=[Http])
def orders(state: Order | None, event: Placed | Http.Settled, ctx: Ctx) -> Order | None:
    match event:
        case Placed():
            key = Http.Secret(alias="shop/api", version=1)
            ctx.effect(Http(method="GET", url="https://example.com/", headers={"Key": key}))
            return Order()
        case Http.Ok(value=answer):
            ctx.complete("done")
            return Order(said=answer.body or b"")
        case Http.Failed(code=code):
            ctx.fail(code)
            return Order(said=code.encode())
    return state
"""
ECHO = '''
from tallystick.executors.base import Ok


class Echo:
    """Answers with the secret it was given, as a careless remote would."""

    name = "http"
    effects = frozenset({"sys/http.request@1"})
    repeat = "keyed"
    slots = 4

    def __init__(self, settings, ports):
        pass

    async def perform(self, job, report):
        (value,) = job.secrets.values()
        await report("heard", {"text": value})
        body = b"your key is " + value.encode()
        answer = {"status": 200, "url": job.params["url"], "headers": {}, "body": body}
        return Ok({**answer, "body_ref": None, "size": len(body), "timings": {}})

    async def cancel(self, job):
        pass

    async def close(self):
        pass
'''


@pytest.mark.clause("K-04")
def test_a_workers_secrets_are_its_own_and_do_not_come_back(tmp_path: Path):
    """ND-19: the node has no value and sends none; what the remote echoes is scrubbed first."""
    (tmp_path / "app.py").write_text(SECRET_APP)
    (tmp_path / "crew.py").write_text(ECHO)
    (tmp_path / "tally.toml").write_text(TOML.replace("payments", '"sys/http.request@1"'))
    crew = Crew(tmp_path, executors="http.request")
    canary = "canary-5e1c7a90"
    try:
        crew.worker(spec="crew:Echo", SHOP_API=canary)
        crew.place("o-1")
        said = crew.ended("o-1")["state"]["said"]
        assert b64decode(said).startswith(b"your key is ")
        assert canary.encode() not in b64decode(said)
        kept = [path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()]
        assert all(canary.encode() not in data for data in kept)
    finally:
        crew.close()


def test_a_worker_says_what_it_lacks(tmp_path: Path):
    """ND-28: no node is 3; no key and no executor are 2."""
    data = ("--data", str(tmp_path / ".tally"), "--json")
    done = tally("worker", "--executor", "crew:Payments", *data)
    assert (done.code, done.problem["code"]) == (3, "node.not_running")
    there = ("--url", "http://127.0.0.1:9", "--token", "x")
    done = tally("worker", "--executor", "crew:Payments", *there, *data)
    assert (done.code, done.problem["code"]) == (2, "key.unknown")
    assert tally("key", "new", *data).code == 0
    done = tally("worker", "--executor", "nothing.here:Payments", *there, *data)
    assert (done.code, done.problem["code"]) == (2, "executor.broken")
