"""The smallest world that plays: a manifest that binds the slots of `sys/playbook@1`.

What a playbook's tools may do is not in it: that is granted with each execution.
"""

from __future__ import annotations

from typing import Any, Final

from tallystick.model.bundle import Bundle, build_bundle
from tallystick.model.bundle_joined import joined

WORKFLOW: Final = "sys/playbook@1"
_POLICY: Final = "playbooks/allow@1"
_SLOTS: Final = {
    "step": "sys/effect@1",
    "timer": "sys/timer@1",
    "human": "sys/human@1",
    "flow": "sys/workflow@1",
}
# Args of a megabyte leave as a blob of the tick that makes their token.
_LIMITS: Final = {"output_bytes_max": 16 << 20}


def play_documents() -> list[dict[str, Any]]:
    """The sources of a world that plays: a policy and a manifest."""
    rule = {"id": "play", "when": {"workflow": WORKFLOW}, "decision": "allow"}
    return [
        {"$kind": "defpolicy", "name": _POLICY, "rules": [rule]},
        {
            "$kind": "manifest",
            "air_version": "2",
            "authority": {
                "grants": [{"name": f"play_{slot}", "cap": cap} for slot, cap in _SLOTS.items()],
                "policies": [_POLICY],
            },
            "limits": dict(_LIMITS),
            "module_bindings": {
                WORKFLOW: {"slots": {slot: f"play_{slot}" for slot in _SLOTS}},
            },
        },
    ]


def playing(bundle: Bundle) -> Bundle:
    """The same bundle in a world that also plays: its wiring first, then that of playbooks."""
    policy, ours = play_documents()
    return joined(bundle, policy, ours)


def play_bundle() -> Bundle:
    """The bundle of a world that plays and does nothing else."""
    return build_bundle(play_documents())
