"""Routing: which cells an event reaches, in which order, wrapped how, under which key."""

# tidy: the columns of the routing table stand side by side.
from __future__ import annotations

from typing import Any

import pytest

from tallystick.kernel.inputs import Submit
from tallystick.model.records import Dropped, EventAdmitted, WorkflowFaulted
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import Rig, check, refused
from tests.worlds import (
    DONE,
    FAULT,
    GO,
    LAB,
    SPAWN,
    TEXT,
    WATCH,
    WATCHING,
    arms,
    go,
    lab_documents,
    lab_function,
    lab_workflow,
    module,
    opt,
    record,
    schema,
    watch_documents,
    watch_function,
    workflow,
)

CODE = ("t/code@1", "lab")
TWIN = "t/twin@1"
PURE = "t/pure@1"
EVENT = "t/Event@1"
WAY = {"event": GO, "workflow": LAB, "key_field": "id"}


def lab(*extra: Any, ways: list[dict[str, Any]] | None = None, **functions: Any) -> Rig:
    """The lab with other subscriptions; functions by name go to the pure module."""
    pure = {(PURE, name): function for name, function in functions.items()}
    run = lab_function(emit=emitting)
    code = {CODE: run, ("t/code@1", "twin"): run, ("t/code@1", "watch"): watch_function}
    documents = lab_documents(
        lab_workflow(TWIN), *extra, subscriptions=[WAY] if ways is None else ways
    )
    return Rig(documents, {**code, **pure})


def emitting(following: Any, value: Any, _ctx: Any) -> Outcome:
    event = {"schema": GO, "value": go("other"), "tags": ["eu"] * value["n"]}
    return Outcome(following, events=[event])


def pure_module(**entries: tuple[str, str]) -> dict[str, Any]:
    listed = {name: {"input": a, "output": b} for name, (a, b) in entries.items()}
    return module(PURE, pure=listed)


def reached(rig: Rig, index: int = -1) -> list[tuple[str, Any, str | None]]:
    """Where an event went, from its record."""
    found = rig.records(EventAdmitted)[index].to
    return [(t.workflow, canon.decode(t.key) if t.key else None, t.arm) for t in found]


# ---- order and fan-out ----------------------------------------------------------------------


@pytest.mark.clause("K-30", "X-01")
@pytest.mark.parametrize("flipped", [False, True])
def test_manifest_order(flipped: bool) -> None:
    """KN-08: subscriptions are served in manifest order, each with its own delivery."""
    ways = [
        {"event": GO, "workflow": LAB, "key_field": "id"},
        {"event": GO, "workflow": TWIN, "key_field": "do"},
        {"event": GO, "workflow": LAB, "key_field": "do"},
    ]
    rig = lab(ways=ways[::-1] if flipped else ways)
    assert rig.send(GO, go("a", "b"), run=False).kind == "accepted"
    want = [(LAB, "a", "Go"), (TWIN, "b", "Go"), (LAB, "b", "Go")]
    assert reached(rig) == (want[::-1] if flipped else want)
    ring = [(c.workflow, canon.decode(c.key), "Go") for c in rig.world.ring]
    assert ring == (want[::-1] if flipped else want)
    check(rig)
    for name, key in ((LAB, "a"), (TWIN, "b"), (LAB, "b")):
        assert rig.state(name, key)["log"] == ["b"]


# ---- keys and arms --------------------------------------------------------------------------


@pytest.mark.clause("K-31", "K-33")
def test_variant_wrap_and_value_path() -> None:
    """KN-08: a record is wrapped as its arm; `$value.` reads the key inside a variant.

    A subscription on the variant takes the variant itself and each of its arms.
    """
    rig = lab(ways=[{"event": EVENT, "workflow": LAB, "key_field": "$value.id"}])
    rig.send(EVENT, {"$tag": "Go", "$value": go("a", "whole")}, lens="native")
    assert reached(rig) == [(LAB, "a", None)]
    rig.send(GO, go("a", "arm"))
    assert reached(rig) == [(LAB, "a", "Go")]
    assert rig.state(LAB, "a")["log"] == ["whole", "arm"]
    check(rig)


