"""A workspace on a real disk: what is gone, what is closed, and what does not stand still."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.node.watch_disk import Disk
from tallystick.reactions.scan import Entry

# Files of the system that say to be as long as a page, and are not.
SHORTER = ("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/profiling")
TOO_LONG = b"/".join([b"d" * 200] * 30)


def entry_of(disk: Disk, name: str) -> Entry:
    found = disk.entries(b"")
    assert found is not None
    (entry,) = [each for each in found if each.name == os.fsencode(name)]
    return entry


@pytest.fixture(name="pipe")
def filled_pipe(tmp_path: Path) -> Iterator[Path]:
    """A named pipe with bytes in it."""
    place = tmp_path / "pipe"
    os.mkfifo(place)
    handle = os.open(place, os.O_RDWR)
    os.write(handle, b"now")
    yield place
    os.close(handle)


def test_what_is_gone_is_nothing_and_what_is_closed_is_said(tmp_path: Path) -> None:
    """08 section 4: a directory that is gone is no error; one that is closed is never empty."""
    disk = Disk(str(tmp_path))
    (tmp_path / "a").write_bytes(b"1")
    entry = entry_of(disk, "a")
    assert disk.entries(b"none") is None
    assert disk.entries(b"a") is None, "a file where a directory was"
    assert disk.content(b"none", entry) is None
    with pytest.raises(PermissionError):
        disk.entries(TOO_LONG)
    with pytest.raises(PermissionError):
        disk.content(TOO_LONG, entry)


def test_content_is_that_of_the_file_which_was_looked_at(tmp_path: Path) -> None:
    """08 section 4: a file that was written since the look at it has no content until the next."""
    disk = Disk(str(tmp_path))
    (tmp_path / "a").write_bytes(b"1")
    before = entry_of(disk, "a")
    assert disk.content(b"a", before) == sha256(b"1").digest()
    (tmp_path / "a").write_bytes(b"12")
    assert disk.content(b"a", before) is None
    assert disk.content(b"a", entry_of(disk, "a")) == sha256(b"12").digest()


def test_a_directory_in_place_of_a_file_is_closed(tmp_path: Path) -> None:
    """08 section 4: bytes that the system refuses to give are a closed door, not an empty file."""
    (tmp_path / "d").mkdir()
    disk = Disk(str(tmp_path))
    with pytest.raises(PermissionError):
        disk.content(b"d", entry_of(disk, "d"))


def test_a_pipe_that_somebody_fills_has_no_content(tmp_path: Path, pipe: Path) -> None:
    """08 section 4: who looks at a pipe neither waits for it nor takes what is in it for a file."""
    disk = Disk(str(tmp_path))
    assert disk.content(b"pipe", entry_of(disk, pipe.name)) is None
    assert disk.text(b"pipe") is None


def test_a_file_with_fewer_bytes_than_it_says_has_no_content() -> None:
    """08 section 4: a hash is only told of a file that was read whole."""
    found = next((Path(each) for each in SHORTER if os.access(each, os.R_OK)), None)
    if found is None:
        pytest.skip("this system has no such file")
    disk = Disk(str(found.parent))
    entry = entry_of(disk, found.name)
    assert entry.size > len(found.read_bytes())
    assert disk.content(os.fsencode(found.name), entry) is None


def test_only_links_have_a_target_and_only_small_plain_files_a_text(tmp_path: Path) -> None:
    """08 section 4: links are named, never followed; nobody reads a huge file into memory."""
    disk = Disk(str(tmp_path))
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "d").mkdir()
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate((1 << 20) + 1)
    assert disk.target(b"link") == sha256(b"nowhere").digest()
    assert disk.target(b"a") is None
    assert disk.exists(b"link")
    assert [disk.text(name) for name in (b"a", b"link", b"d", b"huge", b"none")] == [
        b"1", None, None, None, None,
    ]  # fmt: skip
