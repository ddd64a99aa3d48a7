"""What a node's folder says about its own health, read from the files and the machine (04 § 13).

Every check has an id, a level, what was found, what is wanted and what to do.
Nothing here writes into the journal; the one file that is written measures a sync and is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw

from tallystick.errors import TallyError
from tallystick.journal.lineage import is_unfinished
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.node.config import Config
from tallystick.node.keys import read_keys
from tallystick.node.path import path_in_use, way_to_compiled

OK, WARN, RED = "ok", "warn", "red"
SQLITE_WANT: Final = (3, 51, 3)
FREE_RED: Final = 64 * 2**20
FREE_WARN: Final = 2**30
WAL_WARN: Final = 256 * 2**20
SYNC_SUSPECT_NS: Final = 20_000
NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "fuse.sshfs"})
FLEETING: Final = frozenset({"tmpfs", "ramfs"})
_PRIVATE: Final = ("vault.bin", "run/token", "keys/vault.key")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding of the doctor."""

    id: str
    level: str
    found: Any
    want: Any = None
    fix: str | None = None

    def shown(self) -> dict[str, Any]:
        """The check as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def examine(config: Config) -> list[Check]:
    """Every check that needs no running node, in a fixed order."""
    return [check for look in LOOKS for check in look(config)]


def narrow(config: Config) -> list[str]:
    """Narrow the modes that are too wide; answers which paths were changed."""
    done: list[str] = []
    for path, want in _private_paths(config.data):
        if stat.S_IMODE(path.stat().st_mode) & ~want:
            path.chmod(want)
            done.append(str(path))
    return done


# ---- the machine ----------------------------------------------------------------------------


def _sqlite(_config: Config) -> Iterator[Check]:
    version = apsw.sqlite_lib_version()
    fine = tuple(int(part) for part in version.split(".")) >= SQLITE_WANT
    want = ".".join(map(str, SQLITE_WANT))
    yield Check("sqlite", OK if fine else RED, version, f">= {want}", "pip install -U apsw")


def _path(_config: Config) -> Iterator[Check]:
    # The pure path is no fault, so its level is ok; what is found tells the way to a faster one.
    way = way_to_compiled()
    found = path_in_use() if way is None else f"{path_in_use()}; about half as fast as compiled"
    yield Check("path", OK, found if way is None else f"{found}: {way}", "compiled", way)


def _file_system(config: Config) -> Iterator[Check]:
    kind = file_system_of(config.data)
    level = RED if kind in NETWORK else WARN if kind in FLEETING else OK
    fix = "keep the data on a local disk" if level != OK else None
    yield Check("file_system", level, kind, "a local disk", fix)


def file_system_of(path: Path) -> str:
    """The kind of file system that holds a path, by the longest mount point above it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    place = str(path.resolve())
    best, kind = "", "unknown"
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    except OSError:
        return kind
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split(" ")[4].replace("\\040", " ")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split(" ")[0]
    return kind


def _sync(config: Config) -> Iterator[Check]:
    if not config.data.is_dir():
        yield Check("fsync", WARN, "no data yet", "a folder", "tally serve makes it")
        return
    took = median(
        _sync_times(config.data / "run" if (config.data / "run").is_dir() else config.data)
    )
    level = WARN if took < SYNC_SUSPECT_NS else OK
    fix = "the disk may answer before it has written; check its cache" if level == WARN else None
    yield Check("fsync", level, f"{took / 1000:.0f} us", ">= 20 us", fix)


def _sync_times(folder: Path, count: int = 5) -> list[int]:
    path = folder / f".doctor-{os.getpid()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        times: list[int] = []
        for _ in range(count):
            os.write(handle, b"x" * 4096)
            begin = time.perf_counter_ns()
            os.fsync(handle)
            times.append(time.perf_counter_ns() - begin)
        return times
    finally:
        os.close(handle)
        path.unlink()


def _space(config: Config) -> Iterator[Check]:
    place = config.data if config.data.exists() else config.base
    free = shutil.disk_usage(place).free
    level = RED if free < FREE_RED else WARN if free < FREE_WARN else OK
    fix = "free space, or move the folder" if level != OK else None
    yield Check("space", level, f"{free // 2**20} MiB free", ">= 1024 MiB", fix)


# ---- the folder -----------------------------------------------------------------------------


def _journal(config: Config) -> Iterator[Check]:
    path = config.data / "tally.db"
    if not path.exists():
        yield Check("journal", OK, "none yet", None, None)
        return
    try:
        yield from _opened(config.data)
    except (TallyError, apsw.Error) as why:
        yield Check("journal", RED, str(why), "a journal that opens", "restore from a backup")
    wal = config.data / "tally.db-wal"
    size = wal.stat().st_size if wal.exists() else 0
    level = WARN if size > WAL_WARN else OK
    fix = "a reader holds it open; look for long exports" if level == WARN else None
    yield Check("wal", level, f"{size // 2**20} MiB", f"<= {WAL_WARN // 2**20} MiB", fix)


