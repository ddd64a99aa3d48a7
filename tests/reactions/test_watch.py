"""The watcher: hints are hints, the scan is the truth (08 section 6, W1 to W7; S09 to S26)."""

# tidy: one scenario after the other, in the order of the design.
from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import socket
import stat
from pathlib import Path

import pytest

from tallystick.reactions import tree
from tallystick.reactions.settle import PATHS_MAX, Patience, Settle
from tallystick.reactions.tree import tree_id
from tallystick.reactions.watch import MISSING, NO_CHANGE, VCS_BUSY, Settings
from tests.reactions.watched import SECOND, Watched, changes, printed, words


@pytest.fixture
def here(tmp_path: Path) -> Watched:
    """A workspace with two files, known to the journal."""
    watched = Watched(tmp_path)
    watched.write("a.txt", "one")
    watched.write("src/b.py", "two")
    (batch,) = watched.begin()
    assert batch.flags == ("rescan", "startup")
    return watched


def edit(here: Watched, path: str, text: str) -> None:
    here.write(path, text)
    here.hint(path)


@pytest.mark.clause("F-01")
def test_an_edit_is_one_batch_with_both_ids(here: Watched) -> None:
    """W1, W2: one edit settles for 200 ms and is one change with the node of before and after."""
    edit(here, "a.txt", "other")
    assert here.run(Patience().settle_ns - 1) == []
    (batch,) = here.settle()
    (change,) = changes(batch)
    assert (change.path, change.change) == (b"a.txt", "modified")
    assert change.before is not None
    assert change.after is not None
    assert batch.flags == ()


@pytest.mark.clause("F-22")
def test_s09_the_same_bytes_are_no_change(here: Watched) -> None:
    """S09: rewritten 100 times, touched, given an attribute: one no_change a minute, no more."""
    for _ in range(100):
        edit(here, "a.txt", "one")
    os.utime(here.folder / "a.txt")
    here.hint("a.txt")
    with contextlib.suppress(OSError):  # some file systems keep none
        os.setxattr(here.folder / "a.txt", "user.note", b"1")
    found = here.settle()
    assert [(batch.held, batch.moved) for batch in found] == [(NO_CHANGE, False)]
    edit(here, "a.txt", "one")
    assert here.settle() == []
    here.clock.pass_ns(61 * SECOND)
    edit(here, "a.txt", "one")
    assert [batch.held for batch in here.settle()] == [NO_CHANGE]


@pytest.mark.clause("F-01")
def test_s10_an_editor_that_renames_is_one_modification(here: Watched) -> None:
    """S10: temp and rename over a.txt is one `modified` without the temp path."""
    here.write(".a.txt.tmp", "new")
    here.hint(".a.txt.tmp")
    assert here.settle() == [], "a look between finds a temp file that nobody cares for"
    (here.folder / ".a.txt.tmp").rename(here.folder / "a.txt")
    here.hint(".a.txt.tmp", "a.txt")
    (batch,) = here.settle()
    assert words(batch) == [("a.txt", "modified")]


@pytest.mark.clause("F-01")
def test_s11_the_dance_of_vim_is_the_same_change(here: Watched, tmp_path_factory) -> None:
    """S11: 4913, backup, new file: the same fingerprint as S10 for the same bytes."""
    other = Watched(tmp_path_factory.mktemp("other"))
    other.write("a.txt", "one")
    other.write("src/b.py", "two")
    other.begin()
    edit(other, "a.txt", "new")
    (plain,) = other.settle()

    here.write("4913", "")
    here.hint("4913")
    assert here.settle() == [], "a look between finds the probe, which nobody cares for"
    (here.folder / "4913").unlink()
    (here.folder / "a.txt").rename(here.folder / "a.txt~")
    here.write("a.txt", "new")
    (here.folder / "a.txt~").unlink()
    here.hint("4913", "a.txt", "a.txt~")
    (batch,) = here.settle()
    assert changes(batch) == changes(plain)
    assert tree_id(batch.after) == tree_id(plain.after)
    assert printed(batch) == printed(plain)


