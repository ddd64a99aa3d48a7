"""What all reads share: live state or a look back, pages, and frames of the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tallystick.api.request import Request
from tallystick.journal.lineage import floor_of
from tallystick.kernel.world import World
from tallystick.node.nearby import Stretch
from tallystick.views.pages import Page
from tallystick.views.waiting import Serving

T = TypeVar("T")


async def live(request: Request, view: Callable[[World], T]) -> T:
    """A view of the world now, or as of `?at=`; what it shows is durable."""
    if request.at is None:
        found: T = await request.node.look(request.world, view)
    else:
        found = await request.node.past(request.world, request.at, view)
    return found


async def near(request: Request, upto: int, ask: Callable[[Stretch], T]) -> T:
    """A question about the journal up to a sequence that the derived index helps to answer."""
    world = request.world
    return await request.node.index.ask_beside(
        world,
        lambda index, reader: ask(
            Stretch(index, reader, world, upto, floor_of(reader.lineage(world)).seq)
        ),
    )


def serving_of(request: Request) -> Serving:
    """What the node knows of executors now: who serves what, and which attempts run."""
    return request.node.serving(request.world)


def page_of(request: Request) -> Page:
    """The page that a request asks for."""
    return Page(request.limit, request.query.get("after"))
