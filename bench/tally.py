"""Our side of the workloads: `python bench/tally.py --workload w1 --n 2000 --out FILE`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import ingress, instances, many, played, recovery, watched
from bench.options import Options, options, tell

from tallystick.cli.serving import loop_factory

Measure = Callable[[Options], Coroutine[Any, Any, dict[str, Any]]]
MEASURES: Final[Mapping[str, Measure]] = {
    "w1": instances.w1,
    "w2": instances.w2,
    "w3": instances.w3,
    "w4": recovery.w4,
    "w5": instances.w5,
    "w6": instances.w6,
    "w7": ingress.w7,
    "w8": played.w8,
    "w9": watched.w9,
    "w10": many.w10,
}


def main() -> int:
    """Measure one workload."""
    with options() as given, asyncio.Runner(loop_factory=loop_factory()) as runner:
        tell(given, runner.run(MEASURES[given.workload](given)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
