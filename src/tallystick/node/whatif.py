"""A what-if as a world of its own: forked before the first edit, re-run to the head.

Nothing that it asks for leaves it, so what it waits for is answered by the record, or not at all.
"""

from __future__ import annotations

from typing import Final

from tallystick.governance.compare import Live
from tallystick.governance.recorded import steps
from tallystick.governance.rerun import Order, Rerun
from tallystick.governance.whatif import edited
from tallystick.kernel.draft import Frame
from tallystick.kernel.world import Settings, World
from tallystick.model.abi import Runner
from tallystick.node.driver import Driver, Ports
from tallystick.node.worlds import ForkOrder, begin_fork, world_at

TICKS_MAX: Final = 1_000_000
_STAGED_MAX: Final = 256  # frames of one commit


def whatif_world(
    ports: Ports, order: ForkOrder, runner: Runner, settings: Settings | None = None
) -> Driver:
    """The driver of a what-if that stands where its parent stands, had its inputs been others."""
    journal = ports.journal
    head = journal.head(order.parent).seq
    before = _before(ports, order)
    there = world_at(journal, order.parent, runner, seq=before, settings=settings)
    frames = list(journal.read(order.parent, after=there.seq, upto=head))
    recorded = Live(there, frames)
    catalogue = there.active.catalogue
    todo = list(edited(steps(there, frames), order.edits, catalogue))
    driver = begin_fork(ports, order._replace(pending="reissue"), there, synthetic=True)

    def keep(_: World, frame: Frame) -> None:
        driver.stage(frame)
        if len(driver.staged) >= _STAGED_MAX:
            driver.flush()

    Rerun(there, Order(ticks_max=TICKS_MAX), keep=keep).run(todo, recorded)
    driver.flush()
    return driver


def _before(ports: Ports, order: ForkOrder) -> int:
    """The end of the frame before the first edit; a fork begins behind the first frame."""
    first = min(edit.seq for edit in order.edits)
    frames = ports.journal.read(order.parent, after=max(first - 1, 0), upto=first)
    seq = next((frame.seq for frame in frames), first)
    return max(seq - 1, 1)
