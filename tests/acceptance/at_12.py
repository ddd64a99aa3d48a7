"""AT-12 fork-isolated (RL-07, I7): neither side of a fork sees or repeats what the other does."""

from __future__ import annotations

import time
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

AT_ONCE = 8  # what a server that answers nobody gets to hear
SETTINGS = f"""
[executors.http]
timeout_s = 600
per_host = {AT_ONCE}
"""


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Fork at random places while effects are open, then write on both sides."""
    sink = start_sink(bench.fresh("sink"), stall=True)
    forks = []
    with Place(bench.fresh("node"), SETTINGS, planted=bench.planted) as place:
        try:
            place.start()
            for number in range(bench["orders"]):
                place.send(f"o{number}", 1, sink.url)
            _called(sink, min(bench["orders"], AT_ONCE))
            called = len(sink.calls())
            place.ran()
            head = place.root()["seq"]
            for number in range(bench["forks"]):
                at = head if number == 0 else bench.random.randint(1, head)
                forks.append(_forked(place, sink.url, f"f{number}", at))
            before = place.root()["state_root"]
            sides = [_root(place, fork["name"]) for fork in forks]
            place.send("p1", 2, sink.url)
            moved = place.root()["state_root"] != before
            untouched = sides == [_root(place, fork["name"]) for fork in forks]
            _calls_settle(sink)
            again = len(sink.calls()) - called
        finally:
            sink.close()
    return {
        "orders": bench["orders"],
        "called": called,
        "calls_by_forks": again,
        "forks": forks,
        "parent_moved_by_itself": moved,
        "forks_untouched": untouched,
    }


def _called(sink: Any, count: int, wait_s: float = 60.0) -> None:
    """Wait until the sink has heard of all."""
    until = time.monotonic() + wait_s
    while len(sink.calls()) < count and time.monotonic() < until:
        time.sleep(0.02)


def _calls_settle(sink: Any) -> None:
    """Wait until the sink has heard nothing new for a while."""
    seen = -1
    while seen != len(sink.calls()):
        seen = len(sink.calls())
        time.sleep(0.5)


def _root(place: Place, world: str, at: str = "") -> str:
    status, found = place.ask("GET", f"/v1/worlds/{world}/root{at}")
    assert status == 200, found
    return str(found["state_root"])


def _forked(place: Place, sink: str, name: str, at: int) -> dict[str, Any]:
    """Fork, write into the fork, and look at the parent before and after."""
    before = place.root()["state_root"]
    done = place.tally("--world", "main", "world", "fork", "--at", str(at), "--as", name)
    assert done.returncode == 0, done.stderr
    parent_then = _root(place, "main", f"?at={at}")
    fork_then = _root(place, name, f"?at={at}")
    value = {"id": "side", "cents": 2, "sink": sink, "due_ns": None, "timeout_ns": None}
    body = {"schema": "kit/Order@1", "value": value}
    status, said = place.ask("POST", f"/v1/worlds/{name}/events", body)
    assert status == 202, said
    place.ran(world=name)
    return {
        "name": name,
        "at": at,
        "same_at_fork": parent_then == fork_then,
        "parent_same": place.root()["state_root"] == before,
        "fork_moved": _root(place, name) != fork_then,
    }


def faults(found: dict[str, Any]) -> list[str]:
    """A root that moved on the other side, or a call that a fork made for its parent."""
    wrong = []
    for fork in found["forks"]:
        bad = [key for key in ("same_at_fork", "parent_same", "fork_moved") if not fork[key]]
        wrong += [f"fork at {fork['at']}: not {key}" for key in bad]
    if not found["forks_untouched"] or not found["parent_moved_by_itself"]:
        wrong.append("a write in the parent was seen in a fork, or not at all")
    if found["calls_by_forks"]:
        wrong.append(f"{found['calls_by_forks']} calls were made again by forks")
    if not found["called"]:
        wrong.append("nothing was open")
    return wrong


CASE = Case(
    number="at-12",
    name="fork-isolated",
    rows="RL-07 I7",
    run=run,
    faults=faults,
    planted="fork_redispatches",
    small={"orders": 6, "forks": 2},
    full={"orders": 60, "forks": 40},
)
