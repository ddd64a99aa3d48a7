"""Answers of a lane that hands over bytes: everything is read again before any of it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.kernel.inputs import Activate, Planned
from tallystick.model.abi import Halted, Ran, TickInput, TickOutput, write_output
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.python import PythonRunner
from tallystick.values import canon
from tests.rig import Rig, bundle_of, check
from tests.values.strategies import schema_of
from tests.worlds import GO, LAB, go, lab_documents, lab_function, record, schema

CODE = ("t/code@1", "lab")
STATE = {"id": "a", "log": ["raw"]}
GOOD = canon.encode(STATE)
ANN = {"annotations": "t/Ann@1"}
Answer = Callable[[TickInput], TickOutput]


class Lane:
    """A lane whose module answers with a given output and begins from a given state."""

    def __init__(self, answer: Answer, first: bytes | Halted | None = None) -> None:
        self.answer = answer
        self.first = first
        self.given: list[TickInput] = []

    def tick(self, _catalogue: Any, _workflow: Any, tick: TickInput, _content: Any) -> Ran | Halted:
        self.given.append(tick)
        output = self.answer(tick)
        return Ran(output, write_output(output), 3, "lane")

    def init(self, _catalogue: Any, _workflow: Any, _tick: TickInput) -> bytes | Halted | None:
        return self.first

    def pure(self, *_given: Any) -> bytes | Halted:
        return Halted("exception", "this lane has no functions", 0, "lane")


def lane_rig(lane: Lane, flow: dict[str, Any] | None = None) -> Rig:
    """The lab world, opened with another lane."""
    notes = schema("t/Ann@1", record(note={"text": {}}))
    rig = Rig(lab_documents(notes, flow=flow), {CODE: lab_function()})
    rig.runner = lane  # type: ignore[assignment]  # any lane will do
    return rig.reopened()


def outcome(output: TickOutput, flow: dict[str, Any] | None = None) -> Rig:
    rig = lane_rig(Lane(lambda _tick: output), flow)
    rig.send(GO, go("a"))
    check(rig)
    return rig


@pytest.mark.clause("K-08")
@pytest.mark.parametrize(
    "output",
    [
        TickOutput(GOOD),
        TickOutput(schema_of({"json": {}}).admit(STATE)),
        TickOutput(GOOD, logs=({"level": "info", "message": "m"},) * 3, metrics={"a": 1, "b": 2}),
        TickOutput(GOOD, COMPLETED, result=canon.encode({"n": 1})),
    ],
)
def test_bytes_that_fit_are_taken(output: TickOutput):
    """KN-04: a state in bytes, or admitted under another schema, is read and then counts."""
    rig = outcome(output)
    (ticked,) = rig.records(Ticked)
    assert (ticked.status, ticked.fuel, ticked.engine) == (output.status, 3, "lane")
    assert rig.state(LAB, "a") == STATE
    assert ticked.after == canon.digest_of(GOOD)


LONG = "m" * 1025
BAD: dict[str, tuple[str, TickOutput, dict[str, Any] | None]] = {
    "state of another shape": ("bad_output", TickOutput(canon.encode({"id": 1})), None),
    "state that is no document": ("bad_output", TickOutput(b"\x00"), None),
    "admitted state of another shape": (
        "bad_output",
        TickOutput(schema_of({"json": {}}).admit([1])),
        None,
    ),
    "result that is no document": ("bad_output", TickOutput(GOOD, COMPLETED, b"\x01"), None),
    "annotations nobody declared": ("bad_output", TickOutput(GOOD, ann=GOOD), None),
    "annotations of another shape": ("bad_output", TickOutput(GOOD, ann=GOOD), ANN),
    "blobs of a plain module": (
        "bad_output",
        TickOutput(GOOD, blobs={canon.hash(1): canon.encode(1)}),
        None,
    ),
    "a long metric": ("metrics_max", TickOutput(GOOD, metrics={"ok": 1, LONG: 1}), None),
    "a long log": (
        "logs_max",
        TickOutput(GOOD, logs=({"level": "info", "message": LONG},)),
        None,
    ),
}


@pytest.mark.clause("K-08", "X-04")
@pytest.mark.parametrize("name", BAD)
def test_bytes_that_do_not_fit_are_a_fault(name: str):
    """KN-04: nothing of a bad answer counts; the cell fails with the code, and others go on."""
    code, output, flow = BAD[name]
    rig = outcome(output, flow)
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == code
    assert (fault.fuel, fault.engine, fault.action) == (3, "lane", FAILED)
    assert (fault.limit is None) == (code == "bad_output")
    assert not rig.records(Ticked)
    assert rig.state(LAB, "a") is None
    assert rig.cell(LAB, "a").status == FAILED


def test_a_metric_at_its_length_is_kept():
    """KN-04: the limit itself is allowed: 1024 characters of a metric's name."""
    rig = outcome(TickOutput(GOOD, metrics={"m" * 1024: 1}))
    assert rig.records(Ticked)[0].metrics == {"m" * 1024: 1}


