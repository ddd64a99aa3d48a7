"""The feed: durable frames as server-sent events, resumed without gap or repeat (K-45).

`frame` carries the id of its last record; `progress` carries none, because it proves nothing.
`head` says every few seconds where the journal ends; `behind` is said to a reader that is too slow,
before it is left: it comes back with its last id and reads on from the journal.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import msgspec

from tallystick.api.history import row_filter
from tallystick.api.refusals import NoSuchRange
from tallystick.api.request import Request, Response
from tallystick.errors import Rejected
from tallystick.journal.base import Reader
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import Record
from tallystick.node.jobs import Published
from tallystick.values import canon
from tallystick.views.journal import Entry, RowFilter, entries, row
from tallystick.views.shown import document

BRIEF_MAX: Final = 400
LOOK_S: Final = 1.0  # so often a stream asks whether what opened it still stands
_JSON: Final = msgspec.json.encode
_SHOWN: Final = ("schema", "effect", "status", "outcome", "code", "reason", "verb")


async def feed(request: Request) -> Response:
    """GET W/feed: everything behind `?after=` or Last-Event-ID, then what becomes durable."""
    after = request.number("after", 0, 2**63 - 1)
    last = request.headers.get(b"last-event-id")
    if last is not None:
        if not last.isdigit() or len(last) > 18:
            raise Rejected(
                "Last-Event-ID is a sequence number",
                code="request.bad_header",
                where={"path": "Last-Event-ID"},
            )
        after = int(last)
    world = request.world
    rows = await request.node.look(world, lambda live: row_filter(request, live))
    await request.node.read(lambda reader: _check_begin(reader, world, after))
    stream = _events(request, after, _Wanted(rows, request.query.get("effect")))
    return Response(200, stream=stream, content_type=b"text/event-stream")


def _check_begin(reader: Reader, world: str, after: int) -> None:
    """Refuse a reader that the journal cannot go on from: a stream could only be cut, or silent."""
    next(iter(reader.read(world, after, after + 1)), None)  # refuses what a trim took
    head = reader.head(world).seq
    if after > head:
        raise NoSuchRange(
            f"the journal ends at {head}, before {after}",
            code="feed.beyond",
            where={"after": after, "head": head},
            hint="the world may be one that was restored; read on from its head",
        )


async def _events(request: Request, after: int, wanted: _Wanted) -> AsyncIterator[bytes]:
    looked = time.monotonic()
    async for item in request.node.feed.subscribe(request.world, after):
        now = time.monotonic()
        if now - looked >= LOOK_S:
            if not request.api.still_knows(request):
                return  # who asks again is told why
            looked = now
        if item.kind == "frame":
            text = wanted.frame(item.body)
            if text is not None:
                yield text
        elif item.kind == "progress":
            if wanted.news(item.body[0]):
                yield _event("progress", _progress(item.body))
        else:
            yield _event(item.kind, item.body or {"seq": item.seq})


def _progress(body: tuple[Published, int, str, bytes]) -> dict[str, Any]:
    """News about an open intent; it may never become a record."""
    job, seq, kind, payload = body
    return {
        "intent": canon.text_of(job.intent),
        "effect": job.effect,
        "attempt": job.attempt,
        "seq": seq,
        "kind": kind,
        "payload": document(payload),
    }


class _Wanted(NamedTuple):
    """The filters of one reader: those of the journal, and an effect; without them all is shown."""

    rows: RowFilter
    effect: str | None

    def frame(self, frame: Sealed) -> bytes | None:
        """A frame as an event, or None when nothing in it is wanted."""
        shown = [brief(entry) for entry in entries([frame]) if self._passes(entry.record)]
        if not shown:
            return None
        return _event("frame", {"last": frame.last, "records": shown}, frame.last)

    def _passes(self, record: Record) -> bool:
        if self.effect not in (None, getattr(record, "effect", None)):
            return False
        return self.rows.passes(record)

    def news(self, job: Published) -> bool:
        """True when news about an open intent is wanted."""
        kind, cell, _, workflow = self.rows
        return (
            kind in (None, "progress")
            and cell in (None, CellId(job.workflow, job.key))
            and workflow in (None, job.workflow)
            and self.effect in (None, job.effect)
        )


def brief(entry: Entry) -> dict[str, Any]:
    """A record in at most 400 bytes: what it is, about whom, and how it went."""
    found = row(entry, None, 0)
    record = found["record"]
    shown = {name: found[name] for name in ("seq", "kind", "workflow", "key", "intent")}
    for name in _SHOWN:
        if isinstance(record.get(name), str):
            shown[name] = record[name][:80]
    if len(_JSON(shown)) > BRIEF_MAX:
        shown["key"] = "..."
    return shown


def _event(kind: str, value: Any, ident: int | None = None) -> bytes:
    lines = [b"event: ", kind.encode("ascii"), b"\n"]
    if ident is not None:
        lines += [b"id: %d\n" % ident]
    # JSON escapes every line break, so one data line holds it whole.
    lines += [b"data: ", _JSON(value), b"\n\n"]
    return b"".join(lines)
