"""Applies one approved proposal in a process that dies by kill -9 at the n-th deed of its disk.

Run as `python -m tests.governance.apply_me PROPOSAL`; each line of its input is `N FOLDER`, each
line of its output how many deeds there were, or -9; N = -1 dies once the apply is answered.
One interpreter is started, and one process is forked from it for each line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tallystick.cli.here import modules_of
from tallystick.model.bundle import Bundle
from tallystick.node import probe
from tallystick.node.governing import Asker
from tallystick.node.host import close_node, open_node
from tests.journal.watched import Deed, watched
from tests.node.rig import config

TOLD = -1


async def _not_tried(_bundle: Bundle) -> None:
    """Trying the modules writes nothing and takes a second; this is about writes."""


async def main(folder: Path, ident: str, last: int) -> int:
    """Open, apply, close; the count begins with the apply."""
    probe.tried = _not_tried  # type: ignore[assignment]
    with watched() as vfs:
        node = await open_node(config(folder), modules_of(), vfs=vfs.name)
        done = 0

        def count(_deed: Deed) -> None:
            nonlocal done
            if done == last:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1

        vfs.judge = count
        asker = Asker("alice", node.clock.sample())
        await node.governing.apply(node.resolve("main"), ident, asker)
        if last == TOLD:
            os.kill(os.getpid(), signal.SIGKILL)
        vfs.judge = lambda _deed: None
        await close_node(node, 0)
        return done


def forked(folder: Path, ident: str, last: int) -> int:
    """Do it in a process of its own; how many deeds there were, or -9."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(asyncio.run(main(folder, ident, last))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return int(text) if text else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        number, _, where = line.strip().partition(" ")
        sys.stdout.write(f"{forked(Path(where), sys.argv[1], int(number))}\n")
        sys.stdout.flush()
