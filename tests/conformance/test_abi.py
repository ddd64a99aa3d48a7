"""One set of vectors over every implementation of the module ABI (X-11, AU-18)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Submit
from tallystick.model.abi import Ran, TickInput
from tallystick.model.records import EventAdmitted, Ticked
from tallystick.testing.sources import in_wasm
from tallystick.testing.world import TestWorld
from tallystick.values import canon
from tests.conformance.abi_lanes import LANES, TOOLS, app_of, world_of
from tests.modules.wasm_world import Given

ADD, RESET, FULL = "counter/Add@1", "counter/Reset@1", "counter/Full@1"
FLOW = "counter/counter@1"
LONG = "n" * 70_000
STEPS: list[tuple[str, dict[str, Any]]] = [
    (ADD, {"name": "a", "n": 4}),
    (ADD, {"name": "b", "n": 9}),
    (ADD, {"name": "a", "n": 5}),
    (ADD, {"name": "a", "n": 1}),  # full, tells it
    (ADD, {"name": "a", "n": 1}),  # ignored, counted
    (RESET, {"name": "a"}),  # the cell is gone
    (ADD, {"name": "a", "n": 2}),  # and born again
    (RESET, {"name": "never"}),
    (ADD, {"name": "big", "n": 2**40}),
    (ADD, {"name": "wide", "n": 300}),
    (ADD, {"name": "é" * 40, "n": 70_000}),
    (ADD, {"name": LONG, "n": 11}),
    (ADD, {"name": "zero", "n": 0}),
]


@pytest.fixture(params=LANES)
def lane(request) -> str:
    if TOOLS.get(request.param, "") is None:
        missing = f"no compiler for {request.param} here (scripts/toolchains gets AssemblyScript)"
        pytest.skip(f"{missing}: its counter was NOT compiled and NOT compared")
    return str(request.param)


def history(name: str) -> tuple[list[Any], dict[Any, Any]]:
    """What a lane makes of the steps: its ticks and events without what names the code."""
    world = world_of(name)
    for schema, value in STEPS:
        world.do(Submit(world.clock.sample(), schema, value, "native"))
        world.run()
    world.assert_replays()
    told = [
        (r.key, r.status, r.after, r.state, r.output, r.events, r.effects, r.metrics)
        for r in world.records(Ticked)
    ]
    full = [(r.schema, r.value, r.value_hash) for r in world.records(EventAdmitted)]
    shown = {key: repr(value) for key, value in world.cells().items()}
    return [*told, *full], shown


@pytest.mark.clause("X-11")
def test_every_lane_tells_the_same_story(lane: str) -> None:
    """AU-18: equal states, output bytes, events and metrics in every language; each replays."""
    told, cells = history(lane)
    expected, held = history("class")
    assert told == expected
    assert cells == held
    assert len([each for each in told if each[0] == FULL]) == 5


def test_the_story_would_show_a_difference() -> None:
    """AU-18 control: another ceiling in the module gives another story."""
    made = app_of("wat")
    (hash_text,) = made.bundle.artifacts
    code = made.bundle.artifacts[hash_text].data
    assert code.count(b"\x42\x0a") == 1  # i64.const 10, the ceiling
    other = in_wasm(made, code.replace(b"\x42\x0a", b"\x42\x05"))
    world = TestWorld(other)
    world.do(Submit(world.clock.sample(), ADD, {"name": "a", "n": 6}, "native"))
    world.run()
    assert [r.schema for r in world.records(EventAdmitted)] == [ADD, FULL]


class Wrapped(Given):
    """An event of the counter in its variant."""

    def __init__(self, tag: str, **value: Any) -> None:
        self._value = {"$tag": tag, "$value": value}


VECTORS = [
    (None, Wrapped("Add", name="a", n=1)),
    (None, Wrapped("Reset", name="a")),
    ((0, "open"), Wrapped("Add", name="a", n=0)),
    ((9, "open"), Wrapped("Add", name="a", n=1)),
    ((23, "full"), Wrapped("Add", name="a", n=1)),
    ((2**32, "full"), Wrapped("Reset", name="a")),
]


@pytest.mark.clause("X-11")
@pytest.mark.parametrize(("state", "event"), VECTORS)
def test_a_vector_gives_the_same_bytes(lane: str, state: Any, event: Wrapped) -> None:
    """AU-18: one input document, one output document, whatever runs in between."""
    if lane == "function" and state is None:
        state = (0, "open")  # it has no init: what a missing state means is its own business
    envelopes = []
    for name in ("class", lane):
        world = world_of(name)
        catalogue = world.driver.world.active.catalogue
        held = None
        if state is not None:
            held = canon.encode({"total": state[0], "phase": {"$tag": state[1]}})
        flow = catalogue.workflows[FLOW]
        given = TickInput(held, "counter/counter.event@1", event, canon.encode("a"), None)
        ran = world.runner.tick(catalogue, flow, given, None)
        assert isinstance(ran, Ran)
        envelopes.append(ran.envelope)
        if name != "function":
            first = world.runner.init(catalogue, flow, given)
            assert first == canon.encode({"total": 0, "phase": {"$tag": "open"}})
    assert envelopes[0] == envelopes[1]
