"""What a directory of a workspace holds, by name; nothing is followed and nothing is read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from tallystick.executors.base import Failed, Ok, Outcome
from tallystick.executors.file_beneath import parent_of

ENTRIES_MAX: Final = 10_000
_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def listed(root: str, path: str, hidden: Path | None = None) -> Outcome:
    """The entries of a directory in the order of their names; refuses one of over 10,000."""
    inside = "entry" if path == "." else f"{path}/entry"
    with parent_of(root, inside, create=False, hidden=hidden) as found:
        if found is None:
            return Failed("not_found", "file.absent", "there is no such directory")
        here, _ = found
        names = sorted(os.listdir(here))  # noqa: PTH208 - of a handle, not of a path
        if len(names) > ENTRIES_MAX:
            message = f"the directory has {len(names)} entries, over {ENTRIES_MAX}"
            return Failed("limit", "file.too_many", message)
        rows = [row for name in names if (row := _row(here, name)) is not None]
    return Ok({"path": path, "entries": rows, "count": len(rows)})


def _row(here: int, name: str) -> dict[str, Any] | None:
    """One entry; None when it is gone already, or has a name that is no text."""
    try:
        name.encode()
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return {"name": name, "kind": kind, "size": found.st_size if kind == "file" else None}
