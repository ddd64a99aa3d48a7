"""Executions of playbooks over HTTP: ask for one, look at it, patch, signal, cancel (07 section 8).

A playbook is judged here, before anything is written; what its tools may do is minted with the
request, which only an admin may ask for.
"""

from __future__ import annotations

from typing import Any

from tallystick.api.models import NewExecution, NewPlaybook, Operation, PlayPatch, PlaySignal
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.errors import Conflict, Forbidden, Rejected
from tallystick.journal.base import Reader
from tallystick.kernel.inputs import Operate, Submit
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.playbooks.document import load
from tallystick.playbooks.draw import FORMS
from tallystick.playbooks.plan import Plan
from tallystick.values import canon
from tallystick.views import executions, pages
from tallystick.views.played import execution_events


async def begin(request: Request) -> Response:
    """POST W/executions: judge a playbook and begin to play it; 202 with its name."""
    body = request.read(NewExecution)
    if body.allow and "admin" not in request.who.scopes:
        raise Forbidden(
            "granting tools needs the scope admin", where={"path": "/allow", "scope": "admin"}
        )
    document = await _document(request, body)
    sample = request.sample()
    name = body.execution or sample.entropy[:8].hex()
    await _refuse(request, name, document)
    value = {
        "execution": name,
        "document": document,
        "workload": body.workload,
        "grants": body.allow,
        "principal": request.who.principal,
        "parent": None,
    }
    given = Submit(sample, "sys/PlayRequested@1", value, lens="native", origin="system")
    answer = await request.node.one(request.world, given)
    told = {"execution": name, "hash": canon.hash_of(document), "seq": answer.seq}
    return Response(202, told)


async def _document(request: Request, body: NewExecution) -> bytes:
    """The normal form to play: of the text that was sent, or of what is published at a path."""
    if ":" in body.playbook:  # a document has keys, a path has none
        return load(body.playbook, body.file, unchecked=body.unchecked).bytes
    return await request.node.look(
        request.world, lambda world: executions.published_document(world, body.playbook)
    )


async def _refuse(request: Request, name: str, document: bytes) -> None:
    """An execution is begun once, in a world whose manifest lets its steps be asked for."""
    ident = CellId(executions.WORKFLOW, canon.encode(name))
    known, plays = await request.node.look(
        request.world, lambda world: (world.cell(ident) is not None, executions.plays(world))
    )
    if known:
        # A retry of the same request has an Idempotency-Key.
        raise Conflict(
            f"there is an execution {name} already",
            code="execution.exists",
            where={"execution": name},
            hint=f"`tally playbook show {name}` shows it; begin one with another name",
        )
    if not plays and Plan(canon.decode(document)).asks():
        raise Conflict(
            "the bundle of this world binds nothing for playbooks: every step would be denied",
            code="playbook.unbound",
            where={"world": request.world, "workflow": executions.WORKFLOW},
            hint="play it in a world of its own with -w NAME, or `tally bundle build --plays` "
            "and `tally gov propose --bundle`",
        )


async def publish(request: Request) -> Response:
    """POST W/playbooks: judge a playbook and put it into the catalogue, under its path."""
    body = request.read(NewPlaybook)
    made = load(body.playbook, body.file)
    path = made.document["metadata"]["path"]
    value = {
        "path": path,
        "hash": made.hash,
        "document": made.bytes,
        "principal": request.who.principal,
    }
    given = Submit(request.sample(), "sys/PlayPublished@1", value, lens="native", origin="system")
    answer = await request.node.one(request.world, given)
    findings = [finding.shown(body.file) for finding in made.findings]
    told = {"path": path, "hash": made.hash, "seq": answer.seq, "findings": findings}
    return Response(202, told)


async def list_playbooks(request: Request) -> Response:
    """GET W/playbooks: what is published, by path."""
    return Response(value={"items": await live(request, executions.catalog_list)})


