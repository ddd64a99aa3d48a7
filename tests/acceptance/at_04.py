"""AT-04 fsync-eio-stops (ND-05, RL-17): after a failed sync nothing is acknowledged."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit import syscalls
from tests.acceptance.kit.audit import accepted, events
from tests.acceptance.kit.load import Ack, Load, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.syscalls import SystemCall


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
        watched, broken = "fdatasync,fsync", f"fdatasync:error=EIO:when={n}"
        place.prefix = syscalls.traced(timeline, watched, broken)
        place.launch()
        load = start_load(place, "http://127.0.0.1:1/", connections=1, effects=0, count=300)
        try:
            code = place.wait(60) if not _serves_on(place, load) else None
        finally:
            load.close()
        place.close()
        calls = syscalls.read(timeline)
        injected = [call for call in calls if call.injected]
        # SQLite syncs the folder of a new log once, and goes on when that fails.
        # Nothing may rest on that sync: the node has made the name durable itself, before.
        failed = [call for call in injected if "tally.db" in call.file]
        place.prefix = ()
        place.start()
        there = events(place)
        checked = place.tally("--json", "verify", "--full").returncode
    acks = load.acks()
    return {
        "n": n,
        "hit": bool(failed),
        "hit_folder": len(injected) - len(failed),
        "folder_synced_before": bool(injected) and _synced_before(calls, injected[0]),
        "exit": code,
        "acked": len(accepted(acks)),
        "acked_after": len(_acked_after(calls, failed[0], acks)) if failed else 0,
        "lost": sum(not there[order] for order in accepted(acks)),
        "verify_exit": checked,
    }


def _acked_after(calls: list[SystemCall], failed: SystemCall, acks: list[Ack]) -> list[str]:
    """Orders that were acknowledged after the failure, and on no sync before it.

    An answer that was on its way when the next commit failed is read a moment later; it counts as
    sound when a sync began after its request and ended well before the failure.
    """
    good = [
        (call.began_ns, call.ended_ns)
        for call in calls
        if call.result == 0 and "tally.db" in call.file and call.ended_ns <= failed.began_ns
    ]
    found = []
    for ack in acks:
        sent_ns = ack.at_ns - int(ack.took_ms * 1_000_000)
        rests = any(sent_ns <= began and ended <= ack.at_ns for began, ended in good)
        if ack.status == 202 and ack.at_ns > failed.ended_ns and not rests:
            found.append(ack.order)
    return found


def _synced_before(calls: list[SystemCall], failed: SystemCall) -> bool:
    """True when the node had synced the same folder with success before the failing call began."""
    return any(
        call.name == "fsync" and call.file == failed.file and call.result == 0
        for call in calls
        if call.ended_ns < failed.began_ns
    )


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
        if not each["hit"] and not each["hit_folder"]:
            wrong.append(f"{each['n']}: no sync failed")
        if not each["hit"] and each["hit_folder"] and not each["folder_synced_before"]:
            wrong.append(f"{each['n']}: the folder of the log rested on a sync that failed")
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
