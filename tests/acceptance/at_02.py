"""AT-02 powercut-no-acked-loss (ND-02, RL-01): what was acknowledged is there after a power cut."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import image
from tests.acceptance.kit.audit import accepted, events
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place


def run(bench: Bench) -> dict[str, Any]:  # tidy: one cut after the other
    """Copy the disk of a node under load, as often as asked, and open each copy."""
    folder = bench.fresh("power")
    disk = image.make_image(folder / "disk.img", folder / "disk")
    cuts = []
    try:
        with Place(disk.folder / "node", planted=bench.planted) as place:
            place.start()
            load = start_load(place, "http://127.0.0.1:1/", connections=8, effects=0)
            try:
                for n in range(bench["cuts"]):
                    load.wait_for(20 * (n + 1))
                    time.sleep(bench.random.uniform(0.0, 0.4))
                    os.kill(place.node_pid(), signal.SIGSTOP)
                    # What was answered before the cut must be on the disk as it is now.
                    known = accepted(load.acks())
                    cut = disk.cut(folder / f"cut{n}.img", folder / "cut")
                    os.kill(place.node_pid(), signal.SIGCONT)
                    cuts.append((known, cut))
            finally:
                load.close()
        opened = [_opened(known, cut, bench.planted) for known, cut in cuts]
    finally:
        disk.close()
    return {
        "cuts": len(opened),
        "acked": max(each["acked"] for each in opened),
        "lost": sum(each["lost"] for each in opened),
        "cuts_with_loss": sum(each["lost"] > 0 for each in opened),
        "verify_failed": sum(each["verify_exit"] != 0 for each in opened),
        "doubled": sum(each["doubled"] for each in opened),
        "said": [each["said"] for each in opened if each["said"]][:3],
    }


def _opened(known: list[str], cut: image.Image, planted: str) -> dict[str, Any]:
    """Start a node on a disk that lost its power; what is there of what was acknowledged."""
    cut.mount()
    try:
        with Place(cut.folder / "node", planted=planted) as place:
            checked = place.tally("--json", "verify", "--full")
            place.start()
            there = events(place)
            place.kill()
        return {
            "acked": len(known),
            "lost": sum(not there[order] for order in known),
            "doubled": sum(times > 1 for times in there.values()),
            "verify_exit": checked.returncode,
            "said": checked.stderr[-500:] if checked.returncode else "",
        }
    finally:
        cut.close()
        cut.path.unlink()


def faults(found: dict[str, Any]) -> list[str]:
    """Anything lost, doubled or damaged."""
    wrong = [name for name in ("lost", "doubled", "verify_failed") if found[name]]
    return wrong if found["acked"] else [*wrong, "nothing was acknowledged"]


CASE = Case(
    number="at-02",
    name="powercut-no-acked-loss",
    rows="ND-02 RL-01 I1",
    run=run,
    faults=faults,
    planted="synchronous_normal",
    small={"cuts": 1},
    control={"cuts": 2},
    full={"cuts": 100},
    possible=image.available,
)
