"""Random programs: one root by every path, after every frame (KN-02, I2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tallystick.errors import TallyError
from tallystick.kernel import snapshot
from tallystick.kernel.inputs import Clock, Operate, Progress, Settle, Submit, TakeSnapshot
from tallystick.kernel.replay import fold_frames, open_world
from tallystick.kernel.roots import root
from tallystick.kernel.world import Settings, World
from tallystick.node.jobs import Published
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.rig import OUTSIDER, Rig

PROGRAMS = 500
STEPS = 10

CELLS = st.sampled_from(["a", "b", "a/1"])
SMALL = Settings(cell_cache=1, node_cache=1, resident_bytes_max=200)
SETTINGS = st.sampled_from([SMALL, Settings(cell_cache=2), Settings()])
PAYLOADS = st.sampled_from([({"a": "yes"}, "ok"), ({"b": 1}, "ok"), ({}, "error")])


class Program(RuleBasedStateMachine):
    """Inputs of every kind against a live world, and the same journal folded beside it."""

    @initialize(settings=SETTINGS, on_fault=st.sampled_from(["fail", "suspend"]))
    def begin(self, settings: Settings, on_fault: str) -> None:
        self.rig: Rig = mixed.mixed_rig(settings, on_fault=on_fault)
        self.jobs: list[Published] = []
        self.folded = self.fresh(SMALL)
        self.pinned: dict[int, World] = {}
        self.check()

    # ---- three ways to one root -------------------------------------------------------------

    def fresh(self, settings: Settings) -> World:
        blobs = self.rig.driver.blobs
        return open_world(self.rig.world.id, [], blobs, self.rig.runner, settings=settings)

    def opened(self, row: Any) -> World:
        """The world of a snapshot, to be folded on from there, under another cache size."""
        rig = self.rig
        settings = Settings(cell_cache=3, resident_bytes_max=50)
        return snapshot.load(row.document, rig.driver.blobs, rig.runner, settings)

    def check(self) -> None:
        """Fold what is new into every other world; compare their roots with the live one."""
        rig = self.rig
        live = root(rig.world)
        for row in rig.journal.snapshots(rig.world.id)[-2:]:
            if row.seq not in self.pinned:
                self.pinned[row.seq] = self.opened(row)
        for world in (self.folded, *self.pinned.values()):
            fold_frames(world, rig.journal.read(rig.world.id, after=world.seq))
            assert root(world) == live

    def drive(self) -> None:
        """Advance frame by frame, each durable at once, checking after each."""
        rig = self.rig
        while rig.driver.step():
            rig.driver.flush()
            self.check()
        rig.driver.flush()
        self.jobs += rig.jobs.all
        rig.jobs.all.clear()

    def give(self, given: Any, *, run: bool = True) -> None:
        """Hand in one input; a refusal changes nothing."""
        rig = self.rig
        before = root(rig.world)
        ticket = rig.driver.offer(given)
        rig.driver.step()
        rig.driver.flush()
        if ticket.error is not None:
            assert isinstance(ticket.error, TallyError)
            assert ticket.error.exit_code != 4
            assert root(rig.world) == before, "a refusal leaves the root"
        self.check()
        if run:
            self.drive()

    # ---- rules ------------------------------------------------------------------------------

    @rule(
        cell=CELLS,
        do=st.sampled_from(["note", *mixed.DEEDS]),
        n=st.integers(0, 3),
        key=st.none() | st.sampled_from([b"1", b"2"]),
        run=st.booleans(),
    )
    def send(self, cell: str, do: str, n: int, key: bytes | None, *, run: bool) -> None:
        value = worlds.go(cell, do, n)
        given = Submit(self.rig.clock.sample(), worlds.GO, value, idem_key=key)
        self.give(given, run=run)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), outcome=PAYLOADS, forged=st.booleans())
    def settle(self, data: Any, outcome: tuple[Any, str], *, forged: bool) -> None:
        """A receipt, good or bad, once or again, from the trusted key or another."""
        job = data.draw(st.sampled_from(self.jobs))
        payload, status = outcome
        pair = {"pair": OUTSIDER} if forged else {}
        receipt = self.rig.receipt(job, payload, status, **pair)
        self.give(Settle(self.rig.clock.sample(), receipt))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), seq=st.integers(1, 3))
    def progress(self, data: Any, seq: int) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        sample = self.rig.clock.sample()
        body = canon.encode(seq)
        self.give(Progress(sample, job.world, job.intent, job.attempt, seq, "token", body))

    @rule(hours=st.sampled_from([-30, 0, 1, 2, 26]))
    def clock(self, hours: int) -> None:
        self.rig.clock.now_ns += hours * mixed.HOUR_NS
        self.give(Clock(self.rig.clock.sample()))

    @rule(
        verb=st.sampled_from(["suspend", "resume", "skip", "cancel"]),
        cell=CELLS,
        force=st.booleans(),
    )
    def operate(self, verb: str, cell: str, *, force: bool) -> None:
        sample = self.rig.clock.sample()
        key = canon.encode(cell)
        given = Operate(sample, verb, "alice", "test", workflow=worlds.LAB, key=key, force=force)
        self.give(given)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def attempt(self, data: Any) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        sample = self.rig.clock.sample()
        self.give(Operate(sample, "attempt", "node", "test", intent=job.intent))

    @rule()
    def take_snapshot(self) -> None:
        self.give(TakeSnapshot(self.rig.clock.sample()))

    @rule(after=st.sampled_from(["note", "ask", "gone", "done"]), cell=CELLS)
    def snapshot_and_more_in_one_commit(self, after: str, cell: str) -> None:
        """Frames behind a snapshot that is not durable yet (I20)."""
        rig = self.rig
        self.drive()
        rig.driver.offer(TakeSnapshot(rig.clock.sample()))
        rig.driver.step()
        rig.driver.offer(Submit(rig.clock.sample(), worlds.GO, worlds.go(cell, after, 1)))
        while rig.driver.step():
            pass
        rig.driver.flush()
        self.check()
        self.drive()

    @rule(settings=SETTINGS)
    def reopen(self, settings: Settings) -> None:
        """Restart: the newest snapshot and the tail become the live world."""
        before = root(self.rig.world)
        self.rig = self.rig.reopened(settings)
        assert root(self.rig.world) == before
        self.check()

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.drive()
            assert self.rig.verify().first is None, "running again gives the same frames"


@pytest.mark.slow
@pytest.mark.clause("K-19", "K-42", "K-43")
@pytest.mark.invariant("I2", "I15", "I20")
class TestPrograms(Program.TestCase):  # type: ignore[misc, valid-type]
    """KN-02: root(live) = root(fold from genesis) = root(any snapshot + tail), 500 programs."""

    settings = settings(
        max_examples=PROGRAMS,
        stateful_step_count=STEPS,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
