"""The scan: what stands on the disk now, as a tree.  Hints only say where to look; this looks.

Theory of operation (08 section 6, W1, W4 to W6).
The disk is behind a port, so that tests can let files vanish, grow or refuse at any moment.
A file is hashed unless its signature is the one of the last scan and is old enough to be trusted:
a write within the clock's grain of the last look might have left the same signature.
What goes wrong with one entry is that entry's affair: it is gone, unreadable or torn, and a torn
one keeps what was known of it and is asked for again.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tallystick.reactions.ignore import Ignore
from tallystick.reactions.tree import (
    BIG,
    DIRECTORY,
    EMPTY,
    FILE,
    LINK,
    PROGRAM,
    ROOT,
    SPECIAL,
    UNREADABLE,
    Tree,
    TreeNode,
    ancestors,
    name_of,
    parent,
    with_changes,
)

FILE_BYTES_MAX: Final = 256 << 20
GRAIN_NS: Final = 2_000_000_000


class Entry(NamedTuple):
    """What one look at a name tells, without opening it."""

    name: bytes
    mode: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def signature(self) -> tuple[int, int, int, int, int]:
        """Equal for two looks at a file that was not touched between them."""
        return (self.mode, self.inode, self.size, self.mtime_ns, self.ctime_ns)


class FileSystem(Protocol):
    """A workspace on a disk; every path is below it, as raw bytes."""

    def entries(self, path: bytes) -> list[Entry] | None:
        """What a directory holds; None when there is none, PermissionError when it is closed."""
        ...

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        """The hash of a plain file; None when it vanished or moved while it was read.

        Never waits for somebody at the other end; PermissionError when it may not be read.
        """
        ...

    def target(self, path: bytes) -> bytes | None:
        """The hash of the target of a link; None when it is no link any more."""
        ...

    def text(self, path: bytes) -> bytes | None:
        """The bytes of a small file of rules; None when it cannot be read."""
        ...

    def exists(self, path: bytes) -> bool:
        """True when there is anything under the name."""
        ...


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan found: the tree, what was torn, and how many files were read."""

    tree: Tree
    torn: tuple[bytes, ...] = ()
    hashed: int = 0
    gone: bool = False
    """The workspace itself is not there; the tree is the last one."""


@dataclass(slots=True)
class _Round:
    """One scan on its way."""

    changed: dict[bytes, TreeNode | None] = field(default_factory=dict)
    torn: list[bytes] = field(default_factory=list)
    waiting: list[tuple[bytes, bool]] = field(default_factory=list)
    """Directories to list; True: with all that stands below them."""
    whole: bool = True
    hashed: int = 0


