"""A program that admits events over the SQLite journal and says what it has acknowledged.

It is started and killed by `test_sqlite.py`.
With `early` it acknowledges before the commit: the defect that the test must be able to find.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel.inputs import Submit
from tests.rig import Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


def main(folder: str, mode: str) -> None:
    rig = Rig(order_documents(), FUNCTIONS, journal=SqliteJournal(Path(folder)))  # type: ignore[arg-type]
    for i in range(10_000):
        rig.driver.offer(Submit(rig.clock.sample(), CREATED, created(f"o-{i}")))
        while rig.driver.step():
            pass
        if mode == "early":
            sys.stdout.write(f"{rig.world.seq} {i}\n")
            sys.stdout.flush()
            time.sleep(0.01)
        rig.driver.flush()
        if mode != "early":
            sys.stdout.write(f"{rig.world.seq} {i}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:3])
