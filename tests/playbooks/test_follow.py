"""The short way of a chain: the same bytes as the long way, taken wherever nothing is evaluated."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tallystick.model.abi import Content, TickInput
from tallystick.model.catalogue import Catalogue
from tallystick.model.records import IntentOpened, Ticked
from tallystick.modules import builtin
from tallystick.modules.builtin import Builtin
from tallystick.playbooks.iterate import Live, Moved
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.stage import broken, done

PLAIN = "tool: {kind: python, code: x}"
TOOLS = (
    "tool: {kind: python, code: x, args: {a: '{{ s0 }}', b: '{{ ctx.k }}'}}",
    "tool: {kind: python, code: context}",
    "tool: [{name: one, kind: python, code: x}, {name: two, kind: python, code: x}]",
    "tool: {kind: noop}",
)
GATE = "spec: {policy: {admit: {rules: [{when: '{{ %s }}', then: {allow: true}}]}}}"
MORE = (
    "set_ctx: {k: '{{ event.run }}'}",
    "loop: {in: [1, 2], iterator: i}",
    "spec: {policy: {lifecycle: {timeout_s: 9}}}",
    GATE % "not ctx.never",
    "join: any",
)
ARCS = (
    "{arcs: [{step: %s, when: '{{ event.name }}'}, {step: end}]}",
    "{arcs: [{step: %s, args: {x: 1}}]}",
    "{spec: {mode: inclusive}, arcs: [{step: %s}]}",
    "{arcs: [{step: %s}, {step: end}]}",
)
BOTH = "{spec: {mode: inclusive}, arcs: [{step: left}, {step: a0}]}"
# Two branches at once: one waits at a gate until the other has set a variable, then they join.
SPLIT = "".join(
    (
        f"  - {{step: fork, {PLAIN}, next: {BOTH}}}\n",
        f"  - {{step: left, {PLAIN}, next: {{arcs: [{{step: held}}]}}}}\n",
        f"  - {{step: held, {PLAIN}, {GATE % 'ctx.open'}, next: {{arcs: [{{step: both}}]}}}}\n",
        f"  - {{step: a0, {PLAIN}, next: {{arcs: [{{step: a1}}]}}}}\n",
        f"  - {{step: a1, {PLAIN}, set_ctx: {{open: 1}}, next: {{arcs: [{{step: a2}}]}}}}\n",
        f"  - {{step: a2, {PLAIN}, next: {{arcs: [{{step: both}}]}}}}\n",
        f"  - {{step: both, join: all, {PLAIN}, next: {{arcs: [{{step: end}}]}}}}\n",
        f"  - {{step: end, {PLAIN}}}\n",
    )
)


class Noted(Builtin):
    """A lane that notes which ticks of a chain went the short way."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[bool] = []

    def _short(
        self, catalogue: Catalogue, live: Live, tick: TickInput, content: Content
    ) -> Moved | None:
        moved = super()._short(catalogue, live, tick, content)
        if not live.loops:
            self.moves.append(moved is not None)
        return moved


class Careless(Builtin):
    """A lane with a planted defect: its short way does not see the tokens that wait."""

    def _short(
        self, catalogue: Catalogue, live: Live, tick: TickInput, content: Content
    ) -> Moved | None:
        waiting, live.net["tokens"] = live.net["tokens"], {}
        try:
            return super()._short(catalogue, live, tick, content)
        finally:
            live.net["tokens"] = waiting


class LongWay(Builtin):
    """A lane that remembers nothing, so every tick goes the long way."""

    def _keep(self, state: bytes, live: Live) -> None:
        """Keep nothing."""


def book(chance: random.Random) -> str:
    """A chain in which some steps are more than plain, and a split at its end."""
    steps = []
    names = [f"s{i}" for i in range(12)]
    for name, after in zip(names, [*names[1:], "fork"], strict=True):
        tool = PLAIN if chance.random() < 0.7 else chance.choice(TOOLS)
        more = "" if chance.random() < 0.7 else chance.choice(MORE) + ", "
        arcs = "{arcs: [{step: %s}]}" if chance.random() < 0.7 else chance.choice(ARCS)
        steps.append(f"  - {{step: {name}, {tool}, {more}next: {arcs % after}}}\n")
    return HEAD + "workload: {w: 1}\nworkflow:\n" + "".join(steps) + SPLIT


