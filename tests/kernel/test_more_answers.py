"""What callers and modules are told: keys, sequences, places, holds."""

from __future__ import annotations

import dataclasses

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.kernel.active import activate
from tallystick.kernel.fork import fork
from tallystick.kernel.index import parse_node
from tallystick.kernel.inputs import Submit, TakeSnapshot
from tallystick.kernel.machine import submit
from tallystick.kernel.quiescence import named
from tallystick.kernel.replay import open_world
from tallystick.kernel.tick import advance
from tallystick.model.abi import TickOutput
from tallystick.model.frames import open_frame, seal_frame
from tallystick.values import canon
from tests import worlds
from tests.kernel import mixed
from tests.kernel.test_fork import child_rig
from tests.kernel.test_more_outputs import GOOD, Lane
from tests.rig import Rig, refused
from tests.worlds import GO, LAB, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")


def test_a_module_is_told_its_key():
    """K-02: the input of a keyed cell names its key; that of an unkeyed one names none."""
    for flow, way, key in (
        (None, {"key_field": "id"}, canon.encode("a")),
        ({"key_schema": None}, {}, None),
    ):
        lane = Lane(lambda _tick: TickOutput(GOOD))
        ways = [{"event": GO, "workflow": LAB, **way}]
        rig = Rig(lab_documents(flow=flow, subscriptions=ways), {CODE: lab_function()})
        rig.runner = lane  # type: ignore[assignment]  # any lane will do
        rig = rig.reopened()
        rig.send(GO, go("a"))
        assert [tick.key for tick in lane.given] == [key]


@pytest.mark.clause("K-35")
def test_a_reset_cell_begins_again():
    """KN-19: the first tick of a cell begins from the module's init, also the one after null."""
    begun = canon.encode({"id": "a", "log": ["begun"]})
    answers = iter([TickOutput(None), TickOutput(GOOD)])
    lane = Lane(lambda _tick: next(answers), begun)
    ways = [{"event": GO, "workflow": LAB}]
    rig = Rig(lab_documents(flow={"key_schema": None}, subscriptions=ways), {CODE: lab_function()})
    rig.runner = lane  # type: ignore[assignment]  # any lane will do
    rig = rig.reopened()
    rig.send(GO, go("a"))
    rig.send(GO, go("a"))
    assert [tick.state for tick in lane.given] == [begun, begun]


@pytest.mark.clause("K-31")
def test_a_key_that_does_not_fit_is_refused_with_code_and_place():
    """KN-08: the refusal has the code of a mismatch and the path of the key field."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    catalogue = rig.world.active.catalogue
    way, *ours = catalogue.subscriptions
    bent = dataclasses.replace(way, key_field="n")
    rig.world.active = activate(dataclasses.replace(catalogue, subscriptions=(bent, *ours)))
    why = refused(rig, Submit(rig.clock.sample(), GO, go("a")))
    assert [(each["code"], each["path"]) for each in why.errors] == [("value.mismatch", "/n")]  # type: ignore[attr-defined]


def test_a_read_only_world_says_which_it_is():
    """D13: the refusal of a read-only world names the world."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    rig.world.read_only = True
    why = refused(rig, Submit(rig.clock.sample(), GO, go("a")))
    assert (why.code, why.where) == ("ingress.read_only", {"world": rig.world.id})


@pytest.mark.clause("K-20")
def test_a_blocker_shows_its_hold():
    """KN-18: an open intent that is held says so, with the kind of its hold."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "ask", 1))
    child = child_rig(rig, 1, None)
    for each, kind in ((rig, None), (child, "fork")):
        (open_,) = [b.detail for b in named(each.world)[0] if b.kind == "intent_open"]
        assert (open_["hold"] and open_["hold"]["kind"]) == kind
        assert open_["workflow"] == LAB
        assert open_["key"] == canon.encode("a").hex()


def test_frames_answer_with_the_sequence_they_will_have():
    """D13: a fork and a snapshot name the sequence of their own first record."""
    rig = mixed.mixed_rig()
    rig.send(worlds.GO, worlds.go("a", "note"))
    before = rig.world.seq
    forked = fork(rig.world, "0b7e4f7a-6b3c-4a57-9f0e-000000000009", rig.clock.sample())
    assert (forked.answer.kind, forked.answer.seq) == ("forked", before + 1)
    assert forked.records[0].principal == "node"
    taken = submit(rig.world, TakeSnapshot(rig.clock.sample()))
    assert (taken.answer.kind, taken.answer.seq) == ("snapshot", before + 1)


def test_timers_come_in_order_from_index_and_memory():
    """KN-15: what a snapshot moved out of memory and what came later fire by time, each once."""
    rig = mixed.mixed_rig()
    for turn in range(3):
        for number in range(3):
            rig.send(worlds.GO, worlds.go(f"c{turn}{number}", "timer", (turn * 5 + number * 7) % 9))
        rig.driver.snapshot()
    timers = rig.world.timers
    due = timers.due(2**62, 100)
    order = [when for when, _ in due]
    assert order == sorted(order)
    assert len(due) == len({ident for _, ident in due}) == 9
    assert timers.due(2**62, 100) == due, "looking removes nothing"


@pytest.mark.parametrize("do", ["note", "crash"])
def test_a_tick_answers_with_its_sequence(do: str):
    """D13: a tick and a fault name the sequence of their own record."""

    def crash(*_given: object) -> object:
        raise ValueError("bug")

    rig = Rig(lab_documents(), {CODE: lab_function(crash=crash)})
    rig.driver.stage(submit(rig.world, Submit(rig.clock.sample(), GO, go("a", do))))
    frame = advance(rig.world)
    assert frame is not None
    assert frame.answer.kind == {"note": "ticked", "crash": "faulted"}[do]
    assert frame.answer.seq == rig.world.seq + 1


@pytest.mark.invariant("I10")
@pytest.mark.parametrize("wrong", ["seq", "prev"])
def test_a_frame_must_follow_by_number_and_by_hash(wrong: str):
    """I10: a frame with the right number and another parent is damage, and the other way round."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    rig.send(GO, go("a"))
    frames = list(rig.journal.read(rig.world.id))
    name, seq, prev, held = open_frame(frames[-1].body)
    if wrong == "seq":
        frames[-1] = seal_frame(name, seq + 1, prev, held)
    else:
        frames[-1] = seal_frame(name, seq, bytes(32), held)
    with pytest.raises(JournalCorrupt):
        open_world(rig.world.id, frames, rig.driver.blobs, rig.runner)


def test_a_node_of_another_form_is_damage():
    """I10: bytes that are no node of an index stop the world with the code of damage."""
    with pytest.raises(JournalCorrupt) as caught:
        parse_node(canon.encode({"no": "node"}))
    assert caught.value.code == "journal.corrupt"
