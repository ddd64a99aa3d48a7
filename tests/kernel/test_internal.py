"""Internal effects: spawn, call, read; they run in the tick's own frame."""

# tidy: four effects of one kind, side by side.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Operate
from tallystick.model.cells import COMPLETED, FAILED, RUNNING
from tallystick.model.records import (
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    ReceiptSettled,
    WorkflowFaulted,
)
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.kernel.test_fork import child_rig
from tests.rig import Rig, check
from tests.worlds import (
    ASK,
    CALL,
    CANCEL,
    GO,
    LAB,
    READ,
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
SECOND = 1_000_000_000
FORGED = {"reason": "because", "principal": "alice", "deadline_ns": None}


def child(ident: str, do: str = "note", **more: Any) -> dict[str, Any]:
    """Params of a spawn or call of the kid."""
    payload = {"schema": GO, "value": canon.encode(go(ident, do))}
    return {"workflow": KID, "key": canon.encode(ident), "payload": payload, "caps": None, **more}


def doing(effect: str, params: Any, **more: Any) -> Any:
    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        wish = {"effect": effect, "params": params, "issuer_ref": "w", **more}
        return Outcome(following, effects=[wish])

    return run


def keep(following: Any, value: Any, _ctx: Any) -> Outcome:
    """Log what a good receipt or an error holds."""
    held = canon.decode(value["receipt_payload"])
    if value["status"]["$tag"] == "error":
        following["log"].append(held["code"])
    elif "found" in held:
        state = None if held["state"] is None else canon.decode(held["state"])
        following["log"].append(f"read {held['found']} {state and state['log']}")
    elif "created" in held:
        following["log"].append(f"created {held['created']}")
    elif "result" in held:
        result = held["result"] and canon.decode(held["result"])
        following["log"].append(f"{held['status']['$tag']} {result} {held['code']}")
    return Outcome(following)


KID_DEEDS = {
    "end": lambda f, *_: Outcome(f, status=COMPLETED, result={"n": 1}),
    "fail": lambda f, *_: Outcome(f, status=FAILED, reason={"code": "t.no", "message": "no"}),
    "gone": lambda *_: Outcome(None),
    "ask": lambda f, *_: Outcome(f, effects=[ask("child")]),
}


def lab(*, lab_arms: dict[str, str] | None = None, flow: Any = None, **deeds: Any) -> Rig:
    functions = {
        CODE: lab_function(Receipt=keep, **deeds),
        ("t/code@1", "kid"): lab_function(**KID_DEEDS),
    }
    documents = lab_documents(
        lab_workflow(KID),
        flow=flow or {"reads": [LAB, KID]},
        lab_arms=lab_arms,
        **lab_authority(KID),
    )
    return Rig(documents, functions)


# ---- spawn ----------------------------------------------------------------------------------


@pytest.mark.clause("K-47", "X-17")
def test_a_key_asked_twice_and_answered_in_one_frame() -> None:
    """Bug 114: the receipt names everybody it goes to, also who attached in its own frame."""

    def twice(following: Any, _value: Any, _ctx: Any) -> Outcome:
        wish = {"effect": SPAWN, "params": child("k", "hello"), "idempotency_key": b"k"}
        return Outcome(following, effects=[{**wish, "issuer_ref": ref} for ref in "vw"])

    rig = lab(go=twice)
    rig.send(GO, go("a", "go"))
    (settled,) = rig.records(ReceiptSettled)
    assert [to.workflow for to in settled.to] == [LAB, LAB]
    assert rig.state(LAB, "a")["log"] == ["go", "ok:v", "created True", "ok:w", "created True"]
    assert rig.state(KID, "k")["log"] == ["hello"]
    check(rig)


@pytest.mark.clause("X-17")
def test_spawn() -> None:
    """X-17: a spawned child has its cell, its first event and its receipt in the same frame."""
    rig = lab(go=doing(SPAWN, child("k", "hello")))
    rig.send(GO, go("a", "go"))
    assert rig.state(LAB, "a")["log"] == ["go", "ok:w", "created True"]
    assert rig.state(KID, "k")["log"] == ["hello"]
    rig.send(GO, go("a", "go"))
    assert rig.state(LAB, "a")["log"][-1] == "created False"
    assert rig.state(KID, "k")["log"] == ["hello", "hello"]
    assert not rig.jobs.all
    came = [e for e in rig.records(EventAdmitted) if e.to and e.to[0].workflow == KID]
    assert [(e.origin.kind, e.origin.workflow) for e in came] == [("workflow", LAB)] * 2
    check(rig)


BAD_CHILDREN = [
    ({"workflow": "t/none@1"}, "spawn.unknown_workflow"),
    ({"payload": {"schema": "t/Ask@1", "value": canon.encode({"q": "x"})}}, "spawn.bad_payload"),
    ({"payload": {"schema": GO, "value": canon.encode({"id": "k"})}}, "spawn.bad_payload"),
    ({"payload": {"schema": GO, "value": b"junk"}}, "spawn.bad_payload"),
    ({"payload": {"schema": CANCEL, "value": canon.encode(FORGED)}}, "spawn.bad_payload"),
    ({"key": None}, "spawn.bad_payload"),
    ({"key": canon.encode(7)}, "spawn.bad_payload"),
    ({"key": b"junk"}, "spawn.bad_payload"),
]


@pytest.mark.clause("X-17", "K-09")
@pytest.mark.parametrize("effect", [SPAWN, CALL])
@pytest.mark.parametrize(("changed", "code"), BAD_CHILDREN)
def test_bad_child(effect: str, changed: dict[str, Any], code: str) -> None:
    """X-17: a child that cannot be is an error receipt with its code; nothing is made."""
    rig = lab(go=doing(effect, child("k", **changed)))
    rig.send(GO, go("a", "go"))
    assert rig.state(LAB, "a")["log"] == ["go", "error:w", code]
    assert rig.cell(KID, "k") is None
    check(rig)


@pytest.mark.clause("X-17")
@pytest.mark.parametrize("effect", [SPAWN, CALL])
def test_ended_child(effect: str) -> None:
    """X-17: a process that ended cannot be spawned or called again."""
    rig = lab(first=doing(SPAWN, child("k", "end")), go=doing(effect, child("k")))
    rig.send(GO, go("a", "first"))
    rig.send(GO, go("a", "go"))
    assert rig.state(LAB, "a")["log"][-1] == "spawn.terminal"
    assert rig.state(KID, "k")["log"] == ["end"]
    check(rig)


# ---- call -----------------------------------------------------------------------------------


@pytest.mark.clause("X-18")
@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("end", "completed {'n': 1} None"),
        ("fail", "failed None t.no"),
        ("gone", "completed None cell.deleted"),
    ],
)
def test_call(do: str, said: str) -> None:
    """X-18: the receipt of a call comes when the child ends, however it ends, with its result."""
    rig = lab(go=doing(CALL, child("k", do)))
    rig.send(GO, go("a", "go"), run=False)
    rig.driver.tick()
    assert len(rig.cell(LAB, "a").inflight) == 1
    assert not rig.records(ReceiptSettled)
    rig.run()
    assert rig.state(LAB, "a")["log"] == ["go", "ok:w", said]
    assert not rig.cell(LAB, "a").inflight
    check(rig)


