"""AT-30 overload (ND-21): more than the node can do is refused quickly, and nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.load import Ack, Load, start_load
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.scaled import span
from tests.acceptance.kit.sink import start_sink

SETTINGS = """
[ingress]
queue = {queue}
[dispatch]
slots = 16
max_backlog = {backlog}
[executors.http]
slots = 16
per_host = 16
timeout_s = 600
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Stop the outside, send more than fits, let the outside go on, and wait until all is done."""
    sink = start_sink(bench.fresh("sink"))
    settings = SETTINGS.format(queue=bench["queue"], backlog=bench["backlog"])
    with Place(bench.fresh("node"), settings, planted=bench.planted) as place:
        try:
            place.start()
            rates = _rates(place, sink.url, bench)
            before_kb = memory_kb(place.node_pid())
            os.kill(sink.process.pid, signal.SIGSTOP)
            load = start_load(
                place,
                sink.url,
                connections=bench["connections"],
                rate=bench["rate"],
                count=bench["orders"],
                again=0,
            )
            try:
                _press(load, bench)
                after_kb = memory_kb(place.node_pid())
                os.kill(sink.process.pid, signal.SIGCONT)
                began = time.monotonic()
                load.stop(600)
            finally:
                load.close()
            settled = place.settled(bench["wait_s"])
            took = time.monotonic() - began
            acks = load.acks()
            given = [ack for name in rates for ack in _ledger(place, name)]
            answered, _ = place.send("afterwards", 2, sink.url)
            found = audit(place, [*given, *acks], sink.calls())
        finally:
            os.kill(sink.process.pid, signal.SIGCONT)
            sink.close()
    return {
        **found,
        "settled": settled,
        "recovered_s": round(took, 2),
        "answered_afterwards": answered,
        "grown_mb": round((after_kb - before_kb) / 1024, 1),
        "accepted_per_s": rates,
        **_answers(acks),
    }


def _rates(place: Place, sink: str, bench: Bench) -> dict[str, float]:
    """Events accepted in a second: by as many clients as the lane holds, and by many times more."""
    found: dict[str, float] = {}
    for name, connections in (("alone", bench["queue"] // 2), ("pressed", bench["connections"])):
        if bench["rate_s"]:
            load = start_load(place, sink, connections=connections, name=name, again=0, effects=0)
            try:
                time.sleep(bench["rate_s"])
                load.stop(600)
            finally:
                load.close()
            done = [ack.at_ns for ack in load.acks() if ack.status == 202]
            found[name] = round(len(done) * 1e9 / max(max(done) - min(done), 1), 1)
            place.settled(bench["wait_s"])
    return found


def _ledger(place: Place, name: str) -> list[Ack]:
    return Load(place.folder / f"ledger-{name}.log", None).acks()  # type: ignore[arg-type]  # ended


def _press(load: Load, bench: Bench) -> None:
    """Keep the pressure up for its time; a few orders are simply sent, until no more is answered.

    Whoever waits in the lane is not refused, so more must wait than the lane holds.
    """
    if not bench["press_s"]:
        _wait_for_calm(load, bench)
        return
    until = time.monotonic() + bench["press_s"]
    while load.process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)


def _wait_for_calm(load: Load, bench: Bench) -> None:
    """Wait until some are refused and no more answers come: the rest waits in the lane.

    A client that has not begun, on a busy machine, is no calm.
    """
    seen, since, until = b"", time.monotonic(), time.monotonic() + bench["wait_s"]
    while load.process.poll() is None and time.monotonic() < until:
        found = load.ledger.read_bytes()
        if found != seen or b" 429 " not in found:
            seen, since = found, time.monotonic()
        elif time.monotonic() - since > bench["calm_s"]:
            return
        time.sleep(0.05)


def memory_kb(pid: int) -> int:
    """The resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(r"VmRSS:\s+(\d+)", text)
    assert found is not None
    return int(found.group(1))


def _answers(acks: list[Ack]) -> dict[str, Any]:
    refused = sorted(ack.took_ms for ack in acks if ack.status == 429)
    return {
        "refused": len(refused),
        "refused_p99_ms": refused[len(refused) * 99 // 100] if refused else None,
        "other_answers": sorted({ack.status for ack in acks} - {200, 202, 429}),
    }


def faults(found: dict[str, Any]) -> list[str]:
    """Nothing was refused, something accepted was lost, or it did not recover."""
    wrong = [name for name in ("lost", "doubled", "not_settled_once") if found[name]]
    if not found["refused"]:
        wrong.append("nothing was refused")
    if found["other_answers"]:
        wrong.append(f"answers {found['other_answers']}")
    if not found["settled"] or found["answered_afterwards"] != 202:
        wrong.append("it did not recover")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """Refused within 50 ms, recovered within 10 s, little memory grown."""
    wrong = []
    if found["refused_p99_ms"] is not None and found["refused_p99_ms"] > span(found, 50):
        wrong.append("429 took longer than 50 ms")
    if found["recovered_s"] > span(found, 10):
        wrong.append("it took longer than 10 s to recover")
    rates = found["accepted_per_s"]
    if rates and rates["pressed"] < 0.8 * rates["alone"]:
        wrong.append("under pressure it accepts less than 80 % of what it does alone")
    if found["grown_mb"] > 200:
        wrong.append("memory grew by more than 200 MB")
    return wrong


CASE = Case(
    number="at-30",
    name="overload",
    rows="ND-21 I42",
    run=run,
    faults=faults,
    floors=floors,
    planted="no_back_pressure",
    small={
        "queue": 20,
        "backlog": 40,
        "connections": 64,
        "rate": 0,
        "orders": 400,
        "wait_s": 60,
        "calm_s": 1.0,
        "press_s": 0,
        "rate_s": 0,
    },
    full={
        "queue": 16,
        "backlog": 1000,
        "connections": 64,
        "rate": 0,
        "orders": 0,
        "wait_s": 300,
        "calm_s": 3.0,
        "press_s": 60,
        "rate_s": 20,
    },
)
