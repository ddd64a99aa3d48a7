"""The tree of a workspace: what stands where, by content, and the one hash over all of it (F-23).

Theory of operation.
A `Tree` maps each path, as raw bytes below the workspace, to a node; the workspace itself is `b""`.
A directory's id is the hash of its listing (R1), so equal directories have equal ids wherever they
are: no path, time or owner is inside.
The listing is a document whose hash is the id, so it can be kept as a blob under its own id, and a
tree can be read back from the id of its root alone.

Trees are never changed.  `with_changes` makes the next one and hashes only the directories above
what changed.
"""

# tidy: one noun: its identity, its making, its comparing and its spelling.
from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import JournalCorrupt, Rejected
from tallystick.values import canon

FILE, PROGRAM, DIRECTORY, LINK, SPECIAL, BIG, UNREADABLE = "fxdlsbu"
KINDS: Final = "fxdlsbu"
ROOT: Final = b""
CREATED, MODIFIED, REMOVED = "created", "modified", "removed"
RENAMED, TYPE_CHANGED = "renamed", "type_changed"
# One file on a disk may pass between these without becoming another kind of thing.
_PLAIN: Final = frozenset((FILE, PROGRAM, BIG, UNREADABLE))


class TreeNode(NamedTuple):
    """One entry: its kind, the hash of its content (None: no content was read), and its size."""

    kind: str
    id: bytes | None
    size: int = 0

    @property
    def identity(self) -> bytes | int | None:
        """What stands for the content in a listing: a hash; of a file over the limit its size."""
        return self.size if self.kind == BIG else self.id

    def same(self, other: TreeNode) -> bool:
        """True when a listing could not tell the two apart."""
        return self.kind == other.kind and self.identity == other.identity


Tree = Mapping[bytes, TreeNode]


class Change(NamedTuple):
    """One leaf that differs; `old` is the former name of one that was renamed."""

    path: bytes
    change: str
    before: TreeNode | None
    after: TreeNode | None
    old: bytes | None = None


# ---- identity -------------------------------------------------------------------------------


def listing(entries: Iterable[tuple[bytes, TreeNode]]) -> bytes:
    """The document of a directory; its sha256 is the directory's id (R1).

    Pieces are joined by hand because a scan makes one for each directory that moved; it equals
    `canon.encode` of `{"$type": "tree@1", "entries": [[name, kind, id]..]}`.
    """
    rows = sorted(entries)
    pieces = [_HEAD, canon.head(4, len(rows))]
    for name, node in rows:
        identity = node.identity
        if identity is None:
            put = b"\xf6"
        elif isinstance(identity, int):
            put = canon.put_int(identity)
        else:
            put = canon.put_bytes(identity)
        pieces += (b"\x83", canon.put_bytes(name), _KIND_ITEMS[node.kind], put)
    return b"".join(pieces)


_HEAD: Final = (
    canon.PREFIX
    + b"\xa2"
    + canon.put_text("$type")
    + canon.put_text("tree@1")
    + canon.put_text("entries")
)
_KIND_ITEMS: Final = {kind: canon.put_text(kind) for kind in KINDS}


def tree_id(tree: Tree, path: bytes = ROOT) -> bytes:
    """The id of a directory of the tree; of the whole workspace by default."""
    found = tree[path]
    assert found.kind == DIRECTORY, "only a directory has a tree id"
    assert found.id is not None, "a directory always has an id"
    return found.id


def parent(path: bytes) -> bytes:
    """The directory that a path stands in; the workspace's own is itself."""
    return path.rpartition(b"/")[0]


def name_of(path: bytes) -> bytes:
    """The last segment of a path."""
    return path.rpartition(b"/")[2]


def ancestors(path: bytes) -> Iterator[bytes]:
    """Every directory above a path, nearest first, the workspace last."""
    while path:
        path = parent(path)
        yield path


# ---- making trees ---------------------------------------------------------------------------


def make(leaves: Mapping[bytes, TreeNode]) -> dict[bytes, TreeNode]:
    """A tree of leaves; directories are added as needed, empty ones may be given as `d`."""
    return with_changes({ROOT: _EMPTY}, leaves)


