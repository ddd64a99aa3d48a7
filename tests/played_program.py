"""Playbooks with loops, joins, chains and deaths; `scripts/build_fast` plays them on both paths.

The frames of worlds on a manual clock must be equal to the byte; of a node, what it ends with.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tallystick.modules.builtin import Builtin
from tests.playbooks import test_iterate, test_killed
from tests.playbooks.kernel import PlayRig
from tests.playbooks.nets import HEAD
from tests.playbooks.rig import ended, playing, request, send, until
from tests.rig import Rig

LONG = 30
SEEDS = range(4)
WIDE = HEAD + (
    "workload: {items: [1, 2, 3, 4, 5]}\nworkflow:\n"
    "  - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: l}, {step: w}]}}\n"
    "  - step: l\n"
    "    loop: {in: '{{ workload.items }}', iterator: it, spec: {max_in_flight: 2}}\n"
    "    tool: {kind: noop}\n"
    "    set_ctx: {n: '{{ event.stats.success * 2 + (workload.items | sum) }}'}\n"
    "    next: {arcs: [{step: j}]}\n"
    "  - {step: w, tool: {kind: wait, signal: go}, next: {arcs: [{step: j}]}}\n"
    "  - {step: j, join: all, tool: {kind: noop}, set_ctx: {told: 'n is {{ ctx.n }}'}}\n"
)


def chain() -> str:
    """Steps one after the other, each behind a guard over what the one before has left."""
    rows = [
        f"  - {{step: s{n}, tool: {{kind: noop}}, set_ctx: {{n: {n}}},"
        f" next: {{arcs: [{{when: '{{{{ ctx.n == {n} }}}}', step: s{n + 1}}}]}}}}"
        for n in range(LONG)
    ]
    last = f"  - {{step: s{LONG}, tool: {{kind: noop}}}}\n"
    return HEAD + "workflow:\n" + "\n".join(rows) + "\n" + last


def frames(rig: Rig) -> Iterator[str]:
    """Every frame of a world, and its roots."""
    assert rig.verify(test_killed.fresh()).first is None, "run again, it gives the same bytes"
    for frame in rig.journal.read(rig.world.id):
        yield f"{frame.seq} {frame.hash.hex()}"
    yield f"{rig.state_root().hex()} {rig.root().hex()}"


def rigs() -> Iterator[Rig]:
    """Worlds that play: loops, random nets whose node dies again and again, a chain, a story."""
    for seed in SEEDS:
        yield test_iterate.played(Builtin(), seed)
        yield test_killed.played(seed, kills=True)
    rig = PlayRig()
    rig.request(chain())
    assert rig.net()["counts"]["step_runs"][f"s{LONG}"] == 1
    yield rig
    story = test_killed.Story(1)
    for word in story.acts:
        story.act(word)
    yield story.rig


def lines() -> Iterator[str]:
    """All frames, and how an execution ends whose node was closed in the middle."""
    for rig in rigs():
        yield from frames(rig)
    yield from asyncio.run(asyncio.wait_for(_in_a_node(), 120))


async def _in_a_node() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        async with playing(base, enabled=("timer", "playbook")) as (node, world):
            await request(node, world, WIDE)
            await until(node, world, "waiting", "running")
        async with playing(base, enabled=("timer", "playbook")) as (node, world):
            value = {"execution": "e1", "name": "go", "value": 1, "principal": "ana"}
            await send(node, world, "sys/PlaySignal@1", value)
            found = await ended(node, world)
            assert (await node.ops.verify(world, "replay"))["ok"]
        return [f"{found.status} {sorted(found.ctx.items())} {sorted(found.runs.items())}"]
