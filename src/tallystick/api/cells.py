"""Cells over HTTP: the list, one cell, its trace, and what an operator may do with it."""

from __future__ import annotations

from typing import Any

from tallystick.api.history import time_before
from tallystick.api.models import Operation
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.api.routes import Handler
from tallystick.journal.base import Reader
from tallystick.kernel.inputs import Operate
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.views import cells, journal, pages
from tallystick.views.cells import CellFilter
from tallystick.views.journal import RowFilter


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
        frames = reader.read(request.world, after, upto)
        at_ns = time_before(reader, request.world, after)
        return journal.journal_list(frames, page, RowFilter(cell=ident), upto, at_ns)

    return Response(value=await request.node.read(read))


def _ident(request: Request, world: World) -> CellId:
    return cells.cell_id(world, request.named["workflow"], request.named["key"])


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
