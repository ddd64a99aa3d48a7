"""Evidence and answers: what changes nothing is on record under the name of what it is about."""

from __future__ import annotations

import pytest

from tallystick.journal.memory import MemoryJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.draft import Answer
from tallystick.kernel.govern import Genesis, create
from tallystick.kernel.replay import open_world
from tallystick.model.records import Dropped
from tallystick.modules.python import Outcome, PythonRunner
from tests.rig import NODE, WORLD, ManualClock, Rig, bundle_of, check
from tests.worlds import GO, ask, go, lab_documents, lab_function

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
