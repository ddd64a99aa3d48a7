"""Pins: cells that finish under the definitions they began with (06 section 9).

A pinned cell runs its old workflow, module, schemas and effects, all fixed by one manifest, until
it ends, rests or starts anew from a checkpoint.
Authority is never pinned: grants, policy, flows and revocations are always today's.
"""

from __future__ import annotations

from typing import Any

from tallystick.errors import SchemaMismatch
from tallystick.kernel.parts import Cell
from tallystick.kernel.world import World
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import CellId
from tallystick.values.schema import Admitted, Schema
from tallystick.values.schema.nodes import (
    Bounded,
    ListOf,
    MapOf,
    Option,
    Record,
    Secret,
    SetOf,
    Type,
    Variant,
)

# ---- the definitions of a cell ----------------------------------------------------------------


def catalogue_of(world: World, cell: Cell) -> Catalogue:
    """The definitions that a cell runs under."""
    return world.active.catalogue if cell.pin is None else world.catalogue(cell.pin)


def workflow_of(world: World, cell: Cell) -> Workflow:
    """The workflow of a cell that can still run."""
    if cell.pin is None:
        return world.active.catalogue.workflows[cell.id.workflow]
    return world.catalogue(cell.pin).workflows[cell.id.workflow]


def known_workflow(world: World, cell: Cell) -> Workflow | None:
    """The workflow of any cell; None when it ended and its workflow has left the manifest."""
    found = world.active.catalogue if cell.pin is None else world.catalogue(cell.pin)
    return found.workflows.get(cell.id.workflow)


def asked_under(world: World, cell: Cell, workflow: Workflow) -> Catalogue:
    """The definitions that a tick asks under: those of the workflow that gave its answer.

    A flow that left its pin in this very tick asks under the active ones.
    """
    active = world.active.catalogue
    if cell.pin is None or active.workflows.get(workflow.name) is workflow:
        return active
    return world.catalogue(cell.pin)


def pinned_at(world: World, ident: CellId) -> Cell | None:
    """The cell of that name if it is pinned."""
    if not world.pinned:
        return None
    cell = world.cell(ident)
    return None if cell is None or cell.pin is None else cell


# ---- folding ----------------------------------------------------------------------------------


def pin(world: World, cell: Cell, manifest: bytes) -> None:
    """Keep a cell under a manifest; one that is pinned already keeps the older one."""
    if cell.pin is None:
        cell.pin = manifest
        world.pinned += 1


def unpin(world: World, cell: Cell) -> None:
    """Let a cell go on under the active manifest."""
    if cell.pin is not None:
        cell.pin = None
        world.pinned -= 1


# ---- values for older definitions -------------------------------------------------------------


def narrowed(schema: Schema, value: Admitted) -> Admitted | None:
    """A value as an older schema of the same name takes it, or None when it cannot.

    Fields that were added since are left out while they are null: then nothing is lost.
    """
    if value.schema is schema:
        return value
    try:
        return schema.read(value.bytes)
    except SchemaMismatch:
        pass
    try:
        return schema.admit(_known(schema.node, value.value), "native")
    except SchemaMismatch:
        return None


def _known(node: Type, value: Any) -> Any:
    """The value without null fields that its type does not know; what does not fit stays."""
    match node:
        case Record(fields) if type(value) is dict:
            types = dict(fields)
            return {
                name: _known(types[name], inner) if name in types else inner
                for name, inner in value.items()
                if name in types or inner is not None
            }
        case Variant(arms) if type(value) is dict and "$value" in value:
            arm = dict(arms).get(value["$tag"])
            return value if arm is None else {**value, "$value": _known(arm, value["$value"])}
        case ListOf(item) | SetOf(item) if type(value) is list:
            return [_known(item, each) for each in value]
        case MapOf(_, inner) if type(value) is dict:
            return {name: _known(inner, each) for name, each in value.items()}
        case Option(inner) if value is not None:
            return _known(inner, value)
        case Bounded(inner) | Secret(inner):
            return _known(inner, value)
        case _:
            return value
