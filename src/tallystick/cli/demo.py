"""`tally demo`: an order is placed, charged, refused once, retried, and the node dies on the way.

Everything happens in this process over the memory journal: what is thrown away in the middle is
the whole live world, and what is opened again is only what the journal holds.
"""

from __future__ import annotations

import json
from collections import deque
from hashlib import sha256
from typing import Any

import click

from tallystick.cli import demo_lines, orders
from tallystick.errors import ReplayDiverged
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel.inputs import Receipt, Sample, Settle, Submit
from tallystick.kernel.replay import open_world, verify
from tallystick.kernel.roots import root, state_root
from tallystick.kernel.settle import statement_of
from tallystick.modules.python import PythonRunner
from tallystick.node.driver import Driver, Ports, Published, Publisher
from tallystick.node.points import Points
from tallystick.node.worlds import NewWorld, create_world, open_driver
from tallystick.values import canon
from tallystick.values.seal import KeyPair

WORLD = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
START_NS = 1_700_000_000_000_000_000


class StoryClock:
    """Time and chance of the story, so that every run of it prints the same."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self._count = 0

    def sample(self) -> Sample:
        """The story's time; entropy by counting."""
        self._count += 1
        seed = sha256(b"story %d" % self._count).digest()
        return Sample(self.now_ns, seed + sha256(seed).digest())


class Payments:
    """A payment service in this process: it refuses the first charge it ever sees."""

    def __init__(self, pair: KeyPair) -> None:
        self._pair = pair
        self.waiting: deque[Published] = deque()
        self.calls: list[str] = []

    def publish(self, job: Published) -> None:
        """Take a job; it is performed when the story says so."""
        self.waiting.append(job)

    def perform(self, driver: Driver) -> None:
        """Perform what waits, and hand the sealed receipts to the driver."""
        while self.waiting:
            job = self.waiting.popleft()
            self.calls.append(job.dispatch_key.hex()[:8])
            status, payload = self._outcome(job)
            receipt = Receipt(
                world=job.world,
                intent=job.intent,
                effect=job.effect,
                status=status,
                payload=canon.encode(payload),
                executor=job.executor,
                attempt=job.attempt,
                started_ns=START_NS,
                ended_ns=START_NS,
                usage=None,
                seal={},
            )
            sealed = receipt._replace(seal=self._pair.sign(statement_of(receipt)))
            driver.offer(Settle(driver.clock.sample(), sealed))

    def _outcome(self, job: Published) -> tuple[str, dict[str, Any]]:
        if len(self.calls) == 1:
            return "error", {
                "kind": "server_error",
                "code": "bank.down",
                "message": "the bank is down",
                "retryable": True,
                "retry_after_ns": None,
                "details_ref": None,
            }
        return "ok", {"ref": "pay-" + canon.decode(job.params)["token"]}


class Story:
    """The demonstration, told in acts."""

    def __init__(self, say: Any) -> None:
        self.say = say
        self.journal = MemoryJournal()
        self.clock = StoryClock()
        self.pair = KeyPair(sha256(b"a key for the demonstration").digest())
        self.payments = Payments(self.pair)
        self.runner = PythonRunner(orders.FUNCTIONS)
        self.bundle = orders.bundle()
        self.driver = self._create()

    def _ports(self) -> Ports:
        return Ports(self.journal, self.clock, Publisher(self.payments.publish), Points())

    def _create(self) -> Driver:
        new = NewWorld(
            world=WORLD,
            bundle=self.bundle.root_digest,
            manifest=self.bundle.manifest_digest,
            blobs=dict(self.bundle.blobs()),
            node_key=self.pair.public,
        )
        return create_world(self._ports(), new, self.runner)

    def place(self) -> None:
        """Two orders come in, one of them twice under one Idempotency-Key."""
        self.say("two orders come in; the second is sent twice with one Idempotency-Key")
        for order_id, cents in (("o-1", 1250), ("o-2", 990), ("o-2", 990)):
            value = {"order_id": order_id, "cents": cents}
            key = order_id.encode()
            given = Submit(self.clock.sample(), orders.PLACED, value, idem_key=key)
            self.driver.offer(given)
        self.driver.run_until_idle()

    def charge(self) -> None:
        """The payment service answers."""
        self.payments.perform(self.driver)
        self.driver.run_until_idle()

    def die(self) -> None:
        """Throw the live world away and open it from the journal."""
        before = root(self.driver.world)
        self.payments.waiting.clear()
        self.driver = open_driver(self._ports(), WORLD, self.runner)
        after = root(self.driver.world)
        self.say(f"the node dies; opened again by fold: root {after.hex()[:16]}")
        if before != after:
            raise ReplayDiverged("the opened world is another one than the lost one")
        self.driver.resume()

    def wait(self) -> None:
        """The pause before the retry passes."""
        self.say("the pause is over; the timer fires and the charge is tried again")
        self.clock.now_ns += 2 * orders.PAUSE_NS
        self.driver.settle_due()
        self.driver.run_until_idle()

    def tell(self) -> None:
        """The whole demonstration."""
        self.place()
        self.charge()
        self.die()
        self.wait()
        self.charge()

    def proof(self) -> dict[str, Any]:
        """Run everything again and compare the roots."""
        frames = list(self.journal.read(WORLD))
        again = verify(open_world(WORLD, [], self.driver.blobs, self.runner), frames)
        live = root(self.driver.world)
        if again.first is not None:
            raise again.first.error()
        return {
            "world": WORLD,
            "seq": self.driver.world.seq,
            "ticks": again.ticks,
            "records": again.records,
            "calls": self.payments.calls,
            "state_root": canon.text_of(state_root(self.driver.world)),
            "root": canon.text_of(live),
            "replayed_root": canon.text_of(again.root),
            "equal": live == again.root,
        }


def show_trace(story: Story) -> None:
    """Print the journal; a gap stands between frames."""
    last = 0
    for line in demo_lines.lines(story.journal.read(WORLD)):
        mark = "|" if line["frame"] == last else "+"
        last = line["frame"]
        click.echo(f"{line['seq']:>4} {mark} {line['kind']:<10} {line['text']}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def demo(*, as_json: bool) -> None:
    """Run an order world in memory: a refusal, a retry, a crash, and a replay with equal roots."""
    story = Story(lambda text: None if as_json else click.echo(f"* {text}"))
    story.tell()
    proof = story.proof()
    if as_json:
        proof["trace"] = list(demo_lines.lines(story.journal.read(WORLD)))
        click.echo(json.dumps(proof, indent=2))
        return
    click.echo("")
    show_trace(story)
    click.echo("")
    click.echo(f"{proof['ticks']} ticks in {proof['records']} records were run again")
    click.echo(f"live root     {proof['root']}")
    click.echo(f"replayed root {proof['replayed_root']}")
    click.echo("equal" if proof["equal"] else "NOT EQUAL")
    if not proof["equal"]:
        raise SystemExit(4)
