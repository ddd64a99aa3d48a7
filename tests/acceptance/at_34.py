"""AT-34 fairness-order (RL-09, I17, I18): a hot cell keeps its order and starves nobody."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.cells import states
from tests.acceptance.kit.place import Place

FLOW = "tools/counter@1"


def run(bench: Bench) -> dict[str, Any]:
    """Fill the mailbox of one cell while it is suspended, let it go, and send to many others."""
    cold = [f"c{number}" for number in range(bench["cold"])]
    with Place(bench.fresh("node"), planted=bench.planted, world=zipped("tools")) as place:
        place.start()
        _send(place, [("hot", 1)])
        _operate(place, "suspend")
        _send(place, [("hot", n) for n in range(2, bench["hot"] + 1)])
        before = place.root()["seq"]
        _operate(place, "resume")
        _send(place, [(name, 1) for name in cold])
        place.ran()
        found = _waited(place, before)
        seen = states(place, FLOW)
        place.stop()
        again = place.tally("--json", "replay", "--from", "genesis", "--verify")
    return {
        "cells": len(seen),
        "hot": seen["hot"],
        "cold_done": sum(seen[name] == {"n": 1, "ordered": True} for name in cold),
        "longest_wait": max(found.values()),
        "bound": len(seen) + 1,
        "replay_exit": again.returncode,
    }


def _send(place: Place, pairs: list[tuple[str, int]]) -> None:
    for first in range(0, len(pairs), 100):
        values = [{"id": name, "n": n} for name, n in pairs[first : first + 100]]
        events = [{"schema": "tools/Count@1", "value": value} for value in values]
        status, said = place.ask("POST", "/v1/worlds/main/events", {"events": events})
        assert status in (202, 207), said


def _operate(place: Place, verb: str) -> None:
    path = f"/v1/worlds/main/cells/{quote(FLOW, '')}/hot/{verb}"
    status, said = place.ask("POST", path, {"reason": "a test"})
    assert status == 202, said


def _waited(place: Place, after: int) -> dict[str, int]:
    """How many ticks each cold cell waited between its event and its own tick."""
    came: dict[str, int] = {}
    waited: dict[str, int] = {}
    ticks = 0
    for row in sorted([*place.rows("event"), *place.rows("tick")], key=lambda row: int(row["seq"])):
        if row["seq"] <= after or row["key"] == "hot":
            ticks += row["kind"] == "tick"
            continue
        if row["kind"] == "event":
            came.setdefault(row["key"], ticks)
        else:
            ticks += 1
            waited[row["key"]] = ticks - came[row["key"]]
    return waited


def faults(found: dict[str, Any]) -> list[str]:
    """A number out of order, a cell that waited longer than a round, or a replay that differs."""
    wrong = []
    if not found["hot"]["ordered"]:
        wrong.append(f"the hot cell is {found['hot']}")
    if found["cold_done"] != found["cells"] - 1:
        wrong.append(f"{found['cold_done']} of {found['cells'] - 1} cold cells are done")
    if found["longest_wait"] > found["bound"]:
        wrong.append(f"a cold cell waited {found['longest_wait']} ticks")
    if found["replay_exit"]:
        wrong.append(f"the replay ended with {found['replay_exit']}")
    return wrong


CASE = Case(
    number="at-34",
    name="fairness-order",
    rows="RL-09 I17 I18",
    run=run,
    faults=faults,
    planted="mailbox_last_in_first_out",
    small={"hot": 300, "cold": 40},
    full={"hot": 5000, "cold": 999},
)
