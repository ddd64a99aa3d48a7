"""Questions about workspaces that need the journal, the live world and the disk together."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from tallystick.errors import UnknownName
from tallystick.journal.base import Reader
from tallystick.model.records import IntentOpened
from tallystick.node.node import Node
from tallystick.node.watch_disk import Disk
from tallystick.node.workspaces import Kept
from tallystick.reactions import ids
from tallystick.reactions.heads import bare_id
from tallystick.reactions.tree import EMPTY, Tree, load, shown
from tallystick.values import canon
from tallystick.views import workspaces
from tallystick.views.journal import entries
from tallystick.views.reactive import Reactive
from tallystick.views.why import Asked, why


class Stand(NamedTuple):
    """How far the journal has come with a workspace."""

    body: Mapping[str, Any]
    tree: Tree
    view: Reactive


async def stand_of(node: Node, kept: Kept) -> Stand:
    """The journaled tree of a workspace, and the projection with it."""
    body = await node.look(
        kept.world, lambda world: workspaces.workspace_body(world, kept.workspace_id)
    )
    lookout = node.watching.lookouts.get(kept.place)
    if lookout is not None and lookout.known and lookout.n == body["n"]:
        tree = lookout.watcher.known
    elif body["tree"] is None:
        tree = EMPTY
    else:
        tree = await tree_of(node, kept.world, body["tree"]["blob"])
    return Stand(body, tree, await node.watching.projected.now(kept.world))


async def tree_of(node: Node, world: str, root: str) -> Tree:
    """A tree by its id, from the store; sizes are not in it."""
    return await node.read(
        lambda reader: load(ids.raw(root), lambda digest: reader.blob(world, digest))
    )


async def why_path(node: Node, kept: Kept, path: bytes) -> dict[str, Any]:
    """Why a file of the disk is as it is."""
    view = await node.watching.projected.now(kept.world)
    attempts = await node.look(kept.world, workspaces.attempts)
    content = content_on_disk(kept, path)
    return why(view, attempts, Asked(kept.workspace_id, path, content))


def content_on_disk(kept: Kept, path: bytes) -> str | None:
    """The content id of a file as it is now; None when there is no plain file."""
    disk = Disk(kept.folder)
    above, _, name = path.rpartition(b"/")
    entries = disk.entries(above) or []
    entry = next((each for each in entries if each.name == name), None)
    digest = None if entry is None else disk.content(path, entry)
    return None if digest is None else ids.text(digest)


DIFF_LINES_MAX: Final = 200


async def conflict_of(node: Node, kept: Kept, intent: str) -> dict[str, Any] | None:
    """What a refused write would change of the file as it is; None when nothing is known of it."""
    seq = await node.index.seq_of(kept.world, intent.removeprefix("sha256:"))
    if seq is None:
        return None
    params = await node.read(lambda reader: _params_at(reader, kept.world, seq))
    if params is None or "path" not in params:
        return None
    theirs = await asyncio.to_thread(Disk(kept.folder).text, params["path"].encode())
    lines = difflib.unified_diff(
        _lines(theirs), _lines(params["bytes"]), params["path"], "proposed", lineterm=""
    )
    return {"path": params["path"], "diff": list(islice(lines, DIFF_LINES_MAX))}


def _params_at(reader: Reader, world: str, seq: int) -> dict[str, Any] | None:
    for entry in entries(reader.read(world, seq - 1, seq)):
        record = entry.record
        if entry.seq == seq and isinstance(record, IntentOpened):
            digest = record.params_hash
            data = record.params if digest is None else reader.blob(world, digest)
            params = {} if data is None else canon.decode(data)
            ref = params.get("content_ref")
            held = params.get("content") if ref is None else reader.blob(world, ids.raw(ref))
            return {**params, "bytes": held}
    return None


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


async def basis_of(node: Node, kept: Kept, path: bytes) -> dict[str, Any]:
    """What a frame about a place rests on: its node, and that without our own outputs."""
    stand = await stand_of(node, kept)
    found = stand.tree.get(path)
    if found is None:
        raise UnknownName(
            f"{shown(path)} is not in the workspace",
            code="frame.no_place",
            where={"path": shown(path)},
            hint="scan first, or name a file or directory that is not ignored",
        )
    node_id = ids.node_id(kept.workspace_id, path, found.kind, found.identity)
    bare = bare_id(stand.tree, path, kept.workspace_id, stand.view.stamps)
    return {"node_id": ids.text(node_id), "bare_id": bare, "frames": []}
