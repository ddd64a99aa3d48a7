"""Workspaces on a real node: files in, runs out, and what survives a restart (08)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reactions.noded import COPIER, Scene, noded, scene


async def _one_edit(node, folder: Path) -> Scene:
    here = await scene(node, folder, copier=COPIER)
    here.write("in/a.txt", "1")
    await here.add()
    here.write("in/b.txt", "2")
    await here.scan()
    return here


@pytest.mark.clause("F-01", "F-05")
def test_an_edit_runs_once_and_its_output_starts_nothing(tmp_path: Path, run) -> None:
    """S01 on a node: one run for one edit, the output is on disk, and no run follows from it."""

    async def act() -> None:
        async with noded(tmp_path / "data") as node:
            here = await _one_edit(node, tmp_path / "ws")
            print(
                here.lookout.fault,
                here.lookout.loading.findings,
                await here.outcomes(),
                await here.runs(),
            )
            assert (here.folder / "out/all.md").read_text() == "2 files\n"
            assert [row["state"] for row in await here.runs()] == ["complete"]

    run(act())
