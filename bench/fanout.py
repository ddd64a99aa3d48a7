"""Join: one parent calls many children in one tick and hears from each; cost per child."""

from __future__ import annotations

from typing import Any

from bench.windows import Stopwatch, Timed

from tallystick.modules.python import Outcome
from tallystick.values import canon
from tests import worlds
from tests.rig import Rig

PARENT = "t/parent@1"
CHILD = "t/child@1"
START = "t/Start@1"
WORK = "t/Work@1"
LIMITS = {
    "effects_max": 20_000,
    "inflight_max": 20_000,
    "output_bytes_max": 16_000_000,
    "state_bytes_max": 1_000_000,
}


def documents() -> list[dict[str, Any]]:
    """Definitions of parent and child."""
    slots = {"cap_slots": {"flow": "workflow"}, "effects_emitted": [worlds.CALL]}
    return [
        worlds.schema("t/Name@1", worlds.TEXT),
        worlds.schema(START, worlds.record(id=worlds.TEXT, children=worlds.NAT)),
        worlds.schema(WORK, worlds.record(id=worlds.TEXT)),
        worlds.schema("t/Heard@1", worlds.arms(Start=START, Receipt=worlds.RECEIPT)),
        worlds.schema("t/Open@1", worlds.record(open=worlds.NAT)),
        worlds.schema("t/Done@1", worlds.record(id=worlds.TEXT)),
        worlds.module(),
        worlds.workflow(PARENT, "t/Open@1", "t/Heard@1", key_schema="t/Name@1", **slots),
        worlds.workflow(CHILD, "t/Done@1", WORK, key_schema="t/Name@1"),
        worlds.ALLOW,
        worlds.manifest(
            [{"event": START, "workflow": PARENT, "key_field": "id"}],
            limits=LIMITS,
            **worlds.allow_all("sys/workflow@1", bindings={PARENT: {"flow": "workflow"}}),
        ),
    ]


def _call(name: str) -> dict[str, Any]:
    payload = {"schema": WORK, "value": canon.encode({"id": name})}
    params = {"workflow": CHILD, "key": canon.encode(name), "payload": payload, "caps": None}
    return {"effect": worlds.CALL, "params": params, "cap_slot": "flow"}


def parent(state: Any, event: Any, _ctx: Any) -> Outcome:
    """Call every child; done when each has been heard."""
    value = event["$value"]
    if event["$tag"] == "Start":
        calls = [_call(f"k-{number}") for number in range(value["children"])]
        return Outcome({"open": len(calls)}, effects=calls)
    left = state["open"] - 1
    return Outcome({"open": left}, status="running" if left else "completed")


def child(_state: Any, event: Any, _ctx: Any) -> Outcome:
    """Be done."""
    return Outcome({"id": event["id"]}, status="completed")


FUNCTIONS = {("t/code@1", "parent"): parent, ("t/code@1", "child"): child}


def join(children: int) -> Timed:
    """The run from the event that starts the parent to the parent's end."""
    rig = Rig(documents(), FUNCTIONS)
    watch = Stopwatch(children)
    rig.send(START, {"id": "p", "children": children})
    watch.add(children)
    timed = watch.stop()
    assert rig.state(PARENT, "p") == {"open": 0}
    assert rig.cell(PARENT, "p").status == "completed"
    return timed
