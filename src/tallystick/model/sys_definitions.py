"""Our own definitions, read once from `model/sys/*.json`: the only file access of the pure rooms.

They are package data and constants: a published `sys/Name@n` never changes, a changed shape is
`@n+1`, and the golden hashes hold us to it.
So they are ambient, and a manifest need not list them.

Three effects have no grant fields of their own and use the plain type `effect`: `telemetry.emit`;
`cell.read`, because `reads` already names what may be read; and `effect.cancel`, because it only
reaches intents of its own cell.
No effect here has `timeout_ns`: it would run while an intent is held for approval, so the sixty
seconds of an attempt are the executor's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from tallystick.model.definitions import canonical, definition_hash

_FILES: Final = (
    *("envelopes", "payloads", "effects", "capabilities"),
    *("playbooks", "governance", "reactions"),
)


def _read() -> dict[tuple[str, str], dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    folder = resources.files("tallystick.model") / "sys"
    for file in _FILES:
        for raw in json.loads((folder / f"{file}.json").read_text("utf-8")):
            made = canonical(raw, ours=True)
            key = (made["$kind"], made["name"])
            assert key not in found, f"{key} is defined twice"
            found[key] = made
    return found


# (kind, name) -> canonical definition.
# Read at import, so that no run of the machine touches the disk.
DEFINITIONS: Final[Mapping[tuple[str, str], dict[str, Any]]] = _read()

_LATER: Final[Mapping[str, Any]] = {"create_if_missing": False}

# Ambient wiring of our own workflows; it comes after what a manifest lists.
SUBSCRIPTIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"event": "sys/PlayRequested@1", "workflow": "sys/playbook@1", "key_field": "execution"},
    {"event": "sys/PlayPublished@1", "workflow": "sys/playbook.catalog@1", "key_field": "path"},
    *(
        {
            "event": name,
            "workflow": "sys/playbook@1",
            "key_field": "execution",
            "create_if_missing": False,
        }
        for name in ("sys/PlayCtxPatch@1", "sys/PlaySignal@1", "sys/PlayCancel@1")
    ),
    *(
        {"event": f"sys/{event}@1", "workflow": f"sys/{flow}@1", "key_field": key, **more}
        for event, flow, key, more in (
            ("WorkspaceAdded", "workspace", "workspace_id", {}),
            ("ReactionsLoaded", "workspace", "workspace_id", _LATER),
            ("WorkspaceTrust", "workspace", "workspace_id", _LATER),
            ("Observed", "workspace", "workspace_id", _LATER),
            ("ReactionCommand", "workspace", "workspace_id", _LATER),
            ("StampMoved", "workspace", "workspace_id", _LATER),
            ("RunRequested", "workspace", "workspace_id", _LATER),
            ("RunSettled", "workspace", "workspace_id", _LATER),
            ("TriggerOffered", "lane", "target.target_id", {}),
            ("RunSettled", "lane", "target_id", _LATER),
            ("LaneControl", "lane", "target_id", _LATER),
            ("RunControl", "reaction", "run_key", _LATER),
            ("FramePut", "context", "locator_id", {}),
        )
    ),
)

# What the node's own rooms may send in, and nobody else (03 section 2).
SYSTEM_INPUTS: Final = frozenset(
    f"sys/{name}@1"
    for name in (
        "PlayRequested",
        "PlayPublished",
        "PlayCtxPatch",
        "PlaySignal",
        "WorkspaceAdded",
        "ReactionsLoaded",
        "WorkspaceTrust",
        "Observed",
        "ReactionCommand",
        "StampMoved",
        "FramePut",
    )
)

# What our own workflows may emit or send to each other; every other `sys/` event is the kernel's.
EMITTED: Final[Mapping[str, frozenset[str]]] = {
    f"sys/{flow}@1": frozenset(f"sys/{name}@1" for name in names)
    for flow, names in {
        "playbook": ("PlayRequested", "PlayCancel"),
        "workspace": (
            "TriggerOffered",
            "TriggerOutcome",
            "RunStart",
            "RunControl",
            "RunSettled",
            "LaneControl",
            "ReactionCommand",
        ),
        "lane": ("Decision", "RunRequested", "RunControl", "TriggerOutcome"),
        "reaction": (
            "RunSettled",
            "TriggerOutcome",
            "Provenance",
            "FramePut",
            "CommandAsked",
            "RunControl",
            "PlayRequested",
        ),
        "context": ("FrameHeadChanged", "TriggerOutcome"),
    }.items()
}


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """Our definitions of one kind, by name."""
    return {name: made for (k, name), made in DEFINITIONS.items() if k == kind}


@cache
def hash_of(kind: str, name: str) -> str:
    """The text hash of one of our definitions."""
    return definition_hash(DEFINITIONS[kind, name])


def type_of(name: str) -> Mapping[str, Any]:
    """The type expression of one of our schemas; KeyError when there is none of that name."""
    made: Mapping[str, Any] = DEFINITIONS["defschema", name]["type"]
    return made


@cache
def effect_kinds() -> Mapping[str, str]:
    """The older kind of each of our effects (`timer.set`) to its name."""
    return {made["impl"]["entrypoint"]: name for name, made in of_kind("defeffect").items()}