def _opened(data: Path) -> list[Check]:
    """What the journal says, all of it or none: damage may stand anywhere."""
    reader = SqliteReader(data)
    try:
        found = {"worlds": len(reader.worlds()), "mode": _mode(data / "tally.db")}
        return [
            Check("journal", OK, found),
            _clock(reader),
            _age(reader, "backup", "tally backup DEST"),
            _age(reader, "verify", "tally verify --full"),
        ]
    finally:
        reader.close()


def _mode(path: Path) -> str:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return str(db.execute("PRAGMA journal_mode").get)
    finally:
        db.close()


def _clock(reader: SqliteReader) -> Check:
    now_ns = time.time_ns()
    rows = [row for row in reader.worlds() if not is_unfinished(row)]
    last = max((_flushed(reader, row.world) for row in rows), default=0)
    ahead = last > now_ns + 10**9
    found = f"{(last - now_ns) // 10**9} s behind the journal" if ahead else "not behind it"
    fix = "set the clock; new events would get the time of the last one" if ahead else None
    return Check("clock", RED if ahead else OK, found, "not behind the journal", fix)


def _flushed(reader: SqliteReader, world: str) -> int:
    head = reader.head(world)
    rows = list(reader.headers(world, after=max(0, head.seq - 1)))
    return max((row.flushed_ns for row in rows), default=0)


def _age(reader: SqliteReader, what: str, fix: str) -> Check:
    held = reader.meta().get(f"{what}_ns")
    if held is None:
        return Check(what, WARN, "never", "now and then", fix)
    hours = (time.time_ns() - int(held)) // (3_600 * 10**9)
    level = OK if hours < 24 * 7 else WARN
    return Check(what, level, f"{hours} h ago", "within a week", None if level == OK else fix)


def _modes(config: Config) -> Iterator[Check]:
    try:
        count = len(read_keys(config.data / "keys"))
    except TallyError as why:
        yield Check("keys", RED, why.message, "0600 in a folder of 0700", why.hint)
    else:
        yield Check("keys", OK, f"{count} keys", "0600 in a folder of 0700")
    wide = [
        f"{path} {stat.S_IMODE(path.stat().st_mode):04o}"
        for path, want in _private_paths(config.data)
        if stat.S_IMODE(path.stat().st_mode) & ~want
    ]
    fix = "tally doctor --fix" if wide else None
    yield Check("modes", RED if wide else OK, wide or "private", "0600", fix)


def _private_paths(data: Path) -> Iterator[tuple[Path, int]]:
    for name in _PRIVATE:
        if (data / name).exists():
            yield data / name, 0o600
    if (data / "keys").is_dir():
        yield data / "keys", 0o700
        for path in sorted((data / "keys").glob("*.key")):
            yield path, 0o600


def _listen(config: Config) -> Iterator[Check]:
    host = config.http.listen.rpartition(":")[0]
    loopback = host.strip("[]") in ("127.0.0.1", "::1", "localhost")
    safe = loopback or bool(config.http.tls_cert)
    fix = None if safe else "set http.tls_cert and http.tls_key, or listen on 127.0.0.1"
    yield Check("listen", OK if safe else RED, config.http.listen, "loopback, or TLS", fix)


def _lock(config: Config) -> Iterator[Check]:
    owner = lock_owner(config.data)
    yield Check("lock", OK, "free" if owner is None else f"held by {owner}")


def lock_owner(data: Path) -> str | None:
    """Who holds the lock of a folder: the pid that `run/node.json` names, or None."""
    path = data / "run" / "node.lock"
    if not path.exists():
        return None
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid(data)
    return None


def _pid(data: Path) -> str:
    try:
        return f"pid {json.loads((data / 'run' / 'node.json').read_text('utf-8'))['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _python(_config: Config) -> Iterator[Check]:
    # Said here because nobody reads it elsewhere in time: the lane finds mistakes, no attackers.
    found = "Python modules are trusted code with the rights of the server"
    yield Check("python", OK, found, "untrusted code as WASM")
    found = "WASM that this node has not sealed runs in a process of its own"
    yield Check("wasm", OK, found, "`tally bundle seal` for what may run in the node itself")


LOOKS: Final[tuple[Callable[[Config], Iterator[Check]], ...]] = (
    _sqlite,
    _path,
    _file_system,
    _sync,
    _space,
    _journal,
    _modes,
    _listen,
    _lock,
    _python,
)
