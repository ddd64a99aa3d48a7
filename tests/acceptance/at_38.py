"""AT-38 disk-full (ND-27, RL-17): a full disk is an answer, not damage, and passes by itself."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import image
from tests.acceptance.kit.audit import events
from tests.acceptance.kit.place import Place

SINK = "http://127.0.0.1:1/"


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Fill the disk of a node, send, make room, send; as often as asked."""
    folder = bench.fresh("full")
    disk = image.make_image(folder / "disk.img", folder / "disk")
    statuses: list[int] = []
    acked: list[str] = []
    recovered: list[float] = []
    reads = 0
    try:
        with Place(disk.folder / "node", planted=bench.planted) as place:
            place.start()
            for n in range(bench["times"]):
                ballast = _filled(disk.folder / "ballast")
                orders = [f"f{n}x{k}" for k in range(bench["tries"])]
                answers = [place.send(order, 2, SINK)[0] for order in orders]
                statuses += answers
                acked += [o for o, status in zip(orders, answers, strict=True) if status == 202]
                reads += place.ask("GET", "/v1/worlds/main/root")[0] == 200
                ballast.unlink()
                recovered.append(_well_again(place, f"w{n}", acked, bench["wait_s"]))
            place.kill()
            place.start()
            there = events(place)
            checked = place.tally("--json", "verify", "--full").returncode
    finally:
        disk.close()
    return {
        "times": bench["times"],
        "refused": sum(status == 507 for status in statuses),
        "other_answers": sorted({*statuses} - {202, 507}),
        "acked": len(acked),
        "lost": [order for order in acked if not there[order]],
        "reads": reads,
        "recovered_s": round(max(recovered), 2),
        "verify_exit": checked,
    }


def _filled(path: Path) -> Path:
    """A file that takes all the space there is."""
    with path.open("wb") as file:
        at = 0
        for size in (1 << 24, 1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), at, size)
                    at += size
    return path


def _well_again(place: Place, order: str, acked: list[str], wait_s: float) -> float:
    """Seconds until an order is accepted; a whole minute when none was in the time to wait."""
    began = time.monotonic()
    while (took := time.monotonic() - began) < wait_s:
        if place.send(order, 2, SINK)[0] in (200, 202):
            acked.append(order)
            return took
        time.sleep(0.1)
    return 60.0


def faults(found: dict[str, Any]) -> list[str]:
    """An acknowledged order that is gone, another answer than 507, damage, or no recovery."""
    wrong = [f"{name} {found[name]}" for name in ("lost", "other_answers") if found[name]]
    if not found["refused"]:
        wrong.append("nothing was refused")
    if found["reads"] != found["times"]:
        wrong.append("reads did not work")
    if found["recovered_s"] >= 60:
        wrong.append("it did not recover")
    return [*wrong, f"verify {found['verify_exit']}"] if found["verify_exit"] else wrong


CASE = Case(
    number="at-38",
    name="disk-full",
    rows="ND-27 RL-17",
    run=run,
    faults=faults,
    planted="full_disk_ignored",
    small={"times": 1, "tries": 20, "wait_s": 60},
    control={"times": 1, "tries": 5, "wait_s": 2},
    full={"times": 20, "tries": 100, "wait_s": 60},
    possible=image.available,
)
