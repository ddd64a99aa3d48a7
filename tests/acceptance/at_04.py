"""AT-04 fsync-eio-stops (ND-05, RL-17): after a failed sync nothing is acknowledged."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import syscalls
from tests.acceptance.kit.audit import accepted, events
from tests.acceptance.kit.load import Load, start_load
from tests.acceptance.kit.place import Place


def run(bench: Bench) -> dict[str, Any]:
    """Let the nth sync of a node fail, for each n of the list."""
    return {"positions": [_one(bench, n) for n in bench["positions"]]}


# tidy: one start, one fault, and all that is asked of it afterwards.
def _one(bench: Bench, n: int) -> dict[str, Any]:
    folder = bench.fresh(f"eio{n}")
    timeline = folder / "calls"
    with Place(folder / "node", planted=bench.planted) as place:
        place.start()
        place.stop()
        place.prefix = syscalls.traced(timeline, "fdatasync", f"fdatasync:error=EIO:when={n}")
        place.launch()
        load = start_load(place, "http://127.0.0.1:1/", connections=1, effects=0, count=300)
        try:
            code = place.wait(60) if not _serves_on(place, load) else None
        finally:
            load.close()
        place.close()
        injected = [call for call in syscalls.read(timeline) if call.injected]
        # SQLite syncs the folder of a new log once, and goes on when that fails: it is counted, and
        # what is asked of the node is asked about the files of the journal.
        failed = [call for call in injected if "tally.db" in call.file]
        at_ns = failed[0].ended_ns if failed else 0
        place.prefix = ()
        place.start()
        there = events(place)
        checked = place.tally("--json", "verify", "--full").returncode
    acks = load.acks()
    return {
        "n": n,
        "hit": bool(failed),
        "hit_folder": len(injected) - len(failed),
        "exit": code,
        "acked": len(accepted(acks)),
        "acked_after": sum(ack.at_ns > at_ns for ack in acks if ack.status == 202) if failed else 0,
        "lost": sum(not there[order] for order in accepted(acks)),
        "verify_exit": checked,
    }


def _serves_on(place: Place, load: Load) -> bool:
    """True when all orders were answered, so the node did not stop at the failure."""
    until = time.monotonic() + 120
    while load.process.poll() is None and time.monotonic() < until:
        if place.process is None or place.process.poll() is not None:
            return False
        time.sleep(0.05)
    return True


def faults(found: dict[str, Any]) -> list[str]:
    """An acknowledgement after the failure, another exit code than 3, or a loss."""
    wrong = []
    for each in found["positions"]:
        if not each["hit"]:
            wrong.append(f"{each['n']}: no sync failed")
        if each["hit"] and each["exit"] != 3:
            wrong.append(f"{each['n']}: exit {each['exit']}")
        bad = [name for name in ("acked_after", "lost", "verify_exit") if each[name]]
        wrong += [f"{each['n']}: {name} {each[name]}" for name in bad]
    return wrong


CASE = Case(
    number="at-04",
    name="fsync-eio-stops",
    rows="ND-05 RL-17 I1",
    run=run,
    faults=faults,
    planted="sync_error_ignored",
    small={"positions": [12]},
    full={"positions": list(range(1, 51))},
    possible=syscalls.available,
)
