"""The file executor stays inside its workspace, by name, by link and in a race."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tallystick.executors.base import ExecutorPorts, Failed
from tallystick.executors.file import DELETE, LIST, READ, WRITE, make
from tallystick.executors.file_beneath import Names
from tests.executors.attempts import done, failed, job_of
from tests.executors.test_file import NEW, OLD, USER, asked, files, names

UNCLEAN = (
    *("../x", "/etc/passwd", "a/../../x", "./x", "a//b", "x/", "~/x"),
    *(".git/hooks/a", "sub/.GIT/config", ".tally/keys/a", "Sub/.TALLY/x", ".a.txt.0123abcd.stage"),
    *("a\x00b", "a\\b"),
)


@pytest.mark.clause("F-12", "X-24")
@pytest.mark.parametrize("path", UNCLEAN)
@pytest.mark.parametrize("effect", [WRITE, DELETE, READ])
def test_no_way_out_by_name(tmp_path: Path, path: str, effect: str) -> None:
    """S47, AT-24: dots, absolute paths, .git, our own state and stage names: nothing happens."""
    root = tmp_path / "root"
    root.mkdir()
    content = {"content": NEW} if effect == WRITE else {}
    told = failed(files(root), job_of(effect, asked(path, **content)))
    assert told.kind == "scope"
    assert names(tmp_path) == []


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("effect", [WRITE, DELETE, READ, LIST])
def test_no_way_into_a_data_folder_of_another_name(tmp_path: Path, effect: str) -> None:
    """04 section 6: with `--data state` an effect read and replaced the node's own keys."""
    key = tmp_path / "state/keys/node.key"
    key.parent.mkdir(parents=True)
    key.write_bytes(OLD)
    executor = make({}, ExecutorPorts(tmp_path / "state", None, lambda: 0))
    content = {"content": NEW} if effect == WRITE else {}
    place = "state/keys" if effect == LIST else "state/keys/node.key"
    params = asked(place, **content)
    # A list is asked for by playbooks alone, and has no schema of its own.
    job = replace(job_of(READ, params), effect=LIST) if effect == LIST else job_of(effect, params)
    assert failed(executor, job).code == "file.state_path"
    assert key.read_bytes() == OLD


def test_reactions_are_read_and_never_written(tmp_path: Path) -> None:
    """S48: an effect cannot change what reacts."""
    (tmp_path / ".reactions").mkdir()
    (tmp_path / ".reactions/a.yaml").write_bytes(OLD)
    job = job_of(WRITE, asked(".reactions/a.yaml", content=NEW))
    assert failed(files(tmp_path), job).code == "file.state_path"
    assert failed(files(tmp_path), job_of(DELETE, asked(".reactions/a.yaml"))).kind == "scope"
    assert done(files(tmp_path), job_of(READ, asked(".reactions/a.yaml")))["bytes"] == OLD


def hostile(root: Path, outside: Path) -> list[str]:
    """Things in a workspace that lead out of it, or are no files; the paths that meet them."""
    (outside / "secret").write_bytes(USER)
    (root / "link").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "absent")
    (root / "dir").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to("/proc/self/root")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(root)
        try:
            door.bind("socket")
        finally:
            os.chdir(here)
    paths = "link dangling dir/secret dir/new loop folder pipe socket proc/etc/passwd"
    return paths.split()


@pytest.mark.clause("F-12", "X-24")
@pytest.mark.parametrize("effect", [WRITE, DELETE, READ])
def test_no_way_out_by_links_and_devices(tmp_path: Path, effect: str) -> None:
    """S21, S25, AT-24: links, pipes, sockets and directories are refused at once, 0 bytes out."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    content = {"content": NEW} if effect == WRITE else {}
    for path in hostile(root, outside):
        told = failed(files(root), job_of(effect, asked(path, **content)))
        assert told.kind == "scope", (path, told)
    assert names(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == USER


def test_programs_are_not_replaced(tmp_path: Path) -> None:
    """10 section 6: no exec bit is ever written, and none is taken away silently."""
    program = tmp_path / "run"
    program.write_bytes(OLD)
    program.chmod(0o755)
    told = failed(files(tmp_path), job_of(WRITE, asked("run", content=NEW)))
    assert told.code == "file.executable"
    assert program.read_bytes() == OLD
    assert names(tmp_path) == ["run"]


def test_a_second_name_keeps_its_bytes(tmp_path: Path) -> None:
    """AT-24: a hard link in the workspace is replaced, the file outside is not."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_bytes(USER)
    os.link(tmp_path / "outside", root / "a")
    done(files(root), job_of(WRITE, asked("a", content=NEW)))
    assert (tmp_path / "outside").read_bytes() == USER


class Swapper(threading.Thread):
    """Turns a directory into a link to the outside and back, as fast as it can."""

    def __init__(self, root: Path, outside: Path) -> None:
        super().__init__()
        self.root, self.outside, self.turns, self.stop = root, outside, 0, threading.Event()

    def run(self) -> None:
        (self.root / "link").symlink_to(self.outside)
        here = os.open(self.root, os.O_RDONLY)
        while not self.stop.is_set():
            Names().exchange(here, "d", "link")
            self.turns += 1
        os.close(here)


@pytest.mark.clause("F-12", "X-24")
def test_no_way_out_while_a_directory_is_swapped(tmp_path: Path) -> None:
    """AT-24: a racer swaps the directory for a link all the time; 0 bytes land outside.

    Control: the same racer catches a plain open() of the path within the same number of turns.
    """
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "d").mkdir(parents=True)
    outside.mkdir()
    racer = Swapper(root, outside)
    racer.start()
    executor = files(root)
    try:
        for turn in range(400):
            job = job_of(WRITE, asked(f"d/{turn}", content=NEW))
            outcome = executor._perform(job, threading.Event())
            assert not isinstance(outcome, Failed) or outcome.kind == "scope"
        assert names(outside) == []
        assert racer.turns > 0
        for turn in range(100_000):
            try:
                (root / "d" / f"plain-{turn}").write_bytes(NEW)
            except OSError:
                continue
            if names(outside):
                break
    finally:
        racer.stop.set()
        racer.join()
        executor._threads.shutdown()
    assert names(outside) != []
