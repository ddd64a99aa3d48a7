"""The world that reacts: a manifest that binds the slots of the cells of reactions.

What a run may do is narrowed from these grants when it is started, to its definition and target.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.model.bundle import Bundle, build_bundle
from tallystick.model.bundle_joined import joined

_POLICY: Final = "reactions/allow@1"
_CAPS: Final = {
    "read": "sys/file@1",
    "write": "sys/file@1",
    "llm": "sys/llm@1",
    "plain": "sys/effect@1",
    "workflow": "sys/workflow@1",
    "http": "sys/http.out@1",
    "shell": "sys/shell@1",
    "python": "sys/python@1",
    "sql": "sys/sql@1",
    "timer": "sys/timer@1",
    "human": "sys/human@1",
}
FLOWS: Final = ("sys/workspace@1", "sys/lane@1", "sys/reaction@1", "sys/context@1")
PLAYBOOK: Final = "sys/playbook@1"
# Of a playbook that nobody called; one that a run calls is given slots of its own.
_PLAYED: Final = {
    "step": "react_plain",
    "timer": "react_timer",
    "human": "react_human",
    "flow": "react_workflow",
}
# An observation carries what a storm of ten thousand files leaves, in one journal frame.
LIMITS: Final = {
    "event_bytes_max": 16 << 20,
    "output_bytes_max": 16 << 20,
    "state_bytes_max": 16 << 20,
    "params_bytes_max": 4 << 20,
    "events_max": 30_000,
    "effects_max": 1_024,
}


def reaction_documents() -> list[dict[str, Any]]:
    """The sources of a world that reacts: a policy and a manifest."""
    slots = {slot: f"react_{slot}" for slot in _CAPS}
    grants = [{"name": f"react_{slot}", "cap": cap} for slot, cap in _CAPS.items()]
    start = {"name": "react_start", "cap": "sys/workflow@1", "params": {"workflows": [FLOWS[2]]}}
    rules = [
        {"id": flow.split("@")[0][4:], "when": {"workflow": flow}, "decision": "allow"}
        for flow in (*FLOWS, PLAYBOOK)
    ]
    return [
        {"$kind": "defpolicy", "name": _POLICY, "rules": rules},
        {
            "$kind": "manifest",
            "air_version": "2",
            "authority": {"grants": [*grants, start], "policies": [_POLICY]},
            "limits": dict(LIMITS),
            "module_bindings": {
                FLOWS[0]: {"slots": {**slots, "start": "react_start"}},
                FLOWS[1]: {"slots": {"timer": "react_timer", "plain": "react_plain"}},
                PLAYBOOK: {"slots": dict(_PLAYED)},
            },
        },
    ]


def reacting(bundle: Bundle) -> Bundle:
    """The same bundle in a world that also reacts: its wiring first, then that of reactions."""
    policy, ours = reaction_documents()
    return joined(bundle, policy, ours)


def reaction_bundle() -> Bundle:
    """The bundle of a world that reacts and does nothing else."""
    return build_bundle(reaction_documents())
