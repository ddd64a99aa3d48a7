"""Corners of the kernel: frozen worlds, full tables, what collection keeps of governance."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import Conflict, TickFault, Unavailable, UnknownName
from tallystick.kernel import snapshot
from tallystick.kernel.draft import Draft
from tallystick.kernel.grants import HELD_MAX
from tallystick.kernel.index import EMPTY, Nodes
from tallystick.kernel.inputs import MoveAlias, Planned, TakeSnapshot
from tallystick.kernel.plans import PIN, try_on
from tallystick.kernel.proposals import KEPT_MAX
from tallystick.kernel.propose import settle_asked
from tallystick.kernel.quiescence import named
from tallystick.kernel.reach import Marks
from tallystick.kernel.regovern import again
from tallystick.kernel.replay import open_world, verify
from tallystick.kernel.roots import root
from tallystick.kernel.tick import _Reading, rehearse
from tallystick.kernel.twin import twin
from tallystick.model.abi import Halted, Ran
from tallystick.model.cells import CellId
from tallystick.model.records import Noted, Proposed
from tallystick.node.worlds import marks_of
from tallystick.values import canon
from tests.kernel import mixed
from tests.kernel.governed import (
    applying,
    approved,
    candidate,
    failing,
    governance,
    lab,
    proposed,
    proving,
    reporting,
)
from tests.kernel.test_authority import cap, family
from tests.modules.wasm_world import STEP, WasmRig, documents, output, says, wat
from tests.rig import WORLD, bundle_of, check
from tests.sweeps import keep_only
from tests.worlds import GO, LAB, go

OTHER = "6f9619ff-8b86-4d01-b42d-00cf4fc964fe"


@pytest.mark.clause("X-24")
def test_a_world_that_lost_its_name_is_frozen() -> None:
    """06 section 9: it takes no event, says where to send it, and works again with its name."""
    rig = lab()
    before = rig.root()
    rig.do(MoveAlias(rig.clock.sample(), "prod", OTHER, "alice", WORLD))
    with pytest.raises(Unavailable) as caught:
        rig.send(GO, go("a"))
    assert caught.value.code == "ingress.read_only"
    assert "alias" in caught.value.hint
    assert rig.root() != before
    assert root(rig.folded()) == rig.root()
    rig.driver.snapshot()
    rig = rig.reopened()
    with pytest.raises(Unavailable):
        rig.send(GO, go("a"))
    rig.do(MoveAlias(rig.clock.sample(), "prod", WORLD, "alice", OTHER))
    rig.send(GO, go("a"))
    check(rig)


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_what_governance_names_is_kept() -> None:
    """I21: candidates, patches and reports of the tail, and in a snapshot those of open ones."""
    rig = lab(governance=governance())
    ended = proposed(rig, number=5)
    rig.do(failing(rig, ended))
    first = approved(rig, 3)
    rig.do(proving(rig, first))
    proposed(rig, number=4)
    rig.driver.snapshot()
    kept = marks_of(rig.journal, rig.world)
    for record in rig.records(Proposed):
        assert {record.manifest, record.patch} <= kept
    assert keep_only(rig.journal, WORLD, kept) == (0, 0)
    alone = Marks(rig.driver.blobs, rig.world.catalogue)
    (row,) = rig.journal.snapshots(WORLD)
    alone.snapshot(row.document)
    open_ones = {each.manifest for each in rig.world.proposals if each.end is None}
    assert len(open_ones) == 2
    assert open_ones <= alone.digests()
    over = {each.manifest for each in rig.world.proposals if each.end is not None}
    assert not over & alone.digests()
    check(rig)


def test_the_table_of_proposals_is_bounded() -> None:
    """06 section 8: no room for one more that waits is a refusal that says what to do."""
    rig = lab(governance=governance())
    first = proposed(rig, number=3)
    held = rig.world.proposals.get(first)
    assert held is not None
    known: dict[str, Any] = rig.world.proposals._known
    known.update({f"p-{n}": held for n in range(1_000_000, 1_000_000 + KEPT_MAX)})
    with pytest.raises(Conflict) as caught:
        proposed(rig, number=4)
    assert (caught.value.code, caught.value.hint) == ("gov.too_many", "reject some")


def test_an_answer_to_nobody_is_refused() -> None:
    """06 section 8: a workflow that asked and was settled by now gets no second answer."""
    rig = lab(governance=governance())
    with pytest.raises(UnknownName) as caught:
        settle_asked(Draft(rig.world), bytes(32), {})
    assert caught.value.code == "effect.not_open"
    with pytest.raises(UnknownName):
        rig.do(reporting(rig, proposed(rig))._replace(intent=bytes(32)))


def test_what_asks_for_the_change_is_not_in_its_way() -> None:
    """06 section 9: its own intent and the being open of its cell do not count; others do."""
    rig = lab(flow={"lifecycle": "process"})
    for name in "ab":
        rig.send(GO, go(name, "ask"))
    mine, other = rig.jobs.all
    every, count = named(rig.world)
    assert count == len(every) == 4
    left, _ = named(rig.world, mine.intent)
    assert [each.detail.get("intent") for each in left if each.kind == "intent_open"] == [
        canon.text_of(other.intent)
    ]
    assert [each.detail["key"] for each in left if each.kind == "cell_open"] == [
        canon.encode("b").hex()
    ]
    assert named(rig.world, bytes(32))[1] == 4


@pytest.mark.clause("K-43")
def test_a_snapshot_is_prepared_in_parts() -> None:
    """11 section 4: part by part until nothing is left; it may be let go, and the root stays."""
    rig = mixed.mixed_rig()
    mixed.play(rig)
    before = root(rig.world)
    parts = 0
    while snapshot.prepare(rig.world, 4, 4, rig.driver.blobs.put):
        parts += 1
        assert root(rig.world) == before
    assert parts > 1
    assert {store.ahead for store in rig.world.stores().values()} - {None, EMPTY}
    snapshot.unprepare(rig.world)
    assert not {store.ahead for store in rig.world.stores().values()} - {None, EMPTY}
    assert root(rig.world) == before
    keep_only(rig.journal, rig.world.id, marks_of(rig.journal, rig.world))
    rig.do(TakeSnapshot(rig.clock.sample()))
    rig.driver.snapshot()
    check(rig)


@pytest.mark.clause("X-02")
def test_the_ticks_of_one_workflow_are_run_again_alone() -> None:
    """ND-23: everything else is folded as it was recorded, to the same root."""
    rig = mixed.mixed_rig()
    mixed.play(rig)
    whole = rig.verify()
    counts = []
    for name in (LAB, "t/nobody@1"):
        world = open_world(WORLD, [], rig.driver.blobs, rig.runner)
        found = verify(world, rig.journal.read(WORLD), name)
        assert (found.first, found.root, found.records) == (None, whole.root, whole.records)
        counts.append(found.ticks)
    assert counts[1] == 0 < counts[0] <= whole.ticks


def test_a_record_without_a_time_is_no_input_of_governance() -> None:
    """ND-23: what does not tell when it was is not run again as one."""
    rig = lab()
    assert again(rig.world, [Noted("anything", {})]) is None


@pytest.mark.invariant("I20")
def test_a_small_memory_of_nodes_changes_nothing() -> None:
    """I20: branches leave in lots, those that are used stay, and what left is read again."""
    rig = mixed.mixed_rig()
    for number in range(200):
        rig.send(GO, go(f"c{number}", "note"))
    rig.driver.snapshot()
    small = rig.reopened()
    small.world.nodes._all = 4
    small.world.nodes.leave_room(0)
    for number in range(200):
        assert small.state(LAB, f"c{number}") == rig.state(LAB, f"c{number}")
    assert len(small.world.nodes._cache) <= 4
    for number in range(0, 200, 7):
        small.send(GO, go(f"c{number}", "note"))
    small.driver.snapshot()
    assert len(small.world.nodes._cache) <= 4
    check(small)
    assert isinstance(small.world.nodes, Nodes)


def test_the_memory_of_grants_is_bounded() -> None:
    """06 section 2: slots of cells with caps are remembered; a full memory begins again."""
    rig = family(main=cap("main"))
    rig.send(GO, go("a", "spawn"))
    held: dict[Any, Any] = rig.world.active.held
    assert len(held) == 1
    held.update(
        {CellId("t/nobody@1", bytes([n // 256, n % 256])): ({}, {}, {}) for n in range(HELD_MAX)}
    )
    rig.send(GO, go("b", "spawn"))
    assert len(held) < 3
    check(rig)


# ---- upgrades -----------------------------------------------------------------------------------


def test_a_plan_may_name_a_cell_that_is_gone_by_now() -> None:
    """06 section 9: there is nothing to pin, and the bundle is switched."""
    rig = lab(governance=governance())
    gone = CellId(LAB, canon.encode("gone"))
    ident = approved(rig, 3)
    rig.do(applying(rig, ident, plan={gone: Planned(1, PIN)}))
    assert rig.world.manifest != rig.manifest
    assert not rig.world.pinned
    check(rig)


def test_what_a_candidate_does_not_hold_is_tried_under_what_it_has() -> None:
    """06 section 8: on trial, open cells of a workflow that is gone are pinned to its code."""
    rig = lab(flow={"lifecycle": "process"})
    rig.send(GO, go("a", "ask"))
    manifest, blobs = bundle_of(documents(canon.hash_of(b"other code")))
    for digest, data in blobs.items():
        rig.driver.blobs.put(digest, data)
    trial = twin(rig.world)
    try_on(trial, manifest)
    cell = trial.cell(CellId(LAB, canon.encode("a")))
    assert cell is not None
    assert cell.pin == rig.manifest
    assert (trial.synthetic, rig.world.synthetic) == (True, False)


# ---- ticks on trial -----------------------------------------------------------------------------


def tried(code: bytes) -> Ran | Halted:
    """What the first tick of a WASM module would answer."""
    rig = WasmRig(code)
    rig.send(STEP, {"name": "a", "n": 1}, run=False)
    return rehearse(rig.world, rig.world.active.catalogue, fit=True)


def test_an_answer_on_trial_is_judged_like_any() -> None:
    """06 section 8: state and result are checked; what does not fit is the fault it would be."""
    good = tried(wat(says(output(4, status="completed", result=canon.encode(7)))))
    assert isinstance(good, Ran)
    bad = tried(wat(says(canon.encode({"state": canon.encode({"total": "many"})}))))
    assert isinstance(bad, Halted)
    assert bad.code == "bad_output"


def test_a_state_that_nothing_leads_to_is_a_fault_on_trial() -> None:
    """X-21: without a migration the cell of an older version has no answer under the new code."""
    rig = lab()
    rig.send(GO, go("a"))
    rig.send(GO, go("a"), run=False)
    manifest, blobs = candidate(flow={"lifecycle": "entity", "state_version": 2})
    for digest, data in blobs.items():
        rig.driver.blobs.put(digest, data)
    found = rehearse(rig.world, rig.world.catalogue(manifest), fit=True)
    assert isinstance(found, Halted)
    assert found.code == "migration_failed"


def test_a_builtin_reads_only_what_is_named() -> None:
    """03 section 5: a hash that neither state nor event nor a read blob names is refused."""
    rig = lab()
    rig.send(GO, go("a"), run=False)
    cell = rig.cell(LAB, "a")
    data = b"bytes that somebody keeps"
    rig.driver.blobs.put(canon.digest_of(data), data)
    text = canon.hash_of(data)
    read = _Reading(rig.world, b"", cell.mailbox[0])
    for _ in range(2):
        with pytest.raises(TickFault) as caught:
            read(text)
        assert text in caught.value.message
    assert _Reading(rig.world, canon.encode({"a": text}), cell.mailbox[0])(text) == data
    rig.send(GO, go(text), run=False)
    named = _Reading(rig.world, b"", rig.cell(LAB, text).mailbox[0])
    assert [named(text), named(text)] == [data, data]
