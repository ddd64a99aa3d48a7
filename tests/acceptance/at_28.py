"""AT-28 tool-containment (ND-18, RL-19): a program that misbehaves hurts itself alone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.pulse import Pulse, twice
from tests.acceptance.kit.sink import start_sink
from tests.acceptance.kit.wishes import granted, wish

SETTINGS = """
[executors]
enabled = ["http", "shell", "blob", "file"]
[executors.shell]
timeout_s = 10
memory = "128MiB"
procs = 40
"""
MARK = "tally-at-28"


def programs(port: int, outside: Path) -> dict[str, str]:
    """Five programs that want more than they may have."""
    return {
        "forks": f"sleep 900.{MARK[-2:]} & " + "f(){ f|f& }; f; sleep 4",
        "memory": "head -c 1500000000 /dev/zero | tail -c 1400000000 > /dev/null",
        "net": f"exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3",
        "files": f"echo x > {outside}/{MARK}; cat {outside}/kept",
        "time": "sleep 1000",
    }


COUNT = {"schema": "tools/Count@1", "value": {"id": "beside", "n": 1}}


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Run each program, look at what it reached, and at an honest program beside it."""
    sink = start_sink(bench.fresh("sink"))
    outside = bench.fresh("outside")
    (outside / "kept").write_text("kept from programs")
    port = urlsplit(sink.url).port or 0
    world = zipped("tools")
    with Place(bench.fresh("node"), SETTINGS, planted=bench.planted, world=world) as place:
        try:
            place.start()
            with Pulse(place, COUNT) as calm:
                time.sleep(bench["calm_s"])
            ended = {}
            with Pulse(place, COUNT) as pulse:
                for name, text in programs(port, outside).items():
                    wish(place, "Run", name, argv=["/bin/bash", "-c", text], key=False, seconds=6)
                    ended[name] = granted(place, "Run", name)
            wish(place, "Run", "good", argv=["/bin/bash", "-c", "echo hi"], key=False, seconds=20)
            good = granted(place, "Run", "good")
            calls = len(sink.calls())
        finally:
            sink.close()
        time.sleep(0.2)
        left = _left()
    return {
        "ended": {name: f"{e['status']} {e['code']}".strip() for name, e in ended.items()},
        "good": [good["status"], good["said"]],
        "sink": calls,
        "written": (outside / MARK).exists(),
        "read": "kept" in ended["files"]["said"],
        "left": left,
        "calm_p99_ms": calm.p99_ms,
        "p99_ms": pulse.p99_ms,
        "refused": calm.refused + pulse.refused,
    }


def _left() -> list[str]:
    """Programs of the fork bomb that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        if b"900.28" in words:
            found.append(path.parent.name)
    return found


_BAD = ("sink", "written", "read", "left", "refused")


def faults(found: dict[str, Any]) -> list[str]:
    """What a program reached, what is left of it, or an honest one that could not run."""
    wrong = [f"{name}: {found[name]}" for name in _BAD if found[name]]
    if found["ended"]["memory"] == "exit 0" or found["ended"]["time"].startswith("exit"):
        wrong.append(f"no bound held: {found['ended']}")
    if found["good"][0] != "exit 0":
        wrong.append(f"an honest program: {found['good']}")
    return wrong


def _possible() -> bool:
    return shutil.which("bwrap") is not None


CASE = Case(
    number="at-28",
    name="tool-containment",
    rows="ND-18 RL-19",
    run=run,
    faults=faults,
    floors=twice,
    possible=_possible,
    suite="none",
    planted="no_walls",
    small={"calm_s": 1.0},
    full={"calm_s": 10.0},
)
