"""Work for remote executors: leases, their extension, progress and receipts (04 section 10)."""

from __future__ import annotations

from typing import Any

from tallystick.api.effects import settled
from tallystick.api.models import ExtendBody, LeaseBody, ProgressBody, ReceiptBody
from tallystick.api.request import Request, Response
from tallystick.api.seals import seal_of
from tallystick.api.who import world_of


async def lease(request: Request) -> Response:
    """POST /v1/work/lease: jobs of the token's worlds, each leased for a while."""
    body = request.read(LeaseBody)
    items = await request.node.work.lease(body, request.who)
    if not items:
        return Response(204)
    return Response(200, {"items": items})


async def extend(request: Request) -> Response:
    """POST /v1/work/{lease}/extend: keep a job; says whether its result is still wanted."""
    body = request.read(ExtendBody)
    found = await request.node.work.extend(await _lease(request), body.lease_ms)
    return Response(200, found)


async def progress(request: Request) -> Response:
    """POST /v1/work/{lease}/progress: news about a job; settles nothing."""
    body = request.read(ProgressBody)
    seal = None if body.seal is None else seal_of(body.seal)
    found = await request.node.work.progress(
        await _lease(request), body.seq, body.kind, body.payload, seal
    )
    return Response(202, found)


async def receipt(request: Request) -> Response:
    """POST /v1/work/{lease}/receipt: the sealed outcome of a job."""
    body = request.read(ReceiptBody)
    answer = await request.node.work.receipt(await _lease(request), body, seal_of(body.seal))
    return settled(answer.kind, answer.seq, answer.detail)


async def release(request: Request) -> Response:
    """POST /v1/work/{lease}/release: give a job back untouched."""
    await request.node.work.release(await _lease(request))
    return Response(200, {"released": True})


async def _lease(request: Request) -> Any:
    """The lease that the path names, when its world is one of the caller's."""
    found = await request.node.work.find(request.named["lease"])
    world_of(request.who, found.world, request.node)
    return found
