"""Facts: all that a decision may know, one frozen value at one position of the journal (P4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.reactions import guards
from tallystick.reactions.document import Definition

PATHS_MAX: Final = 32
MS: Final = 1_000_000


def guard_facts(
    definition: Definition, trigger: Mapping[str, Any], *, tripped: bool, expired: bool = False
) -> dict[str, bool]:
    """What the guards of the stages 4 and 6 say, and the end of a deferral; true refuses."""
    return {
        "untrusted": guards.is_untrusted(trigger),
        "hop_limit": guards.is_too_deep(definition, trigger),
        "reentry": guards.is_reentry(definition, trigger),
        "cross_world": guards.is_cross_world(trigger),
        "breaker_open": tripped,
        "defer_expired": expired,
    }


# tidy: one value, all of its fields.
def facts_of(
    definition: Definition,
    trigger: Mapping[str, Any],
    manifest: Mapping[str, Any],
    lane: Mapping[str, Any],
    at: Mapping[str, int],
) -> dict[str, Any]:
    """The facts of one evaluation; `at` is the only form in which time exists."""
    since = at["time"] - definition["breaker"]["window_ms"] * MS
    return {
        "node": dict(manifest["node"]),
        "changes": _changes(trigger["changes"]),
        "frames": dict(manifest["frames"]),
        "history": {
            "last_outcome": lane["last_outcome"],
            "last_input_digest": lane["last_input_digest"],
            "runs_in_window": len([start for start in lane["starts"] if start > since]),
            "failures_in_row": lane["failures_in_row"],
        },
        "guards": guard_facts(
            definition, trigger, tripped=lane["tripped"], expired=lane["expired"]
        ),
        "workspace": {
            "tree_id": trigger["tree_after"],
            "git_commit": manifest["git_commit"],
            "flags": list(trigger["flags"]),
        },
        "lane": {
            "mode": definition["mode"]["kind"],
            "queued": lane["queued"],
            "active": lane["active"],
            "evaluations": lane["evaluations"],
        },
        "params": dict(manifest["params"]),
        "at": dict(at),
    }


def _changes(changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "kinds": sorted({change["change"] for change in changes}),
        "count": len(changes),
        "paths": [change["path"] for change in changes[:PATHS_MAX]],
    }
