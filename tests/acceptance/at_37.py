"""AT-37 backup-restore (ND-25): a backup under load opens elsewhere, and re-runs nothing."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import Ack, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.pulse import twice
from tests.acceptance.kit.sink import start_sink

SETTINGS = """
[executors.http]
slots = 4
per_host = 4
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Back up under load; go on; restore into another folder; compare roots and calls."""
    sink = start_sink(bench.fresh("sink"), delay_ms=100)
    folder = bench.fresh("places")
    with Place(folder / "one", SETTINGS, planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=8)
            try:
                load.wait_for(bench["answers"])
                before = len(load.acks())
                made = place.tally("--json", "backup", str(folder / "backup"))
                assert made.returncode == 0, made.stderr
                load.stop()
            finally:
                load.close()
            slow = _slow(load.acks(), before)
            place.settled(bench["wait_s"])
            (kept,) = json.loads((folder / "backup" / "BACKUP.json").read_text("utf-8"))["worlds"]
            at = place.get(f"/root?at={kept['seq']}")
            place.stop()
            calls = len(sink.calls())
            found = _restored(bench, folder, sink, kept)
            return {**found, **slow, "root_then": at["root"], "calls": calls}
        finally:
            sink.close()


def _slow(acks: list[Ack], before: int) -> dict[str, float]:
    """The slow end of the answers before the backup, and while it was made."""
    ends = {}
    for name, some in (("calm_p99_ms", acks[:before]), ("p99_ms", acks[before:])):
        taken = sorted(ack.took_ms for ack in some)
        ends[name] = taken[len(taken) * 99 // 100] if taken else 0.0
    return ends


def _restored(bench: Bench, folder: Any, sink: Any, kept: dict[str, Any]) -> dict[str, Any]:
    before = len(sink.calls())
    with Place(folder / "two", SETTINGS, planted=bench.planted) as other:
        done = other.tally("--json", "restore", str(folder / "backup"), "--into", str(other.data))
        assert done.returncode == 0, done.stderr
        other.start()
        time.sleep(bench["watch_s"])
        there = other.get(f"/root?at={kept['seq']}")
        held = other.get("/effects?held=true&limit=1000")["items"]
        verified = other.tally("--json", "verify", "--full").returncode
        return {
            "seq": kept["seq"],
            "root_kept": kept["root"],
            "root_there": there["root"],
            "held": len(held),
            "calls_again": len(sink.calls()) - before,
            "verify_exit": verified,
        }


def faults(found: dict[str, Any]) -> list[str]:
    """Another root, a call made again unasked, or damage."""
    wrong = []
    if len({found["root_kept"], found["root_there"], found["root_then"]}) != 1:
        wrong.append("the roots differ")
    if found["calls_again"]:
        wrong.append(f"{found['calls_again']} calls were made again")
    if found["verify_exit"]:
        wrong.append(f"verify ended with {found['verify_exit']}")
    if not found["held"]:
        wrong.append("nothing was held, so nothing was shown")
    return wrong


CASE = Case(
    number="at-37",
    name="backup-restore",
    rows="ND-25 I43",
    run=run,
    faults=faults,
    floors=twice,
    suite="none",
    planted="restore_without_hold",
    small={"answers": 60, "watch_s": 1.0, "wait_s": 60},
    full={"answers": 20_000, "watch_s": 10.0, "wait_s": 300},
)
