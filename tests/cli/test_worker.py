"""Remote workers: real processes over /v1/work, with leases, renewals and fencing (ND-16)."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.crew import TOML, Crew
from tests.cli.runs import Live, tally

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
from tallystick.executors.base import Failed, Ok, Repeat


class Payments:
    """Notes each start; waits while a file `hold` is there; refuses `bad`, breaks on `crash`."""

    name = "payments"
    effects = frozenset({"shop/Charge@1"})
    repeat: Repeat = "keyed"
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
    first = crew.worker(lease_s=3.0)
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
    worker = crew.worker(lease_s=6.0)
    for order in ("good", "bad", "crash"):
        crew.place(order)
    crew.node.wait(lambda: len(crew.calls()) == 3)
    began = time.monotonic()
    crew.node.wait(lambda: time.monotonic() > began + 7)
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
