"""Exports: a world in one file that verifies alone, offline (04 section 9).

The file is a row of items behind a magic line: one byte of kind, eight bytes of length, content.
Content is stored as it is and never inflated.
First comes the header, then blobs, frames (a fork's prefix included), snapshots, checkpoints, and
the end, which counts them and hashes all that stands before it.
What is in the file is checked as if a stranger had sent it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from tallystick.errors import Rejected, TallyError
from tallystick.journal.base import CheckpointRow, Reader
from tallystick.journal.lineage import floor_of, oldest
from tallystick.kernel.index import bare
from tallystick.values import canon
from tallystick.views.journal import export_rows

MAGIC: Final = b"tallystick export 1\n"
FORMAT: Final = 1
HEADER, BLOB, FRAME, SNAPSHOT, CHECKPOINT, END = b"HBFSCE"
_ORDER: Final = (HEADER, BLOB, FRAME, SNAPSHOT, CHECKPOINT, END)
_BLOB_BYTES_MAX: Final = 1 << 30
_ITEM_BYTES_MAX: Final = canon.SIZE_MAX + 1024
_LARGE: Final = (BLOB, FRAME)  # a frame holds many values, and only each of them is bounded


class Exported(NamedTuple):
    """What an export holds."""

    world: str
    head: str
    seq: int
    frames: int
    blobs: int
    bytes: int


# ---- writing --------------------------------------------------------------------------------


class _Writer:
    """Writes items and hashes them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.hash = sha256(MAGIC)
        self.bytes = len(MAGIC)
        out.write(MAGIC)

    def item(self, kind: int, content: bytes) -> None:
        raw = bytes((kind,)) + len(content).to_bytes(8, "big") + content
        self._out.write(raw)
        self.hash.update(raw)
        self.bytes += len(raw)


def export_bundle(reader: Reader, world: str, out: BinaryIO) -> Exported:
    """Write a world as it stands now; what becomes durable meanwhile is left out."""
    line = reader.lineage(world)
    head = line[0].head
    taken = {row.seq for row in reader.snapshots(world)}
    writer = _Writer(out)
    writer.item(HEADER, canon.encode(_header(reader, world)))
    blobs = 0
    for name, owner in _names(reader, world):
        data = reader.blob(owner, name)
        if data is not None:
            writer.item(BLOB, bare(data) if name[32:] else data)
            blobs += 1
    frames = 0
    for frame in reader.read(world, floor_of(line).seq, head.seq):
        writer.item(FRAME, frame.body)
        frames += 1
    # One that came meanwhile, or was thinned out, has not all of its blobs here.
    for row in reader.snapshots(world):
        if row.seq in taken:
            writer.item(SNAPSHOT, canon.encode(list(row)))
    for owner, checkpoint in _checkpoints(reader, world):
        if checkpoint.seq <= head.seq:
            writer.item(CHECKPOINT, canon.encode([owner, *checkpoint]))
    end = {"frames": frames, "blobs": blobs, "seq": head.seq, "head": head.hash}
    writer.item(END, canon.encode({**end, "digest": writer.hash.digest()}))
    return Exported(world, canon.text_of(head.hash), head.seq, frames, blobs, writer.bytes)


def _header(reader: Reader, world: str) -> dict[str, Any]:
    names = [name for name, of in reader.aliases().items() if of == world]
    line: list[dict[str, Any]] = []
    for row in reader.lineage(world):
        trimmed = row.base.seq > (row.fork_seq or 0)
        fork_seq = None if trimmed else row.fork_seq
        line.append({"world": row.world, "fork_seq": fork_seq, "base": list(row.base[:2])})
        if trimmed:
            break  # nobody reads past a floor, so for this file the world begins there
    return {
        "$type": "export@1",
        "format": FORMAT,
        "world": world,
        "name": names[0] if names else None,
        "line": line,
    }


def _names(reader: Reader, world: str) -> Iterator[tuple[bytes, str]]:
    """Every blob and every node that the world can read, once.

    Places are left out of an export: where it is taken in, all of it is found by its digest.
    """
    seen: dict[bytes, None] = {}
    for row in reader.lineage(world):
        # In order of digest, so that a world has one export wherever it has been.
        for name in sorted(name for name, _ in reader.blobs(row.world)):
            if name[:32] not in seen:
                seen[name[:32]] = None
                yield name, world


def _checkpoints(reader: Reader, world: str) -> Iterator[tuple[str, CheckpointRow]]:
    """The world's own, and the one that signs the floor of a parent."""
    begin = oldest(reader.lineage(world))
    if begin.world != world:
        rows = reader.checkpoints(begin.world)
        yield from ((begin.world, row) for row in rows if row.seq == begin.base.seq)
    yield from ((world, row) for row in reader.checkpoints(world))


def export_jsonl(
    reader: Reader,
    world: str,
    first: int | None = None,
    last: int | None = None,
    cell: tuple[str, str] | None = None,
) -> Iterator[str]:
    """The lines of the JSONL form, for people and pipes; it cannot be imported.

    They begin where the journal begins, unless told else; the head line says where that is.
    """
    first = floor_of(reader.lineage(world)).seq + 1 if first is None else first
    upto = reader.head(world).seq if last is None else last
    frames = reader.read(world, first - 1, upto)
    for line in export_rows(world, frames, (first, upto), cell):
        yield json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n"


# ---- reading --------------------------------------------------------------------------------


def items(path: Path) -> Iterator[tuple[int, bytes]]:
    """The items of an export in their order, up to the end; refuses everything else.

    The end was checked against what came before it.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise _refused(path, "export.format", "this is no export that this release knows")
        whole, stage = sha256(MAGIC), 0
        while True:
            head = file.read(9)
            kind, size = head[:1], int.from_bytes(head[1:], "big")
            if len(head) < 9:
                raise _refused(path, "export.incomplete", "the export ends too early")
            stage = _stage(path, kind, stage)
            if size > (_BLOB_BYTES_MAX if kind[0] in _LARGE else _ITEM_BYTES_MAX):
                raise _refused(path, "export.too_large", f"an item of {size} bytes")
            content = file.read(size)
            if len(content) < size:
                raise _refused(path, "export.incomplete", "the export ends too early")
            if kind[0] == END:
                _check_end(path, content, whole.digest())
                if file.read(1):
                    raise _refused(path, "export.extra", "bytes stand after the end")
            yield kind[0], content
            if kind[0] == END:
                return
            whole.update(head + content)


def _stage(path: Path, kind: bytes, stage: int) -> int:
    """Kinds come in their order, the header first and once; the least that may come next."""
    at = _ORDER.index(kind[0]) if kind[0] in _ORDER else -1
    if at < stage or (stage == 0 and at > 0):
        raise _refused(path, "export.malformed", "an item stands where it may not")
    return max(at, 1)


def _check_end(path: Path, content: bytes, digest: bytes) -> None:
    if document(path, content).get("digest") != digest:
        raise _refused(path, "export.damaged", "the export does not match its own digest")


def document(path: Path, content: bytes) -> Any:
    """A canonical item of an export."""
    try:
        return canon.decode(content)
    except TallyError as why:
        raise _refused(path, "export.malformed", why.message) from why


def _refused(path: Path, code: str, message: str) -> Rejected:
    return Rejected(
        message, code=code, where={"file": str(path)}, hint="copy or make the export again"
    )
