"""Effects at their edges: large values, odd parameters, broken enforcers, unkeyed children."""

# tidy: the edges of every kind of effect, in one table after the other.
from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.kernel.active import activate
from tallystick.kernel.index import Nodes
from tallystick.kernel.inputs import Operate, Submit
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.machine import submit
from tallystick.kernel.reach import Marks
from tallystick.kernel.store import Store
from tallystick.model.abi import EffectRequest, TickOutput
from tallystick.model.cells import COMPLETED, RUNNING
from tallystick.model.records import (
    Dropped,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    ReceiptSettled,
)
from tallystick.modules.python import Outcome, PythonRunner
from tallystick.values import canon
from tests.kernel import test_reach
from tests.kernel.blobs import Shelf
from tests.kernel.test_authority import GRANTED, GUARD, SAYING, Asker
from tests.kernel.test_fork import child_rig
from tests.kernel.test_more_outputs import GOOD, Lane, lane_rig
from tests.rig import OUTSIDER, Rig, check, refused
from tests.worlds import (
    ASK,
    GO,
    LAB,
    SPAWN,
    UNDO,
    ask,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
)

CODE = ("t/code@1", "lab")
KID = "t/kid@1"
LARGE = "x" * 70_000


def doing(*effects: Any, status: str = RUNNING) -> Any:
    return lambda following, *_: Outcome(following, status=status, effects=list(effects))


def lab(*extra: Any, flow: Any = None, functions: Any = None, **deeds: Any) -> Rig:
    documents = lab_documents(*extra, flow=flow, **lab_authority(*(d["name"] for d in extra)))
    return Rig(documents, {CODE: lab_function(**deeds), **(functions or {})})


@pytest.mark.clause("K-47")
def test_a_key_with_large_params_attaches_only_to_the_same():
    """KN-17: parameters that stand by digest are compared too: equal ones attach, others do not."""
    deeds = {
        "one": doing(ask(LARGE, idempotency_key=b"k")),
        "two": doing(ask(LARGE + "y", idempotency_key=b"k")),
    }
    rig = lab(**deeds)
    rig.send(GO, go("a", "one"))
    rig.send(GO, go("a", "one"))
    assert len(rig.records(IntentAttached)) == 1
    assert not rig.records(IntentDenied)
    rig.send(GO, go("a", "two"))
    (denied,) = rig.records(IntentDenied)
    assert denied.code == "effect.key_conflict"
    assert len(rig.jobs.of(ASK)) == 1
    check(rig)


def test_a_large_payload_reaches_its_cell():
    """KN-05: a payload that stands by digest is delivered as if it stood inline."""
    seen: list[int] = []

    def receipt(following: Any, value: Any, _ctx: Any) -> Outcome:
        seen.append(len(canon.decode(value["receipt_payload"])["a"]))
        return Outcome(following)

    rig = lab(ask=doing(ask()), Receipt=receipt)
    rig.send(GO, go("a", "ask"))
    rig.settle(rig.jobs.all[0], {"a": LARGE})
    assert seen == [len(LARGE)]
    assert rig.state(LAB, "a")["log"] == ["ask", "ok:"]
    (settled,) = rig.records(ReceiptSettled)
    assert settled.payload is None
    check(rig)


@pytest.mark.clause("K-07")
@pytest.mark.parametrize(
    ("params", "path"), [(canon.encode({"q": 1}), "/q"), (b"\x00", ""), (canon.encode({}), "/q")]
)
def test_bad_params_are_denied_with_their_place(params: bytes, path: str):
    """AG-02: the denial of a shape says where in the parameters it is."""
    wanted = EffectRequest(ASK, params, cap_slot="main")
    rig = lane_rig(Lane(lambda t: TickOutput(GOOD, effects=(wanted,) if t.state is None else ())))
    rig.send(GO, go("a"))
    (denied,) = rig.records(IntentDenied)
    assert (denied.code, denied.stage) == ("effect.params_invalid", "shape")
    assert (denied.path or "") == path
    check(rig)