@pytest.mark.clause("K-09", "K-13")
@pytest.mark.invariant("I4")
@pytest.mark.parametrize("by", ["outside", "workflow", "spawn"])
# tidy: one scene, told from begin to end.
def test_no_forged_arm(by: str) -> None:
    """K-09: a receipt or a cancel wrapped in the workflow's own variant is forged all the same.

    From outside it is refused, from a tick it is a fault, to a child it is no payload.
    """
    forged = {"$tag": "Cancel", "$value": {"reason": "r", "principal": "p", "deadline_ns": None}}

    def emit(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, events=[{"schema": EVENT, "value": forged}])

    def spawn(following: Any, _value: Any, _ctx: Any) -> Outcome:
        payload = {"schema": EVENT, "value": canon.encode(forged)}
        params = {"workflow": LAB, "key": None, "payload": payload, "caps": None}
        return Outcome(following, effects=[{"effect": SPAWN, "params": params}])

    documents = lab_documents(
        flow={"key_schema": None}, subscriptions=[{"event": EVENT, "workflow": LAB}]
    )
    rig = Rig(documents, {CODE: lab_function(emit=emit, spawn=spawn)})
    rig.send(GO, go("a"))
    if by == "outside":
        given = Submit(rig.clock.sample(), EVENT, forged, lens="native")
        assert refused(rig, given).code == "ingress.reserved_schema"
        assert rig.state(LAB)["log"] == ["note"]
    elif by == "workflow":
        rig.send(GO, go("a", "emit"))
        assert [f.code for f in rig.records(WorkflowFaulted)] == ["bad_output"]
        assert rig.state(LAB)["log"] == ["note"]
    else:
        rig.send(GO, go("a", "spawn"))
        assert rig.state(LAB)["log"] == ["note", "spawn", "error:"]
    check(rig)


@pytest.mark.clause("K-33")
def test_nested_key_path() -> None:
    """KN-08: a dotted path reads the key inside the event."""
    inner = schema("t/Deep@1", record(at=record(id=TEXT)))
    extra = [
        inner,
        schema("t/DeepEvent@1", arms(Deep="t/Deep@1")),
        schema("t/Empty@1", record()),
        workflow("t/deep@1", "t/Empty@1", "t/DeepEvent@1", key_schema="t/Id@1"),
    ]
    way = {"event": "t/Deep@1", "workflow": "t/deep@1", "key_field": "at.id"}
    documents = lab_documents(*extra, subscriptions=[way])
    rig = Rig(documents, {("t/code@1", "deep"): lambda *_: {}})
    rig.send("t/Deep@1", {"at": {"id": "x"}})
    assert reached(rig) == [("t/deep@1", "x", "Deep")]
    check(rig)


@pytest.mark.clause("K-33", "X-01")
@pytest.mark.parametrize("answer", ["ok", "wrong type", "raises", "no output"])
def test_key_function(answer: str) -> None:
    """KN-08: a pure function may name the key; what it answers must fit the key schema."""

    def bucket(given: Any) -> Any:
        text = given["input"]["id"]
        return {
            "ok": lambda: {"output": text[:1]},
            "wrong type": lambda: {"output": 7},
            "raises": lambda: {"output": text[99]},
            "no output": lambda: {"input": text},
        }[answer]()

    way = {**WAY, "key_fn": {"module": PURE, "entrypoint": "bucket"}}
    del way["key_field"]
    rig = lab(pure_module(bucket=(GO, "t/Id@1")), ways=[way], bucket=bucket)
    if answer == "ok":
        rig.send(GO, go("apple"))
        rig.send(GO, go("avocado"))
        assert reached(rig) == [(LAB, "a", "Go")]
        assert rig.state(LAB, "a")["log"] == ["note", "note"]
        assert rig.send(GO, go("a"), key=canon.encode("a")).kind == "accepted"
    else:
        given = Submit(rig.clock.sample(), GO, go("apple"))
        assert refused(rig, given).code == "value.mismatch"
    check(rig)


@pytest.mark.clause("K-33")
def test_key_schema_refusal() -> None:
    """KN-08: a key that does not fit `key_schema` is refused with its path; nothing is written.

    The same key in an event that a tick emits is that tick's fault.
    """
    extra = [
        schema("t/Maybe@1", record(id=opt(TEXT))),
        schema("t/MaybeEvent@1", arms(Maybe="t/Maybe@1")),
        schema("t/Empty@1", record()),
        workflow("t/maybe@1", "t/Empty@1", "t/MaybeEvent@1", key_schema="t/Id@1"),
    ]
    way = {"event": "t/Maybe@1", "workflow": "t/maybe@1", "key_field": "id"}

    def bad(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, events=[{"schema": "t/Maybe@1", "value": {"id": None}}])

    functions = {CODE: lab_function(bad=bad), ("t/code@1", "maybe"): lambda *_: {}}
    rig = Rig(lab_documents(*extra, subscriptions=[WAY, way]), functions)
    rig.send("t/Maybe@1", {"id": "x"})
    why = refused(rig, Submit(rig.clock.sample(), "t/Maybe@1", {"id": None}))
    assert why.code == "value.mismatch"
    assert why.where["errors"][0]["path"] == "/id"
    rig.send(GO, go("a", "bad"))
    assert [f.code for f in rig.records(WorkflowFaulted)] == ["bad_key"]
    check(rig)


