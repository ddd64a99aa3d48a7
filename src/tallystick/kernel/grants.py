"""The grants a cell holds: its workflow's bindings, or exactly what its parent passed on.

A spawned child that was given `caps` has these slots and no others (06 section 2).
Grants that were minted for a cell stand beside the bindings of its workflow.
Each derived grant names its parent, and the cell keeps the derived line, so revoking an ancestor
reaches every descendant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.authority.attenuate import attenuate
from tallystick.authority.denial import Denial
from tallystick.authority.enforcers import EnforcerAnswer
from tallystick.errors import SchemaMismatch
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import PLAY_STEP, Cell, Intent
from tallystick.kernel.pins import workflow_of
from tallystick.kernel.world import World
from tallystick.model.abi import Halted
from tallystick.model.catalogue import Grant, Workflow
from tallystick.model.cells import CellId
from tallystick.values import canon

Grants = Mapping[str, Grant]

_NOTHING: Grants = {}
TOOL: Final = "tool."  # the slots of a playbook's tools begin like this
HELD_MAX: Final = 1024
EVERY: Final = "*"  # passes every slot on as it is


def slots_of(world: World, cell: Cell, workflow: Workflow) -> tuple[Grants, Grants]:
    """The grants in a cell's slots, and where ancestors are found by name."""
    active = world.active
    if cell.caps is None:
        return active.slots.get(workflow.name, _NOTHING), active.catalogue.grants
    kept = active.held.get(cell.id)
    if kept is not None and kept[0] is cell.caps:
        return kept[1], kept[2]
    slots, known = _resolved(world, cell, workflow)
    if len(active.held) >= HELD_MAX:
        active.held.clear()
    active.held[cell.id] = (cell.caps, slots, known)
    return slots, known


def _resolved(world: World, cell: Cell, workflow: Workflow) -> tuple[Grants, Grants]:
    active = world.active
    caps = active.catalogue.caps  # an upgrade may have taken one away: what was of it gives nothing
    held = cell.caps["grants"].items()
    derived = {name: _grant(world, name, raw) for name, raw in held if raw["cap"] in caps}
    known: dict[str, Grant] = {**active.catalogue.grants, **derived}
    slots = {slot: known[name] for slot, name in cell.caps["slots"].items() if name in known}
    if "beside" in cell.caps:
        slots = {**active.slots.get(workflow.name, _NOTHING), **slots}
    return slots, known


def enforced(world: World, grant: Grant, question: Mapping[str, Any]) -> EnforcerAnswer:
    """Ask an enforcer that a bundle brings; its fault denies."""
    assert grant.enforcer is not None, "only a grant with an enforcer is asked"
    asked = canon.encode(dict(question))
    answer = world.runner.pure(world.active.catalogue, *grant.enforcer, asked, None)
    if isinstance(answer, Halted):
        raise SchemaMismatch(answer.message, code="cap.enforcer_fault")
    said = canon.decode(answer)
    yes, field = said["ok"] is True, said.get("field")
    if field is not None and type(field) is not str:  # a denial is a record: its path is a text
        raise SchemaMismatch("a verdict names its field by a text", code="cap.enforcer_fault")
    return EnforcerAnswer(yes, field, said.get("message"))


def tools_of(world: World, cell: Cell, workflow: Workflow) -> dict[str, Grant]:
    """The grants of a cell's tools, by the kind of tool."""
    slots, _ = slots_of(world, cell, workflow)
    size = len(TOOL)
    return {slot[size:]: grant for slot, grant in slots.items() if slot.startswith(TOOL)}


def is_known(world: World, name: str) -> bool:
    """True for the name of a grant that the manifest lists or that was minted for a cell."""
    if name in world.active.catalogue.grants:
        return True
    _, found, owner = name.partition("@")
    key = canon.encode(owner)
    for workflow in world.cells if found else ():
        cell = world.cell(CellId(workflow, key))
        if cell is not None and cell.caps is not None and name in cell.caps["grants"]:
            return True
    return False


def grants_used(world: World, intent: Intent) -> list[str]:
    """The names of the grants that an open intent lives by, and of those they derive from."""
    judged, origin = intent.record.judged.capability, intent.record.origin
    found = [] if judged is None else [judged.grant]
    if intent.record.effect == PLAY_STEP:
        cell = world.cell(CellId(origin.workflow, origin.key))
        assert cell is not None, "a cell with open intents exists"
        held = tools_of(world, cell, workflow_of(world, cell))
        kinds = _kinds(world, intent)
        found += [held[kind].name for kind in kinds if kind in held]
    return [*found, *(name.partition("~")[0] for name in found)]


def _kinds(world: World, intent: Intent) -> list[str]:
    params = intent.record.params
    if params is None:
        assert intent.record.params_hash is not None, "parameters stand inline or by digest"
        params = read_blob(world.blobs, intent.record.params_hash)
    found: list[str] = canon.decode(params)["kinds"]
    return found


def pass_on(
    world: World, cell: Cell, workflow: Workflow, caps: Mapping[str, Any], salt: bytes
) -> dict[str, Any] | Denial:
    """The `caps` of a child: each slot narrowed from one of the parent's, or why not."""
    slots, known = slots_of(world, cell, workflow)
    line = dict(cell.caps["grants"]) if cell.caps is not None else {}
    made: dict[str, str] = {}
    if EVERY in caps:
        caps = {slot: {"from": slot} for slot in slots}
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
    grants = _needed(line, made)
    return _broken(grants, known) or {"slots": made, "grants": grants}


def _broken(line: Mapping[str, Any], known: Grants) -> Denial | None:
    """A denial when some ancestor of derived grants has left the manifest; it counts as revoked."""
    for name, grant in line.items():
        parent = grant["parent"]
        if parent is not None and parent not in line and parent not in known:
            message = f"grant {name} derives from {parent}, which is gone"
            return Denial("capability", "cap.revoked", message, path=parent)
    return None


def _needed(line: dict[str, Any], made: dict[str, str]) -> dict[str, Any]:
    """Only the derived grants that the child's slots descend from."""
    kept: dict[str, Any] = {}
    for start in made.values():
        name: str | None = start
        while name is not None and name in line and name not in kept:
            kept[name] = line[name]
            name = line[name]["parent"]
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
