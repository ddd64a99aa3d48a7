"""Shell and python programs: contained whatever they try, and useful when they do not."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.executors.isolate import Bounds
from tallystick.executors.isolate_bubblewrap import interpreter
from tests.executors.sandboxes import Box, need_walls

PLAIN = Bounds(isolation="rlimits")
CONNECT = """
import socket
def main(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "out"
"""
OPEN = """
def main(mode, *paths):
    opened = []
    for path in paths:
        try:
            with open(path, mode) as file:
                file.read(1) if mode == "r" else file.write("x")
        except OSError:
            continue
        opened.append(path)
    return opened
"""
BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
"""
FORKS = """
import os, signal
def main():
    children = []
    try:
        while len(children) < 500:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except BlockingIOError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
    return len(children)
"""


@pytest.fixture
def box(tmp_path: Path) -> Box:
    need_walls()
    return Box(tmp_path)


@pytest.fixture
def sink() -> Iterator[socket.socket]:
    """A listener on loopback that counts as the outside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_called(sink: socket.socket) -> bool:
    try:
        sink.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.clause("X-24")
def test_the_network_is_out_of_reach(box: Box, sink: socket.socket) -> None:
    """ND-18: no connection leaves the sandbox.

    Control: the same code reaches the sink without walls, and where the grant gives the network.
    """
    port = sink.getsockname()[1]
    assert box.no_python(CONNECT, [port]).code == "python.raised"
    assert not was_called(sink)
    assert box.python(CONNECT, [port], bounds=PLAIN)["result"] == "out"
    assert was_called(sink)
    assert box.python(CONNECT, [port], grant={"network": True})["result"] == "out"
    assert was_called(sink)


@pytest.mark.clause("X-24")
def test_the_system_is_out_of_reach(box: Box, tmp_path: Path) -> None:
    """ND-18: neither /etc nor the home nor the journal can be read, and nothing can be written.

    Control: without walls the same code reads /etc/passwd.
    """
    (tmp_path / "seen").write_text("seen")
    private = ("/etc/passwd", "/etc/shadow", str(tmp_path / "seen"), "/proc/1/root/etc/passwd")
    assert box.python(OPEN, ["r", *private, "/proc/version"])["result"] == ["/proc/version"]
    places = ("/etc/x", "/usr/x", "/x", "/dev/x", "/proc/sys/kernel/hostname", "/tmp/x")
    assert box.python(OPEN, ["w", *places])["result"] == ["/tmp/x"]
    assert not Path("/tmp/x").exists()
    assert box.python(OPEN, ["r", "/etc/passwd"], bounds=PLAIN)["result"] == ["/etc/passwd"]


@pytest.mark.clause("X-24")
def test_memory_has_an_end(box: Box) -> None:
    """ND-18: 10 GB are refused to the program, and to its /tmp; what fits is given."""
    greedy = "def main(n):\n    return len(bytearray(n))"
    assert "MemoryError" in box.no_python(greedy, [10_000_000_000]).message
    assert box.python(greedy, [100_000_000])["result"] == 100_000_000
    fill = """
def main(mib):
    with open("/tmp/x", "wb") as file:
        for _ in range(mib):
            file.write(bytes(1 << 20))
"""
    small = Bounds(memory=256 << 20)
    assert box.python(fill, [16], bounds=small)["result"] is None
    assert box.no_python(fill, [100], bounds=small).code in ("python.raised", "python.no_answer")
    parts = """
import os
def main(files):
    for n in range(files):
        with open(f"/tmp/{n}", "wb") as file:
            file.write(bytes(16 << 20))
"""
    assert "No space" in box.no_python(parts, [8], bounds=small).message


SHARERS = """
import os, time
def main(count, each):
    holds, told = os.pipe()
    over, end = os.pipe()
    for _ in range(count):
        if not os.fork():
            os.close(end)
            held = bytearray(each)
            held[:: 4096] = b"x" * len(held[:: 4096])
            os.write(told, b"x")
            os.read(over, 1)  # all of them hold theirs until the last one does
            os._exit(0)
    for _ in range(count):
        os.read(holds, 1)
    time.sleep(1)  # somebody looks some times a second
    os.close(end)
    for _ in range(count):
        os.wait()
    return count
"""


@pytest.mark.clause("X-24")
def test_many_processes_share_one_limit(box: Box) -> None:
    """ND-18: each is within the limit, all together are not; control: those that fit together."""
    small = Bounds(memory=256 << 20)
    found = box.no_python(SHARERS, [6, 100_000_000], bounds=small)
    assert (found.kind, found.code) == ("limit", "sandbox.memory")
    assert box.python(SHARERS, [2, 50_000_000], bounds=small)["result"] == 2


@pytest.mark.clause("X-24")
@pytest.mark.parametrize("procs", [10, 40])
def test_processes_have_an_end(box: Box, procs: int) -> None:
    """ND-18: a program gets as many processes as the settings say; control: more with more."""
    forked = box.python(FORKS, bounds=Bounds(procs=procs))["result"]
    assert procs - 5 <= forked <= procs


def processes_named(mark: str) -> list[int]:
    """The processes of this machine that have the mark among their arguments."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if mark.encode() in Path(entry.path, "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.clause("X-24")
def test_a_fork_bomb_ends_with_its_time(box: Box) -> None:
    """ND-18: a bomb is killed with all its processes, also those that left their group.

    Control: without walls, a process that left the group outlives the kill.
    """
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    bomb = (str(interpreter()), "-c", BOMB, mark)
    told = box.no_shell(*bomb, bounds=Bounds(timeout_s=1, procs=32))
    assert (told.kind, told.code) == ("timeout", "sandbox.timeout")
    assert processes_named(mark) == []
    leaving = ("sh", "-c", "setsid sh -c 'sleep 60; exit' $0 & exec sleep 60", mark)
    plain = Bounds(isolation="rlimits", timeout_s=3)
    assert box.no_shell(*leaving, bounds=plain).kind == "timeout"
    left = processes_named(mark)
    for process in left:
        os.killpg(process, signal.SIGKILL)
    assert len(left) == 1


@pytest.mark.clause("X-24")
def test_time_has_an_end(box: Box) -> None:
    """ND-18: by wall clock, by processor time, by the grant; each kills."""
    began = time.monotonic()
    sleep = "import time\ndef main():\n    time.sleep(600)"
    assert box.no_python(sleep, bounds=Bounds(timeout_s=0.3)).kind == "timeout"
    assert box.no_python(sleep, grant={"max_seconds": 1}).kind == "timeout"
    spin = "def main():\n    while True:\n        pass"
    assert box.no_python(spin, bounds=Bounds(cpu_s=1, timeout_s=400)).code == "python.no_answer"
    assert time.monotonic() - began < 500
    assert box.python("import time\ndef main():\n    time.sleep(0.1)")["result"] is None


def test_the_program_has_no_power(box: Box) -> None:
    """04 section 6: no capability, no new ones, an own process space, a lower priority."""
    told = box.shell("cat", "/proc/self/status")["stdout"].decode()
    fields = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert fields["CapEff"] == fields["CapPrm"] == "0" * 16
    assert fields["NoNewPrivs"] == "1"
    library = 0b11 << 31  # signals 32 and 33 belong to the C library; nobody may change them
    assert int(fields["SigIgn"], 16) & ~library == 0
    assert int(fields["Uid"].split()[0]) != 0
    assert int(fields["NSpid"].split()[-1]) < 20
    assert int(box.shell("nice")["stdout"]) == min(19, os.nice(0) + 10)
    assert box.shell("sh", "-c", "ulimit -c")["stdout"] == b"0\n"
