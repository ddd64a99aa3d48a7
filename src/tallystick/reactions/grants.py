"""What a trusted definition may do for one target: the grants that its run is started with (D6).

They are narrowed from what the workspace cell holds, so admission judges every action by them, and
the executor judges the real path again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.reactions import scopes
from tallystick.reactions.document import Definition

# Which slot of a run each kind of action uses.
SLOTS: Final = {
    "file.read": "read",
    "file.write": "write",
    "file.delete": "write",
    "provider.call": "llm",
    "telemetry.emit": "plain",
    "playbook.run": "workflow",
}
PROPOSED: Final = ".proposed"


def caps_of(definition: Definition, workspace_id: str, target: bytes) -> dict[str, Any]:
    """The `caps` of the spawn that starts a run: one narrowed grant for each slot it needs."""
    reads = scopes.below(definition, definition["reads"]["files"], target)
    writes = scopes.below(definition, definition["writes"]["files"], target)
    used = {action["kind"] for action in definition["actions"]}
    # Its clock is set by the first and stopped by the second.
    made: dict[str, Any] = {slot: _grant(slot, None) for slot in ("timer", "plain")}
    # Outputs are read again, to see whether they still stand as recorded (R8).
    if reads or writes:
        made["read"] = _grant("read", _file(workspace_id, ["read"], [*reads, *writes]))
    if writes:
        beside = [glob + PROPOSED for glob in writes] if _proposes(definition) else []
        made["write"] = _grant(
            "write", _file(workspace_id, ["write", "delete"], [*writes, *beside])
        )
    for kind, slot in SLOTS.items():
        if kind in used and slot not in ("read", "write"):
            made[slot] = _grant(slot, _params(definition, kind))
    if "playbook.run" in used:
        made["human"] = _grant("human", None)
        made |= {kind: _grant(kind, params or None) for kind, params in _allowed(definition)}
    for row in definition["adapters"].values():
        made[row["slot"]] = _grant(row["slot"], row.get("cap"))
    return made


def _grant(slot: str, params: dict[str, Any] | None) -> dict[str, Any]:
    return {"from": slot, "params": params, "expires_ns": None}


def _file(workspace_id: str, ops: list[str], wanted: list[str]) -> dict[str, Any]:
    globs = [glob.removeprefix("./") for glob in wanted]
    return {"roots": [workspace_id], "ops": sorted(ops), "globs": sorted(set(globs))}


def _proposes(definition: Definition) -> bool:
    asked = [action["params"].get("on_user_edit") for action in definition["actions"]]
    return "propose_file" in (definition["on_user_edit"], *asked)


def _allowed(definition: Definition) -> Iterator[tuple[str, dict[str, Any]]]:
    for action in definition["actions"]:
        if action["kind"] == "playbook.run":
            yield from action["params"]["allow"].items()


# ---- a playbook that a run calls ------------------------------------------------------------

_CHILD: Final = {"step": "plain", "timer": "timer", "human": "human", "flow": "workflow"}
# The worker of a step has no files: the cell asks for them, with a stamp.
_NO_FILES: Final[Mapping[str, list[str]]] = {"roots": [], "ops": []}


def child_caps(definition: Definition, allow: Mapping[str, Any]) -> dict[str, Any]:
    """The slots of a playbook: what it needs to play, its tools, and the files of the run."""
    made = {slot: _grant(source, None) for slot, source in _CHILD.items()}
    reads, writes = definition["reads"]["files"], definition["writes"]["files"]
    if reads or writes:
        made["read"] = _grant("read", None)
        made["tool.file"] = _grant("read", dict(_NO_FILES))
    if writes:
        made["write"] = _grant("write", None)
    return made | {f"tool.{kind}": _grant(kind, params or None) for kind, params in allow.items()}


def _params(definition: Definition, kind: str) -> dict[str, Any] | None:
    if kind == "playbook.run":
        return {"workflows": ["sys/playbook@1"]}
    if kind == "provider.call":
        models = [a["params"]["model"] for a in definition["actions"] if a["kind"] == kind]
        # A model that a template chooses cannot be named here; then the world's own grant decides.
        if all(isinstance(model, str) and "{{" not in model for model in models):
            return {"models": sorted(set(models))}
    return None
