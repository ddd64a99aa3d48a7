"""The smallest world: a keyed counter without effects, one tick an event."""

from __future__ import annotations

from typing import Any

from tests import worlds

COUNTER = "t/counter@1"
ADDED = "t/Added@1"


def documents() -> list[dict[str, Any]]:
    """Definitions of the counter."""
    return [
        worlds.schema("t/Name@1", worlds.TEXT),
        worlds.schema(ADDED, worlds.record(name=worlds.TEXT, by=worlds.NAT)),
        worlds.schema("t/Count@1", worlds.record(count=worlds.NAT)),
        worlds.module(),
        worlds.workflow(COUNTER, "t/Count@1", ADDED, key_schema="t/Name@1", lifecycle="entity"),
        worlds.manifest([{"event": ADDED, "workflow": COUNTER, "key_field": "name"}]),
    ]


def count(state: Any, event: Any, _ctx: Any) -> dict[str, int]:
    """Add."""
    return {"count": (0 if state is None else state["count"]) + event["by"]}


FUNCTIONS = {("t/code@1", "counter"): count}
