"""A scan of files that come, go and close while it looks, on a disk that a test holds in hand."""

from __future__ import annotations

import stat
from hashlib import sha256

import pytest

from tallystick.reactions import ignore
from tallystick.reactions.scan import GRAIN_NS, Entry, Scanner
from tallystick.reactions.tree import DIRECTORY, UNREADABLE, make

LATER = 10 * GRAIN_NS


class Disk:
    """A workspace: files with their bytes, directories, and names that may not be read."""

    def __init__(self, **files: bytes | None) -> None:
        self.files = {name.replace("__", "/").encode(): data for name, data in files.items()}
        self.shut: set[bytes] = set()
        self.vanishing: set[bytes] = set()
        self.removed_after: bytes | None = None

    def entries(self, path: bytes) -> list[Entry] | None:
        if path in self.shut:
            raise PermissionError(path)
        if path in self.vanishing:
            return None
        prefix = path + b"/" if path else b""
        found: dict[bytes, Entry] = {}
        for inode, (name, data) in enumerate(sorted(self.files.items()), 1):
            if not name.startswith(prefix):
                continue
            first, more, _ = name[len(prefix) :].partition(b"/")
            is_file = not more and data is not None
            mode = stat.S_IFREG | 0o644 if is_file else stat.S_IFDIR | 0o755
            found[first] = Entry(first, mode, inode, len(data or b""), 0, 0)
        if path == self.removed_after:
            self.files = {n: d for n, d in self.files.items() if not n.startswith(prefix)}
        return list(found.values())

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        return sha256(path + entry.size.to_bytes(8)).digest()

    def target(self, path: bytes) -> bytes | None:
        raise AssertionError(f"{path!r} is no link")

    def text(self, path: bytes) -> bytes | None:
        return self.files.get(path)

    def exists(self, path: bytes) -> bool:
        return path in self.files


def scanner(disk: Disk) -> Scanner:
    return Scanner(disk, ignore.load())


def test_a_directory_is_listed_once() -> None:
    """P2: a dirty directory and a dirty workspace above it: each is looked at once."""
    disk = Disk(a__x=b"1", b=b"2")
    looks = scanner(disk)
    first = looks.scan(LATER)
    disk.files[b"a/x"] = b"other"
    second = looks.scan(LATER, [b"a", b""])
    assert second.hashed == 1
    assert second.tree[b"a/x"].id != first.tree[b"a/x"].id


def test_what_vanished_between_two_looks_is_gone() -> None:
    """P2: a directory that was listed above and is not there any more leaves the tree, whole."""
    disk = Disk(a__b__x=b"1", c=b"2")
    looks = scanner(disk)
    looks.scan(LATER)
    disk.vanishing.add(b"a")
    assert sorted(looks.scan(LATER).tree) == [b"", b"c"]
    disk.vanishing.clear()
    assert sorted(looks.scan(LATER).tree) == [b"", b"a", b"a/b", b"a/b/x", b"c"]


def test_a_new_directory_that_is_gone_at_once_was_never_there() -> None:
    """P2: seen by name and gone before it was listed: nothing of it is told."""
    disk = Disk(c=b"2")
    looks = scanner(disk)
    before = looks.scan(LATER).tree
    disk.files[b"new/x"] = b"1"
    disk.vanishing.add(b"new")
    assert looks.scan(LATER).tree == before
    # Told of by name alone, with its own parent unknown: nothing to take back either.
    assert looks.scan(LATER, [b"new/deeper/x"]).tree == before


def test_a_closed_directory_is_a_leaf_until_it_opens() -> None:
    """P2: what may not be listed is told once as unreadable; a closed workspace is not there."""
    disk = Disk(a__x=b"1")
    looks = scanner(disk)
    looks.scan(LATER)
    disk.shut.add(b"a")
    closed = looks.scan(LATER).tree
    assert sorted(closed) == [b"", b"a"]
    assert closed[b"a"].kind == UNREADABLE
    assert looks.scan(LATER).tree is closed, "a second look changes nothing"
    disk.shut.clear()
    assert looks.scan(LATER).tree[b"a"].kind == DIRECTORY
    disk.shut.add(b"")
    assert looks.scan(LATER).gone


def test_a_file_takes_the_place_of_a_directory() -> None:
    """P2: all below the directory goes, and the other way round."""
    disk = Disk(a__b__x=b"1")
    looks = scanner(disk)
    looks.scan(LATER)
    disk.files = {b"a": b"file"}
    made = looks.scan(LATER).tree
    assert (sorted(made), made[b"a"].size) == ([b"", b"a"], 4)
    disk.files = {b"a/y": b"1"}
    assert sorted(looks.scan(LATER).tree) == [b"", b"a", b"a/y"]


def test_a_directory_that_goes_while_it_is_looked_at_leaves_nothing() -> None:
    """F-01: listed with a new file, gone when the directory above is listed: no ghost stays."""
    disk = Disk(a__x=b"1", c=b"2")
    looks = scanner(disk)
    looks.scan(LATER)
    disk.files[b"a/new"] = b"3"
    disk.removed_after = b"a"
    made = looks.scan(LATER, [b"a"]).tree
    assert sorted(made) == [b"", b"c"]
    assert made == make({b"c": made[b"c"]}), "and the id of the tree is that of its leaves"


@pytest.mark.parametrize("line", [b"!", b"/", b"[ab", b"[b-a]", b"ends\\", b"!/"])
def test_a_line_that_is_no_rule_is_skipped(line: bytes) -> None:
    """08 section 4: as with git, a class without an end or the wrong way round means nothing."""
    plain = ignore.load()
    assert ignore.load(gitignore=line + b"\n").rules == plain.rules
