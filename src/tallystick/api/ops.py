"""Care of a node over HTTP: health, metrics, verify, replay, backup, and questions to people."""

from __future__ import annotations

from pathlib import Path

from tallystick.api.models import (
    AskAnswer,
    BackupOptions,
    CollectOptions,
    ReplayOptions,
    VerifyOptions,
)
from tallystick.api.reads import live, page_of, serving_of
from tallystick.api.request import Request, Response
from tallystick.errors import Rejected
from tallystick.journal.backup import Backup, backup
from tallystick.journal.base import Reader
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.node import collecting
from tallystick.node.asks import Reply
from tallystick.node.node import Node
from tallystick.node.ops import Span
from tallystick.views import effects
from tallystick.views.asks import ask_list

_STATUS = {"ok": 200, "degraded": 200, "read_only": 200, "stopping": 503}


async def health(request: Request) -> Response:
    """GET /v1/health: open to all, and says one word."""
    status = request.node.status()
    return Response(_STATUS[status], {"status": status})


async def metrics(request: Request) -> Response:
    """GET /metrics: counters and gauges in the text form of Prometheus."""
    text = request.node.metrics.text().encode()
    return Response(200, raw=text, content_type=b"text/plain; version=0.0.4; charset=utf-8")


async def verify(request: Request) -> Response:
    """POST W/verify: check hashes, seals and roots; the first damage is named."""
    body = request.read(VerifyOptions)
    return Response(value=await request.node.ops.verify(request.world, body.level))


async def replay(request: Request) -> Response:
    """POST W/replay: run the ticks again and compare bytes; the first difference is named."""
    body = request.read(ReplayOptions)
    span = Span(body.from_seq, body.to_seq, body.workflow)
    return Response(value=await request.node.ops.replay(request.world, span))


async def make_backup(request: Request) -> Response:
    """POST /v1/backup: a whole copy at one moment, while the node goes on."""
    body = request.read(BackupOptions)

    def copy(reader: Reader) -> Backup:
        assert isinstance(reader, SqliteReader), "a node's journal is a SQLite file"
        return backup(reader, Path(body.dest))

    made = await request.node.read(copy)
    await request.node.ops.note("backup_ns")
    shown = {
        "backup": made.id,
        "dest": body.dest,
        "worlds": [each._asdict() for each in made.worlds],
        "files": len(made.files),
    }
    return Response(value=shown)


async def collect(request: Request) -> Response:
    """POST /v1/gc: remove what nothing names; with `trim_before`, move the floor of one world."""
    body, node = request.read(CollectOptions), request.node
    if body.trim_before is None:
        worlds = [
            await collecting.collect(node, world, dry_run=body.dry_run) for world in _of(node, body)
        ]
        return Response(value={"dry_run": body.dry_run, "worlds": worlds})
    if body.archive is None or body.dry_run or body.world is None:
        raise Rejected(
            "a trim needs a world and an archive, and is no dry run",
            code="request.usage",
            where={"path": "/archive"},
            hint="what leaves the journal goes into the archive first",
        )
    world = node.resolve(body.world)
    archive = Path(body.archive)
    return Response(value=await collecting.cut(node, world, body.trim_before, archive))


def _of(node: Node, body: CollectOptions) -> list[str]:
    if body.world is not None:
        return [node.resolve(body.world)]
    return sorted(dict.fromkeys(node.worlds().values()))


async def list_asks(request: Request) -> Response:
    """GET W/asks: questions that wait for a person."""
    page, serving = page_of(request), serving_of(request)
    return Response(value=await live(request, lambda world: ask_list(world, page, serving)))


async def answer_ask(request: Request) -> Response:
    """POST W/asks/{intent}: answer a question; only whom it was put to may."""
    body = request.read(AskAnswer)
    text = request.named["intent"]
    intent = await request.node.look(
        request.world, lambda world: effects.open_intent(world, text).record.intent
    )
    reply = Reply(request.who.principal, body.choice, body.answer, body.comment)
    seq = await request.node.asks.answer(request.world, intent, reply, request.sample())
    return Response(202, {"seq": seq})
