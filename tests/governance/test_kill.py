"""Killed by kill -9 while a change is applied: the old manifest or the new one, never else."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Self

import apsw
import pytest

from tallystick.cli.here import modules_of
from tallystick.errors import TallyError
from tallystick.kernel.inputs import Vote
from tallystick.node.governing import Asker, Wish
from tallystick.node.host import close_node, open_node
from tests.governance.apply_me import TOLD
from tests.governance.apps import app
from tests.node.rig import config

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("TALLY_KILLS", "5"))
RULES = {"governance": {"rules": {"require": []}}}
NEVER = 1_000_000


def prepared(folder: Path) -> tuple[str, tuple[bytes, bytes]]:
    """A folder with an approved proposal: its id, and the manifests before and after."""
    old, new = app(**RULES), app(2, **RULES)  # type: ignore[arg-type]

    async def main() -> str:
        node = await open_node(config(folder), modules_of())
        try:
            world = await node.create("main", old)
            asker = Asker("alice", node.clock.sample())
            made = await node.governing.propose(world, Wish(bundle=new.to_zip()), asker)
            ident = str(made["proposal"])
            await node.governing.vote(world, Vote(node.clock.sample(), ident, "bob", "approve"))
            return ident
        finally:
            await close_node(node, 0)

    return asyncio.run(main()), (old.manifest_digest, new.manifest_digest)


class Appliers:
    """Processes that apply a proposal and die at one deed of their disk."""

    def __init__(self, ident: str) -> None:
        words = [sys.executable, "-m", "tests.governance.apply_me", ident]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(words, stdin=pipe, stdout=pipe, env=env, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_gone: object) -> None:
        self._child.communicate()

    def applied(self, folder: Path, last: int) -> int:
        """How many deeds there were, or -9."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{last} {folder}\n")
        self._child.stdin.flush()
        return int(self._child.stdout.readline())


def standing(folder: Path) -> tuple[bytes, bool]:
    """The manifest that is active at the next start, and whether all of it verifies."""

    async def main() -> tuple[bytes, bool]:
        node = await open_node(config(folder), modules_of(), passive=True)
        try:
            world = node.resolve("main")
            manifest = await node.look(world, lambda live: live.manifest)
            report = await node.ops.verify(world, "full")
            return manifest, report["ok"]
        finally:
            await close_node(node, 0)

    return asyncio.run(main())


def test_half_a_switch_is_found(tmp_path: Path) -> None:
    """AG-21, control: a folder in which the switch is recorded and a definition of the new bundle
    did not become durable with it neither opens nor verifies.
    """
    ident, (_, new) = prepared(tmp_path / "base")
    with Appliers(ident) as appliers:
        assert appliers.applied(tmp_path / "base", NEVER) > 0
    assert standing(tmp_path / "base") == (new, True)
    with apsw.Connection(str(next(tmp_path.rglob("tally.db")))) as db:
        db.execute("DELETE FROM blob WHERE hash=?", (new,))
    with pytest.raises(TallyError):
        standing(tmp_path / "base")


@pytest.mark.clause("K-20", "X-19")
@pytest.mark.invariant("I1")
def test_killed_while_applying(tmp_path: Path) -> None:
    """AG-21: at each of some writes of an apply (TALLY_KILLS of them, 50 for the whole row) the
    process is killed; the next start finds the old or the new manifest, and verifies.
    Killed before the first write it is the old one, once it is answered the new one.
    """
    base = tmp_path / "base"
    ident, (old, new) = prepared(base)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(base, tmp_path / name))

    found = []
    with Appliers(ident) as appliers:
        deeds = appliers.applied(copy("whole"), NEVER)
        assert deeds > 4
        chance = Random("kill -9")
        points = [0, TOLD, *(chance.randrange(deeds) for _ in range(KILLS - 2))]
        for number, point in enumerate(points):
            folder = copy(f"run-{number}")
            said = appliers.applied(folder, point)
            # How many writes there are hangs on what shares a commit; the two ends are always met.
            assert said == -9 or (number > 1 and 0 < said <= point)
            manifest, good = standing(folder)
            assert good
            found.append(manifest)
    assert standing(tmp_path / "whole") == (new, True)
    assert set(found) <= {old, new}
    assert found[:2] == [old, new]