@pytest.mark.clause("X-01", "K-33")
def test_create_if_missing() -> None:
    """KN-08: with `create_if_missing` false only a cell that is there takes the event."""
    shy = {"event": GO, "workflow": TWIN, "key_field": "id", "create_if_missing": False}
    bold = {"event": "t/Event@1", "workflow": TWIN, "key_field": "$value.id"}
    rig = lab(ways=[shy, WAY])
    assert rig.send(GO, go("a")).kind == "accepted"
    assert reached(rig) == [(LAB, "a", "Go")]
    (drop,) = rig.records(Dropped)
    assert (drop.reason, drop.workflow, drop.key) == ("no_instance", TWIN, canon.encode("a"))
    check(rig)
    both = lab(ways=[shy, bold])
    both.send("t/Event@1", {"$tag": "Go", "$value": go("a", "make")}, lens="native")
    both.send(GO, go("a"))
    assert both.state(TWIN, "a")["log"][0] == "make"
    assert not both.records(Dropped)
    check(both)


# ---- filters --------------------------------------------------------------------------------

FILTERS: list[tuple[dict[str, Any], str, tuple[str, ...], bool]] = [
    ({"origin": ["external"]}, "external", (), True),
    ({"origin": ["system"]}, "external", (), False),
    ({"origin": ["system"]}, "system", (), True),
    ({"origin": ["system", "external"]}, "external", (), True),
    ({"origin": [f"workflow:{LAB}"]}, "external", (), False),
    ({"origin": [f"workflow:{LAB}"]}, "lab", (), True),
    ({"origin": ["workflow:t/*"]}, "lab", (), True),
    ({"origin": ["workflow:u/*"]}, "lab", (), False),
    ({"origin": ["external"]}, "lab", (), False),
    ({"tags": ["eu"]}, "external", (), False),
    ({"tags": ["eu"]}, "external", ("us", "eu"), True),
    ({"tags": ["eu", "us"]}, "external", ("eu",), False),
    ({"tags": ["eu"], "origin": ["system"]}, "external", ("eu",), False),
    ({"tags": ["eu"]}, "lab", ("eu",), True),
]


@pytest.mark.clause("X-01", "K-22")
@pytest.mark.parametrize(("wanted", "origin", "tags", "passes"), FILTERS)
def test_filter(wanted: dict[str, Any], origin: str, tags: tuple[str, ...], passes: bool) -> None:
    """KN-08: `origin` is any of, `tags` are all of; a workflow is named or begins so."""
    way = {"event": GO, "workflow": TWIN, "key_field": "id", "filter": wanted}
    start = {**WAY, "filter": {"tags": ["start"]}}
    rig = lab(ways=[start, way])
    if origin == "lab":
        rig.send(GO, go("a", "emit", len(tags)), tags=("start",))
    else:
        rig.send(GO, go("a"), tags=tags, origin=origin)
    kind = "workflow" if origin == "lab" else origin
    came = [e for e in rig.records(EventAdmitted) if e.origin.kind == kind]
    assert [t.workflow for t in came[-1].to] == ([TWIN] if passes else [])
    check(rig)


# ---- first states ---------------------------------------------------------------------------


@pytest.mark.clause("X-01")
def test_first_state() -> None:
    """KN-08: a new cell starts from `init_state`, else from `init_fn`, else from null.

    A cell that exists keeps its state.
    """
    written = {**WAY, "init_state": {"id": "", "log": ["written"]}}
    made = {
        "event": GO,
        "workflow": TWIN,
        "key_field": "id",
        "init_fn": {"module": PURE, "entrypoint": "first"},
    }

    def first(given: Any) -> Any:
        return {"output": {"id": given["input"]["id"], "log": ["made"]}}

    rig = lab(pure_module(first=(GO, "t/State@1")), ways=[written, made], first=first)
    rig.send(GO, go("a", "one"))
    rig.send(GO, go("a", "two"))
    assert rig.state(LAB, "a")["log"] == ["written", "one", "two"]
    assert rig.state(TWIN, "a")["log"] == ["made", "one", "two"]
    check(rig)


@pytest.mark.clause("X-01", "X-26")
@pytest.mark.parametrize("waiting", [True, False])
def test_first_state_outlives_a_skipped_event(waiting: bool) -> None:
    """Bug 113: the event that made a cell is skipped; the next one finds the first state."""

    def bad(_following: Any, _value: Any, _ctx: Any) -> Any:
        raise ValueError("no")

    written = {**WAY, "init_state": {"id": "", "log": ["written"]}}
    documents = lab_documents(subscriptions=[written], flow={"on_fault": "suspend"})
    rig = Rig(documents, {("t/code@1", "lab"): lab_function(bad=bad)})
    rig.send(GO, go("a", "bad"))
    if waiting:
        rig.send(GO, go("a", "one"))
    rig.operate("skip", LAB, "a")
    rig.driver.snapshot()
    rig = rig.reopened()
    rig.operate("resume", LAB, "a")
    if not waiting:
        rig.send(GO, go("a", "one"))
    rig.send(GO, go("a", "two"))
    assert rig.state(LAB, "a")["log"] == ["written", "one", "two"]
    check(rig)


