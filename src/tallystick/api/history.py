"""The journal over HTTP: its head, its rows, one record; and blobs."""

from __future__ import annotations

import re
from typing import Any, Final

from tallystick.api.reads import live, page_of
from tallystick.api.refusals import NoSuchRange
from tallystick.api.request import Request, Response
from tallystick.api.wire import BYTES
from tallystick.errors import DiskFull, JournalCorrupt, Rejected, UnknownName
from tallystick.journal.base import Append, Full, Head, Reader
from tallystick.journal.grace import begun_anew
from tallystick.journal.lineage import floor_of
from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.node.nearby import with_floor
from tallystick.values import canon, names
from tallystick.views import cells, journal, pages
from tallystick.views.journal import KINDS, RowFilter
from tallystick.views.stats import world_root

_NEAR: Final = 256
_RANGE: Final = re.compile(rb"bytes=(\d{0,18})-(\d{0,18})")


async def head(request: Request) -> Response:
    """GET W/journal/head: where the durable journal ends."""
    found = await request.node.read(lambda reader: reader.head(request.world))
    shown = {
        "world": request.world,
        "seq": found.seq,
        "head": canon.text_of(found.hash),
        "epoch": found.epoch,
    }
    return Response(value=shown)


async def rows(request: Request) -> Response:
    """GET W/journal: a page of records; `?from=` begins at a sequence, filters by what it is."""
    wanted, upto = await live(request, lambda world: (row_filter(request, world), world.seq))
    page = page_of(request)
    first = request.number("from", 1, 2**63 - 1)
    if page.after is None and first > 1:
        page = pages.Page(page.limit, str(first - 1))
    after = 0 if page.after is None else pages.number_cursor(page.after)

    def read(reader: Reader) -> dict[str, Any]:
        # Who names no place to begin at gets what there is.
        floor = floor_of(reader.lineage(request.world)).seq if page.after is None else 0
        begin = max(after, floor)
        frames = reader.read(request.world, begin, upto)
        at_ns = time_before(reader, request.world, begin)
        return with_floor(journal.journal_list(frames, page, wanted, upto, at_ns), floor)

    return Response(value=await request.node.read(read))


def time_before(reader: Reader, world: str, seq: int) -> int | None:
    """The time of the last input at or before a sequence, when it stands near."""
    at_ns = None
    floor = floor_of(reader.lineage(world)).seq  # below it nothing can be read any more
    for entry in journal.entries(reader.read(world, max(seq - _NEAR, floor), seq)):
        if entry.seq <= seq:
            at_ns = journal.time_of(entry.record, at_ns)
    return at_ns


def row_filter(request: Request, world: World) -> RowFilter:
    """Which records a query asks for; refuses a word that nothing has."""
    query = request.query
    pages.known("kind", query.get("kind"), KINDS)
    cell: CellId | None = None
    workflow = query.get("workflow")
    if "key" in query:
        if workflow is None:
            raise Rejected(
                "a key is one of a workflow",
                code="request.bad_query",
                where={"path": "?key"},
                hint="name the workflow too, by ?workflow=",
            )
        cell = cells.cell_id(world, workflow, query["key"])
    else:
        cells.known(world, workflow)
    intent = None
    if "intent" in query:
        intent = digest_of(query["intent"], "?intent")
    return RowFilter(query.get("kind"), cell, intent, workflow if cell is None else None)


async def show(request: Request) -> Response:
    """GET W/journal/{seq}: one record whole, with its frame."""
    text = request.named["seq"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _no_seq(text)
    seq = int(text)

    def read(reader: Reader) -> dict[str, Any]:
        for frame in reader.read(request.world, max(seq - 1, 0)):
            if frame.seq <= seq <= frame.last:
                at_ns = time_before(reader, request.world, frame.seq - 1)
                return journal.journal_show(frame, seq, at_ns)
            break
        raise _no_seq(text)

    return Response(value=await request.node.read(read))


def _no_seq(text: str) -> UnknownName:
    return UnknownName(
        f"the journal has no record {text[:32]}",
        code="journal.no_seq",
        where={"seq": text[:32]},
        hint="sequence numbers run from 1 to the head of the journal",
    )


async def root(request: Request) -> Response:
    """GET W/root: state root and root, now or as of a sequence."""
    found = await request.node.read(lambda reader: reader.head(request.world))
    return Response(value=await live(request, lambda world: world_root(world, found.epoch)))


# ---- blobs ----------------------------------------------------------------------------------


async def put_blob(request: Request) -> Response:
    """PUT W/blobs: keep bytes; they are durable when the hash comes back."""
    digest = canon.digest_of(request.body)
    await request.node.write(lambda journal: _keep(journal, request.world, digest, request.body))
    shown = {"hash": canon.text_of(digest), "size": len(request.body)}
    return Response(201, shown)


def _keep(journal: SqliteJournal, world: str, digest: bytes, data: bytes) -> None:
    """A commit without frames: the blob is durable, and the head stays where it is."""
    known = journal.added(world, digest) >= 0
    (outcome,) = journal.append(Append(world, (), journal.head(world), {digest: data}))
    if known and not _is_sound(journal, world, digest):
        journal.mend_blob(world, digest, data)  # what has its name already is left alone
    if isinstance(outcome, Full):
        raise DiskFull("the disk is full; the blob was not kept")
    begun_anew(journal, world, digest)
    assert isinstance(outcome, Head), "the writer's own head is never moved by another"


def _is_sound(journal: SqliteJournal, world: str, digest: bytes) -> bool:
    try:
        return journal.blob(world, digest) is not None
    except JournalCorrupt:
        return False


async def get_blob(request: Request) -> Response:
    """GET W/blobs/{hash}: the bytes, whole or one range of them."""
    digest = digest_of(request.named["hash"], "/hash")
    data = await request.node.read(lambda reader: reader.blob(request.world, digest))
    if data is None:
        raise UnknownName("this world has no such blob", code="blob.unknown")
    fixed = ((b"accept-ranges", b"bytes"), (b"etag", b'"%s"' % digest.hex().encode()))
    asked = request.headers.get(b"range")
    if asked is None:
        return Response(200, None, fixed, data, content_type=BYTES)
    first, last = _range(asked, len(data))
    place = (b"content-range", b"bytes %d-%d/%d" % (first, last, len(data)))
    return Response(206, None, (*fixed, place), data[first : last + 1], content_type=BYTES)


def _range(asked: bytes, size: int) -> tuple[int, int]:
    found = _RANGE.fullmatch(asked)
    if found is None or found.group(1) == found.group(2) == b"":
        raise NoSuchRange("one range of bytes is read", where={"size": size})
    first, last = found.group(1), found.group(2)
    if not first:
        start, end = max(size - int(last), 0), size - 1
    else:
        start, end = int(first), min(int(last) if last else size - 1, size - 1)
    if start > end or start >= size:
        raise NoSuchRange("the blob has no such range", where={"size": size})
    return start, end


def digest_of(text: str, path: str) -> bytes:
    """The digest of a hash in text; refuses anything else with its path."""
    if not names.is_hash(text):
        raise Rejected(
            "a hash is sha256: and 64 hex digits", code="request.bad_hash", where={"path": path}
        )
    return canon.raw_of(text)
