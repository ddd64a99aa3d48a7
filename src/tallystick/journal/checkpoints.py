"""Checkpoints: what a node says of a world's journal, under its seal (04 section 4).

One is kept in the journal and one line is appended to `checkpoints.jsonl`.
A copy kept elsewhere finds rollback and truncation, also by someone who holds the key.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected, TallyError, Unavailable
from tallystick.journal.base import CheckpointRow, Head, Reader
from tallystick.values import canon, seal
from tallystick.values.seal import KeyPair

FILE: Final = "checkpoints.jsonl"
_LINE_MAX: Final = 64 * 1024  # far more than a line has
_HASHES: Final = ("head", "root", "manifest")


class Stand(NamedTuple):
    """Where a world stands: what a checkpoint says beside its head."""

    root: bytes
    manifest: bytes
    at_ns: int


def statement(world: str, row: CheckpointRow) -> bytes:
    """The bytes that the seal of a checkpoint covers."""
    return seal.checkpoint_statement(
        world=world,
        seq=row.seq,
        head=canon.text_of(row.head),
        root=canon.text_of(row.root),
        manifest=canon.text_of(row.manifest),
        epoch=row.epoch,
        at_ns=row.at_ns,
    )


def make(pair: KeyPair, world: str, head: Head, stand: Stand) -> CheckpointRow:
    """A signed checkpoint of a world at its head."""
    bare = CheckpointRow(
        head.seq, head.hash, stand.root, stand.manifest, head.epoch, stand.at_ns, b""
    )
    return bare._replace(seal=canon.encode(pair.sign(statement(world, bare))))


def fault_of(
    reader: Reader,
    world: str,
    row: CheckpointRow,
    keys: Mapping[str, bytes],
    floor: Head | None = None,
) -> str | None:
    """What is wrong with a checkpoint of a journal that reaches it; None when nothing is."""
    try:
        given = canon.decode(row.seal)
        public = keys.get(given["key"])
    except (TallyError, TypeError, KeyError):
        return "its seal cannot be read"
    if public is None:
        return "nobody knows the key of its seal"
    if not seal.verify(public, statement(world, row), given):
        return "its seal does not fit what it says"
    if floor is not None and floor.seq == row.seq:
        end: bytes | None = floor.hash
    else:
        found = next(iter(reader.headers(world, row.seq - 1, row.seq)), None)
        end = None if found is None or found.last_seq != row.seq else found.hash
    if end != row.head:
        return "no frame ends there" if end is None else "another frame stands there"
    kept = {each.seq: each.root for each in reader.snapshots(world)}
    if kept.get(row.seq, row.root) != row.root:
        return "the snapshot there has another root"
    return None


# ---- the file -------------------------------------------------------------------------------


def line_of(world: str, row: CheckpointRow) -> dict[str, Any]:
    """A checkpoint as one line of text."""
    said: dict[str, Any] = {"world": world, **row._asdict(), "seal": row.seal.hex()}
    said.update({name: canon.text_of(said[name]) for name in _HASHES})
    return said


def note(folder: Path, world: str, row: CheckpointRow) -> None:
    """Append a checkpoint to the file of a data folder, and sync it."""
    text = json.dumps(line_of(world, row), separators=(",", ":")) + "\n"
    try:
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(
                handle, fcntl.LOCK_EX
            )  # another world's line is not taken for a part of one
            _end_whole(handle)
            view = memoryview(text.encode())
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as why:
        raise Unavailable(
            f"{FILE} cannot be written: {why.strerror or why}",
            code="checkpoint.unwritable",
            where={"file": str(folder / FILE)},
            hint="check that there is room, and its modes; the journal keeps the checkpoint",
        ) from why


def _end_whole(handle: int) -> None:
    """Take off the part of a line that a crash or a full disk left at the end."""
    end = os.fstat(handle).st_size
    begin = max(end - _LINE_MAX, 0)
    tail = os.pread(handle, end - begin, begin)
    if not tail.endswith(b"\n"):
        os.ftruncate(handle, begin + tail.rfind(b"\n") + 1)


def read_file(path: Path, world: str) -> Iterator[CheckpointRow]:
    """The checkpoints of a world in a file, in the order they were made.

    A last line that was cut while it was written is left out; any other bad line is refused.
    """
    lines = path.read_bytes().split(b"\n")
    for number, text in enumerate(lines, 1):
        if not text:
            continue
        try:
            said = json.loads(text)
            row = _row(said)
        except (ValueError, KeyError, TypeError, TallyError) as why:
            if number == len(lines):
                return
            raise Rejected(
                f"line {number} is no checkpoint",
                code="checkpoint.malformed",
                where={"file": str(path), "line": number},
                hint="take a copy of the file as the node wrote it",
            ) from why
        if said["world"] == world:
            yield row


def _row(said: dict[str, Any]) -> CheckpointRow:
    head, root, manifest = (canon.raw_of(said[name]) for name in _HASHES)
    epoch, at_ns = int(said["epoch"]), int(said["at_ns"])
    sealed = bytes.fromhex(said["seal"])
    return CheckpointRow(int(said["seq"]), head, root, manifest, epoch, at_ns, sealed)
