"""Print the fuel of many programs in the lane; equal on every CPython (AU-13).

Needs nothing but the standard library and the package, so that any interpreter can run it.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tallystick.modules.lane import Compiled, Space
from tallystick.modules.lane_runtime import LaneStop


def program(seed: int) -> str:
    """A random function of loops, comprehensions, calls, lambdas and capped operators."""
    chance = Random(seed)
    lines = ["def f(n):", "    a = []", "    s = 0"]
    for _ in range(chance.randrange(2, 7)):
        k = chance.randrange(2, 9)
        lines += chance.choice(
            [
                [f"    for i in range({k}): s += i * {k}"],
                [f"    a += [x ** 2 for x in range({k}) if x % 2]"],
                [f"    a += [x + y for x in range({k}) for y in range(3)]"],
                [f"    while s < {k * 7}: s += {k}"],
                [f"    g = lambda x: x + {k}", f"    s += sum(map(g, range({k})))"],
                [f"    d = {{str(x): x for x in range({k})}}", "    s += len(sorted(d))"],
                [f"    a += list(range({k * 100}))"],
                [f"    s += max({{x % {k} for x in range(20)}})"],
                ["    s += h(n)"],
                [f"    t = 'ab' * {k * 40}", "    s += len(t)"],
                ["    match s % 3:", "        case 0: s += 1", "        case _: s += 2"],
                ["    try:", "        a[10 ** 6]", "    except IndexError:", "        s += 1"],
            ]
        )
    lines += ["    return s", "def h(n):", "    return 0 if n == 0 else 1 + h(n - 1)"]
    return "\n".join(lines) + "\n"


def measured(seed: int) -> list[Any]:
    """Result and fuel of one program, or the code it stopped with."""
    space = Space(Compiled({"p.py": program(seed).encode()}, 1))
    space.start(4000)
    try:
        found = space.find("p:f")(seed % 5)
    except LaneStop as stop:
        found = stop.code
    return [found, space.meter.used]


if __name__ == "__main__":
    print(json.dumps([measured(seed) for seed in range(200)]))
