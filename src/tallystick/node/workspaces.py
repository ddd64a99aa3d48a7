"""Which directories are watched here, and whose they are (08 section 3).

A directory carries its own name: `DIR/.tally/workspace` holds a random id and the worlds that own
it, so a moved directory is the same workspace and a second world finds out that it is taken.
Where a directory lies on this host is nobody else's affair: `workspaces.json` of the data folder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tallystick.errors import Conflict, DiskFull, Rejected, UnknownName
from tallystick.node.files import write_json

STATE: Final = ".tally"
IDENTITY: Final = "workspace"
STAMPS: Final = "stamps.log"
_FILE: Final = "workspaces.json"


Place = tuple[str, str]
"""A world and the id of a workspace of it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One directory that a world watches on this host."""

    world: str
    workspace_id: str
    folder: str
    shared: bool
    folding: bool

    @property
    def place(self) -> Place:
        """What tells it from all others: worlds may share a directory, and so its id."""
        return (self.world, self.workspace_id)

    @property
    def name(self) -> str:
        """The last part of the directory's path, for people."""
        return Path(self.folder).name


class Workspaces:
    """The list of this host's workspaces, in the data folder."""

    def __init__(self, data: Path) -> None:
        self._path = data / _FILE
        self.rows: dict[Place, Kept] = {}
        if self._path.exists():
            rows = [Kept(**row) for row in json.loads(self._path.read_text("utf-8"))]
            self.rows = {kept.place: kept for kept in rows}

    def put(self, kept: Kept) -> None:
        """Remember one."""
        self.rows[kept.place] = kept
        self._save()

    def drop(self, kept: Kept) -> None:
        """Forget one."""
        self.rows.pop(kept.place, None)
        self._save()

    def of(self, world: str) -> list[Kept]:
        """Those of a world."""
        return [kept for kept in self.rows.values() if kept.world == world]

    def find(self, world: str, name: str) -> Kept:
        """One of a world by its id, the beginning of its id, its folder or its folder's name."""
        rows = self.of(world)
        for kept in rows:
            if name in (kept.workspace_id, kept.folder):
                return kept
        near = [k for k in rows if k.name == name or (name and k.workspace_id.startswith(name))]
        if len(near) != 1:
            raise UnknownName(
                f"no workspace {name}" if not near else f"{name} means several workspaces",
                code="workspace.unknown",
                where={"workspace": name},
                hint=f"known: {', '.join(sorted(k.name for k in rows)) or 'none yet'}",
            )
        return near[0]

    def _save(self) -> None:
        write_json(self._path, [asdict(kept) for kept in self.rows.values()])


@contextmanager
def _told(state: Path) -> Iterator[None]:
    """Says whose fault it is that a directory cannot keep its name."""
    try:
        yield
    except OSError as why:
        if why.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"the disk of {state} is full") from why
        raise _bad_state(state, why.strerror or "it cannot be used") from why


def _bad_state(state: Path, why: str) -> Rejected:
    return Rejected(
        f"{state}: {why}",
        code="workspace.bad_state",
        where={"path": str(state)},
        hint="a directory keeps its name in .tally, a folder that the node may write to",
    )


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    state.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(state / "workspace.lock", flags, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def claim(folder: Path, world: str, new_id: str, *, shared: bool) -> Kept:
    """Take a directory for a world, and see whether its names fold.

    Refuses with `workspace.owned` one that another world has, unless both share it, and with
    `workspace.bad_state` one that cannot keep its name.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise Rejected(
            f"{folder} is no directory", code="workspace.no_directory", where={"path": str(folder)}
        )
    state = folder / STATE
    if state.is_symlink():
        raise _bad_state(state, "it is a link, and what it leads to is no part of the directory")
    with _told(state), _locked(state):
        told = _identity(state) or {"workspace_id": new_id, "owners": {}}
        for owner, how in told["owners"].items():
            if owner != world and not (shared and how["shared"]):
                raise Conflict(
                    f"{folder} belongs to the world {owner}",
                    code="workspace.owned",
                    where={"world": owner, "path": str(folder)},
                    hint="remove it there with `tally workspace rm`, or add it --shared in both",
                )
        told["owners"][world] = {"shared": shared}
        write_json(state / IDENTITY, told)
        return Kept(world, told["workspace_id"], str(folder), shared, _folds(state))


def refuse_copy(kept: Kept, known: Iterable[Kept]) -> None:
    """Refuse a directory that carries the id of another one which is still there."""
    for other in known:
        same = other.workspace_id == kept.workspace_id
        if same and other.folder != kept.folder and Path(other.folder).is_dir():
            raise Conflict(
                f"{kept.folder} is a copy of {other.folder}",
                code="workspace.copied",
                where={"path": kept.folder, "workspace": kept.workspace_id},
                hint="remove .tally/workspace of the copy; it then becomes a new workspace",
            )


def release(folder: Path, world: str) -> None:
    """Give a directory back; what is in it stays."""
    state = folder / STATE
    if not state.is_dir():
        return
    with _locked(state):
        told = _identity(state)
        if told is not None and told["owners"].pop(world, None) is not None:
            write_json(state / IDENTITY, told)


def owned(folder: Path, world: str) -> bool:
    """True while the directory says that the world may watch it."""
    told = _identity(folder / STATE) if (folder / STATE).is_dir() else None
    return told is not None and world in told["owners"]


def _identity(state: Path) -> dict[str, Any] | None:
    path = state / IDENTITY
    if not path.exists():
        return None
    told: Any = None
    with suppress(ValueError):
        told = json.loads(path.read_text("utf-8"))
    if not _is_identity(told):
        raise Rejected(
            f"{path} cannot be read",
            code="workspace.bad_identity",
            where={"path": str(path)},
            hint="remove the file; the directory then becomes a new workspace",
        )
    found: dict[str, Any] = told
    return found


def _is_identity(told: Any) -> bool:
    match told:
        case {"workspace_id": str(), "owners": dict(owners)}:
            return all(isinstance(how, dict) and "shared" in how for how in owners.values())
        case _:
            return False


def _folds(state: Path) -> bool:
    """Whether the disk takes names that differ by case for one."""
    # A name that nobody can have made a link of before.
    probe = state / f"Probe-{secrets.token_hex(8)}"
    probe.touch(exist_ok=False)
    try:
        return probe.with_name(probe.name.swapcase()).exists()
    finally:
        probe.unlink(missing_ok=True)
