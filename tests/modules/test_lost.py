"""What the disk has lost is no fault of a tick: every lane stops, and goes on with it back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.errors import BlobLost, JournalCorrupt, ReceiptFault, Rejected
from tallystick.kernel import replay, settle
from tallystick.kernel.inputs import Receipt, Submit
from tallystick.model.records import Proposed, WorkflowFaulted
from tallystick.modules import builtin_reactions
from tallystick.modules.flows import AsyncFlow
from tallystick.modules.runners import Library, Runners
from tallystick.testing.bundle import Held
from tallystick.testing.world import TestWorld
from tallystick.values import canon
from tests.conformance.abi_lanes import app_of
from tests.kernel.governed import governance, lab, proposed
from tests.playbooks.kernel import PlayRig
from tests.rig import WORLD, check
from tests.workflow.names import loaded
from tests.workflow.test_flows import METER


def blobs_of(world: TestWorld) -> dict[bytes, bytes]:
    """The blobs on the disk of a test world, where a disk would lose them."""
    book = world.journal._books[world.driver.world.id]
    found: dict[bytes, bytes] = book.blobs
    return found


@pytest.mark.clause("X-02")
def test_a_flow_whose_history_is_lost_stops() -> None:
    """03 section 5: a sealed chunk that is gone stops the rebuild; back again, the flow goes on."""
    world, app = loaded(METER.replace("{every}", "1000"), cache=0)
    world.send(app.Go(key="a"))
    for _ in range(70):
        world.send(app.Note(key="a", n=1))
    chunk = canon.raw_of(world.cell(app.flow, "a").state["sealed"])
    store = blobs_of(world)
    kept = store.pop(chunk)
    with pytest.raises(BlobLost) as caught:
        world.send(app.Note(key="a", n=1))
    assert caught.value.where == {"blob": canon.text_of(chunk)}
    store[chunk] = kept
    world.run()
    assert world.cell(app.flow, "a").state["n"] == 72
    assert world.records(WorkflowFaulted) == []
    world.assert_replays()


def test_a_flow_whose_history_is_damaged_stops() -> None:
    """F4: what a journal will not give out, because its bytes are others, stops the flow too."""
    world, app = loaded(METER.replace("{every}", "1000"), cache=0)
    world.send(app.Go(key="a"))
    for _ in range(70):
        world.send(app.Note(key="a", n=1))

    def damaged(digest: bytes) -> bytes | None:
        raise JournalCorrupt("its bytes do not match its name", where={"digest": digest.hex()})

    (entry,) = [e for e in world.runner._entries.values() if isinstance(e, AsyncFlow)]
    good, entry._read = entry._read, damaged
    with pytest.raises(JournalCorrupt):
        world.send(app.Note(key="a", n=1))
    entry._read = good
    world.run()
    assert world.records(WorkflowFaulted) == []


@pytest.mark.parametrize("lane", ["class", "wat"])
def test_code_that_is_lost_stops(lane: str) -> None:
    """F4: a bundle without its code is refused, so code that is not there was lost."""
    world = TestWorld(app_of(lane))
    store = blobs_of(world)
    kept = {canon.raw_of(name): store.pop(canon.raw_of(name)) for name in world.bundle.artifacts}
    world.library = Library()
    given = Submit(world.clock.sample(), "counter/Add@1", {"name": "a", "n": 1}, "native")
    world.crash().do(given)
    with pytest.raises(BlobLost):
        world.run()
    store.update(kept)
    world.crash()
    assert world.records(WorkflowFaulted) == []


def test_a_replay_without_a_bundle_says_lost() -> None:
    """ND-23: a proposal whose bundle is gone was whole once: that is damage, and no divergence."""
    rig = lab(governance=governance())
    proposed(rig)
    (record,) = rig.records(Proposed)
    check(rig)
    store = rig.journal._books[WORLD].blobs
    del store[record.manifest]
    with pytest.raises(BlobLost):
        check(rig)


@pytest.mark.clause("K-16")
def test_a_receipt_that_names_no_blob_cannot_be_read() -> None:
    """KN-07: a reference that came without its bytes never was: the receipt is unreadable, so that
    no later tick takes it for lost; with the bytes it is read.
    """
    rig = PlayRig()
    effect = rig.world.active.catalogue.effects["sys/file.read@1"]
    body = b"abc"
    named = {"ref": canon.hash_of(body), "content_id": canon.hash_of(body)}
    value = {"path": "a.txt", "size": 3, "bytes": None, **named}
    payload = effect.receipt.admit(value, "native").bytes
    receipt = Receipt(WORLD, bytes(32), effect.name, "ok", payload, "file", 1, 1, 2, None, {})
    with pytest.raises(ReceiptFault) as caught:
        settle._readable(rig.world, effect, receipt)
    assert caught.value.code == "receipt.blob_missing"
    rig.driver.blobs.put(canon.digest_of(body), body)
    assert settle._readable(rig.world, effect, receipt) == payload


def test_a_pure_function_whose_code_is_lost_stops() -> None:
    """F4: a guard or an upcast whose code is gone is no fault either."""
    made = app_of("class")
    runner = Runners(Held({}))
    catalogue = TestWorld(made).driver.world.active.catalogue
    (module,) = [name for name, known in catalogue.modules.items() if known.runtime == "python"]
    with pytest.raises(BlobLost):
        runner.pure(catalogue, module, "app:guard", b"", None)


def test_a_reaction_whose_blob_is_lost_stops() -> None:
    """F4: what a reaction reads and the disk has lost stops its tick, and leaves no fault."""

    def lost(text: str) -> bytes:
        raise BlobLost(f"{text} is gone", where={"blob": text})

    def reading(turn: Any, *_: Any) -> Any:
        return turn.bytes_of("sha256:" + "0" * 64)

    ctx = canon.encode({"logical_now_ns": 1, "journal_height": 1, "world": WORLD})
    told = SimpleNamespace(plain=lambda: {"$tag": "Any", "$value": None})
    tick: Any = SimpleNamespace(state=None, event=told, ctx=SimpleNamespace(document=lambda: ctx))
    workflow: Any = SimpleNamespace(entrypoint="lost")
    cells: Any = builtin_reactions._CELLS
    cells["lost"] = reading
    try:
        with pytest.raises(BlobLost):
            builtin_reactions.react(None, workflow, tick, lost)  # type: ignore[arg-type]
    finally:
        del cells["lost"]


def test_damage_met_by_a_replay_is_damage() -> None:
    """ND-23: a replay that meets damage says so; what is merely refused now is a difference."""
    with pytest.raises(JournalCorrupt):
        replay._refused(JournalCorrupt("a frame is damaged"))
    assert replay._refused(Rejected("not any more", code="ingress.busy")) == ()
