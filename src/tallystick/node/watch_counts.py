"""What `/metrics` shows of workspaces and reactions (08 section 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import EventAdmitted
from tallystick.node.metrics import Labels, Metrics
from tallystick.node.workspaces import Kept, Place
from tallystick.values import canon

if TYPE_CHECKING:  # a lookout counts with this
    from tallystick.node.lookout import Lookout


def count_outcomes(metrics: Metrics, kept: Kept, frame: Sealed) -> bool:
    """Count how triggers of a workspace ended in a frame; True when a breaker opened."""
    alerted = False
    for record in open_frame(frame.body)[3]:
        if not isinstance(record, EventAdmitted) or record.schema != "sys/TriggerOutcome@1":
            continue
        if record.value is None:
            continue  # an outcome is small; one in the store is none that we know
        told = canon.decode(record.value)
        if told["workspace_id"] != kept.workspace_id:
            continue
        metrics.count(
            "tally_reaction_outcomes_total",
            reaction=told["reaction"],
            outcome=told["outcome"],
            code=told["code"] or "",
        )
        if told["guard"] is not None:
            metrics.count("tally_reaction_guard_total", guard=told["guard"])
        alerted = alerted or told["outcome"] == "alert"
    return alerted


def watch_gauges(metrics: Metrics, lookouts: Mapping[Place, Lookout]) -> None:
    """Let the gauges of all workspaces be asked for."""

    def rows(field: str) -> Mapping[Labels, float]:
        return {
            (("workspace", workspace), ("world", world)): float(getattr(each, field))
            for (world, workspace), each in lookouts.items()
        }

    metrics.gauge("tally_watch_dirty_paths", lambda: rows("dirty"))
    metrics.gauge("tally_reaction_queue_depth", lambda: rows("queued"))
    metrics.gauge("tally_reaction_breaker_open", lambda: rows("breakers"))
