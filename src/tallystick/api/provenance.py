"""Provenance over HTTP: why a file is as it is, verification, exports (08 section 11)."""

from __future__ import annotations

import base64
import json
from typing import Any

from tallystick.api.models import ProvenanceBody
from tallystick.api.reads import page_of
from tallystick.api.request import Request, Response
from tallystick.api.workspaces import kept_of
from tallystick.errors import Conflict, JournalCorrupt, Rejected
from tallystick.journal.base import Reader
from tallystick.model.frames import verify_chain
from tallystick.node.inquiry import why_path
from tallystick.reactions.tree import unshown
from tallystick.views import attest, pages, workspaces
from tallystick.views.provenance import Broken, Evidence, Verified, component, verify
from tallystick.views.reactive import Reactive

EVERYTHING = 1 << 62
_PAYLOAD_TYPE = "application/vnd.in-toto+json"


async def list_provenance(request: Request) -> Response:
    """GET W/provenance: one object for each attempt, newest first."""
    view = await request.node.watching.projected.now(request.world)
    rows = [{"seq": noted.seq, **noted.value} for noted in reversed(view.provenance.values())]
    return Response(value=pages.cut(rows, page_of(request), "seq", view.seq))


async def show_why(request: Request) -> Response:
    """GET W/provenance/why: from the bytes on disk to what began them."""
    kept = kept_of(request)
    if "path" not in request.query:
        raise Rejected("say which path", code="request.bad_query", where={"path": "?path"})
    return Response(value=await why_path(request.node, kept, unshown(request.query["path"])))


async def verify_provenance(request: Request) -> Response:
    """POST W/provenance/verify: every hash again, from anywhere."""
    body = request.read(ProvenanceBody)
    return Response(value=(await _verified(request, body.id))[0].shape())


async def _verified(request: Request, start: str | None) -> tuple[Verified, Evidence | None]:
    """Judge the chain of the journal, then the cluster; on a projection made for this."""
    node, world = request.node, request.world
    attempts = await node.look(world, workspaces.attempts)
    upto = node.feed.head(world)

    def judge(reader: Reader) -> tuple[Verified, Evidence | None]:
        damage = verify_chain(reader.read(world, 0, upto), world=world)
        if damage is not None:
            where = Broken("record", str(damage.seq), damage.what)
            return Verified({}, 0, where), None
        held: dict[bytes, bytes | None] = {}

        def blob(digest: bytes) -> bytes | None:
            if digest not in held:
                held[digest] = _read(reader, world, digest)
            return held[digest]

        view = Reactive(EVERYTHING)
        view.read(reader.read(world, 0, upto), blob)
        evidence = Evidence(view, attempts, blob)
        return verify(evidence, start), evidence

    return await node.read(judge)


def _read(reader: Reader, world: str, digest: bytes) -> bytes | None:
    """A blob, or bytes that no hash fits when the store refuses them as damaged."""
    try:
        return reader.blob(world, digest)
    except JournalCorrupt:
        return b"\xff damaged"


async def export(request: Request) -> Response:
    """GET W/provenance/export: a document for other programs; refused when verifying fails."""
    form = request.query.get("format", "in-toto")
    if form not in attest.FORMATS:
        known = ", ".join(attest.FORMATS)
        raise Rejected(f"no format {form}", code="provenance.format", hint=f"one of {known}")
    start = request.query.get("run") or await _writer(request)
    verified, evidence = await _verified(request, start)
    if verified.broken is not None or evidence is None:
        broken = verified.broken
        raise Conflict(
            "the provenance does not verify, so it is not exported",
            code="provenance.broken",
            where={} if broken is None else dict(broken._asdict()),
        )
    since = request.number("since", 0, 2**63 - 1)
    rows = [each for each in attest.told(evidence, component(evidence, start)) if each.seq >= since]
    if "run" in request.query or "path" in request.query:
        rows = [row for row in rows if start in (row.made["run_id"], row.attempt["label"])] or rows
    return Response(value={"format": form, "documents": _documents(request, form, rows)})


async def _writer(request: Request) -> str | None:
    """The run that wrote the file of the query, if it names one."""
    if "path" not in request.query:
        return None
    told = await why_path(request.node, kept_of(request), unshown(request.query["path"]))
    found: str | None = told["run"]
    return found


def _documents(request: Request, form: str, rows: list[attest.Told]) -> list[Any]:
    if form == "in-toto":
        made: list[Any] = [attest.in_toto(row) for row in rows if row.outputs]
        return [_signed(request, each) for each in made] if request.flag("sign") else made
    if form == "openlineage":
        return [event for row in rows for event in attest.openlineage(row)]
    return [attest.prov(rows)] if form == "prov" else [attest.dot(rows)]


def _signed(request: Request, statement: dict[str, Any]) -> dict[str, Any]:
    """The statement in a DSSE envelope under the node's key."""
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    kind = _PAYLOAD_TYPE.encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    pair = request.node.key.pair
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD_TYPE,
        "signatures": [
            {"keyid": pair.key_id, "sig": base64.b64encode(pair.signature(signed)).decode()}
        ],
    }
