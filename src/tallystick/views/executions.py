"""Executions of playbooks as readers see them: how far one is, what it waits for, what it made."""

from __future__ import annotations

from typing import Any, Final

from tallystick.errors import UnknownName
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.playbooks.values import Kept
from tallystick.values import canon

WORKFLOW: Final = "sys/playbook@1"
SHOWN_MAX: Final = 65_536


# tidy: one answer, all of its fields.
def execution_show(world: World, name: str) -> dict[str, Any]:
    """One execution: status, runs, values, and every pending token with what it waits for."""
    cell = world.cell(CellId(WORKFLOW, canon.encode(name)))
    state = None if cell is None else world.state_of(cell)
    if state is None:
        raise UnknownName(
            f"no execution {name}", code="execution.unknown", where={"execution": name}
        )
    whole = canon.decode(state)
    net = whole["net"]
    tokens = net["tokens"]
    return {
        "execution": name,
        "status": net["status"] or net["phase"],
        "step_runs": net["counts"]["step_runs"],
        "iterations": iterations_of(whole),
        "ctx": {key: _read(world, row["v"]) for key, row in net["ctx"].items()},
        "results": {key: _read(world, row["v"]) for key, row in net["results"].items()},
        "failures": net["failures"],
        "reason": net["doom"],
        "pending": [
            {"token": key, "step": token["step"], "waits": token["waits"]}
            for key, token in tokens.items()
            if token["at"] == "pending"
        ],
        "marking": {
            "tokens": {key: [token["step"], token["at"]] for key, token in tokens.items()},
            "runs": {key: run["step"] for key, run in net["runs"].items()},
        },
        "as_of": world.seq,
    }


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
    data = world.blobs.get(canon.raw_of(kept["h"]))
    assert data is not None, "a state names only what is in the store"
    return canon.decode(data)


def execution_list(world: World) -> list[dict[str, Any]]:
    """Every execution in brief, by name; at most a thousand."""
    rows: list[dict[str, Any]] = []
    known = world.cells.get(WORKFLOW)
    for _, cell in () if known is None else known.entries(b""):
        state = world.state_of(cell)
        if state is not None:
            net = canon.decode(state)["net"]
            runs = sum(net["counts"]["step_runs"].values())
            row = {"execution": net["execution"], "status": net["status"] or net["phase"]}
            rows.append({**row, "step_runs": runs, "failures": len(net["failures"])})
        if len(rows) >= 1000:
            break
    return sorted(rows, key=lambda row: str(row["execution"]))
