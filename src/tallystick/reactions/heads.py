"""Frame heads as triggers and facts see them: a projection over `sys/FrameHeadChanged@1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallystick.reactions import ids
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import DIRECTORY, Tree, TreeNode, tree_id, unshown, with_changes

TEXT_MAX = 64 * 1024


class Head(NamedTuple):
    """The newest frame of one type at one place, as the event that moved it said."""

    path: bytes
    type: str
    told: Mapping[str, Any]
    content: bytes | None = None

    def facts(self, bare: str | None) -> dict[str, Any]:
        """The head as policy sees it; text up to a limit, never more (P4)."""
        return {
            "present": True,
            "fresh": self.told["basis"]["bare_id"] is not None
            and self.told["basis"]["bare_id"] == bare,
            "frame_id": self.told["frame_id"],
            "content_id": self.told["content_id"],
            "meta": self.told["meta"],
            "content": _text(self.content),
        }


ABSENT: Mapping[str, Any] = {
    "present": False,
    "fresh": False,
    "frame_id": None,
    "content_id": None,
    "meta": {},
    "content": None,
}

Heads = Mapping[tuple[bytes, str], Head]


def head_of(told: Mapping[str, Any], content: bytes | None) -> Head:
    """The head behind a `sys/FrameHeadChanged@1`, with the bytes of its content."""
    return Head(unshown(told["path"]), told["type"], told, content)


def _text(content: bytes | None) -> str | None:
    if content is None or len(content) > TEXT_MAX:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def bare_id(tree: Tree, path: bytes, workspace_id: str, stamps: Stamps) -> str | None:
    """The id of a node without the outputs inside it: what a frame about it rests on."""
    node = tree.get(path)
    if node is None or node.id is None:
        return None
    if node.kind != DIRECTORY:
        return ids.text(node.id)
    below = path + b"/" if path else b""
    outputs: dict[bytes, TreeNode | None] = {
        at: None
        for at in stamps.paths(workspace_id)
        if at.startswith(below)
        and (held := tree.get(at)) is not None
        and _is_output(at, held, workspace_id, stamps)
    }
    if not outputs:
        return ids.text(node.id)
    return ids.text(tree_id(with_changes(tree, outputs), path))


def _is_output(path: bytes, node: TreeNode, workspace_id: str, stamps: Stamps) -> bool:
    if node.kind == DIRECTORY or node.id is None:
        return False
    return stamps.matching(workspace_id, path, ids.text(node.id)) is not None
