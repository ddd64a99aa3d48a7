"""AT-27 world-isolation (RL-19, I40): a token of one world reaches nothing of another."""

from __future__ import annotations

import http.client
import json
import signal
import statistics
import time
from bisect import bisect
from typing import Any

from tests.acceptance.at_19 import CLOSED, asked, path_of, token
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.load import Load, start_load
from tests.acceptance.kit.place import Place

SINK = "http://127.0.0.1:1/"
TURN_S = 0.2  # until a flood has ended, or begun
SCOPES = ["read", "send", "operate", "decide", "work", "fork", "revoke"]


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Ask everything of world `side` with a token of `main`; then flood `main`."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        made = place.tally("world", "create", "side", "--bundle", str(place.bundle))
        assert made.returncode == 0, made.stderr
        place.ask("POST", "/v1/worlds/side/events", _order("hidden"))
        before = _root(place)
        mine = token(place, SCOPES, worlds=["main"])
        let_in = []
        for route in CLOSED:
            if route.of_world:
                status, body = asked(place, route.method, path_of(route, "side"), mine)
                if status not in (401, 403, 404) or b"hidden" in body:
                    let_in.append(f"{route.method} {route.path}: {status}")
        seen = json.dumps(_with(place, "/v1/worlds", mine))
        load = start_load(place, SINK, connections=16, effects=0)
        try:
            load.wait_for(50)
            calm, flooded = _by_turns(place, load, bench)
        finally:
            load.process.send_signal(signal.SIGCONT)
            load.stop(60)
            load.close()
        after = _root(place)
    return {
        "let_in": let_in,
        "listed": "side" in seen,
        "moved_by_others": before is None or after is None,
        "calm_ms": _ends(calm),
        "flooded_ms": _ends(flooded),
        "answered_meanwhile": _meanwhile(load, flooded),
        "flood": len(load.acks()),
    }


def _order(name: str) -> dict[str, Any]:
    value = {"id": name, "cents": 2, "sink": SINK, "due_ns": None, "timeout_ns": None}
    return {"schema": "kit/Order@1", "value": value}


def _root(place: Place) -> str | None:
    return str(place.ask("GET", "/v1/worlds/side/root")[1]["state_root"])


def _with(place: Place, path: str, bearer: str) -> Any:
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    try:
        line.request("GET", path, headers={"Authorization": f"Bearer {bearer}"})
        return json.loads(line.getresponse().read())
    finally:
        line.close()


Span = tuple[int, int]


def _by_turns(place: Place, load: Load, bench: Bench) -> tuple[list[Span], list[Span]]:
    """Events of the other world without and with the flood, by turns: the machine is the same."""
    calm: list[Span] = []
    flooded: list[Span] = []
    for turn in range(bench["turns"]):
        load.process.send_signal(signal.SIGSTOP)
        time.sleep(TURN_S)
        calm += _probed(place, bench["probes"], f"calm{turn}-")
        load.process.send_signal(signal.SIGCONT)
        time.sleep(TURN_S)
        flooded += _probed(place, bench["probes"], f"flooded{turn}-")
    return calm, flooded


def _probed(place: Place, count: int, name: str) -> list[Span]:
    """From when to when each event of the other world took."""
    spans = []
    for number in range(count):
        began_ns = time.time_ns()
        status, said = place.ask("POST", "/v1/worlds/side/events", _order(f"{name}{number}"))
        assert status == 202, said
        spans.append((began_ns, time.time_ns()))
    return spans


def _ends(spans: list[Span]) -> dict[str, float]:
    """The middle and the slow end."""
    taken = sorted((end - began) / 1e6 for began, end in spans)
    p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    return {"p50": round(statistics.median(taken), 2), "p99": round(p99, 2)}


def _meanwhile(load: Load, spans: list[Span]) -> dict[str, int]:
    """How many of the flood were answered while one of the other world waited.

    Unlike a time, this says the same on a slow and on a busy machine.
    """
    at = sorted(ack.at_ns for ack in load.acks())
    counts = sorted(bisect(at, end) - bisect(at, began) for began, end in spans)
    return {"p50": counts[len(counts) // 2], "p90": counts[len(counts) * 9 // 10]}


def faults(found: dict[str, Any]) -> list[str]:
    """A route that let the token in, a name that is shown, or a flood that did not happen."""
    wrong = [f"let in: {found['let_in'][:3]}"] if found["let_in"] else []
    if found["listed"]:
        wrong.append("the other world is listed")
    if found["flood"] < 50:
        wrong.append("there was no flood")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """The other world waits at most twice as long under the flood."""
    calm, flooded = found["calm_ms"]["p99"], found["flooded_ms"]["p99"]
    return [f"p99 went from {calm} to {flooded} ms"] if flooded > 2 * calm else []


CASE = Case(
    number="at-27",
    name="world-isolation",
    rows="RL-19 I40",
    run=run,
    faults=faults,
    floors=floors,
    planted="worlds_not_asked",
    small={"turns": 2, "probes": 5},
    full={"turns": 20, "probes": 50},
)
