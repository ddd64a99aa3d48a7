"""Executions of playbooks as readers see them: how far one is, what it waits for, what it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.kernel.grants import tools_of
from tallystick.kernel.parts import Cell
from tallystick.kernel.pins import known_workflow
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.playbooks.draw import drawn
from tallystick.playbooks.plan import Plan, plan_named
from tallystick.playbooks.values import Kept
from tallystick.playbooks.written import whole_of
from tallystick.values import canon
from tallystick.values.expr.static import reads

WORKFLOW: Final = "sys/playbook@1"
CATALOG: Final = "sys/playbook.catalog@1"
SHOWN_MAX: Final = 65_536
ROWS_MAX: Final = 1_000


def plays(world: World) -> bool:
    """True when the manifest binds what every step of a playbook asks for."""
    return "step" in world.active.slots.get(WORKFLOW, {})


# tidy: one answer, all of its fields.
def execution_show(world: World, name: str) -> dict[str, Any]:
    """One execution: status, runs, values, and every pending token with what it waits for."""
    cell = world.cell(CellId(WORKFLOW, canon.encode(name)))
    state = None if cell is None else world.state_of(cell)
    if cell is None or state is None:
        raise UnknownName(
            f"no execution {name}", code="execution.unknown", where={"execution": name}
        )
    whole = _state(world, state)
    net = whole["net"]
    tokens = net["tokens"]
    return {
        "execution": name,
        "document": whole["doc"],
        "status": _status(net),
        "step_runs": net["counts"]["step_runs"],
        "iterations": iterations_of(whole),
        "ctx": {key: _read(world, row["v"]) for key, row in net["ctx"].items()},
        "results": {key: _read(world, row["v"]) for key, row in net["results"].items()},
        "failures": net["failures"],
        "reason": net["doom"],
        "pending": [
            _pending(world, whole, key) for key in tokens if tokens[key]["at"] == "pending"
        ],
        "waiting": _waiting(net),
        "grants": _grants(world, cell),
        "marking": {
            "tokens": {key: [token["step"], token["at"]] for key, token in tokens.items()},
            "runs": {key: run["step"] for key, run in net["runs"].items()},
        },
        "as_of": world.seq,
    }


def _state(world: World, data: bytes) -> dict[str, Any]:
    """The state of an execution with its net in it."""
    return whole_of(canon.decode(data), lambda name: _blob(world, name))


def _grants(world: World, cell: Cell) -> list[dict[str, Any]]:
    """What the tools may do, by kind, under the names that revoke it."""
    gone, workflow = world.revoked, known_workflow(world, cell)
    held = {} if workflow is None else tools_of(world, cell, workflow)
    return [
        {
            "kind": kind,
            "name": grant.name,
            "params": dict(grant.params),
            "revoked": gone.get(grant.name, gone.get(grant.name.partition("~")[0])),
        }
        for kind, grant in sorted(held.items())
    ]


def plan_at(world: World, doc: str) -> Plan:
    """The plan of a document that the world holds."""
    return plan_named(doc, lambda name: _blob(world, name))


def _blob(world: World, name: str) -> bytes:
    data = world.blobs.get(canon.raw_of(name))
    assert data is not None, "a state names only what is in the store"
    return data


def _pending(world: World, whole: dict[str, Any], name: str) -> dict[str, Any]:
    """A token that a gate keeps: the rules in order, and the names and values that they read."""
    net = whole["net"]
    token = net["tokens"][name]
    rules = plan_at(world, whole["doc"]).steps[token["step"]]["admit"]
    guards = [rule["when"] for rule in rules if isinstance(rule.get("when"), str)]
    paths = [read.path for guard in guards for read in reads(guard)]
    waits = {".".join(path): _value(world, net, path) for path in paths}
    shown = [{"when": rule.get("when", "else"), "allow": rule["allow"]} for rule in rules]
    told = ", ".join(waits) or "nothing that can change"
    return {
        "token": name,
        "step": token["step"],
        "rules": shown,
        "waits": waits,
        "why": f"no rule of {token['step']} lets it in; asked again when this moves: {told}",
    }


def _value(world: World, net: dict[str, Any], path: tuple[str, ...]) -> Any:
    """What a path of a gate leads to now; None when it leads nowhere."""
    head, rest = path[0], path[1:]
    if head == "ctx" and rest and rest[0] in net["ctx"]:
        value, rest = _read(world, net["ctx"][rest[0]]["v"]), rest[1:]
    elif head in net["results"]:
        value = _read(world, net["results"][head]["v"])
    else:
        return None
    for part in rest:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _waiting(net: dict[str, Any]) -> list[dict[str, Any]]:
    """Tokens at joins, with who is still to come, and runs that wait for time, people or others."""
    rows: list[dict[str, Any]] = []
    for name, group in net["groups"].items():
        for step, join in group["joins"].items():
            here = [token for token in join["arrived"] if token in net["tokens"]]
            if here and not join["fired"]:
                why = f"{len(here)} of {group['live']} tokens and runs of {name} are here"
                rows.append({"step": step, "tokens": here, "for": "join", "why": why})
    for name, run in net["runs"].items():
        for unit in run["open"].values():
            wish = unit.get("wish")
            if wish is not None:
                rest = {key: wish[key] for key in ("name", "child", "seconds") if key in wish}
                row = {"step": run["step"], "run": name, "iteration": unit["i"]}
                rows.append({**row, "for": wish["kind"], **rest})
    return rows


def execution_graph(world: World, name: str, form: str) -> dict[str, Any]:
    """The net of an execution, drawn with its tokens and runs."""
    seen = execution_show(world, name)
    plan = plan_at(world, seen["document"])
    return {"format": form, "text": drawn(plan.document, form, seen["marking"])}


def born_seq(world: World, name: str) -> int:
    """The sequence at which an execution began."""
    cell = world.cell(CellId(WORKFLOW, canon.encode(name)))
    if cell is None:
        raise UnknownName(
            f"no execution {name}", code="execution.unknown", where={"execution": name}
        )
    return cell.born_seq


def catalog_list(world: World) -> list[dict[str, Any]]:
    """The playbooks that were published, by path, each with its versions; at most a thousand."""
    known = world.cells.get(CATALOG)
    rows: list[dict[str, Any]] = []
    for _, cell in () if known is None else known.entries(b""):
        state = world.state_of(cell)
        if state is not None and len(rows) < ROWS_MAX:
            rows.append(canon.decode(state))
    return sorted(rows, key=lambda row: str(row["path"]))


def published_document(world: World, path: str) -> bytes:
    """The newest version of a playbook by its path."""
    cell = world.cell(CellId(CATALOG, canon.encode(path)))
    state = None if cell is None else world.state_of(cell)
    if state is None:
        raise UnknownName(
            f"no playbook is published as {path}",
            code="playbook.unknown",
            where={"path": path},
            hint="publish it with POST W/playbooks, or send its text",
        )
    return _blob(world, canon.decode(state)["versions"][-1]["hash"])


def iterations_of(state: dict[str, Any]) -> dict[str, int]:
    """The iterations that each step has begun: of loops that are over, and of those that run."""
    net = state["net"]
    found: dict[str, int] = dict(net["counts"]["iterations"])
    for name, loop in state["loops"].items():
        step = net["runs"][name]["step"]
        found[step] = found.get(step, 0) + loop["next"]
    return found


def _read(world: World, kept: Kept) -> Any:
    """A kept value; a large one by reference."""
    if "h" not in kept:
        return kept["v"]
    if "shell" in kept:
        return kept["shell"]
    if kept["n"] > SHOWN_MAX:
        return {"_ref": {"kind": "result_ref", "ref": kept["h"], "bytes": kept["n"]}}
    return canon.decode(_blob(world, kept["h"]))


def _status(net: Mapping[str, Any]) -> str:
    """How an execution ended; until its final step has, which phase it is in."""
    return str(net["status"] if net["phase"] == "done" else net["phase"])


def execution_list(world: World) -> list[dict[str, Any]]:
    """Every execution in brief, by name; at most a thousand."""
    rows: list[dict[str, Any]] = []
    known = world.cells.get(WORKFLOW)
    for _, cell in () if known is None else known.entries(b""):
        state = world.state_of(cell)
        if state is not None:
            net = _state(world, state)["net"]
            runs = sum(net["counts"]["step_runs"].values())
            row = {"execution": net["execution"], "status": _status(net)}
            rows.append({**row, "step_runs": runs, "failures": len(net["failures"])})
        if len(rows) >= ROWS_MAX:
            break
    return sorted(rows, key=lambda row: str(row["execution"]))
