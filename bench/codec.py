"""K5: the canonical codec on a 269-byte journal record, as a ratio to sha256 of 200 bytes.

The ratio is taken in the same run, so that a slow machine does not look like a slow codec.
Exit 1 when a budget of the design (01 section 8, point 5) is passed.
Run it with TALLY_PURE=1 for the pure path; without, the compiled codec is measured if it is built.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from time import perf_counter_ns
from typing import Any

from tallystick.values import canon

BUDGETS = {
    "pure": {"encode": 20.0, "decode": 40.0},
    "compiled": {"encode": 10.0, "decode": 8.0},
}
# Rounds of about a millisecond: a busy machine interrupts longer ones, and the ratio would lie.
ROUNDS = 150
CALLS = 200


def record() -> dict[str, Any]:
    """A tick record: a nested map, three byte strings, text, integers and a list."""
    return {
        "$type": "tick@1",
        "seq": 184_467,
        "at_ns": 1_731_628_800_123_456_789,
        "workflow": "com.acme/order.step@1",
        "key": canon.encode("o-18"),
        "cell": {"born_seq": 18_201, "status": "waiting"},
        "event": bytes(range(32)),
        "state": bytes(range(100, 132)),
        "effects": [{"effect": "com.acme/pay@1", "index": 0}, {"effect": "note@1", "index": 1}],
        "ok": True,
        "code": None,
    }


def best_ns(call: Callable[[], object]) -> float:
    """The quickest of some rounds: the least disturbed one."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (perf_counter_ns() - begin) / CALLS)
    return best


def path_name() -> str:
    """Which of the two codecs is in use."""
    return "pure" if str(canon.__file__).endswith(".py") else "compiled"


def measure() -> dict[str, Any]:
    """Nanoseconds and ratios of encode and strict decode."""
    value = record()
    data = canon.encode(value)
    block = bytes(200)
    base = best_ns(lambda: sha256(block).digest())
    encode = best_ns(lambda: canon.encode(value))
    decode = best_ns(lambda: canon.decode(data))
    return {
        "path": path_name(),
        "bytes": len(data),
        "sha256_ns": round(base),
        "encode_ns": round(encode),
        "decode_ns": round(decode),
        "encode": round(encode / base, 1),
        "decode": round(decode / base, 1),
    }


def over_budget(figures: dict[str, Any]) -> list[str]:
    """A line for each budget that is passed."""
    return [
        f"{name}: {figures[name]}x sha256 is over {limit}x ({figures['path']})"
        for name, limit in BUDGETS[figures["path"]].items()
        if figures[name] > limit
    ]


def main() -> int:
    """Print the figures; 1 when over budget."""
    figures = measure()
    print(json.dumps(figures))
    late = over_budget(figures)
    for line in late:
        print(line, file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    raise SystemExit(main())
