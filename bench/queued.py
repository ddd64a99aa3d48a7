"""The tick of a workspace that has many runs waiting, by the length of its queue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions.cell import Turn
from tallystick.reactions.cell_workspace import ACTIVE_MAX, workspace
from tallystick.reactions.document import Definition, load
from tallystick.reactions.ids import H, text
from tallystick.values import canon

LENGTHS: Final = (0, 100, 1_000, 9_900)
TICKS: Final = 100
_REACTION: Final = """\
reaction: waits
on: [{files: ["src/**"]}]
actions: [{name: tell, telemetry.emit: {name: n}}]
"""


class Cell:
    """A workspace as bytes between its ticks, and the blobs that it keeps."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.state = b""
        self.definition = load(_REACTION, "waits.yaml")
        added = {"workspace_id": "ws", "name": "ws", "shared": False}
        self.tick("Added", added, first=True)
        loaded = {"blobs": [], "definitions": [self.definition.data]}
        self.tick("Loaded", loaded)
        self.tick("Trusted", {"definitions": [self.definition.hash], "follow": None})

    def tick(self, tag: str, value: Mapping[str, Any], *, first: bool = False) -> None:
        """One tick, from bytes to bytes."""
        turn = Turn(0, 0, "w", self.blobs.__getitem__, lambda *_: None)
        body = None if first else canon.decode(self.state)
        self.state = canon.encode(workspace(turn, body, tag, value))
        self.blobs.update(turn.blobs)

    def request(self, at: int) -> None:
        """One more run."""
        self.tick("Requested", requested(self.definition, at))


def requested(definition: Definition, at: int) -> dict[str, Any]:
    """What a lane asks for: a run of another state each."""
    name = text(H("bench@1", at=at))
    trigger = {
        "trigger_id": name,
        "root_trigger_id": name,
        "workspace_id": "ws",
        "reaction": definition.name,
        "definition_hash": definition.hash,
        "inputs": name,
        "depth": 0,
        "observed_n": 1,
        "changes": [],
        "target": {"kind": "workspace", "path": "", "name": "", "target_id": name},
    }
    return {"trigger": trigger, "run_key": name, "kind": "run", "decision_id": name}


def curve() -> dict[str, list[float]]:
    """Microseconds of a request and bytes of the state, at each length of the queue."""
    made: dict[str, list[float]] = {"queue": [], "queue_tick_us": [], "queue_state_bytes": []}
    cell, at = Cell(), 0
    while at < ACTIVE_MAX:
        cell.request(at)
        at += 1
    for length in LENGTHS:
        while at < length + ACTIVE_MAX:
            cell.request(at)
            at += 1
        spent: list[float] = []
        for _ in range(TICKS if length < LENGTHS[-1] else TICKS - ACTIVE_MAX):
            began = time.thread_time_ns()
            cell.request(at)
            spent.append((time.thread_time_ns() - began) / 1e3)
            at += 1
        made["queue"].append(length)
        made["queue_tick_us"].append(round(statistics.median(spent), 1))
        made["queue_state_bytes"].append(len(cell.state))
    return made
