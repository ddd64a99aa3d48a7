"""What a request is told whose answer a crash cut: made from the record that carries its entropy.

Each function gives what its handler would have answered.
None means that the record is evidence of a refusal, or of a part: then the request is carried out
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tallystick.api.models import FrameBody, NewPlaybook, StampBody
from tallystick.api.request import Request, Response
from tallystick.kernel.propose import known, rules_in_force
from tallystick.kernel.world import World
from tallystick.model import records
from tallystick.playbooks.document import load
from tallystick.reactions import ids
from tallystick.reactions.tree import shown, unshown
from tallystick.values import canon
from tallystick.views import workspaces
from tallystick.views.shown import json_of


class Found(NamedTuple):
    """The record of a request that happened, and where it stands."""

    seq: int
    record: Any


Again = Callable[[Request, Found], Awaitable[Response | None]]


async def accepted(_request: Request, found: Found) -> Response | None:
    """An input that is answered with its sequence alone."""
    return Response(202, {"seq": found.seq})


async def settled(_request: Request, found: Found) -> Response | None:
    """A receipt that settled its intent; one that was dropped is judged again."""
    if not isinstance(found.record, records.ReceiptSettled):
        return None
    return Response(202, {"seq": found.seq, "status": "settled"})


# ---- playbooks ------------------------------------------------------------------------------


async def begun(request: Request, found: Found) -> Response | None:
    """An execution: its name and its document stand in the event."""
    value = await _event(request, found)
    told = {"execution": value["execution"], "hash": canon.hash_of(value["document"])}
    return Response(202, {**told, "seq": found.seq})


async def published(request: Request, found: Found) -> Response | None:
    """A playbook: the same text has the same findings."""
    body = request.read(NewPlaybook)
    made = load(body.playbook, body.file)
    findings = [finding.shown(body.file) for finding in made.findings]
    told = {"path": made.document["metadata"]["path"], "hash": made.hash}
    return Response(202, {**told, "seq": found.seq, "findings": findings})


# ---- governance -----------------------------------------------------------------------------


async def proposed(_request: Request, found: Found) -> Response | None:
    """A proposal as it was made."""
    record = found.record
    told = {
        "proposal": record.proposal,
        "bundle": canon.text_of(record.bundle),
        "manifest": canon.text_of(record.manifest),
        "summary": record.summary,
    }
    return Response(201, {**told, "seq": found.seq})


async def voted(request: Request, found: Found) -> Response | None:
    """A word on a proposal, with the count as it was then."""
    record, ident = found.record, found.record.proposal
    approves = isinstance(record, records.Approved)

    def count(world: World) -> tuple[int, int]:
        votes = len(known(world, ident).votes) if approves else 0
        return votes, rules_in_force(world).approvals

    approvals, needed = await request.node.past(request.world, found.seq, count)
    decision = "approve" if approves else "reject"
    told = {"proposal": ident, "seq": found.seq, "decision": decision}
    return Response(202, {**told, "approvals": approvals, "needed": needed})


async def tried(request: Request, found: Found) -> Response | None:
    """A shadow or a proof, with its report."""
    record = found.record
    told = {
        "proposal": record.proposal,
        "seq": found.seq,
        "report_hash": canon.text_of(record.report_hash),
        "report": canon.decode(await _blob(request, record.report_hash)),
    }
    if isinstance(record, records.Shadowed):
        told["complete"] = record.complete
    else:
        told["verdicts"] = record.verdicts
    return Response(202, json_of(told))


async def applied(request: Request, found: Found) -> Response | None:
    """A switch that happened; a refused one is asked for again."""
    record = found.record
    if not isinstance(record, records.BundleActivate) or record.proposal is None:
        return None
    told = await request.node.governing.applied(request.world, record.proposal, found.seq)
    return Response(202, told)


# ---- reactions ------------------------------------------------------------------------------


async def stamp_moved(request: Request, found: Found) -> Response | None:
    """A person's word about a path."""
    verb = (await _event(request, found))["verb"]
    path = request.read(StampBody).path
    return Response(202, {"seq": found.seq, "path": path, "verb": verb})


async def frame_put(request: Request, found: Found) -> Response | None:
    """A piece of context at a place."""
    body = request.read(FrameBody)
    content = ids.text(ids.content_id(body.content))
    told = {"path": shown(unshown(body.path)), "content_id": content}
    return Response(202, {"seq": found.seq, **told})


async def switched(request: Request, found: Found) -> Response | None:
    """A reaction was switched; resetting takes a command for each lane, and is done again."""
    value = await _event(request, found)
    verb = value["verb"]
    if verb == "reset":
        return None
    return Response(202, {"reaction": value["reaction"], "verb": verb, "seq": found.seq})


async def run_operated(request: Request, found: Found) -> Response | None:
    """A run was ended, or tried again."""
    verb = (await _event(request, found))["verb"]
    name = request.named["run"]
    row = await request.node.look(request.world, lambda world: workspaces.run_show(world, name))
    return Response(202, {"run": row["run_id"], "verb": verb, "seq": found.seq})


async def _event(request: Request, found: Found) -> Any:
    """The value of an event that was admitted."""
    record = found.record
    data = record.value
    return canon.decode(await _blob(request, record.value_hash) if data is None else data)


async def _blob(request: Request, digest: bytes) -> bytes:
    data = await request.node.read(lambda reader: reader.blob(request.world, digest))
    assert data is not None, "what a record names is kept as long as the record"
    return data
