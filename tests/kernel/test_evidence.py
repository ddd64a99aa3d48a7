"""Evidence and answers: what changes nothing is on record under the name of what it is about."""

from __future__ import annotations

import pytest

from tallystick.journal.memory import MemoryJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.draft import Answer
from tallystick.kernel.govern import Genesis, create
from tallystick.kernel.index import EMPTY
from tallystick.kernel.inputs import Operate
from tallystick.kernel.parts import INLINE_STATE_MAX
from tallystick.kernel.replay import open_world
from tallystick.kernel.world import Settings
from tallystick.model.records import Dropped, IntentOpened
from tallystick.modules.python import Outcome, PythonRunner
from tallystick.node.worlds import marks_of
from tallystick.values import canon
from tests.rig import NODE, WORLD, ManualClock, Rig, bundle_of, check, refused
from tests.sweeps import keep_only
from tests.worlds import GO, LAB, ask, go, lab_documents, lab_function

CODE = ("t/code@1", "lab")


@pytest.mark.clause("K-27")
def test_what_is_dropped_names_an_intent_that_the_world_knows() -> None:
    """02 section 6: of an intent that was settled the evidence is its own; a stranger has none."""
    asks = lab_function(ask=lambda f, *_: Outcome(f, effects=[ask()]))
    rig = Rig(lab_documents(), {CODE: asks})
    rig.send(GO, go("a", "ask"))
    (job,) = rig.jobs.all
    rig.settle(job, {"a": "yes"})
    rig.settle(job, {"a": "yes"})
    rig.settle(job, {"a": "yes"}, intent=bytes(32))
    told = [(each.reason, each.intent) for each in rig.records(Dropped)]
    assert told == [("duplicate", job.intent), ("unknown", None)]
    check(rig)


def test_a_world_is_created_by_its_first_record() -> None:
    """03 section 1: the answer to a genesis names the record that it is about, the first one."""
    manifest, blobs = bundle_of(lab_documents())
    journal = MemoryJournal()
    world = open_world(WORLD, [], StagedBlobs(journal, WORLD), PythonRunner({}))
    given = Genesis(
        world=WORLD,
        sample=ManualClock().sample(),
        bundle=manifest,
        manifest=manifest,
        blobs=blobs,
        node_key=NODE.public,
    )
    assert create(world, given).answer == Answer("created", 1)


def test_a_cell_that_is_not_there_is_named() -> None:
    """X-26: who operates on a cell that never was is told which one."""
    rig = Rig(lab_documents(), {CODE: lab_function()})
    given = Operate(
        rig.clock.sample(), "suspend", "alice", "why not", workflow=LAB, key=canon.encode("a")
    )
    why = refused(rig, given)
    assert (why.code, why.where) == (
        "cell.unknown", {"workflow": LAB, "key": canon.encode("a").hex()}
    )  # fmt: skip


@pytest.mark.clause("K-41")
@pytest.mark.parametrize("over", [0, 1])
def test_a_state_of_the_largest_inline_size_is_resident(over: int) -> None:
    """K-41: what stands in the record stands in memory and counts; what is larger stands apart."""
    short = len(canon.encode({"id": "a", "log": ["x" * 4000]})) - 4000
    word = "x" * (INLINE_STATE_MAX - short + over)
    fills = lab_function(fill=lambda f, *_: Outcome({**f, "log": [word]}))
    rig = Rig(lab_documents(), {CODE: fills})
    rig.send(GO, go("a", "fill"))
    cell = rig.cell(LAB, "a")
    assert cell.size == INLINE_STATE_MAX + over
    assert (cell.id in rig.world.resident) == (cell.state is not None) == (not over)
    check(rig)


@pytest.mark.clause("X-10")
def test_a_timeout_beyond_the_calendar_is_its_last_moment() -> None:
    """03 section 6: however long somebody is ready to wait, the moment can be written down."""
    long = lab_function(ask=lambda f, *_: Outcome(f, effects=[ask(timeout_ns=2**63 - 1)]))
    rig = Rig(lab_documents(), {CODE: long})
    rig.send(GO, go("a", "ask"))
    (opened,) = rig.records(IntentOpened)
    assert opened.timeout_at_ns == 2**63 - 1
    check(rig)


@pytest.mark.clause("K-44")
def test_a_collection_keeps_what_the_live_world_reads() -> None:
    """I21: no snapshot is kept, and cells that are not in memory are still read from the index."""
    rig = Rig(lab_documents(), {CODE: lab_function()}, settings=Settings(cell_cache=1))
    names = [f"c{number}" for number in range(20)]
    for name in names:
        rig.send(GO, go(name))
    rig.driver.snapshot()
    kept = marks_of(rig.journal, rig.world, keep=0)
    assert {store.top for store in rig.world.stores().values()} - {EMPTY} <= kept
    keep_only(rig.journal, WORLD, kept)
    rig.world.nodes._cache.clear()
    assert [rig.state(LAB, name)["log"] for name in names] == [["note"]] * 20