@pytest.mark.clause("X-18")
def test_call_joins_all() -> None:
    """X-18: a parent that called many children hears from each, once."""

    def many(following: Any, value: Any, _ctx: Any) -> Outcome:
        names = [f"k{i}" for i in range(value["n"])]
        wishes = [{"effect": CALL, "params": child(n, "end"), "issuer_ref": n} for n in names]
        return Outcome(following, effects=wishes)

    rig = lab(many=many)
    rig.send(GO, go("a", "many", 50))
    log = rig.state(LAB, "a")["log"]
    assert sorted(w for w in log if w.startswith("ok:")) == sorted(f"ok:k{i}" for i in range(50))
    assert not list(rig.world.intents.entries())
    check(rig)


@pytest.mark.clause("X-18", "X-10")
@pytest.mark.parametrize("how", ["timeout", "parent ends", "operator"])
def test_call_left_alone(how: str) -> None:
    """X-18: an owner's timeout or end settles the call; the child goes on and wakes nobody."""
    rig = lab(
        go=doing(CALL, child("k", "ask"), timeout_ns=SECOND),
        end=lambda f, *_: Outcome(f, status=COMPLETED),
    )
    rig.send(GO, go("a", "go"))
    if how == "timeout":
        rig.pass_time(2 * SECOND)
        assert rig.state(LAB, "a")["log"][:2] == ["go", "timeout:w"]
    elif how == "parent ends":
        rig.send(GO, go("a", "end"))
    else:
        rig.operate("cancel", LAB, "a", force=True)
    before = rig.cell(LAB, "a").state_hash
    assert rig.cell(KID, "k").status == RUNNING
    assert len(rig.cell(KID, "k").inflight) == 1
    rig.operate("cancel", KID, "k", force=True)
    assert rig.cell(KID, "k").status == FAILED
    assert rig.cell(LAB, "a").state_hash == before
    check(rig)


