"""What a run of a reaction over a target would read: its manifest and digest (R5).

The files of a look are those of the look before but for what has changed in between, so a large
tree costs little at each edit; whoever remembers nothing gets the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tallystick.reactions import globs, guards, ids, scopes
from tallystick.reactions.document import Definition
from tallystick.reactions.heads import ABSENT, bare_id
from tallystick.reactions.listed import Listed, Row, listed, row_of
from tallystick.reactions.observation import Earlier, Observation
from tallystick.reactions.tree import DIRECTORY, Tree, TreeNode, compare, shown
from tallystick.values import canon

Reads = Callable[[bytes, TreeNode], bool]


class Inputs(NamedTuple):
    """The manifest as a document, its hash, and the digest of what it says is read.

    `pages` are the documents that it names.
    """

    data: bytes
    hash: str
    digest: str
    pages: dict[str, bytes]


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
    outputs = _outputs(seen, definition)
    body: dict[str, Any] = {
        "$type": "manifest@1",
        "files": files.names,
        "frames": frames,
        "params": params,
        "node": _node(seen, target),
        "outputs": outputs.names,
        "git_commit": seen.git_commit,
    }
    body |= {"folding": True} if seen.folding else {}
    data = canon.encode(body)
    pages = {page.hash: page.data for page in (*files.pages, *outputs.pages)}
    return Inputs(data, canon.hash_of(data), files.digest(placed, params), pages)


def files_of(seen: Observation, definition: Definition, target: bytes) -> Listed:
    """The files that are read: `reads`, less what is ignored and what the reaction wrote."""
    wanted = scopes.below(definition, definition["reads"]["files"], target)
    ignored = scopes.below(definition, definition["ignore"], target)
    key = (definition.hash, tuple(wanted), tuple(ignored))
    # What a reaction has written is none of its inputs, so its stamps are part of the question.
    own = frozenset(seen.stamps.of_reaction(seen.workspace_id, definition.name))
    known = seen.earlier.of(key)
    if known is not None and known.tree is seen.after and known.own == own:
        return known.files
    reads = _reads(seen, definition, target, wanted)
    if known is None:
        found = listed(
            (shown(path), _held(node)) for path, node in seen.after.items() if reads(path, node)
        )
    else:
        moved = [change.path for change in compare(known.tree, seen.after)]
        moved += [seen.spelled(path) for path in sorted(known.own ^ own)]
        found = known.files.with_changes(_moved(seen, moved, reads))
    seen.earlier.keep(key, Earlier.Known(seen.after, own, found))
    return found


def _reads(seen: Observation, definition: Definition, target: bytes, wanted: list[str]) -> Reads:
    patterns = [globs.parse(glob) for glob in wanted]
    above = tuple(scopes.literal(glob) for glob in wanted)
    ignores = bool(definition["ignore"])

    def reads(path: bytes, node: TreeNode) -> bool:
        return (
            path.startswith(above)
            and node.kind != DIRECTORY
            and any(pattern.matches(path) for pattern in patterns)
            and not (ignores and guards.is_ignored(definition, target, path) is not None)
            and not guards.is_own_output(definition, (seen.workspace_id, path), seen.stamps)
        )

    return reads


def _moved(seen: Observation, paths: Iterable[bytes], reads: Reads) -> dict[str, Row | None]:
    """The rows of paths as they are now; None for what is not read any more."""
    made: dict[str, Row | None] = {}
    for path in paths:
        node, name = seen.after.get(path), shown(path)
        read = node is not None and reads(path, node)
        made[name] = row_of(name, _held(node)) if node is not None and read else None
    return made


def _held(node: TreeNode) -> str | None:
    return None if node.id is None else ids.text(node.id)


def _outputs(seen: Observation, definition: Definition) -> Listed:
    """What this reaction wrote and is still as it wrote it: what it may replace."""
    found: list[tuple[str, str | None]] = []
    for stamped in seen.stamps.of_reaction(seen.workspace_id, definition.name):
        path = seen.spelled(stamped)
        node = seen.after.get(path)
        if node is None or node.id is None:
            continue
        held = ids.text(node.id)
        if guards.is_self(definition, (seen.workspace_id, path), held, seen.stamps):
            found.append((shown(stamped), held))
    return listed(found)


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
