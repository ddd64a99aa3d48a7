"""What led to what, over HTTP: trace, graph, explain, figures, and two worlds compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tallystick.api.cells import existing
from tallystick.api.effects import shown_effect
from tallystick.api.reads import live, near, page_of, serving_of
from tallystick.api.request import Request, Response
from tallystick.api.who import world_of
from tallystick.errors import Rejected, UnknownName
from tallystick.governance.apart import FRAMES_MAX, Stood, ancestor, effects_apart
from tallystick.journal.base import Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.records import EventAdmitted, IntentDenied, Record
from tallystick.node.nearby import cell_last_word, cell_timeline, graph_around
from tallystick.node.node import Node
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tallystick.views import cells, diff, effects, explain, graph, stats, trace
from tallystick.views.graph import Focus
from tallystick.views.journal import entries
from tallystick.views.pages import Page

T = TypeVar("T")

WAIT_MS_MAX: Final = 30_000
DRAWN: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "mermaid": graph.mermaid,
    "dot": graph.dot,
}
SUBJECT: Final = ("event", "intent", "seq", "workflow", "key")


async def _subject(request: Request) -> tuple[Focus, int]:
    """What the query asks about, and the sequence that the answer is of."""
    query = request.query

    def look(world: World) -> tuple[CellId | None, int]:
        if "workflow" not in query:
            return None, world.seq
        return cells.cell_id(world, query["workflow"], query.get("key", "-")), world.seq

    cell, upto = await live(request, look)
    if "seq" in query:
        return Focus(seq=request.number("seq", 0, 2**63 - 1)), upto
    name = query.get("event") or query.get("intent")
    if name is not None:
        return Focus(seq=await _seq_of(request, name, upto)), upto
    return Focus(cell=cell), upto


async def _seq_of(request: Request, name: str, upto: int) -> int:
    """Where an event or intent stands that is named by its hash, or by 8 or more digits of it."""
    digits = name.removeprefix("sha256:")
    if not effects.PREFIX_MIN <= len(digits) <= 64 or set(digits) - set("0123456789abcdef"):
        raise Rejected(
            "a hash is sha256: and 64 hex digits, or its first 8 and more",
            code="request.bad_hash",
            where={"path": "?event"},
        )
    seq = await request.node.index.seq_of(request.world, digits)
    if seq is None and digits.isdigit() and 0 < int(digits) <= upto:
        return int(digits)  # a number of so many digits is a sequence when it is no hash
    if seq is None or seq > upto:
        raise UnknownName(
            "no event and no intent has this hash",
            code="event.unknown",
            hint="a hash is what sending an event, or listing effects, has shown",
        )
    return seq


async def _quiet(request: Request) -> bool | None:
    """Wait until the world is quiet, when the query asks for that."""
    if "wait_ms" not in request.query:
        return None
    wait_ms = request.number("wait_ms", 0, WAIT_MS_MAX)
    return await request.node.quiet(request.world, wait_ms)


async def show_trace(request: Request) -> Response:
    """GET W/trace: what an event led to, or what happened to a cell."""
    quiet = await _quiet(request)
    focus, upto = await _subject(request)

    cell, seq = focus.cell, focus.seq
    if cell is not None:
        found = await near(request, upto, lambda stretch: cell_timeline(stretch, cell))
        if not (found["ticks"] or found["effects"] or found["marks"] or found["more"]):
            await existing(request, cell)
    elif seq is not None:
        found = await request.node.read(
            lambda reader: trace.trace(reader.read(request.world, max(seq - 1, 0), upto), seq)
        )
    else:
        raise _nothing("an event, an intent, a sequence or a cell")
    form = _form(request)
    if form == "picture" and "rows" in found:
        found = {**found, "text": "\n".join(trace.picture(found))}
    elif form in DRAWN:
        around = await near(request, upto, lambda stretch: graph_around(stretch, focus))
        found = {**found, "text": DRAWN[form](around)}
    return Response(value=found if quiet is None else {**found, "quiet": quiet})


async def show_graph(request: Request) -> Response:
    """GET W/graph: nodes and edges of what happened, as JSON, Mermaid or DOT."""
    focus, upto = await _subject(request)
    found = await near(request, upto, lambda stretch: graph_around(stretch, focus))
    found["as_of"] = upto
    if focus.cell is not None and not found["nodes"]:
        await existing(request, focus.cell)
    form = _form(request)
    if form in DRAWN:
        found["text"] = DRAWN[form](found)
    return Response(value=found)


def _form(request: Request) -> str:
    """How an answer is wanted; a picture is for terminals, and not everything has one."""
    form = request.query.get("format", "json")
    if form not in ("json", "picture", *DRAWN):
        raise _nothing("json, mermaid or dot", "?format")
    return form


async def show_explain(request: Request) -> Response:
    """GET W/explain: why a cell, an effect or the whole world is where it is."""
    focus, upto = await _subject(request)
    serving = serving_of(request)
    if focus.seq is not None:
        return Response(value=await _explained(request, focus.seq, upto))
    cell = focus.cell
    if cell is None:
        return Response(value=await live(request, explain.explain_world))
    last = await near(request, upto, lambda stretch: cell_last_word(stretch, cell))
    shown = await live(request, lambda w: explain.explain_cell(w, cell, serving, last))
    return Response(value=shown)


async def _explained(request: Request, seq: int, upto: int) -> dict[str, Any]:
    """Why one record led to what it led to: an event, a denial, or an effect however it stands."""
    record = await request.node.read(lambda reader: _record(reader, request.world, seq, upto))
    if isinstance(record, EventAdmitted):
        return {**explain.explain_event(record, seq), "as_of": upto}
    if isinstance(record, IntentDenied):
        return {**explain.explain_denial(record, seq), "as_of": upto}
    intent = getattr(record, "intent", None)
    if intent is None:
        raise UnknownName(
            f"record {seq} is no event and no effect",
            code="journal.no_seq",
            where={"seq": seq},
            hint="name an event, an effect or a cell",
        )
    found = await shown_effect(request, canon.text_of(intent))
    return {**explain.explain_effect(found), "as_of": found["as_of"]}


def _record(reader: Reader, world: str, seq: int, upto: int) -> Record | None:
    for entry in entries(reader.read(world, max(seq - 1, 0), min(seq, upto))):
        if entry.seq == seq:
            return entry.record
    return None


async def show_stats(request: Request) -> Response:
    """GET W/stats: figures of a world; with `wait_ms`, once it is quiet."""
    quiet = await _quiet(request)
    found = await live(request, stats.stats)
    if quiet is None:
        quiet = await request.node.quiet(request.world, 0)
    return Response(value={**found, "quiet": quiet})


async def show_diff(request: Request) -> Response:
    """GET W/diff: which cells of two worlds differ, or of one world at two times."""
    other_name = request.query.get("with", request.named["w"])
    other = world_of(request.who, other_name, request.node)
    page = Page(page_of(request).limit, request.query.get("after"))
    left = await live(request, lambda world: diff.census(world, page))
    right = await _other(request, other, lambda world: diff.census(world, page))
    rows = diff.compared(left, right)
    cells = diff.apart(left, right)
    if cells:
        states = (
            await live(request, lambda world: diff.states(world, cells)),
            await _other(request, other, lambda world: diff.states(world, cells)),
        )
        rows = diff.with_states(rows, cells, *states)
    ends = (Stood(request.world, left.seq), Stood(other, right.seq))
    told = await request.node.read(lambda reader: _since_parted(request.node, reader, *ends))
    return Response(value={"world": request.world, "with": other, **rows, **told})


async def _other(request: Request, other: str, ask: Callable[[World], T]) -> T:
    """The same question to the other world, now or then."""
    if "with_at" in request.query:
        at = request.number("with_at", 0, 2**63 - 1)
        return await request.node.past(other, at, ask)
    return await request.node.look(other, ask)


def _since_parted(node: Node, reader: Reader, left: Stood, right: Stood) -> dict[str, Any]:
    """Where two worlds parted, and what they asked for since; None for too much to read."""
    common = ancestor(_line(reader, left), _line(reader, right))
    if common is None:
        return {"ancestor": None, "effects": None}
    told = {"ancestor": {"world": common.world, "seq": common.seq}}
    if max(left.seq, right.seq) - common.seq > FRAMES_MAX:
        return {**told, "effects": None}
    blobs = StagedBlobs(reader, common.world)
    start = world_at(reader, common.world, node.modules(blobs), seq=common.seq)
    tails = (reader.read(each.world, common.seq, each.seq) for each in (left, right))
    return {**told, "effects": effects_apart(start, *tails)}


def _line(reader: Reader, end: Stood) -> list[Stood]:
    """A world and its parents, each up to where the next was forked from it."""
    found = [end]
    for row in reader.lineage(end.world):
        if row.parent is not None and row.fork_seq is not None:
            found.append(Stood(row.parent, min(row.fork_seq, found[-1].seq)))
    return found


def _nothing(wanted: str, path: str = "?") -> Rejected:
    return Rejected(f"name {wanted}", code="request.bad_query", where={"path": path})
