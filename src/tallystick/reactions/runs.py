"""Runs: attempts at a run key, each a list of hashes that ends in a terminal record (F-04, F-19).

An attempt is queued, running, then complete, failed or aborted, and after that it is locked: what
comes late is refused, and the hash over the attempt stays as it was (G7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import Conflict
from tallystick.reactions import guards, keys
from tallystick.reactions.ids import H, text

COMPLETE, FAILED, ABORTED = "complete", "failed", "aborted"
OVERTAKEN: Final = ("input_moved", "restart")
RUNTIME: Final = "tallystick"


class TerminalRunError(Conflict):
    """The attempt has ended: it takes no action, stamp or output any more."""

    default_code = "run.terminal"
    default_hint = "ask for a retry, which is a new attempt"


def is_overtaken(attempt: Mapping[str, Any]) -> bool:
    """True for an attempt that was given up because the files moved on, not because one said so.

    Its key is as good as untried: when the state comes back, so does the run.
    """
    return attempt["state"] == ABORTED and attempt["code"] in OVERTAKEN


def new_attempt(
    trigger: Mapping[str, Any], run_key: str, number: int, started: Mapping[str, Any]
) -> dict[str, Any]:
    """A running attempt; `started` holds its kind, its decision and the time."""
    return {
        "run_id": keys.run_id(run_key, number),
        "run_key": run_key,
        "label": keys.label(trigger, run_key, number),
        "attempt": number,
        "kind": started["kind"],
        "state": "running",
        "started_ns": started["now_ns"],
        "ended_ns": None,
        "decision_id": started["decision_id"],
        "trigger_id": trigger["trigger_id"],
        "actions": [],
        "result": None,
        "code": None,
        "run_root": None,
    }


def append(run: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Any]:
    """The attempt with one more action; refuses an attempt that has ended (G7)."""
    if guards.is_terminal(run):
        raise TerminalRunError(
            f"{run['label']} is {run['state']}",
            where={"run": run["run_id"], "action": action["name"]},
        )
    return {**run, "actions": [*run["actions"], dict(action)]}


def finish(run: Mapping[str, Any], state: str, ended: Mapping[str, Any]) -> dict[str, Any]:
    """The attempt in a terminal state, with the hash over all of it."""
    if guards.is_terminal(run):
        raise TerminalRunError(f"{run['label']} is {run['state']}", where={"run": run["run_id"]})
    made = {
        **run,
        "state": state,
        "ended_ns": ended["now_ns"],
        "code": ended["code"],
        "result": ended["result"],
    }
    made["run_root"] = run_root(made)
    return made


def run_root(run: Mapping[str, Any]) -> str:
    """The merkle list of an attempt: decision, actions in their order, terminal record."""
    terminal = {name: run[name] for name in ("run_id", "state", "code", "result", "ended_ns")}
    items = [
        run["decision_id"],
        *(text(H("action_record@1", **action)) for action in run["actions"]),
        text(H("terminal@1", **terminal)),
    ]
    return text(H("run_root@1", items=items))


# tidy: one object, all of its fields.
def provenance(
    run: Mapping[str, Any],
    trigger: Mapping[str, Any],
    manifest: Mapping[str, Any],
    outputs: Mapping[str, list[Any]],
) -> dict[str, Any]:
    """V1: where the outputs of an attempt come from, in hashes; `outputs` by action name."""
    return {
        "$type": "provenance@1",
        "reaction": trigger["reaction"],
        "definition_hash": trigger["definition_hash"],
        "run_id": run["run_id"],
        "run_key": run["run_key"],
        "run_root": run["run_root"],
        "decision_id": run["decision_id"],
        "trigger_id": trigger["trigger_id"],
        "root_trigger_id": trigger["root_trigger_id"],
        "parent_run": None if trigger["writer"] is None else trigger["writer"]["run_id"],
        "actor": dict(trigger["actor"]),
        "inputs": trigger["inputs"],
        "frames": {kind: row["frame_id"] for kind, row in manifest["frames"].items()},
        "actions": [
            {
                "action_key": action["action_key"],
                "name": action["name"],
                "outputs": outputs.get(action["name"], []),
                "receipt_id": action["receipt_id"],
            }
            for action in run["actions"]
        ],
        "tree_before": trigger["tree_before"],
        "tree_after": trigger["tree_after"],
        "git_commit": manifest["git_commit"],
        "world_id": trigger["world_id"],
        "runtime": RUNTIME,
    }
