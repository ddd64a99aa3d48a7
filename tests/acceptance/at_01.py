"""AT-01 kill9-no-acked-loss (ND-01, RL-01): SIGKILL under load loses and doubles nothing."""

from __future__ import annotations

import statistics
import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.scaled import span
from tests.acceptance.kit.sink import start_sink


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Kill and start a node again and again while clients send and effects happen."""
    sink = start_sink(bench.fresh("sink"), delay_ms=5)
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=bench["connections"])
            try:
                for n in range(bench["kills"]):
                    load.wait_for(10 * (n + 1))
                    time.sleep(bench.random.uniform(0.0, bench["pause_s"]))
                    place.kill()
                    place.start()
                load.stop()
            finally:
                load.close()
            settled = place.settled()
            found = audit(place, load.acks(), sink.calls())
            verified = place.tally("--json", "verify", "--quick").returncode
        finally:
            sink.close()
    return {
        **found,
        "kills": bench["kills"],
        "settled": settled,
        "verify_exit": verified,
        "slowest_start_s": round(max(place.starts[1:]), 3),
        "usual_start_s": round(statistics.median(place.starts[1:]), 3),
    }


def faults(found: dict[str, Any]) -> list[str]:
    """Lost, doubled, called unasked or under two keys, not settled once, or damaged."""
    empty = ("lost", "doubled", "called_without_record", "more_than_one_key")
    wrong = [f"{name}: {found[name][:5]}" for name in empty if found[name]]
    wrong += [name for name in ("not_settled_once", "not_called", "verify_exit") if found[name]]
    if not found["settled"]:
        wrong.append("effects stayed open")
    if not found["acked"] or not found["calls"]:
        wrong.append("nothing was done")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """Up again within three seconds."""
    most = span(found, 3)
    return [] if found["slowest_start_s"] <= most else [f"a start took longer than {most:.1f} s"]


CASE = Case(
    number="at-01",
    name="kill9-no-acked-loss",
    rows="ND-01 RL-01 I1 I3",
    run=run,
    faults=faults,
    floors=floors,
    suite="both",
    planted="ack_before_commit",
    small={"kills": 2, "connections": 8, "pause_s": 0.2},
    full={"kills": 200, "connections": 16, "pause_s": 0.5},
)
