"""The grants a cell holds: its workflow's bindings, or exactly what its parent passed on.

A spawned child that was given `caps` has these slots and no others (06 section 2).
Each derived grant names its parent, and the cell keeps the derived line, so revoking an ancestor
reaches every descendant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.authority.attenuate import attenuate
from tallystick.authority.denial import Denial
from tallystick.kernel.parts import Cell
from tallystick.kernel.world import World
from tallystick.model.catalogue import Grant, Workflow
from tallystick.values import canon

Grants = Mapping[str, Grant]

_NOTHING: Grants = {}


def slots_of(world: World, cell: Cell, workflow: Workflow) -> tuple[Grants, Grants]:
    """The grants in a cell's slots, and where ancestors are found by name."""
    active = world.active
    if cell.caps is None:
        return active.slots.get(workflow.name, _NOTHING), active.catalogue.grants
    derived = {name: _grant(world, name, raw) for name, raw in cell.caps["grants"].items()}
    known: dict[str, Grant] = {**active.catalogue.grants, **derived}
    slots = {slot: known[name] for slot, name in cell.caps["slots"].items() if name in known}
    return slots, known


def pass_on(
    world: World, cell: Cell, workflow: Workflow, caps: Mapping[str, Any], salt: bytes
) -> dict[str, Any] | Denial:
    """The `caps` of a child: each slot narrowed from one of the parent's, or why not."""
    slots, known = slots_of(world, cell, workflow)
    line = dict(cell.caps["grants"]) if cell.caps is not None else {}
    made: dict[str, str] = {}
    for slot, wish in sorted(caps.items()):
        parent = slots.get(wish["from"])
        if parent is None:
            message = f"slot {wish['from']} is not bound to a grant"
            return Denial("capability", "cap.unbound", message, path=wish["from"])
        name = f"{parent.name.split('~')[0]}~{canon.digest_of(salt + slot.encode()).hex()[:16]}"
        narrowed = attenuate(parent, wish.get("params"), wish.get("expires_ns"), name)
        if isinstance(narrowed, Denial):
            return narrowed
        line[name] = {
            "cap": narrowed.cap,
            "params": narrowed.params,
            "expires_ns": narrowed.expires_ns,
            "parent": parent.name,
            "hash": narrowed.hash,
        }
        made[slot] = name
    return {"slots": made, "grants": _needed(line, made, known)}


def _needed(line: dict[str, Any], made: dict[str, str], known: Grants) -> dict[str, Any]:
    """Only the derived grants that the child's slots descend from."""
    kept: dict[str, Any] = {}
    for start in made.values():
        name: str | None = start
        while name is not None and name in line and name not in kept:
            kept[name] = line[name]
            name = line[name]["parent"]
    assert all(g["parent"] in kept or g["parent"] in known for g in kept.values()), (
        "every derived grant descends from a known one"
    )
    return kept


def _grant(world: World, name: str, raw: Mapping[str, Any]) -> Grant:
    cap = world.active.catalogue.caps[raw["cap"]]
    return Grant(
        name=name,
        cap=cap.name,
        cap_hash=cap.hash,
        cap_type=cap.cap_type,
        params=raw["params"],
        expires_ns=raw["expires_ns"],
        parent=raw["parent"],
        hash=raw["hash"],
        order=cap.order,
        enforcer=cap.enforcer,
    )
