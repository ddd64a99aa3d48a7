"""The files of a node: where they lie, and the lock that keeps a second node out (04 section 8)."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallystick.errors import NotOwner


@dataclass(frozen=True, slots=True)
class Files:
    """The folder `.tally/`."""

    root: Path

    @property
    def keys(self) -> Path:
        """Signing keys."""
        return self.root / "keys"

    @property
    def run(self) -> Path:
        """What only lives as long as a node: lock, address, token."""
        return self.root / "run"

    @property
    def lock(self) -> Path:
        """Held by the one node that may write here."""
        return self.run / "node.lock"

    @property
    def node(self) -> Path:
        """Where the node listens, for the command line."""
        return self.run / "node.json"

    @property
    def token(self) -> Path:
        """The token of the local command line, mode 0600."""
        return self.run / "token"

    @property
    def index(self) -> Path:
        """The derived index; it may be deleted at any time."""
        return self.root / "index.db"

    @property
    def checkpoints(self) -> Path:
        """Signed statements about the journal, one a line; a copy elsewhere detects a rollback."""
        return self.root / "checkpoints.jsonl"

    def make(self) -> None:
        """Make the folders, for their owner only."""
        for folder in (self.root, self.run):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)


class Lock:
    """The right to write in a folder; the system takes it back when the process dies."""

    def __init__(self, files: Files) -> None:
        self._path = files.lock
        self._handle = os.open(files.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as why:
            owner = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise NotOwner(
                f"another process ({owner or 'unknown'}) holds {files.lock}",
                code="node.locked",
                where={"file": str(files.lock), "pid": owner},
                hint="use the running node, or stop it first",
            ) from why
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another node in; a second time does nothing."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, there whole or not at all."""
    aside = path.with_name(path.name + ".new")
    aside.unlink(missing_ok=True)
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    aside.rename(path)


def write_json(path: Path, value: Any) -> None:
    """A JSON document that only its owner can read."""
    write_private(path, json.dumps(value, sort_keys=True) + "\n")
