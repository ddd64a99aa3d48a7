"""AT-39 split-brain (RL-17, I11): a second node on the same folder does nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.audit import audit
from tests.acceptance.kit.load import start_load
from tests.acceptance.kit.place import Place, free_port
from tests.acceptance.kit.sink import start_sink


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Start a second node beside one that works, and beside one that is stopped in its tracks."""
    sink = start_sink(bench.fresh("sink"), delay_ms=5)
    codes = []
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            load = start_load(place, sink.url, connections=4)
            try:
                load.wait_for(20)
                epoch = place.root()["epoch"]
                codes.append(_second(bench, place))
                os.kill(place.node_pid(), signal.SIGSTOP)
                codes.append(_second(bench, place))
                os.kill(place.node_pid(), signal.SIGCONT)
                load.wait_for(60)
                load.stop(30)
            finally:
                load.close()
            place.settled()
            found = audit(place, load.acks(), sink.calls())
            after = place.root()["epoch"]
        finally:
            sink.close()
    return {**found, "second_exits": codes, "epochs": [epoch, after]}


def _second(bench: Bench, place: Place) -> int | None:
    """How a second node on the same folder ends; None when it goes on."""
    with Place(place.folder, place.settings, place.planted, port=free_port()) as other:
        process = other.launch()
        try:
            return process.wait(bench["wait_s"])
        except subprocess.TimeoutExpired:
            return None


def faults(found: dict[str, Any]) -> list[str]:
    """The second node served, took the world, or something was lost, doubled or called twice."""
    wrong = [name for name in ("lost", "doubled", "not_settled_once") if found[name]]
    if found["second_exits"] != [3, 3]:
        wrong.append(f"the second node ended with {found['second_exits']}")
    if found["epochs"][0] != found["epochs"][1]:
        wrong.append("the epoch moved")
    if found["calls"] != found["intents"]:
        wrong.append(f"{found['calls']} calls for {found['intents']} intents")
    return wrong


CASE = Case(
    number="at-39",
    name="split-brain",
    rows="RL-17 I11",
    run=run,
    faults=faults,
    planted="no_lock",
    small={"wait_s": 20},
    control={"wait_s": 4},
    full={"wait_s": 60},
)
