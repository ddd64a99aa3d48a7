"""The walls: which part of the machine a program sees, as arguments of bubblewrap.

It sees the system's programs and libraries, the interpreter, and at most the project without our
data folder; all of it read-only.
It may write to a small `/tmp` that nobody else sees and that ends with it.
It has its own process, network and name spaces; with them its processes die.
There is no `/etc` but the few files that programs need to start, and those of name resolution when
the network is granted.

Started by an ordinary user, the sandbox is a user namespace of its own.
Started by root, the program becomes a user of its own before it runs: a limit on processes binds
no root, and it counts the processes of one user together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import which
from typing import Final

PROJECT: Final = "/project"
_USERS_FROM: Final = 0x7000_0000
_NOBODY: Final = 65_534
_SYSTEM: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_ETC: Final = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_ETC_NET: Final = ("resolv.conf", "hosts", "nsswitch.conf", "ssl", "ca-certificates", "pki")


def interpreter() -> Path:
    """The interpreter of this process, without its virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(base).resolve()


def stranger() -> int | None:
    """The user that a program of a root node becomes: one that no other sandbox has now.

    A thread runs one sandbox at a time, so its number makes the user its own.
    Where the node's user namespace has no such user it is nobody; None when the node is not root.
    """
    if os.geteuid() != 0:
        return None
    own = _USERS_FROM + threading.get_native_id()
    return own if _is_mapped(own, "uid_map") and _is_mapped(own, "gid_map") else _NOBODY


def _is_mapped(number: int, table: str) -> bool:
    lines = Path("/proc/self", table).read_text("ascii").splitlines()
    ranges = (tuple(map(int, line.split())) for line in lines)
    return any(first <= number < first + count for first, _, count in ranges)


def bubblewrap() -> str | None:
    """Where bubblewrap is, or None when it is not installed."""
    return which("bwrap")


@cache
def _options(program: str) -> str:
    """The help of the installed version: older ones lack options that are good to have."""
    asked = [program, "--help"]
    found = subprocess.run(asked, capture_output=True, check=False)  # noqa: S603 - ours
    return found.stdout.decode("utf-8", "replace")


def walls(program: str, *, net: bool, project: Path | None, hidden: Path, tmp: int) -> list[str]:
    """The command that builds the sandbox; the command to run in it follows."""
    return [
        program,
        *_spaces(program, net=net),
        *_system(),
        *_interpreter(),
        *_etc(net=net),
        *_project(project, hidden),
        *("--proc", "/proc", "--dev", "/dev"),
        *_tmp(program, tmp),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", "/", "--"),
    ]


def _spaces(program: str, *, net: bool) -> Iterator[str]:
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
    yield from ("--die-with-parent", "--new-session")
    if not net:
        yield "--unshare-net"
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
        return
    yield "--unshare-user"
    if "--disable-userns" in _options(program):
        yield "--disable-userns"


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for place in _SYSTEM:
        path = Path(place)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), place)
        elif path.is_dir():
            yield from ("--ro-bind", place, place)


def _interpreter() -> Iterator[str]:
    """The interpreter where it is; its parents are new and empty but for the way to it."""
    prefix = Path(sys.base_prefix).resolve()
    if not prefix.is_relative_to("/usr"):
        for parent in reversed(prefix.parents[:-1]):
            yield from ("--dir", str(parent))
        yield from ("--ro-bind", str(prefix), str(prefix))


def _etc(*, net: bool) -> Iterator[str]:
    for name in (*_ETC, *(_ETC_NET if net else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _project(project: Path | None, hidden: Path) -> Iterator[str]:
    if project is None:
        return
    yield from ("--ro-bind", str(project), PROJECT)
    if hidden.is_dir() and hidden.is_relative_to(project):
        # Keys, vault and journal lie there.
        inside = f"{PROJECT}/{hidden.relative_to(project)}"
        yield from ("--tmpfs", inside, "--remount-ro", inside)


def _tmp(program: str, size: int) -> Iterator[str]:
    yield from ("--perms", "1777")
    if "--size" in _options(program):
        yield from ("--size", str(size))
    yield from ("--tmpfs", "/tmp")  # noqa: S108 - the sandbox's own
