"""Questions about workspaces that need the journal, the live world and the disk together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallystick.errors import UnknownName
from tallystick.node.node import Node
from tallystick.node.watch_disk import Disk
from tallystick.node.workspaces import Kept
from tallystick.reactions import ids
from tallystick.reactions.heads import bare_id
from tallystick.reactions.tree import EMPTY, Tree, load, shown
from tallystick.views import workspaces
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
    lookout = node.watching.lookouts.get(kept.workspace_id)
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
