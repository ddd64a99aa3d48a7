"""The file executor: whole, in its place, and never over bytes that somebody else wrote."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import ExecutorPorts
from tallystick.executors.file import DELETE, READ, WRITE, FileExecutor, FileSettings, make
from tallystick.executors.file_beneath import content_id
from tests.executors.attempts import KeptBlobs, done, failed, job_of

ABSENT = {"$tag": "absent"}
OLD, NEW, USER = b"old\n", b"new\n", b"of a person\n"


def files(root: Path, **other: Any) -> FileExecutor:
    return FileExecutor(FileSettings({"project": root}, **other))


def asked(path: str, **other: Any) -> dict[str, Any]:
    return {"workspace": "project", "path": path} | other


def is_content(body: bytes) -> dict[str, str]:
    return {"$tag": "content", "$value": content_id(body)}


def names(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if not p.is_dir())


@pytest.mark.clause("F-05")
def test_a_write_makes_the_file_and_its_directories(tmp_path: Path) -> None:
    """04 section 6: the receipt says what was there and what is there now."""
    job = job_of(WRITE, asked("a/b/c.txt", content=NEW))
    told = done(files(tmp_path), job)
    assert told == {
        "path": "a/b/c.txt",
        "pre_id": None,
        "post_id": content_id(NEW),
        "size": 4,
        "status": "written",
    }
    assert (tmp_path / "a/b/c.txt").read_bytes() == NEW
    assert names(tmp_path) == ["a/b/c.txt"]


def test_a_write_replaces_and_keeps_the_mode(tmp_path: Path) -> None:
    """08 section 10: the file is exchanged, so a reader sees old or new, and its mode stays."""
    target = tmp_path / "a.txt"
    target.write_bytes(OLD)
    target.chmod(0o640)
    told = done(files(tmp_path), job_of(WRITE, asked("a.txt", content=NEW)))
    assert (told["pre_id"], told["status"]) == (content_id(OLD), "written")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert names(tmp_path) == ["a.txt"]


def test_equal_bytes_are_not_written_again(tmp_path: Path) -> None:
    """08 G4: no write where the bytes are there; a later attempt says `recovered`."""
    target = tmp_path / "a.txt"
    target.write_bytes(NEW)
    before = target.stat()
    params = asked("a.txt", content=NEW)
    assert done(files(tmp_path), job_of(WRITE, params))["status"] == "unchanged"
    assert done(files(tmp_path), job_of(WRITE, params, attempt=2))["status"] == "recovered"
    after = target.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_delete_ends_the_file_once(tmp_path: Path) -> None:
    """04 section 6: what is gone is gone; asked again it says so and removes nothing else."""
    (tmp_path / "a.txt").write_bytes(OLD)
    told = done(files(tmp_path), job_of(DELETE, asked("a.txt")))
    assert (told["pre_id"], told["post_id"], told["status"]) == (content_id(OLD), None, "deleted")
    assert names(tmp_path) == []
    again = done(files(tmp_path), job_of(DELETE, asked("a.txt")))
    assert (again["pre_id"], again["status"]) == (None, "unchanged")
    assert done(files(tmp_path), job_of(DELETE, asked("no/such/a.txt")))["status"] == "unchanged"
    assert names(tmp_path) == []


@pytest.mark.clause("F-11")
@pytest.mark.parametrize("effect", [WRITE, DELETE])
@pytest.mark.parametrize("expect", [ABSENT, is_content(OLD)], ids=["absent", "content"])
def test_foreign_bytes_stay(tmp_path: Path, effect: str, expect: dict[str, str]) -> None:
    """S29, S34: other bytes than expected are a conflict; they stay, and the proposal is kept."""
    (tmp_path / "a.txt").write_bytes(USER)
    blobs = KeptBlobs()
    content = {"content": NEW} if effect == WRITE else {}
    job = job_of(effect, asked("a.txt", expect=expect, mode="keep", **content), blobs=blobs)
    told = failed(files(tmp_path), job)
    assert (told.kind, told.code) == ("conflict", "file.conflict")
    assert (tmp_path / "a.txt").read_bytes() == USER
    assert names(tmp_path) == ["a.txt"]
    if effect == WRITE:
        assert told.details_ref is not None
        assert blobs.get(told.details_ref) == NEW


def test_overwrite_keeps_the_bytes_of_a_person(tmp_path: Path) -> None:
    """08 section 10: with `overwrite` they are in the blob store before they are replaced."""
    (tmp_path / "a.txt").write_bytes(USER)
    blobs = KeptBlobs()
    params = asked("a.txt", content=NEW, expect=ABSENT, mode="overwrite")
    assert done(files(tmp_path), job_of(WRITE, params, blobs=blobs))["status"] == "written"
    assert (tmp_path / "a.txt").read_bytes() == NEW
    assert blobs.get(content_id(USER)) == USER


def test_what_was_expected_is_replaced(tmp_path: Path) -> None:
    """04 section 6: `expect` is a compare and swap; absence is not content."""
    (tmp_path / "a.txt").write_bytes(OLD)
    params = asked("a.txt", content=NEW, expect=is_content(OLD))
    assert done(files(tmp_path), job_of(WRITE, params))["status"] == "written"
    (tmp_path / "a.txt").unlink()
    assert failed(files(tmp_path), job_of(WRITE, params)).code == "file.conflict"
    assert names(tmp_path) == []


@pytest.mark.clause("F-10")
def test_a_stamp_must_be_true(tmp_path: Path) -> None:
    """08 G1: a stamp names this path and these bytes, or nothing is written."""
    stamp = {
        "path": "a.txt",
        "post_id": content_id(NEW),
        "run_id": content_id(b"1"),
        "run_key": content_id(b"2"),
        "reaction": "r",
        "definition_hash": content_id(b"3"),
        "depth": 0,
        "root_trigger_id": content_id(b"4"),
        "lineage": [],
    }
    for untrue in ({"path": "b.txt"}, {"post_id": content_id(OLD)}, {"post_id": None}):
        job = job_of(WRITE, asked("a.txt", content=NEW, stamp=stamp | untrue))
        assert failed(files(tmp_path), job).code == "file.stamp_untrue"
        assert names(tmp_path) == []
    params = asked("a.txt", content=NEW, stamp=stamp, expect=is_content(OLD))
    assert done(files(tmp_path), job_of(WRITE, params))["status"] == "written"


def test_large_bytes_go_by_reference(tmp_path: Path) -> None:
    """04 section 6: 64 KiB inline, beyond that a blob, up to `max_bytes`."""
    body = os.urandom(65_537)
    blobs = KeptBlobs(body)
    job = job_of(WRITE, asked("a.bin", content_ref=content_id(body)), blobs=blobs)
    assert done(files(tmp_path), job)["size"] == 65_537
    told = done(files(tmp_path), job_of(READ, asked("a.bin"), blobs=blobs))
    assert (told["bytes"], told["ref"]) == (None, content_id(body))
    (tmp_path / "b.bin").write_bytes(body[:-1])
    told = done(files(tmp_path), job_of(READ, asked("b.bin")))
    assert (told["bytes"], told["ref"]) == (body[:-1], None)
    for job in (
        job_of(READ, asked("a.bin", max=65_536)),
        job_of(READ, asked("a.bin"), grant={"max_bytes": 9}),
        job_of(
            WRITE, asked("c", content_ref=content_id(body)), blobs=blobs, grant={"max_bytes": 9}
        ),
    ):
        assert failed(files(tmp_path), job).kind == "limit"
    assert failed(files(tmp_path, bytes_max=9), job_of(READ, asked("a.bin"))).kind == "limit"
    missing = failed(files(tmp_path), job_of(WRITE, asked("c", content_ref=content_id(b"?"))))
    assert missing.code == "file.content_missing"


def test_one_content_and_no_other(tmp_path: Path) -> None:
    """04 section 6: content or content_ref, exactly one."""
    for params in (asked("a"), asked("a", content=NEW, content_ref=content_id(NEW))):
        assert failed(files(tmp_path), job_of(WRITE, params)).code == "file.content"
    assert failed(files(tmp_path), job_of(READ, asked("a"))).code == "file.absent"
    other = asked("a") | {"workspace": "other"}
    assert failed(files(tmp_path), job_of(READ, other)).code == "file.workspace_unknown"


def test_the_grant_is_asked_again(tmp_path: Path) -> None:
    """06 section 2: the grant travels with the intent, and the executor checks it too."""
    grant = {"roots": ["project"], "ops": ["write"], "globs": ["out/**"]}
    params = asked("out/a", content=NEW)
    assert done(files(tmp_path), job_of(WRITE, params, grant=grant))["status"] == "written"
    for job in (
        job_of(WRITE, asked("in/a", content=NEW), grant=grant),
        job_of(READ, asked("out/a"), grant=grant),
        job_of(DELETE, asked("out/a"), grant=grant),
    ):
        assert failed(files(tmp_path), job).code == "file.not_granted"
    assert names(tmp_path) == ["out/a"]


def test_settings_name_the_workspaces(tmp_path: Path) -> None:
    """04 section 8: relative directories stand beside the data folder; a cancelled job is none."""
    ports = ExecutorPorts(tmp_path / ".tally", None, lambda: 0)
    (tmp_path / "here").mkdir()
    executor = make({"workspaces": {"project": "here"}, "max_bytes": 4, "slots": 1}, ports)
    assert executor.slots == 1
    done(executor, job_of(WRITE, asked("a", content=NEW)))
    assert names(tmp_path) == ["here/a"]
    executor = make({"max_bytes": 3}, ports)
    assert failed(executor, job_of(WRITE, asked("a", content=NEW))).kind == "limit"