def with_changes(before: Tree, changed: Mapping[bytes, TreeNode | None]) -> dict[bytes, TreeNode]:
    """The next tree: what `changed` names is as it says, None is gone with all below it.

    A directory in `changed` says only that it is there; its id follows from its entries.
    """
    after = dict(before)
    _clear(after, changed)
    dirty: set[bytes] = {ROOT}
    for path, node in changed.items():
        if path != ROOT:
            _place(after, path, node, dirty)
    entries = _entries(after, dirty)
    for path in sorted(dirty, key=_depth, reverse=True):
        after[path] = made = TreeNode(DIRECTORY, sha256(listing(entries[path])).digest())
        if path != ROOT:
            entries[parent(path)].append((name_of(path), made))
    return after


def listings(tree: Tree, known: Tree) -> dict[bytes, bytes]:
    """The listings of a tree by their hash, but for those that a known tree has too."""
    have = {node.id for node in known.values() if node.kind == DIRECTORY}
    wanted = {
        path: node.id
        for path, node in tree.items()
        if node.kind == DIRECTORY and node.id is not None and node.id not in have
    }
    held: dict[bytes, list[tuple[bytes, TreeNode]]] = {path: [] for path in wanted}
    for path, node in tree.items():
        above, _, name = path.rpartition(b"/")
        if path != ROOT and above in held:
            held[above].append((name, node))
    return {digest: listing(held[path]) for path, digest in wanted.items()}


def _clear(after: dict[bytes, TreeNode], changed: Mapping[bytes, TreeNode | None]) -> None:
    """Take out what stood below directories that are none any more, in one pass for all."""
    fallen = {
        path
        for path, node in changed.items()
        if (node is None or node.kind != DIRECTORY)
        and (was := after.get(path)) is not None
        and was.kind == DIRECTORY
    }
    if fallen:
        for path in [each for each in after if not fallen.isdisjoint(ancestors(each))]:
            del after[path]


def _place(
    after: dict[bytes, TreeNode], path: bytes, node: TreeNode | None, dirty: set[bytes]
) -> None:
    """Put or remove one node, and mark the directories whose listing moves."""
    was = after.get(path)
    if node is None:
        if was is None:
            return
        del after[path]
    elif node.kind == DIRECTORY:
        if was is None or was.kind != DIRECTORY:
            after[path] = _EMPTY
        dirty.add(path)
    else:
        after[path] = node
    for above in ancestors(path):
        dirty.add(above)
        if node is not None and above not in after:
            after[above] = _EMPTY


def _entries(
    tree: Mapping[bytes, TreeNode], dirty: set[bytes]
) -> dict[bytes, list[tuple[bytes, TreeNode]]]:
    """What each dirty directory holds, but for those that are dirty themselves."""
    held: dict[bytes, list[tuple[bytes, TreeNode]]] = {path: [] for path in sorted(dirty)}
    for path, node in tree.items():
        if path == ROOT or path in dirty:
            continue
        above, _, name = path.rpartition(b"/")
        into = held.get(above)
        if into is not None:
            into.append((name, node))
    return held


def _depth(path: bytes) -> tuple[int, bytes]:
    return (path.count(b"/") + 1 if path else 0, path)


_EMPTY: Final = TreeNode(DIRECTORY, sha256(listing(())).digest())
EMPTY: Final[Tree] = {ROOT: _EMPTY}


def load(root: bytes, blob: Callable[[bytes], bytes | None]) -> dict[bytes, TreeNode]:
    """The tree of a root id, read back from its listings; sizes are not in it.

    JournalCorrupt when a listing is missing or is not the one its hash names.
    """
    tree = {ROOT: TreeNode(DIRECTORY, root)}
    waiting: list[tuple[bytes, bytes]] = [(ROOT, root)]
    while waiting:
        path, digest = waiting.pop()
        for name, kind, identity in entries_of(digest, blob(digest)):
            here = path + b"/" + name if path else name
            if kind == BIG:
                tree[here] = TreeNode(kind, None, identity)
                continue
            tree[here] = TreeNode(kind, identity)
            if kind == DIRECTORY:
                waiting.append((here, identity))
    return tree


