"""What a run of a reaction over a target would read: its manifest and digest (R5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tallystick.reactions import globs, guards, ids, keys, scopes
from tallystick.reactions.document import Definition
from tallystick.reactions.heads import ABSENT, bare_id
from tallystick.reactions.observation import Observation
from tallystick.reactions.tree import DIRECTORY, Tree, shown
from tallystick.values import canon


class Inputs(NamedTuple):
    """The manifest as a document, its hash, and the digest of what it says is read."""

    data: bytes
    hash: str
    digest: str


def inputs_of(
    seen: Observation, definition: Definition, target: bytes, args: Mapping[str, Any]
) -> Inputs:
    """The inputs of a run over a target as the tree stands after the observation."""
    params = {**definition["params"], **args}
    files = files_of(seen, definition, target)
    frames: dict[str, Any] = {}
    placed: list[tuple[list[Any], str, str]] = []
    for kind in definition["reads"]["frames"]:
        head = seen.heads.get((target, kind))
        if head is None:
            frames[kind] = dict(ABSENT)
            continue
        bare = bare_id(seen.after, target, seen.workspace_id, seen.stamps)
        frames[kind] = head.facts(bare)
        placed.append(([seen.workspace_id, shown(target)], kind, head.told["content_id"]))
    body = {
        "$type": "manifest@1",
        "files": [[path, held] for path, held in files],
        "frames": frames,
        "params": params,
        "node": _node(seen, target),
        "outputs": _outputs(seen, definition),
        "git_commit": seen.git_commit,
    }
    data = canon.encode(body)
    return Inputs(data, canon.hash_of(data), keys.input_digest(files, placed, params))


def files_of(
    seen: Observation, definition: Definition, target: bytes
) -> list[tuple[str, str | None]]:
    """The files that are read: `reads`, less what is ignored and what the reaction wrote."""
    wanted = scopes.below(definition, definition["reads"]["files"], target)
    patterns = [globs.parse(glob) for glob in wanted]
    above = tuple(scopes.literal(glob) for glob in wanted)
    ignores = bool(definition["ignore"])
    found = [
        (path, None if node.id is None else ids.text(node.id))
        for path, node in seen.after.items()
        if path.startswith(above)
        and node.kind != DIRECTORY
        and any(pattern.matches(path) for pattern in patterns)
        and not (ignores and guards.is_ignored(definition, target, path) is not None)
        and not guards.is_own_output(definition, (seen.workspace_id, path), seen.stamps)
    ]
    return [(shown(path), held) for path, held in sorted(found)]


def _outputs(seen: Observation, definition: Definition) -> list[list[str]]:
    """What this reaction wrote and is still as it wrote it: what it may replace."""
    found: list[list[str]] = []
    for path in sorted(seen.stamps.of_reaction(seen.workspace_id, definition.name)):
        node = seen.after.get(path)
        if node is None or node.id is None:
            continue
        held = ids.text(node.id)
        if guards.is_self(definition, (seen.workspace_id, path), held, seen.stamps):
            found.append([shown(path), held])
    return found


def _node(seen: Observation, target: bytes) -> dict[str, Any]:
    """The target itself, as policy sees it (P4)."""
    node = seen.after.get(target)
    if node is None:
        return {"path": shown(target), "kind": None, "node_id": None, "bare_id": None, "size": 0}
    made = ids.node_id(seen.workspace_id, target, node.kind, node.identity)
    return {
        "path": shown(target),
        "kind": node.kind,
        "node_id": ids.text(made),
        "bare_id": bare_id(seen.after, target, seen.workspace_id, seen.stamps),
        "size": _size(seen.after, target),
    }


def _size(tree: Tree, path: bytes) -> int:
    node = tree[path]
    if node.kind != DIRECTORY:
        return node.size
    below = path + b"/" if path else b""
    return sum(held.size for at, held in tree.items() if at.startswith(below))