@pytest.mark.clause("F-12")
def test_s08_the_runtime_s_own_places_are_never_seen(here: Watched) -> None:
    """S08: nothing below a `.tally` at any depth is a change, hinted at or found by a scan."""
    for path in (".tally/tally.db", "src/.tally/x", ".a.txt.0123abcd.stage"):
        edit(here, path, "1")
    assert here.settle() == []
    here.watcher.lost()
    assert [batch.moved for batch in here.settle()] in ([], [False])


@pytest.mark.clause("F-22")
def test_s12_a_storm_is_few_batches_and_loses_nothing(here: Watched) -> None:
    """S12: many files within 2 s are at most 3 batches, and the tree is that of a cold scan.

    `TALLY_STORM=10000` runs the number of the design.
    """
    count = int(os.environ.get("TALLY_STORM", "600"))
    found = []
    for at in range(count):
        edit(here, f"src/new/{at % 40}/{at}.txt", str(at))
        if at % (count // 20) == 0:
            found += here.run(100_000_000)
    found += here.run(3 * SECOND)
    moved = [batch for batch in found if batch.moved]
    assert 1 <= len(moved) <= 3
    assert sum(len(changes(batch)) for batch in moved) == count
    assert tree_id(moved[-1].after) == tree_id(here.cold)


def test_hints_are_bounded() -> None:
    """W2: above 4096 dirty paths there are only directories, and none of them is lost."""
    settled = Settle(Patience())
    settled.take(0)
    for at in range(20 * PATHS_MAX):
        settled.mark(b"d%d/e%d/f%d" % (at % 7, at % 300, at), 1)
    dirty = settled.take(2 * SECOND)
    assert dirty.paths is not None
    assert len(dirty.paths) <= PATHS_MAX
    for at in range(20 * PATHS_MAX):
        path = b"d%d/e%d/f%d" % (at % 7, at % 300, at)
        assert path in dirty.paths or any(up in dirty.paths for up in tree.ancestors(path))


@pytest.mark.clause("F-22")
def test_s13_lost_hints_lose_no_change(here: Watched) -> None:
    """S13: with 30 % of the hints dropped and an overflow told, the tree is that of a cold scan."""
    chance = random.Random(7)
    for at in range(200):
        here.write(f"src/{at % 9}/{at}.txt", str(at))
        if chance.random() > 0.3:
            here.hint(f"src/{at % 9}/{at}.txt")
    here.watcher.lost()
    (batch,) = here.settle()
    assert "overflow" in batch.flags
    assert len(changes(batch)) == 200
    assert tree_id(batch.after) == tree_id(here.cold)


def test_without_any_hint_the_next_whole_scan_finds_it(here: Watched) -> None:
    """W1: a full scan runs every 60 s, every 2 s where nobody gives hints."""
    here.write("a.txt", "unseen")
    assert here.run(50 * SECOND) == []
    (batch,) = here.run(11 * SECOND)
    assert (words(batch), batch.flags) == ([("a.txt", "modified")], ("rescan",))
    here.watcher.hinted(by_somebody=False)
    here.write("a.txt", "unseen too")
    (batch,) = here.run(3 * SECOND)
    assert words(batch) == [("a.txt", "modified")]


@pytest.mark.clause("F-01")
@pytest.mark.parametrize("said", ["every leaf", "first directories", "nothing"])
def test_s14_nested_directories_are_found_whole(here: Watched, said: str) -> None:
    """S14: 200 times mkdir -p and write: 200 leaves, whatever part of it was hinted."""
    for at in range(200):
        here.write(f"n{at}/b/c/f", str(at))
        if said == "every leaf":
            here.hint(f"n{at}/b/c/f")
        elif said == "first directories":
            here.hint(f"n{at}")
    if said == "nothing":
        here.watcher.lost()
    (batch,) = here.settle()
    assert [change.change for change in changes(batch)] == ["created"] * 200


@pytest.mark.clause("F-07")
def test_s15_the_last_tree_does_not_depend_on_batches(tmp_path: Path) -> None:
    """S15: 50 edits as 1, 7 or 50 batches end in the same tree id."""
    ends = set()
    for parts in (1, 7, 50):
        watched = Watched(tmp_path / str(parts))
        watched.folder.mkdir()
        watched.write("seed", "0")
        watched.begin()
        for at in range(50):
            edit(watched, f"f{at % 10}", str(at))
            if at % (50 // parts) == 0:
                watched.settle()
        watched.settle()
        ends.add(tree_id(watched.batches[-1].after))
    assert len(ends) == 1


@pytest.mark.clause("F-22")
def test_s18_a_checkout_is_one_batch(here: Watched) -> None:
    """S18: files come while index.lock is there for 4 s: one vcs_busy, then exactly one batch.

    `TALLY_CHECKOUT=3000` checks out the number of the design.
    """
    count = int(os.environ.get("TALLY_CHECKOUT", "300"))
    lock = here.folder / ".git" / "index.lock"
    lock.parent.mkdir()
    lock.touch()
    found = []
    for at in range(count):
        edit(here, f"src/{at}.txt", str(at))
        if at % (count // 10) == 0:
            found += here.run(SECOND * 4 // 10)
    lock.unlink()
    found += here.run(5 * SECOND)
    assert [batch.held for batch in found] == [VCS_BUSY, None]
    assert len(changes(found[1])) == count


def test_a_lock_that_begins_during_a_look_holds_the_batch(here: Watched) -> None:
    """W7: half a checkout that a look has seen is not told until the lock is gone."""
    lock = here.folder / ".git" / "index.lock"
    lock.parent.mkdir()
    here.disk.before_read = lambda _path: lock.touch()
    edit(here, "a.txt", "half")
    (batch,) = here.settle()
    assert (batch.held, batch.moved) == (VCS_BUSY, False)
    here.disk.before_read = lambda _path: None
    lock.unlink()
    (batch,) = here.settle()
    assert words(batch) == [("a.txt", "modified")]


def test_a_forgotten_lock_does_not_wait_for_ever(here: Watched) -> None:
    """W7: after 60 s of index.lock the batch comes all the same."""
    (here.folder / ".git").mkdir()
    (here.folder / ".git" / "index.lock").touch()
    edit(here, "a.txt", "other")
    assert [batch.held for batch in here.run(30 * SECOND)] == [VCS_BUSY]
    (batch,) = here.run(40 * SECOND)
    assert words(batch) == [("a.txt", "modified")]


@pytest.mark.clause("F-01")
def test_s19_created_and_deleted_before_the_look(here: Watched) -> None:
    """S19: a file nobody ever saw is no_change; one that existed is `removed`."""
    edit(here, "new", "1")
    (here.folder / "new").unlink()
    assert [batch.held for batch in here.settle()] == [NO_CHANGE]
    (here.folder / "a.txt").unlink()
    here.hint("a.txt")
    (batch,) = here.settle()
    assert words(batch) == [("a.txt", "removed")]


def test_a_file_that_vanishes_while_it_is_read_affects_itself_only(here: Watched) -> None:
    """W5: the listing had it, the reading found nothing: it is not there, and all others are."""
    here.write("z1", "1")
    here.write("z2", "2")
    here.disk.before_read = lambda path: (
        (here.folder / "z1").unlink(missing_ok=True) if path == b"z1" else None
    )
    here.hint("z1", "z2")
    (batch,) = here.settle()
    assert words(batch) == [("z2", "created")]


@pytest.mark.clause("F-07")
def test_s20_a_file_that_grows_is_never_told_half(here: Watched) -> None:
    """S20: a torn file is retried at the next settle, and only a whole hash is told."""
    here.disk.moving[b"a.txt"] = 2
    edit(here, "a.txt", "grown")
    edit(here, "src/b.py", "other")
    first = here.settle()
    assert [words(batch) for batch in first] == [[("src/b.py", "modified")]]
    later = here.run(SECOND)
    assert [words(batch) for batch in later] == [[("a.txt", "modified")]]
    assert tree_id(later[0].after) == tree_id(here.cold)


def test_a_file_that_really_grows_under_the_hash_is_torn(here: Watched) -> None:
    """S20 on the real disk: bytes appended during the read make no hash."""
    here.disk.before_read = lambda path: (
        here.write("a.txt", "longer than before") if path == b"a.txt" else None
    )
    edit(here, "a.txt", "x")
    assert here.settle() == []
    here.disk.before_read = lambda _path: None
    (batch,) = here.settle()
    assert batch.after[b"a.txt"].size == len("longer than before")


@pytest.mark.clause("F-12")
def test_s21_links_are_leaves(here: Watched) -> None:
    """S21: a link to itself and one to /etc are leaves with the hash of their target."""
    (here.folder / "loop").symlink_to(".")
    (here.folder / "etc").symlink_to("/etc")
    here.hint("loop", "etc")
    (batch,) = here.settle()
    assert words(batch) == [("etc", "created"), ("loop", "created")]
    node = batch.after[b"etc"]
    assert (node.kind, node.id) == ("l", hashlib.sha256(b"/etc").digest())
    assert not any(path.startswith((b"etc/", b"loop/")) for path in batch.after)


@pytest.mark.clause("F-23")
def test_s22_a_name_that_is_no_text(here: Watched) -> None:
    """S22: it is a node by its raw bytes, and the watcher goes on."""
    here.write(os.fsdecode(b"bad\xff.txt"), "1")
    here.hint(b"bad\xff.txt")
    (batch,) = here.settle()
    (change,) = changes(batch)
    assert (change.path, tree.shown(change.path)) == (b"bad\xff.txt", "bad\\xff.txt")
    edit(here, "a.txt", "next")
    (batch,) = here.settle()
    assert words(batch) == [("a.txt", "modified")]


@pytest.mark.clause("F-23")
def test_s25_special_files_never_block(tmp_path: Path) -> None:
    """S25: FIFO, socket, device, 10 GiB sparse, closed files: kinds s, b, u; others are read."""
    watched = Watched(tmp_path, Settings(file_bytes_max=1 << 20))
    watched.write("plain", "1")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(10 << 30)
    watched.write("closed", "1")
    watched.write("shut/x", "1")
    watched.disk.closed = {b"closed", b"shut"}
    wanted = {
        b"plain": "f", b"fifo": "s", b"sock": "s", b"giant": "b", b"closed": "u", b"shut": "u"
    }  # fmt: skip
    watched.write("mode000", "1")
    (tmp_path / "mode000").chmod(0)
    as_root = os.geteuid() == 0
    wanted[b"mode000"] = "f" if as_root else "u"  # nothing is closed to root
    if as_root:  # and nobody else makes devices
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        wanted[b"null"] = "s"
    (batch,) = watched.begin()
    assert {path: node.kind for path, node in batch.after.items() if path} == wanted
    assert b"giant" not in watched.disk.reads
    watched.disk.closed = set()
    (batch,) = watched.run(61 * SECOND)
    assert [change.path for change in changes(batch)] == [b"closed", b"shut", b"shut/x"]


@pytest.mark.clause("F-22")
def test_s26_a_lost_workspace_is_silent(tmp_path: Path) -> None:
    """S26: it is `missing`, no removals come, and when it is back nothing has changed."""
    folder = tmp_path / "ws"
    folder.mkdir()
    here = Watched(folder)
    for at in range(40):
        here.write(f"d/{at}", str(at))
    here.begin()
    folder.rename(tmp_path / "away")
    here.watcher.lost()
    found = here.run(70 * SECOND)
    assert [batch.held for batch in found] == [MISSING]
    assert here.watcher.missing
    (tmp_path / "away").rename(folder)
    assert [batch.moved for batch in here.run(61 * SECOND)] in ([], [False])
    assert not here.watcher.missing


@pytest.mark.clause("F-22")
def test_s26_over_half_of_the_files_gone_has_to_be_confirmed(tmp_path: Path) -> None:
    """S26: 21 of 40 files vanish: silent until confirmed, then one batch of removals."""
    here = Watched(tmp_path)
    for at in range(40):
        here.write(f"f{at}", str(at))
    here.begin()
    for at in range(21):
        (tmp_path / f"f{at}").unlink()
        here.hint(f"f{at}")
    assert [batch.held for batch in here.run(5 * SECOND)] == [MISSING]
    here.watcher.confirm()
    (batch,) = here.run(SECOND)
    assert [change.change for change in changes(batch)] == ["removed"] * 21


def test_half_of_the_files_gone_is_an_ordinary_change(tmp_path: Path) -> None:
    """S26 control: exactly half, or few files, are edits like others."""
    here = Watched(tmp_path)
    for at in range(40):
        here.write(f"f{at}", str(at))
    here.begin()
    for at in range(20):
        (tmp_path / f"f{at}").unlink()
        here.hint(f"f{at}")
    (batch,) = here.settle()
    assert len(changes(batch)) == 20


def test_changed_rules_fire_nothing_by_themselves(here: Watched) -> None:
    """08 section 4: what rules hide or show is a silent batch; an edit beside it is told."""
    here.write("x.log", "1")
    here.hint("x.log")
    here.settle()
    here.write(".gitignore", "*.log\n")
    here.write("a.txt", "edited")
    here.hint(".gitignore", "a.txt")
    rules, people = here.settle()
    assert (rules.silent, rules.flags, words(rules)) == (
        True,
        ("rules_changed",),
        [("x.log", "removed")],
    )
    assert words(people) == [(".gitignore", "created"), ("a.txt", "modified")]
    here.write(".gitignore", "# none\n")
    here.hint(".gitignore")
    rules, people = here.settle()
    assert (rules.silent, words(rules)) == (True, [("x.log", "created")])


def test_what_changed_while_nobody_looked_is_one_batch(here: Watched) -> None:
    """W3: at a start the journaled tree is compared with the disk, with the flag startup."""
    journaled = here.watcher._before
    here.write("a.txt", "offline")
    here.write("new", "1")
    again = Watched(here.folder)
    (batch,) = again.begin(journaled)
    assert "startup" in batch.flags
    assert words(batch) == [("a.txt", "modified"), ("new", "created")]
    third = Watched(here.folder)
    assert third.begin(batch.after) == []


def test_a_batch_stays_until_the_journal_has_it(here: Watched) -> None:
    """One door: what was not accepted is said again; a stale one starts from the journal's tree."""
    journaled = here.watcher._before
    edit(here, "a.txt", "v2")
    here.clock.pass_ns(SECOND)
    first = here.watcher.look()
    assert first is not None
    assert here.watcher.due_ns() == 0
    assert here.watcher.look() is first
    here.watcher.again(journaled)
    (batch,) = here.settle()
    assert words(batch) == [("a.txt", "modified")]


def test_old_signatures_save_the_reading(here: Watched) -> None:
    """W4: a file is read again only while its stamp is too fresh to be trusted."""
    for path in ("a.txt", "src/b.py"):
        os.utime(here.folder / path, ns=(1, 1))
    here.run(61 * SECOND)
    here.disk.reads.clear()
    here.run(61 * SECOND)
    assert here.disk.reads == [b"a.txt", b"src/b.py"], "ctime is fresh: not trusted yet"


def test_listings_cover_what_the_journal_lacks(here: Watched) -> None:
    """F-23: the listings of a batch with those of earlier ones give the whole tree back."""
    edit(here, "src/deep/c.py", "3")
    here.settle()
    kept = {digest: data for batch in here.batches for digest, data in batch.listings.items()}
    after = here.batches[-1].after
    read = tree.load(tree_id(after), kept.get)
    assert read.keys() == after.keys()
    assert tree_id(here.batches[0].after) in here.batches[0].listings
    assert len(here.batches[-1].listings) == 3, "the workspace, src and src/deep"


def test_a_directory_that_takes_the_place_of_another_is_scanned_whole(here: Watched) -> None:
    """W1: mv over a known name replaces what is below it, though only the name was hinted."""
    here.write("src/deep/x", "1")
    here.hint("src/deep/x")
    here.settle()
    shutil.move(here.folder / "src", here.folder.parent / "old")
    here.write("src/deep/x", "2")
    here.hint("src")
    (batch,) = here.settle()
    assert words(batch) == [("src/b.py", "removed"), ("src/deep/x", "modified")]
