"""Why a file is as it is: from the bytes on disk back to whoever began it (08 section 11, V3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.reactions.tree import shown
from tallystick.views.reactive import Noted, Reactive

STEPS_MAX: Final = 64


class Asked(NamedTuple):
    """Which file, and what it holds now; None when there is none."""

    workspace_id: str
    path: bytes
    content_id: str | None


# tidy: one answer for each state of a file.
def why(view: Reactive, runs: Mapping[str, Mapping[str, Any]], asked: Asked) -> dict[str, Any]:
    """Who wrote these bytes, and what led to that, step by step.

    `runs` are attempts by their id.
    `known` is false for a path without any record.
    """
    stamps = view.stamps.by_path(asked.workspace_id, asked.path)
    matching = view.stamps.matching(asked.workspace_id, asked.path, asked.content_id)
    base: dict[str, Any] = {
        "path": shown(asked.path),
        "workspace_id": asked.workspace_id,
        "content_id": asked.content_id,
        "known": True,
        "state": "generated",
        "run": None,
        "label": None,
        "reaction": None,
        "because": [],
    }
    if matching is not None:
        label = runs.get(matching.run_id, {}).get("label", matching.run_id)
        told = {"run": matching.run_id, "label": label, "reaction": matching.reaction}
        return {**base, **told, "because": _chain(view, runs, matching.run_id)}
    if any(not stamp.is_live for stamp in stamps):
        return {**base, "state": "adopted", "reaction": stamps[0].reaction}
    if stamps:
        last = stamps[0]
        label = runs.get(last.run_id, {}).get("label", last.run_id)
        told = {"run": last.run_id, "label": label, "reaction": last.reaction}
        state = "deleted" if asked.content_id is None else "edited"
        return {**base, **told, "state": state, "because": _chain(view, runs, last.run_id)}
    seen = _seen(view, asked)
    if seen is None:
        return {**base, "known": False, "state": "unknown"}
    return {**base, "state": "external", "because": [seen]}


def _seen(view: Reactive, asked: Asked) -> dict[str, Any] | None:
    """The newest trigger that saw an external change of a path."""
    path = shown(asked.path)
    for noted in reversed(view.triggers.values()):
        trigger = noted.value
        if trigger["workspace_id"] == asked.workspace_id:
            for change in trigger["changes"]:
                if change["path"] == path and trigger["cause"] == "external":
                    return _changed(noted, [change])
    return None


def _chain(
    view: Reactive, runs: Mapping[str, Mapping[str, Any]], run_id: str
) -> list[dict[str, Any]]:
    """What led to a run, back to what came from outside."""
    found: list[dict[str, Any]] = []
    seen: dict[str, None] = {}
    while run_id not in seen and len(found) < STEPS_MAX:
        seen[run_id] = None
        told = view.provenance.get(run_id)
        if told is None:
            break
        made = told.value["object"]
        noted = view.triggers.get(made["trigger_id"])
        if noted is None:
            break
        trigger = noted.value
        label = runs.get(run_id, {}).get("label", run_id)
        decision = view.decisions.get(made["decision_id"] or "")
        reasons = [] if decision is None else [row["code"] for row in decision.value["reasons"]]
        found.append(
            {**cause_of(noted), "ran": label, "decision": reasons, "depth": trigger["depth"]}
        )
        parent = made["parent_run"]
        if parent is None:
            break
        run_id = parent
    return found


def cause_of(noted: Noted) -> dict[str, Any]:
    """What a trigger came of, in words, with who and when."""
    trigger = noted.value
    if trigger["frame"] is not None:
        frame = trigger["frame"]
        return {
            "what": "frame",
            "text": f"frame {frame['type']} of {trigger['target']['path']} moved",
            "actor": trigger["actor"],
            "cause": trigger["cause"],
            "at_ns": trigger["observed_at"],
        }
    if trigger["kind"] in ("command", "schedule"):
        return {
            "what": trigger["kind"],
            "text": f"{trigger['kind']} for {trigger['target']['path'] or 'the workspace'}",
            "actor": trigger["actor"],
            "cause": trigger["cause"],
            "at_ns": trigger["observed_at"],
        }
    return _changed(noted, trigger["changes"])


def _changed(noted: Noted, changes: list[dict[str, Any]]) -> dict[str, Any]:
    trigger = noted.value
    told = ", ".join(f"{change['path']} {change['change']}" for change in changes[:3])
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    return {
        "what": "files",
        "text": told + more,
        "actor": trigger["actor"],
        "cause": trigger["cause"],
        "at_ns": trigger["observed_at"],
    }
