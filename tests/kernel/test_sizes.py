"""Sizes at their edge: what is legal one by one must be legal together, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.journal.trie import missing_below
from tallystick.kernel.inputs import TakeSnapshot
from tallystick.kernel.reach import Marks
from tallystick.kernel.roots import root
from tallystick.model.records import ReceiptSettled
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig
from tests.worlds import (
    CALL,
    GO,
    LAB,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
)

CODE = ("t/code@1", "lab")
KID = "t/kid@1"
MANY = 300


def calling(following: Any, _value: Any, _ctx: Any) -> Outcome:
    """A deed that calls one child again and again."""
    payload = {"schema": GO, "value": canon.encode(go("k", "wait"))}
    params = {"workflow": KID, "key": canon.encode("k"), "payload": payload, "caps": None}
    wish = {"effect": CALL, "params": params, "cap_slot": "flow"}
    return Outcome(following, effects=[{**wish, "issuer_ref": str(i)} for i in range(MANY)])


@pytest.mark.invariant("I1", "I10")
def test_a_frame_may_be_larger_than_a_document() -> None:
    """D9: many receipts of legal size may settle in one frame, and the world opens again."""
    result = "r" * 60_000

    def done(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, status="completed", result=result)

    ways = [{"event": GO, "workflow": name, "key_field": "id"} for name in (LAB, KID)]
    more = {"limits": {"effects_max": MANY}, "subscriptions": ways, **lab_authority(KID)}
    made = lab_documents(lab_workflow(KID), **more)
    kid = lab_function(done=done)
    rig = Rig(made, {CODE: lab_function(call=calling), ("t/code@1", "kid"): kid})
    rig.send(GO, go("a", "call"))
    assert len(dict(rig.world.intents.entries())) == MANY
    rig.send(GO, go("k", "done"))
    assert len(rig.records(ReceiptSettled)) == MANY
    frames = list(rig.journal.read(rig.world.id))
    assert max(len(frame.body) for frame in frames) > canon.SIZE_MAX
    assert root(rig.reopened().world) == root(rig.folded()) == rig.root()
    assert rig.verify().first is None


@pytest.mark.clause("K-42", "X-26")
@pytest.mark.invariant("I2", "I17")
def test_the_mail_of_a_cell_may_be_larger_than_a_document() -> None:
    """K-42: a cell that waits with many large events is in the snapshot, and reads all of them."""

    def counting(state: Any, event: Any, _ctx: Any) -> Any:
        log = [] if state is None else state["log"]
        return {"id": "a", "log": [*log, str(event["$value"]["n"])][-MANY:]}

    rig = Rig(lab_documents(), {CODE: counting})
    rig.send(GO, go("a"))
    rig.operate("suspend", LAB, "a")
    for n in range(MANY):
        rig.send(GO, go("a", "x" * 60_000, n))
    assert rig.do(TakeSnapshot(rig.clock.sample())).kind == "snapshot"
    live = rig.root()
    rig = rig.reopened()
    assert rig.root() == live
    row = rig.journal.snapshots(rig.world.id)[-1]
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    assert not list(missing_below(row.document, rig.driver.blobs, marks.digests()))
    rig.operate("resume", LAB, "a")
    assert rig.state(LAB, "a")["log"] == [str(n) for n in range(MANY)]
    assert rig.verify().first is None
