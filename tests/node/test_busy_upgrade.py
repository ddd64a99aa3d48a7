"""A world that is never quiet is upgraded by proof: it stands still for the last, small round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tallystick.errors import Conflict
from tallystick.journal.base import Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.inputs import Submit, Vote
from tallystick.kernel.plans import Row, rows
from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.frames import open_frame
from tallystick.model.manifest_sources import canonical_sources
from tallystick.model.records import BundleActivate
from tallystick.node import governing
from tallystick.node.governing import Asker, Trial, Wish
from tallystick.node.node import Node
from tallystick.node.proofs import caught_up, prove_on
from tallystick.node.provers import at_hand
from tallystick.node.rehearsal import Rehearsal
from tallystick.testing.sources import built
from tallystick.values import canon
from tests.node.test_rehearsal import Worker, running, total

SOURCE = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Go(Record): key: str; n: int
class Sum(Record):
    key: str
    total: int = 0

@app.workflow(key="key")
def sums(state: Sum | None, event: Go, ctx: Ctx) -> Sum:
    held = state or Sum(key=event.key)
    return held.replace(total=held.total + event.n)
"""
KEYS = 20


def version(source: str = SOURCE) -> Bundle:
    """A version of the app that anybody may change."""
    made: Bundle = built(source).bundle
    governance = {"governance": {"rules": {"require": []}}}
    definitions, manifest = canonical_sources([made.definitions(), {**made.manifest, **governance}])
    artifacts = {hash_: held.data for hash_, held in made.artifacts.items()}
    return make_bundle(definitions, manifest, artifacts)


# For numbers below a thousand it is the same, so every recorded tick is.
NEW = version(SOURCE.replace("event.n)", "(event.n if event.n < 1000 else 1))"))
OTHER = version(SOURCE.replace("held.total + event.n", "held.total + 2 * event.n"))


class Load:
    """Callers who never rest: each sends to the next cell as soon as it was answered."""

    def __init__(self, node: Node, world: str) -> None:
        self._node = node
        self._world = world
        self.sent = 0
        self._over = False

    async def more(self, count: int) -> None:
        """Wait until so many more were sent."""
        until = self.sent + count
        while self.sent < until:  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0.01)

    async def _call(self) -> None:
        node = self._node
        while not self._over:
            value = {"key": f"k{self.sent % KEYS}", "n": 1}
            self.sent += 1
            await node.one(self._world, Submit(node.clock.sample(), "t/Go@1", value))

    @asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        calls = [asyncio.create_task(self._call()) for _ in range(4)]
        try:
            await self.more(2 * KEYS)
            yield
        finally:
            self._over = True
            await asyncio.gather(*calls)


async def approved(node: Node, world: str, bundle: Bundle) -> str:
    asker = Asker("alice", node.clock.sample())
    made = await node.governing.propose(world, Wish(bundle=bundle.to_zip()), asker)
    ident = str(made["proposal"])
    await node.governing.vote(world, Vote(node.clock.sample(), ident, "bob", "approve"))
    return ident


