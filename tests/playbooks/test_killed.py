"""Executions whose node dies at any moment: the journal alone shows that nothing was lost."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.inputs import Operate
from tallystick.model.records import Ticked
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Library, Runners
from tallystick.playbooks.tasks import new_frame
from tallystick.playbooks.trace import events_of
from tallystick.values import canon
from tests.playbooks.journaled import judged
from tests.playbooks.kernel import PlayRig, net_in
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import broken, done
from tests.playbooks.test_model import random_net, text_of
from tests.rig import Rig

SEEDS = int(os.environ.get("TALLY_PLAYBOOK_SEEDS", "12"))


def fresh() -> Runners:
    """A lane that remembers nothing of before."""
    return Runners(None, library=Library(), lanes={"builtin": Builtin()})  # type: ignore[arg-type]


def killed(rig: Rig) -> Rig:
    """The node is gone, and another process opens the journal."""
    jobs = list(rig.jobs.all)
    rig.runner = fresh()  # type: ignore[assignment]
    other = rig.reopened()
    other.jobs.all[:0] = jobs
    return other


def patch(rig: Rig, **keys: Any) -> None:
    value = {"execution": "e1", "set": keys, "unset": [], "reason": "checked", "principal": "ana"}
    PlayRig.system(rig, "sys/PlayCtxPatch@1", value)  # type: ignore[arg-type]  # a plain rig


def settled(rig: Rig, job: Any, receipt: Any, chance: random.Random | None) -> Rig:
    """Settle a job; with `chance` the node dies before the tick, after it, or both."""
    rig.settle(job, receipt, run=chance is None or chance.random() < 0.5)
    if chance is None:
        return rig
    rig = killed(rig)
    rig.run()
    return killed(rig) if chance.random() < 0.3 else rig


def played(seed: int, *, kills: bool) -> Rig:
    """A random net, its units answered in an order of chance, gates opened when nothing else is."""
    chance, deaths = random.Random(seed), random.Random(-seed)
    first = PlayRig(Builtin())
    first.request(text_of(random_net(chance)))
    rig: Rig = first
    answered: set[bytes] = set()
    for _ in range(2_000):
        waiting = [job for job in rig.jobs.all if job.intent not in answered]
        waiting = [job for job in waiting if rig.world.intents.get(job.intent) is not None]
        if waiting:
            job = waiting[chance.randrange(len(waiting))]
            answered.add(job.intent)
            receipt = done(1) if chance.random() < 0.8 else broken()
            receipt["patches"] = {"n": 1} if chance.random() < 0.3 else {}
            rig = settled(rig, job, receipt, deaths if kills else None)
        elif net_in(rig)["phase"] == "waiting":
            patch(rig, n=1)
        else:
            return rig
    raise AssertionError("it never ends")


@pytest.mark.clause("N-02", "N-15", "N-18")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment(seed: int) -> None:
    """PB-06, PB-11, PB-13: killed between any two frames, an execution ends as one left in peace.

    The journal alone shows the token equation after every tick, and one end after which nothing
    is told; a lane without memory gives the same bytes again.
    500 nets: TALLY_PLAYBOOK_SEEDS=500.
    """
    calm, died = played(seed, kills=False), played(seed, kills=True)
    for rig in (calm, died):
        told = judged(rig.records(), rig.driver.blobs)
        assert told.finished == [net_in(rig)["status"]]
        assert len(told.final) == 1
        assert rig.verify(fresh()).first is None
    assert net_in(calm) == net_in(died)


def test_the_checker_sees_what_is_wrong() -> None:
    """PB-06, control: a lost token, one that ends twice, and an end that is told twice are seen."""
    rig = played(3, kills=False)
    records = rig.records()
    ticks = [i for i, record in enumerate(records) if isinstance(record, Ticked) and record.ann]
    events = [events_of(records[i].ann) for i in ticks]
    changes: list[Callable[[list[Any]], list[Any]]] = [
        lambda told: [each for each in told if each["event"] != "token.consumed"],
        lambda told: [each for each in told if each["event"] != "token.enqueued"],
        lambda told: told + [each for each in told if each["event"] == "token.consumed"],
        lambda told: told + [each for each in told if each["event"] == "playbook.finished"],
    ]
    for change in changes:
        seen = 0
        for i, told in zip(ticks, events, strict=True):
            wrong = list(records)
            wrong[i] = records[i]._replace(ann=canon.encode({"events": change(told)}))
            if wrong[i].ann != records[i].ann:
                seen += 1
                with pytest.raises((AssertionError, KeyError)):
                    judged(wrong, rig.driver.blobs)
        assert seen > 0


WAITS = HEAD + (
    "executor: {spec: {final_step: end, deadline: 100h}}\nworkflow:\n"
    "  - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}\n"
    "  - {step: a, tool: {kind: python, code: x}, next: {arcs: [{step: j}]}}\n"
    "  - {step: b, tool: {kind: wait, for: 2h}, next: {arcs: [{step: j}]}}\n"
    "  - {step: c, tool: {kind: human, prompt: well?}, next: {arcs: [{step: d}]}}\n"
    "  - {step: d, tool: {kind: wait, signal: go}, next: {arcs: [{step: j}]}}\n"
    "  - {step: j, join: all, tool: {kind: noop}}\n"
    "  - {step: end, tool: {kind: python, code: x}}\n"
)
ANSWER = {"choice": None, "answer": "yes", "by": "ana", "comment": None, "at_ns": 1}


class Story:
    """One execution of `WAITS` under chance: leases lost, pauses, time, a person, a signal."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rig: Rig = PlayRig(Builtin())
        self.kills = 0
        PlayRig.request(self.rig, WAITS)
        self.acts = ["lease", "pause", "time", "asked", "signal"]

    def job(self, effect: str, step: str | None = None) -> Any:
        """The newest open job of an effect."""
        for job in reversed(self.rig.jobs.all):
            params = canon.decode(job.params)
            if job.effect == effect and step in (None, params.get("step")):
                return job
        raise AssertionError(f"no job of {effect}")

    def die(self) -> None:
        self.rig = killed(self.rig)
        self.kills += 1
        self.rig.run()

    def act(self, word: str) -> None:
        """One thing happens, and the node dies before its tick, and after it."""
        rig = self.rig
        if word == "lease":
            job = self.job("sys/playbook.step@1", "a")
            rig.do(Operate(rig.clock.sample(), "attempt", "node", "lease_lost", intent=job.intent))
        elif word == "pause":
            self.die()
            wish = {"kind": "pause", "seconds": 60.0}
            job = self.job("sys/playbook.step@1", "a")
            yields = done(status="yield", frame=new_frame({}), wish=wish)
            self.rig.settle(job, yields, run=False)
        elif word == "asked":
            rig.settle(self.job("sys/human.ask@1"), ANSWER, run=False)
        elif word == "signal":
            value = {"execution": "e1", "name": "go", "value": 1, "principal": "ana"}
            PlayRig.system(rig, "sys/PlaySignal@1", value)  # type: ignore[arg-type]
        else:
            rig.pass_time(3 * 3600 * 10**9)
        self.die()
        self.die()

    def step(self, name: str) -> None:
        job = self.job("sys/playbook.step@1", name)
        self.rig.settle(job, done(1), run=False)
        self.die()