@pytest.mark.clause("X-18")
def test_call_by_force() -> None:
    """X-18: a child that an operator fails answers its caller."""
    rig = lab(go=doing(CALL, child("k", "ask")))
    rig.send(GO, go("a", "go"))
    rig.operate("cancel", KID, "k", force=True)
    assert rig.state(LAB, "a")["log"] == ["go", "ok:w", "failed None cancelled"]
    check(rig)


# ---- read -----------------------------------------------------------------------------------


def reading(workflow: str, ident: str) -> Any:
    return doing(READ, {"workflow": workflow, "key": canon.encode(ident)}, cap_slot="main")


@pytest.mark.clause("X-27")
def test_read() -> None:
    """X-27: a declared read gives the other cell's state with its hash, as of this frame."""
    rig = lab(look=reading(LAB, "b"), none=reading(LAB, "c"), own=reading(LAB, "a"))
    rig.send(GO, go("b", "x"))
    rig.send(GO, go("a", "look"))
    assert rig.state(LAB, "a")["log"] == ["look", "ok:w", "read True ['x']"]
    (settled,) = rig.records(ReceiptSettled)
    held = canon.decode(settled.payload)
    assert held["hash"] == canon.text_of(rig.cell(LAB, "b").state_hash)
    (opened,) = rig.records(IntentOpened)
    assert held["as_of"] == opened.origin.tick_seq - 1
    rig.send(GO, go("a", "none"))
    assert rig.state(LAB, "a")["log"][-1] == "read False None"
    rig.send(GO, go("d", "own"))
    assert rig.state(LAB, "d")["log"][-1].startswith("read True")
    check(rig)


@pytest.mark.clause("X-27")
def test_read_undeclared() -> None:
    """X-27: a workflow that is not in `reads` is denied, and nothing of it is shown."""
    rig = lab(look=reading(KID, "k"), flow={"reads": [LAB]})
    rig.send(GO, go("a", "look"))
    assert [(d.code, d.stage) for d in rig.records(IntentDenied)] == [
        ("effect.undeclared", "declared")
    ]
    check(rig)


@pytest.mark.clause("X-27")
def test_read_bounded() -> None:
    """X-27: a state over the receipt limit is an error, not a flood."""
    documents = lab_documents(limits={"receipt_bytes_max": 100})
    big = lab_function(
        big=lambda f, *_: Outcome({**f, "log": ["x" * 200]}), look=reading(LAB, "b"), Receipt=keep
    )
    rig = Rig(documents, {CODE: big})
    rig.send(GO, go("b", "big"))
    rig.send(GO, go("a", "look"))
    assert rig.state(LAB, "a")["log"] == ["look", "error:w", "read.too_large"]
    check(rig)


