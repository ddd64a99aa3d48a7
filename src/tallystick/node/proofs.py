"""Proofs: a verdict on every open cell of a world of this node, while it goes on (06 section 9).

The work is done by processes on the cores there are: each has a share of the cells to judge as
they stand, and then a stretch of the history to run for all those that this did not settle.
What they say is put together in the order of the cells and of the history, so the report is the
same however many they are.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tallystick.governance.planning import proof_report
from tallystick.governance.prove import (
    DIVERGES,
    IDENTICAL,
    Ticks,
    Verdict,
    verdict_of,
    verdict_on,
)
from tallystick.governance.stretches import Stretch, stretches
from tallystick.kernel.quiescence import live_cells
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.node.node import Node
from tallystick.node.provers import Hand, several
from tallystick.node.proving import (
    Case,
    Row,
    Share,
    class_of,
    put_case,
    put_share,
    put_stretch,
)
from tallystick.node.rehearsal import Rehearsal
from tallystick.node.reruns import UnderWay
from tallystick.values import canon

CELLS_EACH: Final = 500  # a process costs as much as a few hundred verdicts


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


class _Work(NamedTuple):
    """What is asked about: which cells of which world, as of when, and on what candidate."""

    case: Case
    standing: _Standing
    fresh: dict[CellId, int]
    only: dict[CellId, int] | None
    snapshots: list[int]
    told: UnderWay | None = None


async def prove_on(
    node: Node, world: str, tried: Rehearsal, known: Proof | None = None, *, cores: int = 0
) -> Proof:
    """Verdicts on all open cells of a world, by processes on so many cores, or on all there are.

    With `known` only the cells that ticked since are asked about, and only their new ticks.
    """
    standing = await node.look(world, _standing)
    kept, fresh = _left(standing.places, known)
    found: list[Verdict] = []
    if fresh:
        only = None if known is None else fresh
        work = await _work(node, world, tried, (standing, fresh, only))
        most = cores or os.cpu_count() or 1
        with node.reruns.told("prove", world) as mine:
            async with several(max(1, min(most, len(fresh) // CELLS_EACH))) as children:
                found = await _verdicts(children, work._replace(told=mine))
    return await asyncio.to_thread(_proof, tried, standing, [*kept, *found])


async def caught_up(
    node: Node, world: str, tried: Rehearsal, known: Proof, child: Hand
) -> Proof | None:
    """The proof of now, from one of a moment ago, by a process that is at hand.

    None when too many cells ticked since.
    """
    standing = await node.look(world, _standing)
    kept, fresh = _left(standing.places, known)
    if len(fresh) > tried.held:
        return None
    found: list[Verdict] = []
    if fresh:
        found = await _verdicts([child], await _work(node, world, tried, (standing, fresh, fresh)))
    return await asyncio.to_thread(_proof, tried, standing, [*kept, *found])


async def _work(
    node: Node,
    world: str,
    tried: Rehearsal,
    cells: tuple[_Standing, dict[CellId, int], dict[CellId, int] | None],
) -> _Work:
    bundle = tried.bundle
    blobs = tuple(bundle.blobs().values())
    case = Case(str(node.folder), world, bundle.manifest_digest, tried.ticks, blobs)
    taken = await node.read(lambda reader: [row.seq for row in reader.snapshots(world)])
    return _Work(case, *cells, taken)


# ---- asking -----------------------------------------------------------------------------------


async def _verdicts(children: list[Hand], work: _Work) -> list[Verdict]:
    """What the processes say of the cells: of each as it stands, or from its history."""
    await asyncio.gather(*(child.open(put_case(work.case)) for child in children))
    of, seq = len(children), work.standing.seq
    shares = [put_share(Share(seq, number, of, work.only)) for number in range(of)]
    verdicts: list[Verdict] = []
    first: dict[CellId, int] = {}
    for rows in await _asked(children, shares):
        for workflow, key, since, told in rows:
            if told is None:
                first[CellId(workflow, key)] = since
            else:
                verdicts.append(verdict_of(canon.decode(told)))
    said = len(verdicts) + len(first)
    assert said == len(work.fresh), "every cell that was asked about has an answer"
    if first:
        verdicts += await _run(children, work, first)
    return verdicts


async def _run(children: list[Hand], work: _Work, first: dict[CellId, int]) -> list[Verdict]:
    """Verdicts from the recorded ticks of cells, the first of which are known."""
    tail, upto = work.case.tail, work.standing.seq
    begin = min(first.values()) - 1
    # Counting costs a pass; it pays where few cells have long histories.
    if tail is not None and upto - begin > tail * len(first):
        first = await _counted(children, work, first)
        begin = min(first.values()) - 1
    cut = stretches(Stretch(begin, upto), work.snapshots, len(children))
    _tell(children, work, sum(each.upto - each.after for each in _each(cut, len(children))))
    parts: dict[CellId, list[Ticks]] = {ident: [] for ident in first}
    orders = await asyncio.to_thread(_orders, "run", cut, first, len(children))
    for rows in await _asked(children, orders):
        for workflow, key, count, found in rows:
            ident = CellId(workflow, key)
            parts[ident].append(Ticks(ident, _differences(found), count))
    places = work.standing.places
    return [verdict_on((ident, places[ident]), said, tail) for ident, said in parts.items()]


def _differences(found: bytes | None) -> deque[tuple[int, dict[str, Any]]]:
    if found is None:
        return deque()
    return deque((number, detail) for number, detail in canon.decode(found))


def _tell(hands: Iterable[Hand], work: _Work, of: int) -> None:
    """Let callers see how many of so many records were run."""
    told = work.told
    if told is None:
        return
    told.of = of

    def news(records: int) -> None:
        told.done = min(told.done + records, of)

    for hand in hands:
        hand.news = news


def _each(cut: list[Stretch], of: int) -> list[Stretch]:
    """The stretch of each process: its own, or the whole for all of them."""
    return cut if len(cut) == of else cut * of


async def _counted(
    children: list[Hand], work: _Work, first: dict[CellId, int]
) -> dict[CellId, int]:
    """The first tick of each cell that counts."""
    tail = work.case.tail
    assert tail is not None, "without a tail all count"
    begin = min(first.values()) - 1
    cut = stretches(Stretch(begin, work.standing.seq), work.snapshots, len(children))
    seen: dict[CellId, list[int]] = {}
    for rows in await _asked(children, _orders("count", cut, first, len(children))):
        for workflow, key, ticks in rows:
            seen.setdefault(CellId(workflow, key), []).extend(ticks)
    return {**first, **{ident: ticks[-tail:][0] for ident, ticks in seen.items()}}


def _orders(what: str, cut: list[Stretch], first: Mapping[CellId, int], of: int) -> list[bytes]:
    """One order for each process: a stretch of its own, or the whole for some of the cells."""
    if len(cut) == of:
        return [put_stretch(what, each, first) for each in cut]
    shares: list[dict[CellId, int]] = [{} for _ in range(of)]
    for ident, seq in first.items():
        shares[class_of(ident, of)][ident] = seq
    return [put_stretch(what, cut[0], share) for share in shares]


async def _asked(children: Iterable[Hand], orders: Iterable[bytes]) -> list[list[Row]]:
    """The answers in the order of the processes; the first that is lost ends the asking."""
    pairs = zip(children, orders, strict=True)
    return await asyncio.gather(*(child.ask(order) for child, order in pairs))


# ---- putting together -------------------------------------------------------------------------


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
    cells = {cell.id: cell.last_seq for cell in live_cells(world)}
    return _Standing(world.manifest, world.seq, cells)