def test_declared_annotations_are_kept():
    """KN-04: annotations that fit their schema stand in the record, byte for byte."""
    note = canon.encode({"note": "seen"})
    rig = outcome(TickOutput(GOOD, ann=note), ANN)
    assert rig.records(Ticked)[0].ann == note


@pytest.mark.clause("X-04")
def test_a_first_state_that_cannot_be_made_is_a_fault():
    """KN-04: an init of the module that halts fails the new cell with its own code."""
    lane = Lane(lambda _tick: TickOutput(GOOD), Halted("trap", "no beginning", 5, "lane"))
    rig = lane_rig(lane)
    rig.send(GO, go("a"))
    (fault,) = rig.records(WorkflowFaulted)
    assert (fault.code, fault.message, fault.fuel) == ("trap", "no beginning", 5)
    assert lane.given == [], "the tick itself is never run"
    check(rig)


def test_a_first_state_is_given_once():
    """KN-04: the module's own init gives the state of the first tick, and of no later one."""
    begun = canon.encode({"id": "a", "log": ["begun"]})
    lane = Lane(lambda _tick: TickOutput(GOOD), begun)
    rig = lane_rig(lane)
    rig.send(GO, go("a"))
    rig.send(GO, go("a"))
    assert [tick.state for tick in lane.given] == [begun, GOOD]
    check(rig)


@pytest.mark.clause("X-21")
def test_a_declared_older_version_is_read():
    """KN-04: code that says it reads version 1 is given the old state, and leaves version 2."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    rig.send(GO, go("a", "one"))
    manifest, blobs = bundle_of(
        lab_documents(flow={"state_version": 2, "accepts_state_versions": [1]})
    )
    plan = {(LAB, canon.encode("a")): Planned(rig.cell(LAB, "a").last_seq)}
    given = Activate(
        rig.clock.sample(), manifest, manifest, rig.manifest, blobs, "alice", plan=plan
    )
    assert rig.do(given).kind == "activated"
    rig.send(GO, go("a", "two"))
    assert rig.state(LAB, "a")["log"] == ["one", "two"]
    assert rig.cell(LAB, "a").state_version == 2
    assert rig.cell(LAB, "a").status == RUNNING
    check(rig)


def test_a_runner_without_the_function_says_so():
    """KN-04: a module that is not loaded is a fault of the tick, and an answer of a pure call."""
    rig = Rig(lab_documents(), {})
    rig.send(GO, go("a"))
    (fault,) = rig.records(WorkflowFaulted)
    assert fault.code == "exception"
    assert "lab" in fault.message
    halted = PythonRunner({}).pure(
        rig.world.active.catalogue, "t/code@1", "key", canon.encode(1), None
    )
    assert isinstance(halted, Halted)
    assert halted.code == "exception"


def test_a_pure_function_sees_its_context_and_answers_only_an_output():
    """K-02: `{version, input, ctx?}` in, `{output}` out; anything else is `bad_output`."""
    seen: list[Any] = []

    def echo(given: Any) -> Any:
        seen.append(given)
        return {"output": given["input"]} if given["input"] != "odd" else given["input"]

    runner, any_ = PythonRunner({("m", "f"): echo}), Rig(lab_documents(), {}).world.active.catalogue
    ctx = canon.encode({"now_ns": 1})
    assert runner.pure(any_, "m", "f", canon.encode(7), ctx) == canon.encode(7)
    assert seen == [{"version": 1, "input": 7, "ctx": {"now_ns": 1}}]
    odd = runner.pure(any_, "m", "f", canon.encode("odd"), None)
    assert isinstance(odd, Halted)
    assert odd.code == "bad_output"