# ---- upcasts --------------------------------------------------------------------------------

OLD, OLDER = "t/Was@1", "t/WasOnce@1"


def upcast(name: str, old: str, new: str, entry: str) -> dict[str, Any]:
    impl = {"module": PURE, "entrypoint": entry}
    return {"$kind": "defupcast", "name": name, "from": old, "to": new, "impl": impl}


@pytest.mark.clause("X-20")
def test_upcast_at_delivery() -> None:
    """KN-08: older events are lifted step by step at delivery; the journal keeps what came."""
    extra = [
        schema(OLD, record(id=TEXT, do=TEXT)),
        schema(OLDER, record(id=TEXT)),
        pure_module(up=(OLD, GO), lift=(OLDER, OLD)),
        upcast("t/up@1", OLD, GO, "up"),
        upcast("t/lift@1", OLDER, OLD, "lift"),
    ]
    rig = lab(
        *extra,
        up=lambda given: {"output": {**given["input"], "n": 1}},
        lift=lambda given: {"output": {**given["input"], "do": "lifted"}},
    )
    rig.send(OLD, {"id": "a", "do": "old"})
    rig.send(OLDER, {"id": "a"})
    rig.send(GO, go("a", "new"))
    assert rig.state(LAB, "a")["log"] == ["old", "lifted", "new"]
    kept = [canon.decode(e.value) for e in rig.records(EventAdmitted)]
    assert kept == [{"id": "a", "do": "old"}, {"id": "a"}, go("a", "new")]
    lifted = rig.records(EventAdmitted)[1].to[0]
    assert lifted.upcast == "t/up@1"
    assert canon.decode(lifted.value) == go("a", "lifted", 1)
    check(rig)


@pytest.mark.clause("X-20")
@pytest.mark.parametrize("answer", [{"output": {"id": "a"}}, {"nothing": 1}, None])
def test_failing_upcast(answer: Any) -> None:
    """KN-08: an upcast that answers nonsense is the fault of its cell, and of no other."""
    extra = [
        schema(OLD, record(id=TEXT, do=TEXT)),
        pure_module(up=(OLD, GO)),
        upcast("t/up@1", OLD, GO, "up"),
    ]
    rig = lab(*extra, up=lambda _given: answer)
    assert rig.send(OLD, {"id": "a", "do": "old"}).kind == "accepted"
    assert [f.code for f in rig.records(WorkflowFaulted)] == ["upcast_failed"]
    rig.send(GO, go("b"))
    assert rig.state(LAB, "b")["log"] == ["note"]
    check(rig)


# ---- the kernel's own events ----------------------------------------------------------------


@pytest.mark.clause("X-13", "X-04")
def test_workflow_events() -> None:
    """X-13: a reducer takes what other workflows and the kernel say like any event."""

    def bad(_following: Any, _value: Any, _ctx: Any) -> Outcome:
        raise ValueError("x")

    def end(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, status="completed")

    functions = {CODE: lab_function(bad=bad, end=end), ("t/code@1", "watch"): watch_function}
    rig = Rig(lab_documents(*watch_documents(), subscriptions=[WAY, *WATCHING]), functions)
    rig.send(GO, go("a", "bad"))
    rig.send(GO, go("b", "end"))
    assert rig.state(WATCH)["log"] == ["Fault:exception", "Done:failed", "Done:completed"]
    check(rig)


@pytest.mark.clause("X-13")
def test_one_subscriber_does_not_stop_another() -> None:
    """X-13: a subscriber whose key an event of the kernel does not hold hinders nobody else."""

    def end(following: Any, _value: Any, _ctx: Any) -> Outcome:
        return Outcome(following, status="completed")

    extra = [
        *watch_documents(),
        schema("t/Code@1", TEXT),
        workflow("t/codes@1", "t/Watch@1", "t/Seen@1", key_schema="t/Code@1"),
    ]
    # `code` is empty for a cell that completed: there is no key to take.
    ways = [WAY, {"event": DONE, "workflow": "t/codes@1", "key_field": "code"}, *WATCHING]
    functions = {
        CODE: lab_function(end=end),
        ("t/code@1", "watch"): watch_function,
        ("t/code@1", "codes"): watch_function,
    }
    rig = Rig(lab_documents(*extra, subscriptions=ways), functions)
    rig.send(GO, go("a", "end"))
    assert rig.state(WATCH)["log"] == ["Done:completed"]
    assert FAULT not in [e.schema for e in rig.records(EventAdmitted)]
    check(rig)
