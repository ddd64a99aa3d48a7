"""The derived index of a running node: whatever becomes of its file, truth is in the journal."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tallystick.errors import TallyError
from tallystick.journal.index import Index
from tallystick.node.node import Node
from tests.node.rig import Bank, config, placed
from tests.node.test_removed import with_world


@pytest.mark.clause("K-43")
def test_damage_that_a_question_meets_is_mended(tmp_path: Path) -> None:
    """ND-24: the file is made again and the question asked of that; nobody hears of the damage."""

    async def main(node: Node, world: str) -> None:
        await node.one(world, placed(node, "o-1"))
        await node.quiet(world, 60_000)
        whole = await node.index.ask(world, lambda index: index.dump())
        asked: list[Index] = []

        def question(index: Index) -> dict[str, list[object]]:
            asked.append(index)
            if len(asked) == 1:
                raise apsw.CorruptError("a page that only lists read")
            return index.dump()

        assert await node.index.ask(world, question) == whole
        assert len(asked) == 2

    with_world(config(tmp_path), main, Bank())


@pytest.mark.clause("K-43")
@pytest.mark.parametrize("fault", [apsw.IOError, apsw.CantOpenError])
def test_a_disk_that_fails_the_index_is_told(tmp_path: Path, fault: type[Exception]) -> None:
    """F3: the answer names the file and what to do, and the next question is asked anew."""

    async def main(node: Node, world: str) -> None:
        def question(_index: Index) -> None:
            raise fault("disk I/O error")

        with pytest.raises(TallyError) as caught:
            await node.index.ask(world, question)
        assert (caught.value.code, caught.value.status) == ("index.unreadable", 503)
        assert caught.value.where == {"file": str(node.files.index)}
        assert await node.index.ask(world, lambda index: index.applied(world)) >= 1

    with_world(config(tmp_path), main, Bank())