def entries_of(digest: bytes, data: bytes | None) -> list[list[Any]]:
    """The [name, kind, id] rows of a listing; refuses bytes that are not those of the hash."""
    if data is None or sha256(data).digest() != digest:
        raise JournalCorrupt(
            "a listing of the tree is missing or damaged",
            code="reaction.tree_damaged",
            where={"tree": canon.text_of(digest)},
        )
    document = canon.decode(data)
    if document.get("$type") != "tree@1":
        raise JournalCorrupt(
            "the hash names no listing of a tree",
            code="reaction.tree_damaged",
            where={"tree": canon.text_of(digest)},
        )
    rows: list[list[Any]] = document["entries"]
    return rows


# ---- comparing ------------------------------------------------------------------------------


def compare(before: Tree, after: Tree, folding: bool = False) -> list[Change]:
    """Every leaf that differs, by path; a directory is its leaves, so an empty one is no change.

    `folding`: the disk takes names that differ by case for one, so a leaf that vanished under one
    spelling and came under another was renamed.
    """
    found: list[Change] = []
    for path, node in after.items():
        was = before.get(path)
        if was is node or (was is not None and was.same(node)):
            continue
        if node.kind == DIRECTORY and (was is None or was.kind == DIRECTORY):
            continue
        found.append(Change(path, _change(was, node), was, node))
    found += [
        Change(path, REMOVED, was, None)
        for path, was in before.items()
        if path not in after and was.kind != DIRECTORY
    ]
    if folding:
        found = _renamed(found)
    return sorted(found)


def _change(was: TreeNode | None, node: TreeNode) -> str:
    if was is None:
        return CREATED
    if was.kind == node.kind or (was.kind in _PLAIN and node.kind in _PLAIN):
        return MODIFIED
    return TYPE_CHANGED


def _renamed(found: list[Change]) -> list[Change]:
    """Join a removal and a creation of one folded name."""
    gone = {fold(each.path): each for each in found if each.change == REMOVED}
    kept: list[Change] = []
    for each in found:
        if each.change == CREATED and (was := gone.pop(fold(each.path), None)) is not None:
            kept.append(Change(each.path, RENAMED, was.before, each.after, was.path))
        elif each.change != REMOVED:
            kept.append(each)
    return kept + [gone[key] for key in sorted(gone)]


# ---- names ----------------------------------------------------------------------------------


def fold(path: bytes) -> bytes:
    """R3: the key under which a folding directory takes two names for one."""
    text = path.decode("utf-8", "surrogateescape")
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return folded.encode("utf-8", "surrogateescape")


def collisions(tree: Tree) -> list[list[bytes]]:
    """Groups of paths that some other disk would take for one: `name_collision_risk`."""
    groups: dict[bytes, list[bytes]] = {}
    for path in tree:
        if not path.isascii() or path != path.lower():
            groups.setdefault(fold(path), []).append(path)
    for key, group in groups.items():
        if key in tree and key not in group:
            group.append(key)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def shown(path: bytes) -> str:
    r"""R3: a path as text; what is no printable text, and the backslash, is `\xNN`."""
    if path.isascii() and b"\\" not in path and (text := path.decode("ascii")).isprintable():
        return text
    pieces: list[str] = []
    for char in path.decode("utf-8", "surrogateescape"):
        if char != "\\" and char.isprintable():
            pieces.append(char)
        else:
            raw = char.encode("utf-8", "surrogateescape")
            pieces.append("".join(f"\\x{byte:02x}" for byte in raw))
    return "".join(pieces)


def unshown(text: str) -> bytes:
    r"""The path of a shown text; refuses a backslash that begins no `\xNN`."""
    head, *rest = text.split("\\")
    raw = head.encode()
    for piece in rest:
        code = piece[1:3]
        if piece[:1] != "x" or len(code) != 2 or not _HEX.issuperset(code):
            raise Rejected(
                f"{text!r} holds a backslash that begins no \\xNN",
                code="reaction.bad_path",
                hint="write a backslash as \\x5c",
            )
        raw += bytes((int(code, 16),)) + piece[3:].encode()
    return raw


_HEX: Final = frozenset("0123456789abcdef")
