"""Rehearsals: a candidate is tried on a world of this node while it goes on (06 sections 7, 9).

A shadow runs in a worker thread over a connection of its own; the shares of a proof run in
processes, because they take all the cores they are given.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.errors import Unavailable
from tallystick.governance.planning import proof_report
from tallystick.governance.prove import TAIL, Verdict, verdict_of
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
    """What is tried, and by whom it was proposed."""

    bundle: Bundle
    proposal: str | None = None


class Proof(NamedTuple):
    """Verdicts on every open cell as of a sequence, the report of them, and its hash."""

    seq: int
    verdicts: tuple[Verdict, ...]
    report: dict[str, Any]
    document: bytes
    report_hash: bytes


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
    ends = time.monotonic() + SECONDS

    def run(reader: Reader) -> Shadowing:
        begin = _begin(reader, world, seq, tail)
        start = _opened(node, reader, world, begin, tried.bundle.blobs())
        live = _opened(node, reader, world, seq, {})
        frames = reader.read(world, after=begin, upto=seq)
        bundle = tried.bundle
        candidate = Candidate(bundle.root_digest, bundle.manifest_digest, tried.proposal)
        args = (start, live, frames, candidate, order)
        return shadow(*args, stop=lambda: time.monotonic() > ends)

    return await node.read(run)


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


async def prove_on(
    node: Node,
    world: str,
    tried: Rehearsal,
    *,
    tail: int | None = TAIL,
    known: Proof | None = None,
) -> Proof:
    """Verdicts on all open cells of a world, by processes on the cores there are.

    With `known` only the cells that ticked since are asked about; the others keep their verdict.
    """
    base, seq, places = await node.look(world, _standing)
    older = {} if known is None else {v.cell: v for v in known.verdicts}
    kept = [v for cell, v in older.items() if places.get(cell) == v.seq]
    fresh = frozenset({*places} - {v.cell for v in kept})
    rows: list[Verdict] = []
    if fresh:
        only = None if known is None else fresh
        count = _shares(len(fresh))
        manifest, blobs = tried.bundle.manifest_digest, tried.bundle.blobs()
        shares = [Share(world, seq, manifest, n, count, tail, only) for n in range(count)]
        orders = [put_order(node.folder, share, blobs) for share in shares]
        for found in await asyncio.gather(*(_process(each) for each in orders)):
            rows += found
    verdicts = tuple(sorted((*kept, *rows), key=lambda each: each.cell))
    report = proof_report(base, tried.bundle.root_digest, verdicts, tried.proposal)
    document = canon.encode(report)
    return Proof(seq, verdicts, report, document, canon.digest_of(document))


def _standing(world: World) -> tuple[bytes, int, dict[CellId, int]]:
    found = (each.detail for each in open_cells(world))
    cells = {CellId(d["workflow"], bytes.fromhex(d["key"])): d["since_seq"] for d in found}
    return world.manifest, world.seq, cells


def _shares(cells: int) -> int:
    """A process costs as much as a few hundred verdicts."""
    return max(1, min(os.cpu_count() or 1, cells // 500))


async def _process(order: bytes) -> list[Verdict]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tallystick.node.proving",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate(order)
    if child.returncode != 0:
        words = err.decode(errors="replace").strip().splitlines()
        raise Unavailable(
            f"a proof ended before its verdicts: {words[-1] if words else child.returncode}",
            code="gov.proof_failed",
            hint="try again; the node's log has what it said",
        )
    return [verdict_of(row) for row in read_rows(out)]