@pytest.mark.clause("N-15", "N-17", "N-18", "X-14")
@pytest.mark.parametrize("seed", range(20))
def test_no_end_while_anything_is_open(seed: int) -> None:
    """PB-11, PB-13, PB-20: 20 stories, over 200 kills: never finished during a pause, a yield, a
    join, a question, a signal or a lost lease; then one final step, also killed before it ran.
    """
    story = Story(seed)
    order = story.chance.sample(story.acts, len(story.acts))
    first, second = sorted((order.index("lease"), order.index("pause")))
    order[first], order[second] = "lease", "pause"
    for word in order:
        assert net_in(story.rig)["status"] is None
        story.act(word)
    assert net_in(story.rig)["counts"]["step_runs"].get("end") is None, "a still has to end"
    if order.index("pause") > order.index("time"):
        story.rig.pass_time(3600 * 10**9)
    story.die()
    story.step("a")
    net = net_in(story.rig)
    assert (net["phase"], net["status"], net["counts"]["step_runs"]["end"]) == (
        "final",
        "success",
        1,
    )
    story.die()
    story.step("end")
    net = net_in(story.rig)
    assert (net["status"], net["counts"]["step_runs"]["end"]) == ("success", 1)
    told = judged(story.rig.records(), story.rig.driver.blobs)
    assert (told.finished, told.final) == (["success"], ["success"])
    assert story.kills > 10
    assert story.rig.verify(fresh()).first is None