def on_busy(tmp_path: Path, main: Callable[[Node, str, Load], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(tmp_path, Worker()) as node:
            world = await node.create("main", version())
            load = Load(node, world)
            await main(node, world, load)

    asyncio.run(asyncio.wait_for(run(), 240))


@pytest.mark.clause("X-19")
def test_a_switch_that_cannot_be_signed_has_happened_all_the_same(tmp_path: Path) -> None:
    """06 section 9: the file of checkpoints cannot be written: the switch is durable and told so;
    `apply` answered an error, and asked again it said that the proposal is over.
    """

    async def main(node: Node, world: str, _load: Load) -> None:
        ident = await approved(node, world, NEW)
        path = node.files.checkpoints
        path.unlink(missing_ok=True)
        path.mkdir()
        asker = Asker("bob", node.clock.sample())
        made = await node.governing.apply(world, ident, asker)
        assert (made["status"], made["checkpoint"]) == ("applied", None)
        assert made["manifest"] == canon.text_of(NEW.manifest_digest)

    on_busy(tmp_path, main)


# tidy: one story, told in order.
@pytest.mark.clause("X-19", "X-21")
def test_a_busy_world_is_upgraded(tmp_path: Path) -> None:
    """06 section 9: under callers who never rest an apply by proof ends; every cell is in the plan
    at its last sequence, no event is lost, and all of it verifies.
    """

    async def main(node: Node, world: str, load: Load) -> None:
        ident = await approved(node, world, NEW)
        async with load.going():
            asker = Asker("bob", node.clock.sample())
            made = await node.governing.apply(world, ident, asker, trial=Trial())
            assert made["status"] == "applied"
            await load.more(KEYS)
        assert await node.quiet(world, 60_000)
        sums = [await total(node, world, f"k{n}") for n in range(KEYS)]
        assert sum(sums) == load.sent
        await node.one(world, Submit(node.clock.sample(), "t/Go@1", {"key": "k0", "n": 5000}))
        assert await node.quiet(world, 60_000)
        assert await total(node, world, "k0") == sums[0] + 1, "the new code runs"
        (plan,) = await node.read(lambda reader: _plans(reader, world))
        assert len(plan) == KEYS
        assert {row.action for row in plan} == {"continue"}
        assert (await node.ops.replay(world))["ok"]

    on_busy(tmp_path, main)


def _plans(reader: Reader, world: str) -> list[list[Row]]:
    records = [r for frame in reader.read(world) for r in open_frame(frame.body)[3]]
    found = [r.plan for r in records if isinstance(r, BundleActivate) and r.plan is not None]
    return [list(rows(digest, StagedBlobs(reader, world))) for digest in found]


@pytest.mark.clause("X-21")
def test_control_without_the_hold_it_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """06 section 9, control: the same apply on a world that does not stand still finds in every
    round that cells have ticked, and says so.
    """
    monkeypatch.setattr(governing, "ROUNDS", 1)

    async def main(node: Node, world: str, load: Load) -> None:
        @asynccontextmanager
        async def never(_world: str) -> AsyncIterator[None]:
            yield

        monkeypatch.setattr(node, "held", never)
        ident = await approved(node, world, NEW)
        async with load.going():
            asker = Asker("bob", node.clock.sample())
            with pytest.raises(Conflict) as caught:
                await node.governing.apply(world, ident, asker, trial=Trial())
        assert caught.value.code == "gov.prove_unstable"

    on_busy(tmp_path, main)


# tidy: one story, told in order.
@pytest.mark.clause("X-21")
def test_a_later_round_asks_about_new_ticks_only(tmp_path: Path) -> None:
    """06 section 9: a proof of now from one of before runs what ticked since, and is as strict: a
    cell that differs in a new tick alone is found; too many cells make another round.
    """

    # tidy: one story, told in order.
    async def main(node: Node, world: str, _load: Load) -> None:
        async def send(key: str, n: int) -> None:
            await node.one(world, Submit(node.clock.sample(), "t/Go@1", {"key": key, "n": n}))

        for key in ("a", "b", "a", "c"):
            await send(key, 1)
        tried = Rehearsal(NEW)
        first = await prove_on(node, world, tried)
        assert [(v.verdict, v.ticks) for v in first.verdicts] == [
            ("identical", 2),
            ("identical", 1),
            ("identical", 1),
        ]
        await send("a", 1)
        await send("b", 5000)
        await send("new", 1)
        async with at_hand() as child:
            assert await caught_up(node, world, tried._replace(held=2), first, child) is None
            last = await caught_up(node, world, tried._replace(held=3), first, child)
        assert last is not None
        assert [(v.verdict, v.ticks) for v in last.verdicts] == [
            ("identical", 1),
            ("diverges", 1),
            ("identical", 1),
            ("identical", 1),
        ]
        whole = await prove_on(node, world, tried)
        assert [v.verdict for v in whole.verdicts] == [v.verdict for v in last.verdicts]
        assert [v.seq for v in whole.verdicts] == [v.seq for v in last.verdicts]
        differs = await prove_on(node, world, Rehearsal(OTHER))
        await send("c", 1)
        again = await prove_on(node, world, Rehearsal(OTHER), differs)
        assert {v.verdict for v in again.verdicts} == {"diverges"}

    on_busy(tmp_path, main)
