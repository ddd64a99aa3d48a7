"""What a proving process answers to each order, over its real wire and a real journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from tallystick.governance.stretches import Stretch
from tallystick.kernel.inputs import Submit
from tallystick.kernel.quiescence import live_cells
from tallystick.model.bundle import Bundle
from tallystick.model.cells import CellId
from tallystick.node import proving
from tallystick.node.node import Node
from tallystick.node.proving import SIZE, Case, Share, put_case, put_share, put_stretch
from tallystick.values import canon
from tests.node.test_proofs import OTHER, SAME, bundle
from tests.node.test_rehearsal import running

SUMS, FLOW = "t/sums@1", "t/flow@1"
KEYS = ("a", "b", "c")
ROUNDS = 4
Rows = list[list[Any]]


def cell(workflow: str, key: str) -> CellId:
    return CellId(workflow, canon.encode(key))


def on_history(
    tmp_path: Path, main: Callable[[Node, str], Awaitable[None]], *, snapshot: bool = False
) -> None:
    """Three cells of either kind, with the numbers 0 to 3; after two rounds a snapshot, or none."""

    async def run() -> None:
        async with running(tmp_path) as node:
            world = await node.create("main", bundle())
            for n in range(ROUNDS):
                given = [{"key": key, "n": n} for key in KEYS]
                sample = node.clock.sample
                await node.offer(world, *[Submit(sample(), "t/Go@1", value) for value in given])
                assert await node.quiet(world, 60_000)
                if snapshot and n == 1:
                    await node.snapshot(world)
            await main(node, world)

    asyncio.run(asyncio.wait_for(run(), 240))


def case_of(node: Node, world: str, candidate: Bundle, tail: int | None = None) -> Case:
    blobs = tuple(candidate.blobs().values())
    return Case(str(node.folder), world, candidate.manifest_digest, tail, blobs)


def answers(case: Case, *orders: bytes) -> tuple[list[Rows], list[int]]:
    """The rows of the answer to each order, and the words about records that came on the way."""
    wire = BytesIO()
    proving._serve(BytesIO(put_case(case) + b"".join(orders)), wire)
    wire.seek(0)
    found: list[Rows] = [[]]
    news: list[int] = []
    while size := wire.read(SIZE):
        length = int.from_bytes(size, "big")
        page: Any = proving.read_message(wire.read(length)) if length else None
        if page is None:
            found.append([])
        elif isinstance(page, int):
            news.append(page)
        else:
            found[-1] += page
    assert found.pop() == [], "the last answer is ended"
    return found, news


def placed(rows: Rows) -> dict[CellId, list[Any]]:
    return {CellId(row[0], row[1]): row[2:] for row in rows}


async def places(node: Node, world: str) -> dict[CellId, tuple[int, int]]:
    """Where each open cell was born and where it stands."""
    return await node.look(
        world, lambda live: {each.id: (each.born_seq, each.last_seq) for each in live_cells(live)}
    )


async def asked(case: Case, *orders: bytes) -> tuple[list[Rows], list[int]]:
    return await asyncio.to_thread(answers, case, *orders)


def test_a_process_that_is_given_no_case_ends() -> None:
    """AG-26: a node that closes its end before it says what is proved is answered nothing."""
    wire = BytesIO()
    proving._serve(BytesIO(), wire)
    assert wire.getvalue() == b""


def test_flows_have_their_verdict_and_reducers_are_named(tmp_path: Path) -> None:
    """06 section 9: a flow is judged by its history; a reducer is named with its first tick."""

    async def main(node: Node, world: str) -> None:
        seq, stand = node.feed.head(world), await places(node, world)
        (rows,), _ = await asked(case_of(node, world, SAME), put_share(Share(seq)))
        found = placed(rows)
        assert set(found) == set(stand)
        for key in KEYS:
            born, last = stand[cell(SUMS, key)]
            assert found[cell(SUMS, key)] == [born, None]
            since, told = found[cell(FLOW, key)]
            said = canon.decode(told)
            assert (since, said["verdict"]) == (stand[cell(FLOW, key)][1], "identical")
            assert born < last

    on_history(tmp_path, main)


def test_shares_divide_the_cells_and_leave_out_what_is_proved(tmp_path: Path) -> None:
    """AG-26: two shares hold every cell once; with `only` those cells, behind what is proved."""

    async def main(node: Node, world: str) -> None:
        seq, stand = node.feed.head(world), await places(node, world)
        proved = stand[cell(SUMS, "b")][0]
        only = {cell(SUMS, "b"): proved, cell(FLOW, "b"): 0}
        orders = [put_share(Share(seq, number, 2)) for number in (0, 1)]
        (one, two, few), _ = await asked(
            case_of(node, world, OTHER), *orders, put_share(Share(seq, only=only))
        )
        assert set(placed(one)) | set(placed(two)) == set(stand)
        assert len(one) + len(two) == len(stand)
        assert set(placed(few)) == set(only)
        assert placed(few)[cell(SUMS, "b")] == [proved + 1, None]

    on_history(tmp_path, main)


def test_counting_names_the_last_ticks_of_the_cells_asked_about(tmp_path: Path) -> None:
    """AG-26: as many ticks as can count, all of them without a tail, of no other cell."""

    async def main(node: Node, world: str) -> None:
        seq, stand = node.feed.head(world), await places(node, world)
        born, last = stand[cell(SUMS, "a")]
        order = put_stretch("count", Stretch(0, seq), {cell(SUMS, "a"): born})
        (all_,), _ = await asked(case_of(node, world, SAME), order)
        (tail,), _ = await asked(case_of(node, world, SAME, tail=2), order)
        ((workflow, key, ticks),) = all_
        assert (CellId(workflow, key), len(ticks)) == (cell(SUMS, "a"), ROUNDS)
        assert ticks[0] >= born
        assert ticks[-1] == last
        assert placed(tail)[cell(SUMS, "a")] == [ticks[-2:]]

    on_history(tmp_path, main)


def test_a_run_tells_which_tick_differs(tmp_path: Path) -> None:
    """06 section 9: from the beginning and from a snapshot, the tick and the field are named."""

    async def main(node: Node, world: str) -> None:
        seq, stand = node.feed.head(world), await places(node, world)
        (row,) = await node.read(lambda reader: reader.snapshots(world))
        first = {ident: born for ident, (born, _) in stand.items() if ident.workflow == SUMS}
        whole = put_stretch("run", Stretch(0, seq), first)
        end = put_stretch("run", Stretch(row.seq, seq), first)
        (all_, rest), _ = await asked(case_of(node, world, OTHER, tail=10), whole, end)
        (same,), _ = await asked(case_of(node, world, SAME, tail=10), whole)
        for key in KEYS:
            ident = cell(SUMS, key)
            count, told = placed(all_)[ident]
            ((number, detail),) = canon.decode(told)
            assert (count, number) == (ROUNDS, ROUNDS), "only the number 3 is counted otherwise"
            assert (detail["seq"], detail["field"]) == (stand[ident][1], "state")
            later, again = placed(rest)[ident]
            assert (later, canon.decode(again)) == (2, [[2, detail]])
            assert placed(same)[ident] == [ROUNDS, None]

    on_history(tmp_path, main, snapshot=True)


def test_a_long_run_says_how_far_it_is(tmp_path: Path) -> None:
    """AG-26: every thousand records or so the node is told how many more were run."""

    async def main(node: Node, world: str) -> None:
        sample = node.clock.sample
        value = {"key": "a", "n": 0}
        await node.offer(world, *[Submit(sample(), "t/Go@1", value) for _ in range(400)])
        assert await node.quiet(world, 60_000)
        seq, stand = node.feed.head(world), await places(node, world)
        first = {cell(SUMS, "a"): stand[cell(SUMS, "a")][0]}
        order = put_stretch("run", Stretch(0, seq), first)
        (rows,), news = await asked(case_of(node, world, SAME), order)
        assert placed(rows)[cell(SUMS, "a")] == [ROUNDS + 400, None]
        assert news
        assert 1024 * len(news) <= sum(news) <= seq

    on_history(tmp_path, main)
