"""A world to look at: a lab in which everything that a view must show can be made to happen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick.model.frames import Sealed
from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests.rig import START_NS, Rig
from tests.worlds import (
    CALL,
    GO,
    LAB,
    SPAWN,
    TIMER,
    WATCHING,
    ask,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
    watch_documents,
    watch_function,
)

KID = "t/kid@1"
SECOND_NS = 1_000_000_000
ABOUT = {"summary": "A place to try things.", "tags": ["lab"], "owners": ["a team"]}


def _asks(following: Any, value: Any, _ctx: Any) -> Outcome:
    wishes = [ask(f"{i}", issuer_ref=f"q{i}") for i in range(value["n"])]
    return Outcome(following, effects=wishes)


def _spoils(_following: Any, _value: Any, _ctx: Any) -> Outcome:
    message = "spoiled"
    raise ValueError(message)


def _ends(following: Any, _value: Any, _ctx: Any) -> Outcome:
    return Outcome(following, status="completed", result={"n": 1})


def _undeclared(following: Any, _value: Any, _ctx: Any) -> Outcome:
    return Outcome(following, effects=[{"effect": "t/nowhere@1", "params": {}}])


def _times(following: Any, value: Any, _ctx: Any) -> Outcome:
    params = {"deliver_at_ns": START_NS + value["n"] * SECOND_NS, "key": None}
    return Outcome(following, effects=[{"effect": TIMER, "params": params, "cap_slot": "time"}])


def _starts(effect: str, do: str) -> Any:
    def run(following: Any, _value: Any, _ctx: Any) -> Outcome:
        ident = f"{following['id']}-kid"
        payload = {"schema": GO, "value": canon.encode(go(ident, do))}
        params = {
            "workflow": KID,
            "key": canon.encode(ident),
            "payload": payload,
            "caps": None,
        }
        return Outcome(following, effects=[{"effect": effect, "params": params}])

    return run


DEEDS = {
    "ask": _asks,
    "spoil": _spoils,
    "end": _ends,
    "undeclared": _undeclared,
    "time": _times,
    "spawn": _starts(SPAWN, "end"),
    "call": _starts(CALL, "end"),
    "wait": _starts(CALL, "note"),
    "emit": lambda f, v, _c: Outcome(f, events=[{"schema": GO, "value": go("told", "note")}]),
    "big": lambda f, v, _c: Outcome({**f, "log": ["x" * v["n"]]}),
}


def lab(**flow: Any) -> Rig:
    """The lab, a kid workflow that it can start, and a watch that hears of faults and ends."""
    subscriptions = [{"event": GO, "workflow": LAB, "key_field": "id"}, *WATCHING]
    documents = lab_documents(
        lab_workflow(KID),
        *watch_documents(),
        flow={"metadata": ABOUT, **flow},
        subscriptions=subscriptions,
        **lab_authority(KID),
    )
    functions = {
        ("t/code@1", "lab"): lab_function(**DEEDS),
        ("t/code@1", "kid"): lab_function(**DEEDS),
        ("t/code@1", "watch"): watch_function,
    }
    return Rig(documents, functions)


def frames(rig: Rig, after: int = 0) -> Iterator[Sealed]:
    """The world's frames behind a sequence number."""
    return rig.journal.read(rig.world.id, after)
