"""What lint reads from the code covers what the examples do in random runs (AU-16).

`TALLY_RUNS=500` runs as many as the design asks for.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tallystick.kernel.parts import CALL, CANCEL, READ, SPAWN
from tallystick.kernel.twin import twin
from tallystick.model.records import IntentDenied, IntentOpened
from tallystick.modules.lint import Inferred, infer
from tallystick.testing.moves import Send, Stop
from tallystick.testing.subject import Subject, subject_of
from tallystick.values import canon

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RUNS = int(os.environ.get("TALLY_RUNS", "25"))
MOVES = 14


class Seen(NamedTuple):
    """What a workflow asked for in its runs."""

    effects: set[str]
    reads: set[str]
    children: set[str]


def code_name(workflow: str) -> str:
    return workflow.rpartition("/")[2].partition("@")[0]


def seen_in(subject: Subject, runs: int) -> Seen:
    """Random walks over everything that may happen to a cell."""
    seen = Seen(set(), set(), set())
    player = subject.player(any_timer=True)
    for seed in range(runs):
        chance = Random(seed)
        world, now_ns = twin(subject.world), subject.now_ns
        sent = [0] * len(subject.samples.events)
        for _ in range(MOVES):
            moves = player.moves(world, tuple(sent), stopped=True)
            if not moves:
                break
            move = chance.choice(moves)
            played = player.play(world, now_ns, move)
            if isinstance(move, Send) and not move.again:
                sent[move.sample] += 1
            if played is not None and not isinstance(move, Stop):
                frames, now_ns = played
                for frame in frames:
                    note(subject, frame.records, seen)
    return seen


def note(subject: Subject, records: Any, seen: Seen) -> None:
    for record in records:
        if not isinstance(record, IntentOpened | IntentDenied):
            continue
        if record.origin.workflow != subject.spec.name or record.effect == CANCEL:
            continue
        if record.effect in (READ, SPAWN, CALL):
            target = code_name(canon.decode(record.params)["workflow"])  # type: ignore[arg-type]
            (seen.reads if record.effect == READ else seen.children).add(target)
        else:
            seen.effects.add(subject.effects[record.effect].__name__)


def missing(seen: Seen, said: Inferred) -> set[str]:
    """What was seen and not inferred."""
    found = (seen.effects - {*said.effects}, seen.reads - {*said.reads})
    return set().union(*found, seen.children - {*said.children})


@pytest.mark.clause("K-05", "X-27")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/app.py")), ids=lambda p: p.parent.name)
def test_inference_covers_what_happens(path: Path) -> None:
    """AU-16: effects, reads and children of every run are among those read from the code."""
    for said in infer({"app.py": path.read_bytes()}):
        subject = subject_of(path, said.workflow)
        assert missing(seen_in(subject, RUNS), said) == set()


def test_an_effect_that_inference_forgot_would_be_found() -> None:
    """AU-16 control: the runs do ask for effects, and one that is not inferred is named."""
    path = EXAMPLES / "02-order-payment" / "app.py"
    (said,) = infer({"app.py": path.read_bytes()})
    seen = seen_in(subject_of(path, said.workflow), RUNS)
    assert seen.effects == {"Charge", "Timer"}
    forgot = Inferred(said.workflow, ("Timer",), said.reads, said.children, said.caps)
    assert missing(seen, forgot) == {"Charge"}
