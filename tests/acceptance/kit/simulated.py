"""The simulator as a command, with a defect planted first: `... simulated NAME ARGS...`."""

from __future__ import annotations

import contextlib
import sys

from tallystick.cli import simulate
from tests.acceptance.kit.planted import DEFECTS as PLANTED

# A defect that is none: a control that says it caught this one cannot be believed.
DEFECTS = {"nothing": contextlib.nullcontext}


if __name__ == "__main__":
    name = sys.argv.pop(1)
    if name in PLANTED:
        PLANTED[name]()
    simulate.main()
