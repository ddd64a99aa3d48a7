"""A proof by one process and by several is one proof, and one that is lost is said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tallystick.errors import Unavailable
from tallystick.governance.prove import TAIL
from tallystick.governance.stretches import Stretch
from tallystick.kernel.inputs import Submit
from tallystick.model.bundle import Bundle
from tallystick.node import proofs
from tallystick.node.node import Node
from tallystick.node.proofs import prove_on
from tallystick.node.provers import Hand
from tallystick.node.rehearsal import Rehearsal
from tallystick.testing.sources import built
from tests.node.test_rehearsal import running

SOURCE = """
from tallystick import Bundle, Ctx, Flow, Record, receive
app = Bundle("t")
class Go(Record): key: str; n: int
class Sum(Record):
    key: str
    total: int = 0

@app.workflow(key="key")
def sums(state: Sum | None, event: Go, ctx: Ctx) -> Sum:
    held = state or Sum(key=event.key)
    return held.replace(total=held.total + event.n)

@app.workflow(key="key")
async def flow(ctx: Flow, begin: Go) -> Sum:
    while True:
        await receive(Go)
"""
KEYS = tuple("abcdef")
ROUNDS = 6
Cut = list[Stretch]


def bundle(source: str = SOURCE) -> Bundle:
    made: Bundle = built(source).bundle
    return made


# It differs in the numbers 3 and 5: some cells are first told apart in a later stretch.
OTHER = bundle(SOURCE.replace("held.total + event.n", "held.total + event.n // 3 % 2 + event.n"))
SAME = bundle(SOURCE + "OTHER = 1\n")


def on_history(
    tmp_path: Path, main: Callable[[Node, str], Awaitable[None]], *, snapshots: bool
) -> None:
    """Six cells of either kind, of six ticks each; after each round a snapshot, or none."""

    async def run() -> None:
        async with running(tmp_path) as node:
            world = await node.create("main", bundle())
            for n in range(ROUNDS):
                for place, key in enumerate(KEYS):
                    value = {"key": key, "n": n if place % 2 else 0}
                    await node.one(world, Submit(node.clock.sample(), "t/Go@1", value))
                assert await node.quiet(world, 60_000)
                if snapshots:
                    await node.snapshot(world)
            await main(node, world)

    asyncio.run(asyncio.wait_for(run(), 240))


@pytest.fixture(name="cuts")
def noted_cuts(monkeypatch: pytest.MonkeyPatch) -> list[Cut]:
    """Every way in which a history was cut; a process is worth a single cell here."""
    seen: list[Cut] = []
    plain = proofs.stretches  # type: ignore[attr-defined]

    def noted(whole: Stretch, snapshots: list[int], count: int) -> Cut:
        seen.append(plain(whole, snapshots, count))
        return seen[-1]

    monkeypatch.setattr(proofs, "stretches", noted)
    monkeypatch.setattr(proofs, "CELLS_EACH", 1)
    return seen


@pytest.mark.clause("X-21")
def test_however_many_the_report_is_one(tmp_path: Path, cuts: list[Cut]) -> None:
    """AG-26: one, two and three processes give the same verdicts and the same report hash from
    stretches of the history, with a tail that holds all of it and with one of two ticks.
    """

    async def main(node: Node, world: str) -> None:
        for ticks, cores in ((TAIL, 3), (2, 2)):
            tried = Rehearsal(OTHER, ticks=ticks)
            one, more = [await prove_on(node, world, tried, cores=n) for n in (1, cores)]
            assert len(one.verdicts) == 2 * len(KEYS)
            assert {v.verdict for v in one.verdicts} == {"identical", "diverges"}
            assert more.verdicts == one.verdicts
            assert more.report_hash == one.report_hash
        assert {len(cut) for cut in cuts} == {1, 2, 3}

    on_history(tmp_path, main, snapshots=True)


@pytest.mark.clause("X-21")
def test_without_snapshots_cells_are_shared(tmp_path: Path, cuts: list[Cut]) -> None:
    """AG-26: a history that nobody can begin in the middle is run by each for some of the cells,
    with the same report.
    """

    async def main(node: Node, world: str) -> None:
        tried = Rehearsal(OTHER, ticks=None)
        one, two = [await prove_on(node, world, tried, cores=n) for n in (1, 2)]
        assert one.report["verdicts"]["diverges"] > 0
        assert two.report_hash == one.report_hash
        assert {len(cut) for cut in cuts} == {1}

    on_history(tmp_path, main, snapshots=False)


@pytest.mark.clause("X-21")
# tidy: one story, told in order.
def test_a_process_that_dies_is_said(
    tmp_path: Path, cuts: list[Cut], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-26: killed before its verdicts or in the middle of its stretch, a process is an error
    with its code, never a verdict that is missing; the next proof is whole.
    """
    asked: list[Hand] = []
    plain = Hand.ask
    dies_at = 0

    async def ask(self: Hand, data: bytes) -> list[list[object]]:
        asked.append(self)
        if asked.count(self) == dies_at and self is asked[0]:
            self.process.kill()
        return await plain(self, data)

    async def main(node: Node, world: str) -> None:
        nonlocal dies_at
        monkeypatch.setattr(Hand, "ask", ask)
        for place in (1, 2):
            dies_at = place
            asked.clear()
            with pytest.raises(Unavailable) as caught:
                await prove_on(node, world, Rehearsal(SAME), cores=2)
            assert caught.value.code == "gov.proof_failed"
            assert all(child.process.returncode is not None for child in asked)
        dies_at = 0
        made = await prove_on(node, world, Rehearsal(SAME), cores=2)
        assert made.report["verdicts"]["identical"] == 2 * len(KEYS)
        assert cuts

    on_history(tmp_path, main, snapshots=True)
