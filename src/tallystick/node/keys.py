"""Signing keys on disk: `keys/<keyid>.key`, one key a file, mode 0600.

A key that others can read proves nothing, so a file or folder with a wider mode stops the node
instead of being mended silently (VA-18): only its owner knows who has read it meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallystick.errors import Rejected
from tallystick.values.seal import KeyPair

NODE: Final = "node"
WORKER: Final = "worker"
_NAME: Final = re.compile(r"[0-9a-f]{16}\.key")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A key of this node's folder: what it is for, where it lies, and the pair itself."""

    use: str
    path: Path
    pair: KeyPair

    def public_text(self) -> str:
        """The public half as a manifest and `tally key trust` take it."""
        return self.pair.public.hex()


def read_keys(folder: Path) -> list[KeyFile]:
    """Every key in `folder`, by key id; empty when there is none.

    Refuses with `key.mode` what others may read, and with `key.damaged` what is no key or not the
    one that its name says.
    """
    if not folder.exists():
        return []
    _refuse_open(folder, 0o700)
    found = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    return [_read(path) for path in found]


def new_key(folder: Path, use: str = WORKER) -> KeyFile:
    """Make a key and write it durably; nothing that is there is overwritten."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_open(folder, 0o700)
    seed = os.urandom(32)
    pair = KeyPair(seed)
    path = folder / f"{pair.key_id}.key"
    body = json.dumps({"alg": "ed25519", "use": use, "seed": seed.hex()}) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)
    return KeyFile(use, path, pair)


def node_key(folder: Path) -> KeyFile:
    """The key that seals for this node, made at the first call; refuses as `read_keys`.

    Two node keys would leave open which one a journal trusts: `key.ambiguous`.
    """
    mine = [key for key in read_keys(folder) if key.use == NODE]
    if len(mine) > 1:
        raise Rejected(
            f"{folder} holds {len(mine)} node keys",
            code="key.ambiguous",
            where={"keys": [key.pair.key_id for key in mine]},
            hint="keep the one that the worlds trust, and move the other away",
        )
    return mine[0] if mine else new_key(folder, NODE)


def find_key(folder: Path, key_id: str) -> KeyFile:
    """One key by its id; refuses one that is not there with `key.unknown`."""
    for key in read_keys(folder):
        if key.pair.key_id == key_id:
            return key
    raise Rejected(
        f"no key {key_id} in {folder}",
        code="key.unknown",
        where={"key": key_id},
        hint="list the keys with `tally key ls`",
    )


def _read(path: Path) -> KeyFile:
    _refuse_open(path, 0o600)
    try:
        held: Any = json.loads(path.read_text("utf-8"))
        use, pair = str(held["use"]), KeyPair(bytes.fromhex(held["seed"]))
    except (ValueError, KeyError, TypeError, AssertionError) as why:
        raise _damaged(path, "it is no key") from why
    if path.name != f"{pair.key_id}.key":
        raise _damaged(path, f"it holds the key {pair.key_id}")
    return KeyFile(use, path, pair)


def _damaged(path: Path, why: str) -> Rejected:
    return Rejected(
        f"{path}: {why}",
        code="key.damaged",
        where={"path": str(path)},
        hint="restore the file from where you keep your keys, or make a new key and trust it",
    )


def _refuse_open(path: Path, want: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        raise Rejected(
            f"{path} has mode {mode:04o}: others can read a signing key",
            code="key.mode",
            where={"path": str(path), "mode": f"{mode:04o}"},
            hint=f"chmod {want:o} {path}; if others may have read it, make a new key",
        )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
