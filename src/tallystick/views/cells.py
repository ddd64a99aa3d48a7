"""Cells as readers see them: the list, and one cell whole (04 section 9, K-45).

Both read the live world and nothing else.
The list goes by workflow name, then by the hash of the key: the order of the index, so a page
walks the index from its cursor and never over all cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tallystick.errors import UnknownName
from tallystick.kernel.parts import Cell, Intent, Mail
from tallystick.kernel.pins import known_workflow
from tallystick.kernel.quiescence import lifecycle_of
from tallystick.kernel.world import World
from tallystick.model.catalogue import Workflow
from tallystick.model.cells import (
    COMPLETED,
    FAILED,
    RESTING,
    RUNNING,
    SUSPENDED,
    WAITING,
    CellId,
)
from tallystick.values import canon
from tallystick.values.names import nearest
from tallystick.views import pages, shown
from tallystick.views.pages import Page

INFLIGHT_MAX: Final = 1000
MAIL_MAX: Final = 100
_STATUSES: Final = (RUNNING, WAITING, RESTING, COMPLETED, FAILED, SUSPENDED)
_BETWEEN: Final = "!"  # sorts before every character of a name, so cursors sort as cells do


class CellFilter(NamedTuple):
    """Which cells a list shows; an empty filter shows all."""

    workflow: str | None = None
    status: str | None = None


def cell_list(
    world: World, page: Page | None = None, wanted: CellFilter | None = None
) -> dict[str, Any]:
    """A page of cells in brief."""
    page = (page or Page()).checked()
    wanted = wanted or CellFilter()
    pages.known("status", wanted.status, _STATUSES)
    known(world, wanted.workflow)
    items: list[dict[str, Any]] = []
    before = page.after
    for looked, (place, cell) in enumerate(places(world, page.after, wanted.workflow)):
        if len(items) == page.limit or looked == page.looked_max:
            return pages.listed(items, before, world.seq)
        before = place
        row = _brief(world, cell)
        if wanted.status in (None, row["status"]):
            items.append(row)
    return pages.listed(items, None, world.seq)


def known(world: World, workflow: str | None) -> None:
    """Refuse a filter by a workflow that nothing here is of."""
    # Cells of a workflow that an upgrade took away are still there to be seen.
    pages.known("workflow", workflow, {*world.cells, *world.active.catalogue.workflows})


def places(
    world: World, after: str | None = None, only: str | None = None
) -> Iterator[tuple[str, Cell]]:
    """Every (cursor, cell) behind a cursor; the order of the cells is that of their cursors."""
    name, path = _place(after)
    for workflow in sorted(world.cells):
        if workflow < name or only not in (None, workflow):
            continue
        start = path if workflow == name else b""
        for at, cell in world.cells[workflow].entries(start):
            yield f"{workflow}{_BETWEEN}{at.hex()}", cell


def _place(after: str | None) -> tuple[str, bytes]:
    if after is None:
        return "", b""
    name, found, path = after.rpartition(_BETWEEN)
    if not found or not name:
        raise pages.bad_cursor(after)
    return name, pages.digest_cursor(path)


def _brief(world: World, cell: Cell) -> dict[str, Any]:
    return {
        "workflow": cell.id.workflow,
        "key": shown.key_json(cell.id.key),
        "status": status_of(world, cell),
        "inflight": len(cell.inflight),
        "mailbox": len(cell.mailbox),
        "size": cell.size,
        "born_seq": cell.born_seq,
        "last_seq": cell.last_seq,
        "last_active_ns": cell.last_active_ns,
        "state_hash": _hash(cell.state_hash),
    }


def status_of(world: World, cell: Cell) -> str:
    """The status a reader sees; a workflow that is no longer active counts as a process.

    An entity that waits for its next event rests; only what has ended is completed (D5).
    """
    lifecycle = lifecycle_of(known_workflow(world, cell))
    if cell.status == RUNNING and cell.at_rest(lifecycle):
        return RESTING
    return cell.shown_status(lifecycle)


# ---- one cell -------------------------------------------------------------------------------


def cell_id(world: World, workflow: str, key_text: str) -> CellId:
    """The cell that a name and the text of a key mean; refuses an unknown workflow.

    A workflow that an upgrade took away is known by the cells that it left.
    """
    found = world.active.catalogue.workflows.get(workflow)
    if found is None and workflow in world.cells:
        idents = [CellId(workflow, key) for key in shown.key_guesses(key_text)]
        return next((ident for ident in idents if world.cell(ident) is not None), idents[0])
    if found is None:
        raise UnknownName(
            f"no workflow {workflow} in the active manifest",
            code="workflow.unknown",
            where={"workflow": workflow},
            hint=nearest(workflow, world.active.catalogue.workflows),
        )
    return CellId(workflow, shown.key_bytes(found, key_text))


def cell_show(world: World, ident: CellId) -> dict[str, Any]:
    """One cell whole; refuses with `cell.unknown`."""
    cell = found_cell(world, ident)
    workflow = known_workflow(world, cell)
    return {
        "world": world.id,
        "workflow": ident.workflow,
        "key": shown.key_json(ident.key),
        "status": status_of(world, cell),
        "state": _state(world, cell, workflow),
        "state_hash": _hash(cell.state_hash),
        "state_version": cell.state_version,
        "workflow_hash": _hash(cell.workflow_hash),
        "pinned": _hash(cell.pin),
        "size": cell.size,
        "born_seq": cell.born_seq,
        "last_seq": cell.last_seq,
        "last_active_ns": cell.last_active_ns,
        "mailbox": len(cell.mailbox),
        "mail": [_mail(entry) for entry in list(cell.mailbox)[:MAIL_MAX]],
        "as_of": world.seq,
        "inflight": _inflight(world, cell),
        "inflight_count": len(cell.inflight),
        "about": _about(workflow),
    }


def found_cell(world: World, ident: CellId) -> Cell:
    """A cell; refuses with `cell.unknown`."""
    cell = world.cell(ident)
    if cell is not None:
        return cell
    key = shown.key_text(ident.key)
    raise UnknownName(
        f"{ident.workflow} has no cell {key}",
        code="cell.unknown",
        where={"workflow": ident.workflow, "key": key},
        hint="list the cells of the workflow; a cell begins with its first event",
    )


def state_shown(world: World, cell: Cell) -> Any:
    """The state of a cell as readers see it."""
    return _state(world, cell, known_workflow(world, cell))


def _state(world: World, cell: Cell, workflow: Workflow | None) -> Any:
    data = world.state_of(cell)
    if data is None:
        return None
    same = workflow is not None and cell.workflow_hash == workflow.hash
    return shown.document(data, workflow.state if workflow is not None and same else None)


def _mail(entry: Mail) -> dict[str, Any]:
    came = entry.continuation
    return {
        "seq": entry.seq,
        "schema": entry.schema,
        "arm": entry.arm,
        "intent": None if came is None else canon.text_of(came.opened.intent),
    }


def _inflight(world: World, cell: Cell) -> list[dict[str, Any]]:
    rows = []
    for intent in list(cell.inflight)[:INFLIGHT_MAX]:
        found = world.intents.get(intent)
        assert found is not None, "what is in flight is open"
        rows.append(_open_row(found))
    return rows


def _open_row(intent: Intent) -> dict[str, Any]:
    record = intent.record
    return {
        "intent": canon.text_of(record.intent),
        "effect": record.effect,
        "opened_seq": intent.seq,
        "timeout_at_ns": record.timeout_at_ns,
        "attempt": intent.attempt,
        "issuer_ref": record.issuer_ref,
        "hold": shown.json_of(intent.hold),
    }


def _about(workflow: Workflow | None) -> dict[str, Any] | None:
    """What the definition says of itself: summary, tags, owners (X-09)."""
    if workflow is None:
        return None
    return {"lifecycle": workflow.lifecycle, **shown.json_of(dict(workflow.metadata))}


def _hash(digest: bytes | None) -> str | None:
    return None if digest is None else canon.text_of(digest)