@pytest.mark.clause("K-29", "K-07")
def test_an_enforcer_that_breaks_denies():
    """AG-05: the fault of an enforcer that a bundle brings is a denial with its own code."""

    def broken(_given: Any) -> Any:
        raise RuntimeError("no verdict")

    asker = Asker(flow={"effects_emitted": [ASK, SAYING[0]["effect"]]}, wish=SAYING, **GRANTED)
    rig = asker.rig
    rig.runner = PythonRunner({**rig.runner._functions, (GUARD, "check"): broken})
    asker.rig = rig.reopened()
    denied = asker.denial()
    assert (denied.code, denied.stage) == ("cap.enforcer_fault", "capability")


@pytest.mark.clause("K-07")
def test_an_effect_that_the_catalogue_lacks_is_denied():
    """AG-02: declared by the workflow but absent from the active definitions: its own code."""
    rig = lab(ask=doing(ask()))
    world = rig.world
    catalogue = world.active.catalogue
    effects = {name: held for name, held in catalogue.effects.items() if name != ASK}
    world.active = activate(dataclasses.replace(catalogue, effects=effects))
    rig.send(GO, go("a", "ask"))
    (denied,) = rig.records(IntentDenied)
    assert (denied.code, denied.stage) == ("effect.unknown", "declared")
    assert not rig.jobs.all


def spawn(key: bytes | None) -> dict[str, Any]:
    payload = {"schema": GO, "value": canon.encode(go("k"))}
    params = {"workflow": KID, "key": key, "payload": payload, "caps": None}
    return {"effect": SPAWN, "params": params, "cap_slot": "flow"}


@pytest.mark.clause("X-17")
@pytest.mark.parametrize(("key", "status"), [(None, "ok"), (canon.encode("k"), "error")])
def test_an_unkeyed_child_takes_no_key(key: bytes | None, status: str):
    """KN-16: a child without a key is born once without one, and refused with one."""
    rig = lab(
        lab_workflow(KID, key_schema=None),
        functions={("t/code@1", "kid"): lab_function()},
        spawn=doing(spawn(key)),
    )
    rig.send(GO, go("a", "spawn"))
    assert rig.state(LAB, "a")["log"] == ["spawn", f"{status}:"]
    assert (rig.state(KID) is None) == (status == "error")
    check(rig)


@pytest.mark.clause("X-26")
def test_a_cancel_that_names_nothing_cancels_nothing():
    """KN-19: without an intent and without a reference no open intent is meant."""
    undo = {
        "effect": UNDO,
        "params": {"intent": None, "issuer_ref": None},
        "cap_slot": "main",
    }
    rig = lab(ask=doing(ask(issuer_ref="r")), undo=doing(undo))
    rig.send(GO, go("a", "ask"))
    rig.send(GO, go("a", "undo"))
    opened = [r.intent for r in rig.records(IntentOpened) if r.effect == ASK]
    assert [path for path, _ in rig.world.intents.entries()] == opened
    check(rig)


def test_an_answer_names_the_sequence_of_its_record():
    """D13: what the caller is told points at the record that was written for it."""
    rig = lab(ask=doing(ask()))
    rig.send(GO, go("a", "ask"))
    answer = rig.settle(rig.jobs.all[0], {"a": "yes"}, pair=OUTSIDER)
    assert answer.kind == "dropped"
    assert isinstance(rig.records()[answer.seq - 1], Dropped)


@pytest.mark.clause("K-35")
def test_a_cell_suspended_in_the_ring_ticks_after_its_resume():
    """KN-19: suspending takes a ready cell out of the ring; resuming puts it back, once."""
    rig = lab()
    rig.send(GO, go("a", "one"))
    sample = rig.clock.sample
    key = canon.encode("a")
    given = [
        Submit(sample(), GO, go("a", "two")),
        Operate(sample(), "suspend", "alice", "why", workflow=LAB, key=key),
        Operate(sample(), "resume", "alice", "why", workflow=LAB, key=key),
    ]
    for each in given:
        rig.driver.stage(submit(rig.world, each))  # type: ignore[arg-type]
    assert [ident.workflow for ident in rig.world.ring] == [LAB]
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["one", "two"]