def told(chance: random.Random) -> Any:
    """The receipt of one unit: mostly well, with values of many kinds."""
    if chance.random() < 0.03:
        return broken()
    values = [None, None, 1, 2.0, "text", "x" * 2000, {"h": "sha256:" + "0" * 64}, {"b": [1, 2]}]
    more: dict[str, Any] = {}
    if chance.random() < 0.2:
        more["results"] = {"one": chance.choice(values)}
    if chance.random() < 0.1:
        more["patches"] = {"k": chance.choice(values)}
    return done(chance.choice(values), **more)


def played(lane: Builtin, seed: int) -> PlayRig:
    """One execution, its units answered in an order of chance."""
    chance = random.Random(seed)
    rig = PlayRig(lane)
    rig.request(book(chance), workload={"w": "v" * chance.choice([1, 3000])})
    waiting: list[Any] = []
    while True:
        while (job := rig.next_job()) is not None:
            waiting.append(job)
        if not waiting:
            return rig
        job = waiting.pop(chance.randrange(len(waiting)))
        if rig.world.intents.get(job.intent) is not None:
            rig.settle(job, told(chance))


def bodies(rig: PlayRig) -> list[bytes]:
    """The whole journal."""
    return [frame.body for frame in rig.journal.read(rig.world.id)]


@pytest.mark.clause("N-22", "K-19")
@pytest.mark.parametrize("seed", range(6))
def test_the_short_way_writes_the_same_bytes(seed: int) -> None:
    """PB-27, PB-23: the journals of both ways are equal, byte for byte, and every part fits."""
    short = Noted()
    one, other = played(short, seed), played(LongWay(), seed)
    assert bodies(one) == bodies(other)
    assert any(short.moves)
    catalogue = one.world.active.catalogue
    workflow, params = catalogue.workflows["sys/playbook@1"], catalogue.effects[builtin.STEP].params
    assert workflow.annotations is not None
    for record in one.records(Ticked):
        if record.ann is not None:
            workflow.annotations.read(record.ann)
        if record.state is not None:
            assert workflow.state.read(record.state).bytes == record.state
    for opened in one.records(IntentOpened):
        if opened.effect == builtin.STEP and opened.params is not None:
            assert params.read(opened.params).bytes == opened.params
    assert one.verify().first is None


def chained(lane: Builtin, text: str, answer: Callable[[], Any] = done) -> PlayRig:
    """An execution whose units are all answered alike, in their order."""
    rig = PlayRig(lane)
    rig.request(text)
    while (job := rig.next_job()) is not None:
        rig.settle(job, answer())
    return rig


@pytest.mark.clause("N-22")
@pytest.mark.parametrize(("lane", "equal"), [(Builtin(), True), (Careless(), False)])
def test_a_token_that_waits_is_not_passed_over(lane: Builtin, equal: bool) -> None:
    """PB-27: a step may open a gate; the control, a lane that forgets it, leaves other bytes."""
    text = HEAD + "workflow:\n" + SPLIT.replace("ctx.open", "a0 is defined")
    assert (bodies(chained(lane, text)) == bodies(chained(LongWay(), text))) is equal


@pytest.mark.clause("N-22")
def test_every_step_of_a_plain_chain_goes_the_short_way() -> None:
    """PB-27: of a chain only the first tick and the last go the long way."""
    n = 30
    steps = [
        f"  - {{step: s{i}, {PLAIN}, next: {{arcs: [{{step: s{i + 1}}}]}}}}\n" for i in range(n)
    ]
    text = HEAD + "workflow:\n" + "".join(steps) + f"  - {{step: s{n}, {PLAIN}}}\n"
    lane = Noted()
    rig = chained(lane, text)
    assert lane.moves == [*[True] * n, False]
    assert rig.net()["status"] == "success"
    assert bodies(rig) == bodies(chained(LongWay(), text))


@pytest.mark.clause("N-22")
@pytest.mark.parametrize("limit", ["max_step_runs", "max_tokens"])
def test_a_bound_is_met_on_the_long_way(limit: str) -> None:
    """PB-27: a cycle that never ends stops at its bound, by the same bytes."""
    text = (
        HEAD
        + f"executor: {{spec: {{limits: {{{limit}: 9}}}}}}\nworkflow:\n"
        + (
            f"  - {{step: a, {PLAIN}, next: {{arcs: [{{step: b}}]}}}}\n"
            f"  - {{step: b, {PLAIN}, next: {{arcs: [{{step: a}}]}}}}\n"
        )
    )
    lane = Noted()
    rig = chained(lane, text)
    assert lane.moves == [*[True] * 8, False]
    assert rig.net()["doom"]["code"] == "P403"
    assert bodies(rig) == bodies(chained(LongWay(), text))