async def graph(request: Request) -> Response:
    """GET W/executions/{execution}/graph: the net with its tokens, also as of `?at=`."""
    name, form = request.named["execution"], request.query.get("format", "mermaid")
    if form not in FORMS:
        raise Rejected(
            f"no drawing is called {form}",
            code="graph.bad_format",
            hint=f"one of {', '.join(FORMS)}",
        )
    view = await live(request, lambda world: executions.execution_graph(world, name, form))
    return Response(value=view)


async def events(request: Request) -> Response:
    """GET W/executions/{execution}/events: what happened, in the words of the net."""
    name = request.named["execution"]
    page = page_of(request)
    after = pages.number_cursor(page.after) if page.after else 0

    def find(world: World) -> tuple[int, int]:
        return executions.born_seq(world, name), world.seq

    born, upto = await live(request, find)

    def read(reader: Reader) -> dict[str, Any]:
        frames = reader.read(request.world, max(born - 1, 0), upto)
        return {**execution_events(frames, name, after, page.limit), "as_of": upto}

    return Response(value=await request.node.read(read))


async def list_executions(request: Request) -> Response:
    """GET W/executions: every execution in brief."""
    page = page_of(request)

    def look(world: World) -> dict[str, Any]:
        return pages.cut(executions.execution_list(world), page, "execution", world.seq)

    return Response(value=await live(request, look))


async def show(request: Request) -> Response:
    """GET W/executions/{execution}: status, marking, values, and what is waited for."""
    name = request.named["execution"]
    return Response(value=await live(request, lambda world: executions.execution_show(world, name)))


async def patch(request: Request) -> Response:
    """PATCH W/executions/{execution}/ctx: write keys of ctx, with a reason, if they are as told."""
    body = request.read(PlayPatch)
    seen = await _open(request)
    for key, wanted in body.only_if.items():
        if seen["ctx"].get(key) != wanted:
            raise Conflict(
                f"ctx.{key} is not {wanted!r}",
                code="execution.changed",
                where={"key": key, "value": seen["ctx"].get(key)},
            )
    return await _send(
        request,
        "sys/PlayCtxPatch@1",
        {"set": body.set, "unset": list(body.unset), "reason": body.reason},
    )


async def signal(request: Request) -> Response:
    """POST W/executions/{execution}/signals/{name}: a value for whoever waits for it."""
    body = request.read(PlaySignal)
    await _open(request)
    value = {"name": request.named["name"], "value": body.value}
    return await _send(request, "sys/PlaySignal@1", value)


async def cancel(request: Request) -> Response:
    """POST W/executions/{execution}/cancel: end it now, without its final step."""
    body = request.read(Operation)
    await _open(request)
    key = canon.encode(request.named["execution"])
    given = Operate(
        request.sample(),
        "cancel",
        request.who.principal,
        body.reason,
        workflow=executions.WORKFLOW,
        key=key,
        force=body.force,
    )
    answer = await request.node.one(request.world, given)
    return Response(202, {"seq": answer.seq})


async def _open(request: Request) -> dict[str, Any]:
    """The execution as it stands; refuses one that is over."""
    name = request.named["execution"]
    seen = await request.node.look(
        request.world, lambda world: executions.execution_show(world, name)
    )
    if seen["status"] not in ("running", "waiting", "final"):
        raise Conflict(
            f"execution {name} is over: {seen['status']}",
            code="execution.over",
            where={"execution": name},
        )
    return seen


async def _send(request: Request, schema: str, value: dict[str, Any]) -> Response:
    if len(value.get("set", {})) + len(value.get("unset", ())) > 64:
        raise Rejected("a patch has at most 64 keys", code="execution.patch_too_large")
    whole = {
        **value,
        "execution": request.named["execution"],
        "principal": request.who.principal,
    }
    given = Submit(request.sample(), schema, whole, lens="native", origin="system")
    answer = await request.node.one(request.world, given)
    return Response(202, {"seq": answer.seq})