class Scanner:
    """Looks at one workspace again and again; knows what it saw the last time."""

    def __init__(
        self, files: FileSystem, ignore: Ignore, file_bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        self._files = files
        self._ignore = ignore
        self._bytes_max = file_bytes_max
        self._tree: Tree = EMPTY
        self._signatures: dict[bytes, tuple[int, int, int, int, int]] = {}
        self._names: dict[bytes, set[bytes]] = {}
        self._trusted_ns = 0
        self._judged = True  # what is known was let in by the rules that hold

    def use(self, ignore: Ignore) -> None:
        """Other rules from now on; the next scan has to be a whole one."""
        self._ignore = ignore
        self._judged = False

    def scan(self, now_ns: int, dirty: Iterable[bytes] | None = None) -> Scanned:
        """Look at everything, or at dirty paths with all below them, and at what is new there."""
        work = _Round(whole=dirty is None)
        work.waiting = [(ROOT, True)] if dirty is None else self._to_list(dirty)
        seen: dict[bytes, bool] = {}
        while work.waiting:
            path, deep = work.waiting.pop()
            if seen.get(path, not deep) >= deep and path in seen:
                continue
            seen[path] = deep
            if not self._directory(path, work, deep=deep) and path == ROOT:
                return Scanned(self._tree, gone=True)
        if work.changed:
            self._tree = with_changes(self._tree, work.changed)
        if work.whole:
            self._judged = True
            self._trusted_ns = now_ns - GRAIN_NS
        return Scanned(self._tree, tuple(sorted(work.torn)), work.hashed)

    def _to_list(self, dirty: Iterable[bytes]) -> list[tuple[bytes, bool]]:
        """The directories to list: a dirty one whole, and the nearest known one above it."""
        found: dict[bytes, bool] = {}
        for path in dirty:
            if path in self._names or path == ROOT:
                found[path] = True  # another directory may have taken its name
            for above in ancestors(path):
                if above in self._names or above == ROOT:
                    found.setdefault(above, False)
                    break
        return sorted(found.items())

    # ---- directories ------------------------------------------------------------------------

    def _directory(self, path: bytes, work: _Round, *, deep: bool) -> bool:
        """List one directory; False when there is none."""
        try:
            entries = self._files.entries(path)
        except PermissionError:
            return self._shut(path, work)
        if entries is None:
            if path != ROOT:
                self._gone(path, work)
            return False
        known = self._names.get(path)
        held: set[bytes] = set()
        prefix = path + b"/" if path else b""
        for entry in entries:
            here = prefix + entry.name
            if self._entry(here, entry, work):
                held.add(entry.name)
                if stat.S_ISDIR(entry.mode) and (deep or here not in self._names):
                    work.waiting.append((here, deep))
        if known is None:
            if path != ROOT:
                work.changed[path] = TreeNode(DIRECTORY, None)
        else:
            for name in sorted(known - held):
                self._gone(prefix + name, work)
        self._names[path] = held
        return True

    def _shut(self, path: bytes, work: _Round) -> bool:
        """A directory that may not be listed is a leaf; a workspace like that is not there."""
        if path == ROOT:
            return False
        self._forget(path, work)
        closed = TreeNode(UNREADABLE, None)
        if self._tree.get(path) != closed:
            work.changed[path] = closed
        return True

    def _gone(self, path: bytes, work: _Round) -> None:
        self._forget(path, work)
        if path in self._tree:
            work.changed[path] = None
        self._names.get(parent(path), set()).discard(name_of(path))

    def _forget(self, path: bytes, work: _Round) -> None:
        """What was known of a path and of all below it, also what this very scan has found."""
        self._signatures.pop(path, None)
        work.changed.pop(path, None)
        for name in sorted(self._names.pop(path, ())):
            self._forget(path + b"/" + name, work)

    # ---- entries ----------------------------------------------------------------------------

    def _entry(self, path: bytes, entry: Entry, work: _Round) -> bool:
        """Look at one entry; False when it is ignored or not there."""
        is_directory = stat.S_ISDIR(entry.mode)
        known = self._names if is_directory else self._signatures
        # What was looked at under these rules before needs no second judgement.
        if (path not in known or not self._judged) and (
            self._ignore.entry(path, directory=is_directory) is not None
        ):
            return False
        if is_directory:
            self._signatures.pop(path, None)
            return True
        if path in self._names:  # a directory was here
            self._forget(path, work)
        if (
            self._signatures.get(path) == entry.signature
            and entry.mtime_ns < self._trusted_ns
            and entry.ctime_ns < self._trusted_ns
        ):
            return True
        return self._leaf(path, entry, work)

    def _leaf(self, path: bytes, entry: Entry, work: _Round) -> bool:
        node = self._node(path, entry, work)
        if node is None:
            # Gone, or torn: of a torn one that was known, what was known stays for now.
            if self._files.exists(path):
                work.torn.append(path)
                return path in self._tree
            return False
        self._signatures[path] = entry.signature
        was = self._tree.get(path)
        if was is None or was != node:
            work.changed[path] = node
        return True

    def _node(self, path: bytes, entry: Entry, work: _Round) -> TreeNode | None:
        """The node of one leaf; None when it vanished or moved under the look."""
        mode = entry.mode
        if stat.S_ISLNK(mode):
            target = self._files.target(path)
            return None if target is None else TreeNode(LINK, target, entry.size)
        if not stat.S_ISREG(mode):
            return TreeNode(SPECIAL, None)
        if entry.size > self._bytes_max:
            return TreeNode(BIG, None, entry.size)
        try:
            digest = self._files.content(path, entry)
        except PermissionError:
            return TreeNode(UNREADABLE, None, entry.size)
        work.hashed += 1
        if digest is None:
            return None
        return TreeNode(PROGRAM if mode & 0o111 else FILE, digest, entry.size)
