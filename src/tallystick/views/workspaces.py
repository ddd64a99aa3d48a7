"""Workspaces, reactions, runs, decisions and stamps as readers see them (08 section 13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.reactions.document import Definition, definition_of
from tallystick.values import canon

WORKSPACE: Final = "sys/workspace@1"
LANE: Final = "sys/lane@1"
RUN: Final = "sys/reaction@1"
CONTEXT: Final = "sys/context@1"
ROWS_MAX: Final = 1000


def reacts(world: World) -> bool:
    """True when the manifest binds what a workspace starts its runs by."""
    return "start" in world.active.slots.get(WORKSPACE, {})


def workspace_body(world: World, workspace_id: str) -> dict[str, Any]:
    """What the cell of a workspace holds; UnknownName when the world has none."""
    body = _body(world, WORKSPACE, workspace_id)
    if body is None:
        raise UnknownName(
            f"this world has no workspace {workspace_id}",
            code="workspace.unknown",
            where={"workspace": workspace_id},
        )
    return body


def _body(world: World, workflow: str, key: str) -> dict[str, Any] | None:
    cell = world.cell(CellId(workflow, canon.encode(key)))
    state = None if cell is None else world.state_of(cell)
    if state is None:
        return None
    found: dict[str, Any] = canon.decode(state)["body"]
    return found


def lane_body(world: World, target_id: str) -> dict[str, Any] | None:
    """What the lane of a target holds."""
    return _body(world, LANE, target_id)


def run_body(world: World, run_key: str) -> dict[str, Any] | None:
    """What the cell of a run key holds."""
    return _body(world, RUN, run_key)


def attempts(world: World) -> dict[str, dict[str, Any]]:
    """Every attempt of a world by its run id."""
    return {row["run_id"]: row for body in bodies(world, RUN) for row in body["attempts"]}


def bodies(world: World, workflow: str) -> Iterator[dict[str, Any]]:
    """What every cell of one of our workflows holds, in the order of the index."""
    known = world.cells.get(workflow)
    for _, cell in () if known is None else known.entries(b""):
        state = world.state_of(cell)
        if state is not None:
            yield canon.decode(state)["body"]


def definition_in(world: World, hash_text: str) -> Definition | None:
    """A definition by its hash; None when its bytes are not here."""
    data = world.blobs.get(canon.raw_of(hash_text))
    return None if data is None else definition_of(data)


def workspace_list(world: World) -> list[dict[str, Any]]:
    """Every workspace of a world in brief."""
    return sorted((workspace_row(body) for body in bodies(world, WORKSPACE)), key=_by_id)


def _by_id(row: Mapping[str, Any]) -> str:
    return str(row["workspace_id"])


def workspace_row(body: Mapping[str, Any]) -> dict[str, Any]:
    """One workspace in brief."""
    return {
        "workspace_id": body["workspace_id"],
        "name": body["name"],
        "shared": body["shared"],
        "n": body["n"],
        "tree": None if body["tree"] is None else body["tree"]["blob"],
        "reactions": len(body["reactions"]),
        "follow": body["follow"],
        "queued": body["queued"],
        "active": len(body["active"]),
    }


# ---- reactions ------------------------------------------------------------------------------


def reaction_list(world: World) -> list[dict[str, Any]]:
    """Every loaded reaction of every workspace."""
    rows = []
    for body in bodies(world, WORKSPACE):
        for name, held in sorted(body["reactions"].items()):
            rows.append(_reaction_row(world, body, name, held["blob"]))
    return rows


def _reaction_row(world: World, body: Mapping[str, Any], name: str, wanted: str) -> dict[str, Any]:
    definition = definition_in(world, wanted)
    return {
        "reaction": name,
        "workspace_id": body["workspace_id"],
        "workspace": body["name"],
        "definition_hash": wanted,
        "trusted": bool(body["follow"] or wanted in body["pins"]),
        "enabled": name not in body["disabled"]
        and (definition is None or bool(definition["enabled"])),
        "summary": "" if definition is None else definition["summary"],
        "owners": [] if definition is None else list(definition["owners"]),
        "tags": [] if definition is None else list(definition["tags"]),
        "queued": body["queue"].get(name, {"n": 0})["n"],
        "active": sum(row["reaction"] == name for row in body["active"].values()),
    }


def reaction_show(world: World, name: str) -> dict[str, Any]:
    """One reaction with its form and its lanes; UnknownName when none is called so."""
    for body in bodies(world, WORKSPACE):
        held = body["reactions"].get(name)
        if held is not None:
            definition = definition_in(world, held["blob"])
            lanes = [_lane_row(lane) for lane in bodies(world, LANE) if lane["reaction"] == name]
            form = None if definition is None else dict(definition.form)
            row = _reaction_row(world, body, name, held["blob"])
            return {**row, "form": form, "lanes": lanes[:ROWS_MAX], "as_of": world.seq}
    raise UnknownName(
        f"no reaction {name}",
        code="reaction.unknown",
        where={"reaction": name},
        hint="tally reaction ls lists those that are loaded",
    )


def _lane_row(lane: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "target_id": lane["target_id"],
        "breaker": lane["breaker"]["state"],
        "waiting": len(lane["waiting"]),
        "active": sorted(lane["active"]),
        "deferred": lane["deferred"] is not None,
        "last_outcome": lane["last_outcome"],
    }


def breakers_open(world: World, workspace_id: str) -> int:
    """How many lanes of a workspace let nothing pass."""
    lanes = [lane for lane in bodies(world, LANE) if lane["workspace_id"] == workspace_id]
    return sum(lane["breaker"]["state"] == "open" for lane in lanes)


# ---- runs -----------------------------------------------------------------------------------


def run_list(world: World, reaction: str | None = None) -> list[dict[str, Any]]:
    """Attempts, newest first; at most a thousand."""
    rows = [_run_row(body, attempt) for body in bodies(world, RUN) for attempt in body["attempts"]]
    if reaction is not None:
        rows = [row for row in rows if row["reaction"] == reaction]
    return sorted(rows, key=lambda row: -int(row["started_ns"]))[:ROWS_MAX]


def _run_row(body: Mapping[str, Any], attempt: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": attempt["run_id"],
        "run_key": attempt["run_key"],
        "label": attempt["label"],
        "reaction": attempt["label"].partition("@")[0].partition("/")[0],
        "workspace_id": body["workspace_id"],
        "attempt": attempt["attempt"],
        "kind": attempt["kind"],
        "state": attempt["state"],
        "code": attempt["code"],
        "started_ns": attempt["started_ns"],
        "ended_ns": attempt["ended_ns"],
        "actions": len(attempt["actions"]),
    }


def run_show(world: World, name: str) -> dict[str, Any]:
    """One attempt by its id, the beginning of its id, or its label."""
    found = []
    for body in bodies(world, RUN):
        for attempt in body["attempts"]:
            ident = attempt["run_id"].partition(":")[2]
            if name in (attempt["run_id"], attempt["label"]) or (
                len(name) >= 6 and ident.startswith(name.removeprefix("sha256:"))
            ):
                found.append({**attempt, "workspace_id": body["workspace_id"], "as_of": world.seq})
    if len(found) != 1:
        raise UnknownName(
            f"no run {name}" if not found else f"{name} means several runs",
            code="run.unknown",
            where={"run": name},
            hint="tally reaction runs lists them",
        )
    return found[0]


def frame_list(world: World, workspace_id: str | None, path: str | None) -> list[dict[str, Any]]:
    """The frame heads of a world, by place and type."""
    rows = []
    for body in bodies(world, CONTEXT):
        if workspace_id not in (None, body["workspace_id"]) or path not in (None, body["path"]):
            continue
        for kind, head in sorted(body["heads"].items()):
            frame = canon.decode(world.blobs.get(canon.raw_of(head["frame"]["blob"])) or b"")
            rows.append(
                {
                    "workspace_id": body["workspace_id"],
                    "path": body["path"],
                    "type": kind,
                    "frame_id": head["frame_id"],
                    "content_id": frame["content_id"],
                    "author": frame["author"],
                    "basis": frame["basis"],
                    "past": len(body["past"].get(kind, ())),
                }
            )
    return sorted(rows, key=lambda row: (row["workspace_id"], row["path"], row["type"]))
