"""File effects happen once, whatever step of the protocol the process is killed at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.file import DELETE, WRITE, FileExecutor, FileSettings
from tallystick.executors.file_beneath import content_id
from tallystick.executors.file_change import STEPS
from tests.executors.attempts import KeptBlobs, done, failed, job_of
from tests.executors.killing import Killing

OLD, NEW, USER = b"old content\n", b"new content, and longer\n", b"of a person\n"
PLACED = STEPS.index("placed")
CASES = [
    (name, step)
    for name in ("new", "over", "delete")
    for step in STEPS
    if name != "delete" or step not in ("created", "staged")
]


@pytest.fixture(scope="module")
def program() -> Iterator[Killing]:
    """The program of `kill_file.py`."""
    started = Killing("tests.executors.kill_file")
    yield started
    started.close()


Kill = Callable[[str, bytes, str], None]


@pytest.fixture
def killed(program: Killing, tmp_path: Path) -> Kill:
    """Begins an effect in a process of its own, which dies at the step."""

    def kill(effect: str, content: bytes, step: str) -> None:
        program(str(tmp_path), effect, content.decode(), step)

    return kill


def job(effect: str, **other: Any) -> Any:
    params = {"workspace": "project", "path": "a.txt"}
    content = {"content": NEW} if effect == WRITE else {}
    blobs = other.pop("blobs", None) or KeptBlobs()
    return job_of(effect, params | content | other, attempt=2, blobs=blobs)


def files(root: Path) -> FileExecutor:
    return FileExecutor(FileSettings({"project": root}))


def seen(root: Path) -> tuple[bytes, int, int] | None:
    """The bytes of the file, and what tells whether somebody touched it."""
    target = root / "a.txt"
    if not target.exists():
        return None
    found = target.stat()
    return target.read_bytes(), found.st_ino, found.st_mtime_ns


def is_whole(root: Path) -> bool:
    """True when the file is as it was or as it shall be, never between."""
    found = seen(root)
    return found is not None and found[0] in (OLD, NEW)


@pytest.mark.clause("F-08")
@pytest.mark.invariant("I3")
@pytest.mark.parametrize(("name", "step"), CASES)
def test_killed_at_each_step_it_happens_once(
    tmp_path: Path, killed: Kill, name: str, step: str
) -> None:
    """ND-15, RX-07, S27, S28: the next attempt finishes or recognises the act."""
    before = None if name == "new" else OLD
    if before is not None:
        (tmp_path / "a.txt").write_bytes(before)
    effect = DELETE if name == "delete" else WRITE
    wanted = None if name == "delete" else NEW
    killed(effect, b"" if wanted is None else NEW, step)
    acted = STEPS.index(step) >= PLACED
    left = seen(tmp_path)
    assert (None if left is None else left[0]) == (wanted if acted else before)
    told = done(files(tmp_path), job(effect))
    after = seen(tmp_path)
    assert (None if after is None else after[0]) == wanted
    if acted:
        assert told["status"] == "recovered"
        assert after == left
    else:
        assert told["status"] == ("deleted" if wanted is None else "written")
        assert told["pre_id"] == (None if before is None else content_id(before))
    assert [p.name for p in tmp_path.iterdir()] == ([] if wanted is None else ["a.txt"])


@pytest.mark.clause("F-08", "F-11")
@pytest.mark.parametrize("step", ["staged", "placed", "synced"])
def test_an_edit_after_the_kill_is_not_lost(tmp_path: Path, killed: Kill, step: str) -> None:
    """S29: a person edits before the next attempt: conflict, their bytes intact, proposal kept."""
    (tmp_path / "a.txt").write_bytes(OLD)
    killed(WRITE, NEW, step)
    (tmp_path / "a.txt").write_bytes(USER)
    expect = {"$tag": "content", "$value": content_id(OLD)}
    told = failed(files(tmp_path), job(WRITE, expect=expect))
    assert told.kind == "conflict"
    assert told.details_ref == content_id(NEW)
    assert (tmp_path / "a.txt").read_bytes() == USER
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.clause("F-11")
@pytest.mark.parametrize("effect", [WRITE, DELETE])
def test_foreign_bytes_come_back_when_killed_before_the_look(
    tmp_path: Path, killed: Kill, effect: str
) -> None:
    """RX-07: killed with foreign bytes displaced and not yet judged: they get their name again."""
    (tmp_path / "a.txt").write_bytes(USER)
    killed(effect, NEW if effect == WRITE else b"", "placed")
    assert (tmp_path / "a.txt").exists() == (effect == WRITE)
    expect = {"$tag": "content", "$value": content_id(OLD)}
    told = failed(files(tmp_path), job(effect, expect=expect))
    assert told.kind == "conflict"
    assert (tmp_path / "a.txt").read_bytes() == USER
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_displaced_bytes_are_kept(tmp_path: Path, killed: Kill) -> None:
    """08 section 10: a leftover stage file with unknown bytes is a blob before it is removed."""
    (tmp_path / "a.txt").write_bytes(USER)
    killed(WRITE, NEW, "placed")
    blobs = KeptBlobs()
    told = done(files(tmp_path), job(WRITE, blobs=blobs))
    assert (told["status"], told["pre_id"]) == ("recovered", content_id(USER))
    assert blobs.get(content_id(USER)) == USER


def test_a_file_made_again_after_a_killed_delete_stays(tmp_path: Path, killed: Kill) -> None:
    """ND-15: the delete took place; what a person makes afterwards is not its business."""
    (tmp_path / "a.txt").write_bytes(OLD)
    killed(DELETE, b"", "placed")
    (tmp_path / "a.txt").write_bytes(USER)
    assert done(files(tmp_path), job(DELETE))["status"] == "recovered"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == USER


@pytest.mark.parametrize("step", ["created", "placed"])
def test_the_checks_find_a_plain_write(tmp_path: Path, killed: Kill, step: str) -> None:
    """ND-15 control: a program that writes in place is torn by a kill, and acts again after one."""
    (tmp_path / "a.txt").write_bytes(OLD)
    killed("plain", NEW, step)
    if step == "created":
        assert not is_whole(tmp_path)
    else:
        assert is_whole(tmp_path)
        left = seen(tmp_path)
        killed("plain", NEW, step)
        assert seen(tmp_path) != left