@pytest.mark.clause("X-17")
def test_keyed_spawn() -> None:
    """D8: a spawn under an explicit key starts its child once."""
    rig = lab(go=doing(SPAWN, child("k", "hello"), idempotency_key=b"once"))
    rig.send(GO, go("a", "go"))
    rig.send(GO, go("a", "go"))
    assert rig.state(KID, "k")["log"] == ["hello"]
    assert rig.state(LAB, "a")["log"] == ["go", "ok:w", "created True"] * 2
    check(rig)


def test_nothing_for_executors() -> None:
    """03 section 6: internal effects are intents and receipts like any other, without a job."""
    rig = lab(spawn=doing(SPAWN, child("k")), call=doing(CALL, child("k2", "end")))
    rig.send(GO, go("a", "spawn"))
    rig.send(GO, go("a", "call"))
    assert not rig.jobs.all
    assert [r.effect for r in rig.records(IntentOpened)] == [SPAWN, CALL]
    assert [r.source for r in rig.records(ReceiptSettled)] == ["kernel"] * 2
    assert ASK not in [j.effect for j in rig.jobs.all]
    check(rig)


@pytest.mark.clause("X-10", "K-08")
def test_a_cell_with_all_it_may_have_open_can_still_cancel_and_read() -> None:
    """03 section 5: what ends in the frame of its tick is not in flight; one more that stays is."""
    undo = {"intent": None, "issuer_ref": "w"}
    rig = Rig(
        lab_documents(flow={"reads": [LAB]}, limits={"inflight_max": 1}),
        {
            CODE: lab_function(
                Receipt=keep,
                go=doing(ASK, {"q": "x"}),
                look=doing(READ, {"workflow": LAB, "key": canon.encode("b")}),
                undo=doing(UNDO, undo, issuer_ref="undo"),
            )
        },
    )
    for deed in ("go", "look", "undo", "go"):
        rig.send(GO, go("a", deed))
        assert rig.cell(LAB, "a").status == RUNNING, deed
    rig.send(GO, go("a", "go"))
    assert rig.cell(LAB, "a").status == FAILED
    assert [each.code for each in rig.records(WorkflowFaulted)] == ["inflight_max"]
    check(rig)


@pytest.mark.clause("X-08", "X-18")
@pytest.mark.invariant("I7")
def test_a_call_that_a_fork_held_has_called_already() -> None:
    """06 section 11: released in a fork, a call waits for its child and calls nobody twice."""
    rig = lab(call=doing(CALL, child("k")), fin=doing(SPAWN, child("k", "end")))
    rig.send(GO, go("a", "call"))
    other = child_rig(rig, 1, None)
    (held,) = [path for path, _ in other.world.intents.entries()]
    other.do(Operate(other.clock.sample(), "release", "alice", "go on", intent=held))
    other.run()
    assert other.state(KID, "k")["log"] == ["note"]
    assert not other.jobs.all
    other.send(GO, go("b", "fin"))
    assert other.state(LAB, "a")["log"] == ["call", "ok:w", "completed {'n': 1} None"]


@pytest.mark.clause("X-18")
@pytest.mark.invariant("I42")
def test_an_entity_forgets_who_called_it_once_they_are_answered() -> None:
    """X-18: called again and again, it remembers those alone that wait for its end."""
    made = lab_documents(
        lab_workflow(KID, lifecycle="entity"), flow={"lifecycle": "entity"}, **lab_authority(KID)
    )
    deeds = {"call": doing(CALL, child("k", "end")), "wait": doing(CALL, child("k"))}
    functions = {CODE: lab_function(**deeds), ("t/code@1", "kid"): lab_function(**KID_DEEDS)}
    rig = Rig(made, functions)
    for _ in range(5):
        rig.send(GO, go("a", "call"))
    assert list(rig.cell(KID, "k").callers) == []
    rig.send(GO, go("a", "wait"))
    assert len(rig.cell(KID, "k").callers) == 1
    rig.send(GO, go("a", "call"))
    assert rig.state(LAB, "a")["log"][-2:] == ["ok:w", "ok:w"]
    assert list(rig.cell(KID, "k").callers) == []
    check(rig)
