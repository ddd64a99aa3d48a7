"""A PostgreSQL server of a test's own, in a folder of its own, reached by a socket in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

# Nothing of a test must survive a power cut, so nothing waits for the disk.
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")
_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def _found(name: str) -> str | None:
    return shutil.which(name, path=":".join(map(str, reversed(_BINARIES)))) or shutil.which(name)


def _nobody() -> tuple[int, int] | None:
    """Whom a server runs as when root asks for it: PostgreSQL refuses to serve as root."""
    if os.geteuid() != 0:
        return None
    known = pwd.getpwnam("nobody")
    return known.pw_uid, known.pw_gid


def _run(*command: str) -> None:
    who = _nobody()
    as_whom = {} if who is None else {"user": who[0], "group": who[1], "extra_groups": []}
    subprocess.run(
        command,
        check=True,
        cwd="/",
        stdout=subprocess.DEVNULL,
        timeout=120,
        **as_whom,  # type: ignore[call-overload] # keywords of a map
    )


@contextmanager
def postgres() -> Iterator[str]:
    """The url of a fresh server; skips the test, saying so, where there is none to start."""
    initdb, control = _found("initdb"), _found("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("PostgreSQL is not installed: nothing was shown about it")
    if find_spec("asyncpg") is None:
        pytest.skip("the driver asyncpg is not installed: nothing was shown about PostgreSQL")
    # A short path: the name of a socket has room for about a hundred letters.
    base = Path(tempfile.mkdtemp(prefix="tally-pg-", dir="/tmp"))
    try:
        who = _nobody()
        if who is not None:
            os.chown(base, *who)
        data = str(base / "data")
        _run(initdb, "-D", data, "-U", "tally", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = " ".join(f"-c {word}" for word in (*_FAST, f"unix_socket_directories={base}"))
        log = str(base / "log")
        _run(control, "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql://tally@/postgres?host={base}"
        finally:
            _run(control, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(base)