@pytest.mark.clause("K-44")
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("settled", [False, True])
def test_a_snapshot_alone_keeps_what_its_intents_name(keyed: bool, settled: bool):
    """KN-13: large parameters of open and of keyed intents are reached from the snapshot."""

    def keep(state: Any, event: Any, ctx: Any) -> Any:
        made = test_reach.keep(state, event, ctx)
        more = {"idempotency_key": b"k"} if keyed else {}
        return dataclasses.replace(made, effects=[{**each, **more} for each in made.effects])

    rig = test_reach.filing_rig()
    rig.runner = PythonRunner({("t/code@1", "keep"): keep})
    rig = rig.reopened()
    content = test_reach.put(rig, b"content")
    copy = test_reach.put(rig, b"copy")
    rig.send(test_reach.FILE, {"id": "a", "content": content, "ask": True})
    other = test_reach.put(rig, b"other")
    if settled:
        rig.settle(rig.jobs.all[0], {"copy": copy, "pad": LARGE})
    rig.send(test_reach.FILE, {"id": "a", "content": other, "ask": False})
    rig.driver.snapshot()
    (row,) = rig.journal.snapshots(rig.world.id)
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    found = marks.digests()
    assert canon.raw_of(other) in found
    assert (canon.raw_of(content) in found) == (keyed or not settled)
    assert (canon.raw_of(copy) in found) == (keyed and settled)


def test_a_missing_blob_is_named():
    """I10: a blob that is gone or changed stops the world, and the error names it."""
    digest = canon.digest_of(b"gone")
    with pytest.raises(JournalCorrupt) as caught:
        read_blob(Shelf(), digest)
    assert caught.value.where == {"blob": canon.text_of(digest)}


@pytest.mark.clause("K-40")
def test_a_delete_after_a_promotion_leaves_no_trace():
    """KN-11: once its snapshot is durable a store no longer notes what is touched."""
    store: Store[bytes] = Store(Nodes(Shelf()), lambda value, _: value, lambda value: value)
    store.mark(1)
    store.put(b"k" * 32, b"v")
    store.remove(b"k" * 32)
    assert store.delta == {b"k" * 32: None}, "a snapshot on its way may hold it"
    store.delta.clear()
    store.promote(store.top, [], 1)
    store.put(b"k" * 32, b"v")
    store.remove(b"k" * 32)
    assert store.delta == {}


@pytest.mark.clause("K-09")
@pytest.mark.parametrize("length", [0, 10_000])
def test_a_refused_key_says_its_bounds(length: int):
    """KN-05: the refusal of an Idempotency-Key says how long it was and may be."""
    rig = lab()
    given = Submit(rig.clock.sample(), GO, go("a"), idem_key=b"k" * length)
    why = refused(rig, given)
    assert why.code == "ingress.bad_key"
    assert why.where["got"] == length
    assert why.where["max"] < 10_000


@pytest.mark.clause("K-35", "D5")
def test_a_completed_entity_goes_on_with_its_mail():
    """KN-19: an entity that ends with mail waiting takes the next one; its state goes on."""
    rig = lab(flow={"lifecycle": "entity"}, end=doing(status=COMPLETED))
    for do in ("end", "note"):
        rig.driver.stage(submit(rig.world, Submit(rig.clock.sample(), GO, go("a", do))))
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["end", "note"]
    check(rig)


@pytest.mark.clause("K-44")
def test_a_snapshot_keeps_what_waiting_mail_names():
    """KN-13: a blob that only an undelivered event names is reached from the snapshot."""
    rig = test_reach.filing_rig()
    first, waiting = test_reach.put(rig, b"first"), test_reach.put(rig, b"waiting")
    rig.send(test_reach.FILE, {"id": "a", "content": first, "ask": False})
    rig.operate("suspend", test_reach.KEEP, "a")
    waiting = test_reach.put(rig, b"waiting")
    rig.send(test_reach.FILE, {"id": "a", "content": waiting, "ask": False})
    rig.driver.snapshot()
    (row,) = rig.journal.snapshots(rig.world.id)
    marks = Marks(rig.driver.blobs, rig.world.catalogue)
    marks.snapshot(row.document)
    assert {canon.raw_of(first), canon.raw_of(waiting)} <= marks.digests()


@pytest.mark.clause("X-08")
def test_what_a_fork_cancels_says_so():
    """KN-14: the receipt of an intent that the fork cancelled carries the fork's own code."""
    rig = lab(ask=doing(ask()))
    rig.send(GO, go("a", "ask"))
    child = child_rig(rig, 1, None, pending="cancel")
    (settled,) = child.records(ReceiptSettled)
    assert settled.status == "cancelled"
    assert canon.decode(settled.payload)["code"] == "fork.cancelled"
