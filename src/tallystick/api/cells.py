"""Cells over HTTP: the list, one cell, its trace, and what an operator may do with it."""

from __future__ import annotations

from typing import Any

from tallystick.api.history import time_before
from tallystick.api.models import Operation
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.api.routes import Handler
from tallystick.errors import Rejected
from tallystick.journal.base import Reader
from tallystick.journal.lineage import floor_of
from tallystick.kernel.inputs import Operate
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.node.nearby import with_floor
from tallystick.views import cells, journal, pages
from tallystick.views.cells import CellFilter
from tallystick.views.journal import RowFilter
from tallystick.views.shown import UNKEYED


async def list_cells(request: Request) -> Response:
    """GET W/cells: a page of cells, by workflow and status."""
    wanted = CellFilter(request.query.get("workflow"), request.query.get("status"))
    page = page_of(request)
    return Response(value=await live(request, lambda world: cells.cell_list(world, page, wanted)))


async def show_cell(request: Request) -> Response:
    """GET W/cells/{workflow}/{key}: one cell whole."""

    def show(world: World) -> dict[str, Any]:
        return cells.cell_show(world, _ident(request, world))

    return Response(value=await live(request, show))


async def trace_cell(request: Request) -> Response:
    """GET W/cells/{workflow}/{key}/trace: what happened to a cell, in order."""

    def find(world: World) -> tuple[CellId, int]:
        return _ident(request, world), world.seq

    ident, upto = await live(request, find)
    # Read in a worker thread to the first page of rows, however far apart they stand: an empty page
    # with a cursor would look like a cell to which nothing happened.
    page = page_of(request)._replace(looked_max=upto)
    after = pages.number_cursor(page.after) if page.after else 0

    def read(reader: Reader) -> dict[str, Any]:
        floor = floor_of(reader.lineage(request.world)).seq
        begin = max(after, floor)
        frames = reader.read(request.world, begin, upto)
        at_ns = time_before(reader, request.world, begin)
        found = journal.journal_list(frames, page, RowFilter(cell=ident), upto, at_ns)
        return with_floor(found, floor)

    found = await request.node.read(read)
    if not found["items"] and page.after is None:
        await existing(request, ident)
    return Response(value=found)


async def existing(request: Request, ident: CellId) -> None:
    """Refuse a cell that has no history and is not there: its name is a mistake."""
    await live(request, lambda world: cells.found_cell(world, ident))


def _ident(request: Request, world: World) -> CellId:
    return cells.cell_id(world, request.named["workflow"], _key(request))


def _key(request: Request) -> str:
    """The key that the path says, or behind a `-` the query.

    Callers drop the segments `.` and `..`, and no segment is empty or holds what cannot be printed;
    a query carries any text.
    """
    named, asked = request.named["key"], request.query.get("key")
    if asked is None:
        return named
    if named != UNKEYED:
        raise Rejected(
            "the path and the query name two keys",
            code="request.bad_query",
            where={"path": "?key"},
            hint=f"with ?key= the path ends in {UNKEYED}",
        )
    return asked


def operate_cell(verb: str) -> Handler:
    """The handler of POST W/cells/{workflow}/{key}/VERB."""

    async def handler(request: Request) -> Response:
        body = request.read(Operation)
        ident = await request.node.look(request.world, lambda world: _ident(request, world))
        given = Operate(
            request.sample(),
            verb,
            request.who.principal,
            body.reason,
            workflow=ident.workflow,
            key=ident.key,
            force=body.force,
        )
        return await accepted(request, given)

    return handler


async def accepted(request: Request, given: Any) -> Response:
    """Offer one input; 202 with its sequence once it is durable."""
    answer = await request.node.one(request.world, given)
    return Response(202, {"seq": answer.seq})
