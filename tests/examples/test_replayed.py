"""`tally replay --verify` says equal for a world of every example (AU-29)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick.cli.here import modules_of
from tallystick.cli.sources import bundle_at
from tallystick.kernel.inputs import Submit
from tallystick.modules.lint import infer
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.testing.subject import subject_of
from tests.cli.runs import tally

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*/app.py"))


def named(path: Path) -> str:
    """The name of the world of an example: letters come first."""
    return path.parent.name.partition("-")[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node's folder with a world of each example, which was sent all of its samples twice."""
    settings = config_of(tmp_path_factory.mktemp("examples"), {}, {})

    async def fill() -> None:
        node = await open_node(settings, modules_of(settings))
        try:
            for path in EXAMPLES:
                world = await node.create(named(path), bundle_at(path))
                for said in infer({"app.py": path.read_bytes()}):
                    for each in subject_of(path, said.workflow).samples.events * 2:
                        given = Submit(node.clock.sample(), each.schema, each.plain, "native")
                        await node.offer(world, given)
                # Timers and asks may stay open; what is ready has run.
                while await node.look(world, lambda live: bool(live.ring)):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
        finally:
            await close_node(node, 0)

    asyncio.run(fill())
    return settings.data


@pytest.mark.clause("K-46", "X-02")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_replays_by_command(path: Path, data: Path) -> None:
    """AU-29: every tick is run again from the journal on disk; equal bytes and an equal root."""
    words = ("--world", named(path), "--data", str(data), "--json")
    done = tally("replay", "--verify", *words)
    assert done.code == 0, done.err
    assert done.value["ok"]
    assert done.value["ticks"] > 0
    assert done.value["root"] == done.value["expected_root"]
