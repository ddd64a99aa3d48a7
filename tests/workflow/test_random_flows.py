"""Random async workflows: live, rebuilt and cached runs are one history (AU-07).

`TALLY_FLOWS=200` runs as many programs as the design asks for; the suite runs a few.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tallystick.model.records import WorkflowFaulted
from tallystick.testing.answers import error, ok
from tests.workflow.names import loaded
from tests.workflow.test_flows import program

FLOWS = int(os.environ.get("TALLY_FLOWS", "6"))


class Writer:
    """Writes a random flow: nested waits of every kind, with chance and time in the results."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.n = 0

    def wait(self, depth: int) -> str:
        """An awaitable that gives a value."""
        kinds = ["effect", "effect", "sleep", "receive"]
        if depth < 3:
            kinds += ["gather", "first", "limit"]
        match self.chance.choice(kinds):
            case "effect":
                self.n += 1
                return f"work({self.n})"
            case "sleep":
                return f"nap({self.chance.randrange(1, 50)})"
            case "receive":
                return "note()"
            case "gather":
                return f"gather({self.many(depth)})"
            case "first":
                return f"wait_first({self.many(depth)})"
        return f"limited({self.chance.randrange(1, 50)}, {self.wait(depth + 1)})"

    def many(self, depth: int) -> str:
        return ", ".join(self.wait(depth + 1) for _ in range(self.chance.randrange(2, 4)))

    def source(self) -> str:
        body = [
            "async def work(n):",
            "    match await outcome(Work(n=n)):",
            "        case Work.Ok(value=Got(n=m)): return m",
            "        case Work.Failed(code=code): return code",
            "async def nap(n):",
            "    await sleep(f'{n}s')",
            "    return n",
            "async def note():",
            "    return (await receive(Note)).n",
            "async def limited(n, inner):",
            "    task = await start(inner)",
            "    try:",
            "        async with timeout(f'{n}s'):",
            "            return await task",
            "    except FlowTimeout:",
            "        return 'late'",
            "seen = []",
        ]
        for _ in range(self.chance.randrange(2, 5)):
            body.append(f"seen.append(await {self.wait(0)})")
            body.append("seen.append(ctx.below(1000))")
            body.append("ctx.emit(Told(key=ctx.key, text=str(seen)))")
        body.append("return Out(text=str(seen))")
        return program("\n".join(body))


def played(seed: int, cache: int):
    """A world in which a random flow met random answers, events and times."""
    world, app = loaded(Writer(seed).source(), cache=cache, seed=seed)
    chance = Random(-seed)
    world.send(app.Go(key="a"))
    for step in range(14):
        if world.cell(app.flow, "a").status in ("completed", "failed"):
            break
        work = world.open(app.Work)
        match chance.choice(["work", "work", "note", "time", "crash", "refused"]):
            case "work" if work:
                said = ok(app.Got(n=step)) if chance.random() < 0.7 else error("bad")
                said.settle(world, chance.choice(work))
                world.run()
            case "note":
                world.send(app.Note(key="a", n=step))
            case "time":
                world.advance("20s")
            case "crash":
                world.crash()
            case "refused":
                refused(world, app, step)
            case _:
                world.advance("5s")
    return world


def refused(world, app, step: int) -> None:
    """A frame that is decided and never kept: the flow has run ahead of what the journal holds."""
    world.do(world.submit_of(app.Note(key="a", n=-step)))
    assert world.driver.decide() is not None
    world.run()


@pytest.mark.clause("X-02")
@pytest.mark.parametrize("seed", range(1, FLOWS + 1))
def test_caches_of_any_size_give_one_root(seed: int) -> None:
    """AU-07: caches of 0, 1 and 4096 flows, with crashes and refused frames: one root; it replays.

    Every tick is also run a second time through a rebuild, which must give the same bytes.
    """
    worlds = [played(seed, cache) for cache in (0, 1, 4096)]
    assert len({world.root() for world in worlds}) == 1
    assert [world.records(WorkflowFaulted) for world in worlds] == [[], [], []]
    worlds[0].assert_replays()
