"""Rehearsals: a candidate is tried on a world of this node while it goes on (06 sections 7, 9).

A shadow runs in a worker thread over a connection of its own; the shares of a proof run in
processes, because they take all the cores they are given.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any, Final, NamedTuple

from tallystick.errors import Unavailable
from tallystick.governance.planning import proof_report
from tallystick.governance.prove import DIVERGES, IDENTICAL, TAIL, Verdict, verdict_of
from tallystick.governance.rerun import Order, Overlay
from tallystick.governance.shadow import TAIL as INPUTS
from tallystick.governance.shadow import Candidate, Shadowing, shadow
from tallystick.journal.base import Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.quiescence import open_cells
from tallystick.kernel.world import World
from tallystick.model.bundle import Bundle
from tallystick.model.cells import CellId
from tallystick.model.frames import open_frame
from tallystick.model.records import BundleActivate
from tallystick.node.node import Node
from tallystick.node.proving import Share, put_order, read_rows
from tallystick.node.worlds import world_at
from tallystick.values import canon

SECONDS: Final = 60.0
_PAGE: Final = 256


class Rehearsal(NamedTuple):
    """What is tried, by which proposal, and how many ticks of a cell count; None for all.

    At most `held` cells are proved while their world stands still.
    """

    bundle: Bundle
    proposal: str | None = None
    ticks: int | None = TAIL
    held: int = 1_000


class Proof(NamedTuple):
    """Verdicts on every open cell as of a sequence, the report of them, and its hash."""

    seq: int
    verdicts: tuple[Verdict, ...]
    report: dict[str, Any]
    document: bytes
    report_hash: bytes


class _Standing(NamedTuple):
    """The manifest and the sequence of a world, and its open cells with their last sequence."""

    base: bytes
    seq: int
    places: dict[CellId, int]


# ---- shadow -----------------------------------------------------------------------------------


async def shadow_on(
    node: Node,
    world: str,
    tried: Rehearsal,
    order: Order | None = None,
    *,
    tail: int = INPUTS,
) -> Shadowing:
    """Try a candidate on the live head and the last `tail` external inputs of a world.

    After a minute the report is incomplete: it cannot be approved.
    """
    seq = await node.look(world, lambda live: live.seq)

    def run(reader: Reader, stop: Callable[[], bool]) -> Shadowing:
        ends = time.monotonic() + SECONDS
        begin = _begin(reader, world, seq, tail)
        start = _opened(node, reader, world, begin, tried.bundle.blobs())
        live = _opened(node, reader, world, seq, {})
        frames = reader.read(world, after=begin, upto=seq)
        bundle = tried.bundle
        candidate = Candidate(bundle.root_digest, bundle.manifest_digest, tried.proposal)
        args = (start, live, frames, candidate, order)
        return shadow(*args, stop=lambda: stop() or time.monotonic() > ends)

    # The longer limit is for a single tick of the candidate that does not end.
    return await node.reruns.run(run, 2 * SECONDS)


def _opened(
    node: Node, reader: Reader, world: str, seq: int, blobs: Mapping[bytes, bytes]
) -> World:
    """A world of the past over blobs of its own, with a runner of its own."""
    overlay = Overlay(StagedBlobs(reader, world))
    for digest, data in blobs.items():
        overlay.put(digest, data)
    runner = node.modules(overlay)
    made = world_at(reader, world, runner, seq=seq)
    made.rehouse(overlay)
    return made


def _begin(reader: Reader, world: str, seq: int, tail: int) -> int:
    """The sequence behind which the last inputs stand; never before the active manifest."""
    found, upto = 0, seq
    while upto > 1:
        after = max(upto - _PAGE, 0)
        for frame in reversed(list(reader.read(world, after=after, upto=upto))):
            first = open_frame(frame.body)[3][0]
            if isinstance(first, BundleActivate) or frame.seq == 1:
                return frame.last
            found += getattr(first, "stamp", None) is not None
            if found == tail:
                return frame.seq - 1
            upto = frame.seq - 1
    return upto


# ---- proof ------------------------------------------------------------------------------------


async def prove_on(node: Node, world: str, tried: Rehearsal, known: Proof | None = None) -> Proof:
    """Verdicts on all open cells of a world, by processes on the cores there are.

    With `known` only the cells that ticked since are asked about, and only their new ticks.
    """
    standing = await node.look(world, _standing)
    kept, fresh = _left(standing.places, known)
    first = Share(world, standing.seq, tried.bundle.manifest_digest, tail=tried.ticks)
    count = _shares(len(fresh)) if fresh else 0
    only = None if known is None else fresh
    shares = [first._replace(number=n, of=count, only=only) for n in range(count)]
    orders = [put_order(node.folder, share, tried.bundle.blobs()) for share in shares]
    found = await asyncio.gather(*(_process(each) for each in orders))
    return _proof(tried, standing, [*kept, *chain.from_iterable(found)])


async def caught_up(
    node: Node, world: str, tried: Rehearsal, known: Proof, child: Process
) -> Proof | None:
    """The proof of now, from one of a moment ago, by a process that is at hand.

    None when too many cells ticked since.
    """
    standing = await node.look(world, _standing)
    kept, fresh = _left(standing.places, known)
    if len(fresh) > tried.held:
        return None
    share = Share(world, standing.seq, tried.bundle.manifest_digest, tail=tried.ticks, only=fresh)
    rows = await _told(child, put_order(node.folder, share, tried.bundle.blobs()))
    return _proof(tried, standing, [*kept, *rows])


def _proof(tried: Rehearsal, standing: _Standing, found: list[Verdict]) -> Proof:
    base, seq, _ = standing
    verdicts = tuple(sorted(found, key=lambda each: each.cell))
    report = proof_report(base, tried.bundle.root_digest, verdicts, tried.proposal)
    document = canon.encode(report)
    return Proof(seq, verdicts, report, document, canon.digest_of(document))


def _left(
    places: Mapping[CellId, int], known: Proof | None
) -> tuple[list[Verdict], dict[CellId, int]]:
    """The verdicts that still hold, and the cells to ask about with where their proof ended."""
    older = {} if known is None else {v.cell: v for v in known.verdicts}
    kept: list[Verdict] = []
    fresh: dict[CellId, int] = {}
    for cell, last in places.items():
        verdict = older.get(cell)
        if verdict is None:
            fresh[cell] = 0
        elif verdict.seq == last or verdict.verdict == DIVERGES:
            kept.append(verdict._replace(seq=last))  # what differed once goes on to differ
        else:
            # Its older ticks were proved; what is left is what came behind them.
            fresh[cell] = verdict.seq if verdict.verdict == IDENTICAL else 0
    return kept, fresh


def _standing(world: World) -> _Standing:
    found = (each.detail for each in open_cells(world))
    cells = {CellId(d["workflow"], bytes.fromhex(d["key"])): d["since_seq"] for d in found}
    return _Standing(world.manifest, world.seq, cells)


def _shares(cells: int) -> int:
    """A process costs as much as a few hundred verdicts."""
    return max(1, min(os.cpu_count() or 1, cells // 500))


@asynccontextmanager
async def at_hand() -> AsyncIterator[Process]:
    """A process that has loaded what it needs and waits for its order."""
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-m", "tallystick.node.proving")
    child = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        assert child.stdout is not None, "it is a pipe"
        await child.stdout.read(1)
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()  # it has told its verdicts, or nobody waits for them any more
        await child.communicate()


async def _process(order: bytes) -> list[Verdict]:
    async with at_hand() as child:
        return await _told(child, order)


async def _told(child: Process, order: bytes) -> list[Verdict]:
    out, err = await child.communicate(order)
    if child.returncode != 0:
        words = err.decode(errors="replace").strip().splitlines()
        raise Unavailable(
            f"a proof ended before its verdicts: {words[-1] if words else child.returncode}",
            code="gov.proof_failed",
            hint="try again; the node's log has what it said",
        )
    return [verdict_of(row) for row in read_rows(out)]
