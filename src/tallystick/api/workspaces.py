"""Workspaces, frames and stamps over HTTP (08 section 13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.api.models import FrameBody, NewWorkspace, ScanBody, StampBody, TrustBody
from tallystick.api.reads import live, page_of
from tallystick.api.request import Request, Response
from tallystick.errors import Conflict, Rejected, UnknownName
from tallystick.kernel.inputs import Submit
from tallystick.node.inquiry import basis_of, content_on_disk, stand_of
from tallystick.node.node import Node
from tallystick.node.workspaces import Kept
from tallystick.reactions import ids
from tallystick.reactions.heads import bare_id
from tallystick.reactions.stamps import Stamp
from tallystick.reactions.tree import collisions, shown, unshown
from tallystick.views import pages, workspaces

QUIET_MS_MAX = 30_000


def kept_of(request: Request, name: str | None = None) -> Kept:
    """The workspace that a request names; without a name the only one of its world."""
    held = request.node.watching.workspaces
    name = name or request.query.get("workspace") or request.named.get("workspace")
    if name is not None:
        return held.find(request.world, name)
    rows = held.of(request.world)
    if len(rows) != 1:
        raise Rejected(
            f"this world has {len(rows)} workspaces; say which",
            code="workspace.which",
            hint="name one with --in, by its folder's name or its id",
        )
    return rows[0]


async def list_workspaces(request: Request) -> Response:
    """GET W/workspaces: each with where it lies here and how the watching fares."""
    rows = await live(request, workspaces.workspace_list)
    watching = request.node.watching
    for row in rows:
        place = (request.world, row["workspace_id"])
        kept, lookout = watching.workspaces.rows.get(place), watching.lookouts.get(place)
        row["path"] = None if kept is None else kept.folder
        row["folding"] = kept is not None and kept.folding
        row["status"] = "away" if kept is None else "still"
        if lookout is not None:
            row["status"] = "missing" if lookout.watcher.missing else "watched"
            row["fault"] = lookout.fault
            row["findings"] = [found.shown(file) for file, found in lookout.loading.findings]
    return Response(value={"items": rows})


async def add(request: Request) -> Response:
    """POST W/workspaces: watch a directory of this host; 201 with its id."""
    body = request.read(NewWorkspace)
    folder = Path(body.path)
    if not folder.is_absolute():
        raise Rejected("the path is absolute", code="workspace.bad_path", where={"path": "/path"})
    if not await request.node.look(request.world, workspaces.reacts):
        raise Conflict(
            "the bundle of this world binds nothing for reactions: every run would be denied",
            code="workspace.unbound",
            where={"world": request.world},
            hint="watch it in a world of its own with -w NAME, or `tally bundle build --reacts` "
            "and `tally gov propose --bundle`",
        )
    principal = request.who.principal
    kept = await request.node.watching.add(request.world, folder, principal, shared=body.shared)
    told = {"workspace_id": kept.workspace_id, "name": kept.name, "path": kept.folder}
    return Response(201, {**told, "shared": kept.shared, "folding": kept.folding})


async def remove(request: Request) -> Response:
    """DELETE W/workspaces/{workspace}: watch it no more."""
    kept = kept_of(request)
    await request.node.watching.remove(kept)
    return Response(value={"workspace_id": kept.workspace_id, "path": kept.folder})


async def trust(request: Request) -> Response:
    """POST W/workspaces/{workspace}/trust: pin the definitions that are loaded now."""
    body = request.read(TrustBody)
    kept = kept_of(request)
    principal = request.who.principal
    hashes = await request.node.watching.trust(kept, body.reactions, principal, follow=body.follow)
    return Response(202, {"workspace_id": kept.workspace_id, "trusted": hashes})


async def scan(request: Request) -> Response:
    """POST W/workspaces/{workspace}/scan: all on disk now is journaled when this is answered."""
    body = request.read(ScanBody)
    kept = kept_of(request)
    n = await request.node.watching.lookout(kept).scan()
    quiet = None
    if body.wait_ms:
        n, quiet = await _settled(request.node, kept, body.wait_ms)
    stand = await stand_of(request.node, kept)
    risks = [[shown(path) for path in group] for group in collisions(stand.tree)]
    return Response(
        value={
            "workspace_id": kept.workspace_id,
            "n": n,
            "tree": stand.body["tree"] and stand.body["tree"]["blob"],
            "files": sum(node.kind != "d" for node in stand.tree.values()),
            "quiet": quiet,
            "name_collision_risk": risks,
        }
    )


async def _settled(node: Node, kept: Kept, wait_ms: int) -> tuple[int, bool]:
    """Look and wait until nothing follows any more: one run's output may be another's input."""
    lookout = node.watching.lookout(kept)
    until = node.loop.time() + wait_ms / 1000
    n = lookout.n
    while True:
        left_ms = max(0, round((until - node.loop.time()) * 1000))
        quiet = await node.quiet(kept.world, left_ms)
        before, n = n, await lookout.scan()
        held = (await stand_of(node, kept)).body
        resting = quiet and n == before and not held["active"] and not held["queued"]
        if resting or left_ms == 0:
            return n, resting


async def confirm(request: Request) -> Response:
    """POST W/workspaces/{workspace}/confirm: what vanished was meant to."""
    kept = kept_of(request)
    await request.node.watching.lookout(kept).confirm()
    return Response(202, {"workspace_id": kept.workspace_id})


# ---- frames ---------------------------------------------------------------------------------


async def put_frame(request: Request) -> Response:
    """POST W/frames: attach a typed piece of context to a place."""
    body = request.read(FrameBody)
    kept = kept_of(request, body.workspace)
    path = unshown(body.path)
    value: dict[str, Any] = {
        "locator_id": ids.text(ids.locator_id(kept.workspace_id, path)),
        "workspace_id": kept.workspace_id,
        "path": shown(path),
        "type": body.type,
        "content": body.content,
        "content_ref": None,
        "basis": await basis_of(request.node, kept, path),
        "author": {"kind": "human", "id": request.who.principal},
        "meta": body.meta,
        "depth": 0,
        "lineage": [],
        "root_trigger_id": None,
        "writer": None,
    }
    seq = await submit(request, "sys/FramePut@1", value)
    content = ids.text(ids.content_id(body.content))
    return Response(202, {"seq": seq, "path": shown(path), "content_id": content})


async def list_frames(request: Request) -> Response:
    """GET W/frames: the heads, with whether each is still fresh; one of them with its content."""
    query = request.query
    kept = kept_of(request)
    rows = await live(
        request, lambda world: workspaces.frame_list(world, kept.workspace_id, query.get("path"))
    )
    stand = await stand_of(request.node, kept)
    for row in rows:
        bare = bare_id(stand.tree, unshown(row["path"]), kept.workspace_id, stand.view.stamps)
        row["fresh"] = bare is not None and row["basis"]["bare_id"] == bare
    if "type" in query:
        rows = [row for row in rows if row["type"] == query["type"]]
    if request.flag("stale"):
        rows = [row for row in rows if not row["fresh"]]
    if request.flag("content"):
        rows = [await _with_content(request, row) for row in rows]
    return Response(value={"items": rows})


async def _with_content(request: Request, row: dict[str, Any]) -> dict[str, Any]:
    digest = ids.raw(row["content_id"])
    data = await request.node.read(lambda reader: reader.blob(request.world, digest))
    if data is None:
        raise UnknownName("the content of the frame was pruned", code="frame.pruned")
    return {**row, "content": data.decode("utf-8", "replace")}


# ---- stamps ---------------------------------------------------------------------------------


async def list_stamps(request: Request) -> Response:
    """GET W/stamps: who wrote which bytes where."""
    wanted = request.query.get("path")
    if request.at is None:
        view = await request.node.watching.projected.now(request.world)
    else:
        view = await request.node.watching.projected.past(request.world, request.at)
    rows = [_stamp_row(stamp) for stamp in view.stamps.entries()]
    rows = [row for row in rows if wanted in (None, row["path"])]
    # Of one path there are several, and of one write of another world they may be alike.
    of_path: dict[tuple[str, str], int] = {}
    for row in rows:
        place = row["workspace_id"], row["path"]
        of_path[place] = number = of_path.get(place, 0) + 1
        row["stamp"] = f"{row['workspace_id']}/{number}/{row['path']}"
    return Response(value=pages.cut(rows, page_of(request), "stamp", view.seq))


def _stamp_row(stamp: Stamp) -> dict[str, Any]:
    shown_path, intent = shown(stamp.path), stamp.intent.hex() or None
    return {**stamp._asdict(), "path": shown_path, "intent": intent}


def move_stamp(verb: str) -> Any:
    """POST W/stamps/adopt and forget: a person's word about a path."""

    async def act(request: Request) -> Response:
        body = request.read(StampBody)
        kept = kept_of(request, body.workspace)
        path = unshown(body.path)
        view = await request.node.watching.projected.now(request.world)
        if not view.stamps.by_path(kept.workspace_id, path):
            raise UnknownName(
                f"no reaction has written {body.path}",
                code="stamp.unknown",
                where={"path": body.path},
            )
        value = {
            "workspace_id": kept.workspace_id,
            "path": shown(path),
            "verb": verb,
            "content_id": content_on_disk(kept, path),
            "principal": request.who.principal,
        }
        seq = await submit(request, "sys/StampMoved@1", value)
        return Response(202, {"seq": seq, "path": body.path, "verb": verb})

    return act


async def submit(request: Request, schema: str, value: dict[str, Any]) -> int:
    """Offer an event of our own rooms; its sequence."""
    given = Submit(request.sample(), schema, value, lens="native", origin="system")
    return (await request.node.one(request.world, given)).seq
