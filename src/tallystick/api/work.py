"""Work for remote executors: leases, their extension, progress and receipts (04 section 10)."""

from __future__ import annotations

from tallystick.api.effects import settled
from tallystick.api.models import ExtendBody, LeaseBody, ProgressBody, ReceiptBody
from tallystick.api.request import Request, Response
from tallystick.api.seals import seal_of
from tallystick.api.who import may_enter, world_of
from tallystick.kernel.inputs import Progress
from tallystick.node.leases import Lease, Wish
from tallystick.node.work import Brought


async def lease(request: Request) -> Response:
    """POST /v1/work/lease: jobs of the token's worlds, each leased for a while."""
    body = request.read(LeaseBody)
    wish = Wish(body.worker, body.pools, body.effects, body.max, body.wait_ms, body.lease_ms)
    who, node = request.who, request.node
    items = await node.work.lease(wish, lambda world: may_enter(who, world, node), request.gone)
    if not items:
        return Response(204)
    return Response(200, {"items": items})


async def extend(request: Request) -> Response:
    """POST /v1/work/{lease}/extend: keep a job; says whether its result is still wanted."""
    body = request.read(ExtendBody)
    return Response(200, await request.node.work.extend(_lease(request), body.lease_ms))


async def progress(request: Request) -> Response:
    """POST /v1/work/{lease}/progress: news about a job; settles nothing."""
    body = request.read(ProgressBody)
    seal = None if body.seal is None else seal_of(body.seal)
    held = _lease(request)
    given = Progress(request.sample(), held.world, b"", 0, body.seq, body.kind, body.payload, seal)
    answer = await request.node.work.progress(held, given)
    return Response(202, {"seq": answer.seq, "status": answer.kind})


async def receipt(request: Request) -> Response:
    """POST /v1/work/{lease}/receipt: the sealed outcome of a job."""
    body = request.read(ReceiptBody)
    brought = Brought(
        body.executor,
        body.status,
        body.payload,
        body.started_ns,
        body.ended_ns,
        body.usage,
        seal_of(body.seal),
    )
    answer = await request.node.work.receipt(_lease(request), brought)
    return settled(answer.kind, answer.seq, answer.detail)


async def release(request: Request) -> Response:
    """POST /v1/work/{lease}/release: give a job back untouched."""
    await request.node.work.release(_lease(request))
    return Response(200, {"released": True})


def _lease(request: Request) -> Lease:
    """The lease that the path names, when its world is one of the caller's."""
    found = request.node.work.find(request.named["lease"])
    world_of(request.who, found.world, request.node)
    return found
