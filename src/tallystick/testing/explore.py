"""`explore`: a scenario among random answers, crashes and passing time; failures shrink.

A run is a list of numbers, each of which decides one act; the same list gives the same run, so a
failure is repeated and made smaller by leaving numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from tallystick.errors import TallyError
from tallystick.testing.answers import Said, duplicate, error, late, malformed, timeout
from tallystick.testing.sources import Built, built
from tallystick.testing.world import TestWorld

Holds = Callable[[TestWorld], None]
Decisions = list[int]

_SPANS = ("1s", "10s", "5m", "2h")


def explore(
    app: Any,
    scenario: Callable[[TestWorld], Any],
    answers: Mapping[Any, Sequence[Any]],
    *,
    holds: Holds | None = None,
    seeds: Sequence[int] = range(200),
    steps: int = 30,
) -> int:
    """Run a scenario under many seeds; the number of acts that were done.

    `answers` has good answers for each effect; bad ones of every kind are added.
    After each run `holds` must not raise, every intent has at most one settlement and the journal
    replays; else an AssertionError names the seed and the smallest list of decisions.
    """
    ready = built(app)
    done = 0
    for seed in seeds:
        chance = Random(seed)  # noqa: S311 - a seed is the whole input
        decisions = [chance.randrange(1 << 20) for _ in range(steps)]

        def failure(given: Decisions) -> str | None:
            return _failure(ready, scenario, answers, holds, given)

        why = failure(decisions)
        if why is not None:
            small = _shrunk(decisions, failure)
            raise AssertionError(f"seed {seed}: {failure(small)}; decisions {small}")
        done += len(decisions)
    return done


def replayed(
    app: Any,
    scenario: Callable[[TestWorld], Any],
    answers: Mapping[Any, Sequence[Any]],
    decisions: Decisions,
) -> TestWorld:
    """The world after the acts of a list of decisions, to look at a failure."""
    return _played(built(app), scenario, answers, decisions)


def _failure(
    ready: Built,
    scenario: Callable[[TestWorld], Any],
    answers: Mapping[Any, Sequence[Any]],
    holds: Holds | None,
    decisions: Decisions,
) -> str | None:
    try:
        world = _played(ready, scenario, answers, decisions)
        if holds is not None:
            holds(world)
        world.assert_replays()
    except (AssertionError, TallyError) as why:
        return str(why) or type(why).__name__
    return None


def _played(
    ready: Built,
    scenario: Callable[[TestWorld], Any],
    answers: Mapping[Any, Sequence[Any]],
    decisions: Decisions,
) -> TestWorld:
    world = TestWorld(ready, twice=False)
    scenario(world)
    for number in decisions:
        _act(world, answers, number)
    return world


def _act(world: TestWorld, answers: Mapping[Any, Sequence[Any]], number: int) -> None:
    kind, number = number % 6, number // 6
    jobs = [(effect, job) for effect in answers for job in world.open(effect)]
    if kind == 0:
        world.crash()
    elif kind == 1 or not jobs:
        world.advance(_SPANS[number % len(_SPANS)])
    else:
        effect, job = jobs[number % len(jobs)]
        said = _said(answers[effect], job, number // len(jobs))
        said.settle(world, job)
        world.run()


def _said(good: Sequence[Any], job: Any, number: int) -> Said:
    options: list[Any] = [*good, *good, error("sim.down", retryable=True), error("sim.final")]
    options += [malformed(), *[duplicate(each) for each in good]]
    if job.deadline_ns is not None:
        options += [timeout(), *[late(each) for each in good]]
    chosen: Said = options[number % len(options)]
    return chosen


def _shrunk(decisions: Decisions, failure: Callable[[Decisions], str | None]) -> Decisions:
    """The same failure with fewer decisions: halves first, then one by one."""
    size = max(1, len(decisions) // 2)
    while True:
        for at in range(0, len(decisions), size):
            shorter = decisions[:at] + decisions[at + size :]
            if failure(shorter) is not None:
                decisions = shorter
                break
        else:
            if size == 1:
                return decisions
            size = max(1, size // 2)
