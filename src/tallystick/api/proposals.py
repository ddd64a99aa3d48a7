"""Governance over HTTP: proposals, reports, votes, and what authority says (06 section 11)."""

from __future__ import annotations

from typing import Any

from tallystick.api.models import (
    ApplyBody,
    MadeUp,
    NewProposal,
    ProveBody,
    ShadowBody,
    VoteBody,
)
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.api.routes import Handler
from tallystick.api.seals import seal_of
from tallystick.errors import UnknownName
from tallystick.governance.rerun import Order, Scripted
from tallystick.kernel.inputs import Vote
from tallystick.kernel.world import World
from tallystick.node.governing import Asker, Trial, Wish
from tallystick.values import canon
from tallystick.views import governance
from tallystick.views.judge import Question, judged
from tallystick.views.shown import json_of

REPORTS = {"shadow": "report_hash", "prove": "proof_hash"}


def asker_of(request: Request) -> Asker:
    """The caller as governance sees it."""
    return Asker(request.who.principal, request.sample())


async def propose(request: Request) -> Response:
    """POST W/proposals: a patch, a bundle, or an older proposal for the active manifest."""
    body = request.read(NewProposal)
    wish = Wish(body.patch, body.bundle, body.rebase, body.description)
    made = await request.node.governing.propose(request.world, wish, asker_of(request))
    return Response(201, made)


async def list_proposals(request: Request) -> Response:
    """GET W/proposals: in the order they came."""
    page, state = page_of(request), request.query.get("state")
    return Response(
        value=await live(request, lambda world: governance.proposal_list(world, page, state))
    )


async def show_proposal(request: Request) -> Response:
    """GET W/proposals/{proposal}: one whole, with its patch."""
    ident = request.named["proposal"]
    found = await live(request, lambda world: governance.proposal_show(world, ident))
    found["patch"] = await _document(request, found["patch"])
    return Response(value=found)


async def show_report(request: Request) -> Response:
    """GET W/proposals/{proposal}/report: the newest shadow, or with `?kind=prove` the verdicts."""
    ident = request.named["proposal"]
    found = await live(request, lambda world: governance.proposal_show(world, ident))
    field = REPORTS.get(request.query.get("kind", "shadow"))
    named = None if field is None else found[field]
    if named is None:
        raise UnknownName(
            f"{ident} has no such report",
            code="gov.no_report",
            where={"proposal": ident},
            hint=f"`tally gov shadow {ident}` makes one",
        )
    return Response(value={"report_hash": named, "report": await _document(request, named)})


async def _document(request: Request, hash_text: str) -> Any:
    digest = canon.raw_of(hash_text)
    data = await request.node.read(lambda reader: reader.blob(request.world, digest))
    return None if data is None else json_of(canon.decode(data))


def vote(decision: str) -> Handler:
    """The handler of POST W/proposals/{proposal}/approve and reject."""

    async def handler(request: Request) -> Response:
        body = request.read(VoteBody)
        given = Vote(
            request.sample(),
            request.named["proposal"],
            request.who.principal,
            decision,
            None if body.report_hash is None else canon.raw_of(body.report_hash),
            body.comment,
            None if body.seal is None else seal_of(body.seal),
        )
        return Response(202, await request.node.governing.vote(request.world, given))

    return handler


async def shadow(request: Request) -> Response:
    """POST W/proposals/{proposal}/shadow: run the recorded tail on the candidate."""
    body = request.read(ShadowBody)
    scripts = {
        effect: tuple(Scripted(each.status, each.payload) for each in answers)
        for effect, answers in body.receipts.items()
    }
    seeds = tuple((each.schema, each.value) for each in body.seed)
    order = Order(scripts=scripts, seeds=seeds, bare=not body.synthetic)
    which = (request.world, request.named["proposal"], Trial(body.tail, order))
    found = await request.node.governing.shadow(*which, asker_of(request))
    return Response(202, json_of(found))


async def prove(request: Request) -> Response:
    """POST W/proposals/{proposal}/prove: a verdict on every open cell."""
    body = request.read(ProveBody)
    which = (request.world, request.named["proposal"], Trial(body.tail))
    found = await request.node.governing.prove(*which, asker_of(request))
    return Response(202, json_of(found))


async def apply(request: Request) -> Response:
    """POST W/proposals/{proposal}/apply: switch, or be told every blocker."""
    body = request.read(ApplyBody)
    trial = Trial(body.tail, on=body.on) if body.prove else None
    which = (request.world, request.named["proposal"], asker_of(request))
    found = await request.node.governing.apply(*which, body.wait_ms / 1000, trial)
    return Response(202, found)


# ---- authority ------------------------------------------------------------------------------


async def show_authority(request: Request) -> Response:
    """GET W/authority: grants, rules, principals, pins."""
    return Response(value=json_of(await live(request, governance.authority)))


async def show_flows(request: Request) -> Response:
    """GET W/flows: how full each flow and each budget is."""
    return Response(value=await live(request, governance.flows))


async def show_reruns(request: Request) -> Response:
    """GET W/reruns: what-ifs, shadows and proofs that are not over, and how far they came."""
    every = request.node.reruns.under_way
    items = [each.row() for each in every if each.world == request.world]
    return Response(value={"items": items, "next": None, "as_of": None})


async def show_pins(request: Request) -> Response:
    """GET W/pins: cells that still run under older definitions."""

    def look(world: World) -> dict[str, Any]:
        found = governance.pins(world)
        return {**found, "next": None, "as_of": world.seq}

    return Response(value=await live(request, look))


async def judge(request: Request) -> Response:
    """POST W/explain: what admission would say to a request that nobody made."""
    body = request.read(MadeUp)
    question = Question(body.workflow, body.effect, body.params, body.key, body.cap_slot)
    return Response(value=json_of(await live(request, lambda world: judged(world, question))))
