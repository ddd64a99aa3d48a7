"""AT-21 parser-bombs (RL-19): hostile bodies are refused quickly, and the node stays well."""

from __future__ import annotations

import http.client
import time
from typing import Any

from tallystick.values.canon import PREFIX
from tests.acceptance.at_30 import memory_kb
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place

JSON, CBOR = "application/json", "application/cbor"
HEAD = b'{"schema": "kit/Order@1", "value": '


def bombs(deep: int, wide: int) -> dict[str, tuple[str, bytes]]:
    """Bodies that are cheap to send and dear to read."""
    return {
        "deep arrays": (JSON, HEAD + b"[" * deep + b"]" * deep + b"}"),
        "deep maps": (JSON, HEAD + b'{"a":' * deep + b"1" + b"}" * deep + b"}"),
        "open arrays": (JSON, b"[" * deep),
        "a long number": (JSON, HEAD + b"9" * wide + b"}"),
        "a small exponent": (JSON, HEAD + b"1e-" + b"9" * 400 + b"}"),
        "a large exponent": (JSON, HEAD + b"1e" + b"9" * 400 + b"}"),
        "doubled keys": (JSON, b'{"schema": "kit/Order@1", "schema": "x", "value": 1}'),
        "many keys": (JSON, HEAD + b"{" + b",".join(_keys(wide // 8)) + b"}}"),
        "half a pair": (JSON, HEAD + b'"\\ud800"}'),
        "not utf-8": (JSON, HEAD + b'"\xff\xfe"}'),
        "a nul": (JSON, b"\x00" * 100),
        "nothing": (JSON, b""),
        "deep cbor": (CBOR, PREFIX + b"\x81" * deep + b"\x01"),
        "a huge array": (CBOR, PREFIX + b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
        "a huge text": (CBOR, PREFIX + b"\x7b\x00\x00\x00\xff\xff\xff\xff\xff"),
        "endless cbor": (CBOR, PREFIX + b"\x9f" + b"\x01" * 1000),
        "tags": (CBOR, PREFIX + b"\xc2" * deep),
        "more than a body": (JSON, HEAD + b'"' + b"a" * (2 << 20) + b'"}'),
    }


def _keys(count: int) -> list[bytes]:
    return [b'"%d":1' % number for number in range(count)]


def run(bench: Bench) -> dict[str, Any]:
    """Send each bomb some times, then an honest order."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        place.send("first", 2, "http://127.0.0.1:1/")
        before_kb = memory_kb(place.node_pid())
        slowest, statuses = {}, {}
        for name, (kind, body) in bombs(bench["deep"], bench["wide"]).items():
            took = []
            for _ in range(bench["times"]):
                began = time.monotonic()
                statuses[name] = _sent(place, kind, body)
                took.append(time.monotonic() - began)
            slowest[name] = round(min(took) * 1000, 1)
        grown_kb = memory_kb(place.node_pid()) - before_kb
        alive, _ = place.send("last", 2, "http://127.0.0.1:1/")
    return {
        "statuses": statuses,
        "best_ms": slowest,
        "grown_mb": round(grown_kb / 1024, 1),
        "alive": alive,
    }


def _sent(place: Place, kind: str, body: bytes) -> int:
    line = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    headers = {"Authorization": f"Bearer {place.token()}", "Content-Type": kind}
    try:
        line.request("POST", "/v1/worlds/main/events", body, headers)
        return line.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        return 413  # it is refused before it is sent whole, and the line is cut
    finally:
        line.close()


def faults(found: dict[str, Any]) -> list[str]:
    """A bomb that was taken or broke something, memory that stays, a node that is not well."""
    bad = {name: status for name, status in found["statuses"].items() if not 400 <= status < 500}
    wrong = [f"not refused: {bad}"] if bad else []
    if found["grown_mb"] > 30:
        wrong.append(f"{found['grown_mb']} MB stayed")
    if found["alive"] != 202:
        wrong.append(f"an honest order was answered with {found['alive']}")
    return wrong


def floors(found: dict[str, Any]) -> list[str]:
    """A refusal within 100 ms."""
    slow = {name: ms for name, ms in found["best_ms"].items() if ms > 100}
    return [f"slow: {slow}"] if slow else []


CASE = Case(
    number="at-21",
    name="parser-bombs",
    rows="RL-19",
    run=run,
    faults=faults,
    floors=floors,
    planted="bodies_unbounded",
    small={"deep": 50_000, "wide": 50_000, "times": 1},
    full={"deep": 400_000, "wide": 500_000, "times": 5},
)
