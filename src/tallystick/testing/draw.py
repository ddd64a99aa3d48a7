"""Drawing: the plan of a seed, one stream of chance for each part of it."""

from __future__ import annotations

from random import Random
from typing import Final

from tallystick.node.points import NAMES as POINTS
from tallystick.testing import draw_nets, draw_rules, draw_script, draw_watch
from tallystick.testing.chances import log
from tallystick.testing.disk import FLUSH_FAULTS
from tallystick.testing.plan import Config, Decision, Plan
from tallystick.testing.ports import MS, OUTSIDE_FAULTS, SECOND, YEAR, stream

CLASSES: Final = ("crash", "flush", "outside", "clock", "second", "lying", "corrupt")
# Of a hundred seeds, how many play which scene, and how its operations are drawn.
SHARES: Final = (("script", 45), ("nets", 18), ("watch", 17), ("rules", 20))
_OPERATIONS: Final = {
    "nets": draw_nets.operations,
    "rules": draw_rules.operations,
    "script": draw_script.operations,
    "watch": draw_watch.operations,
}


def draw(seed: str) -> Plan:
    """The plan of a seed."""
    scene = _scene(stream(seed, "scene"))
    config = _config(stream(seed, "config"), scene)
    operations = _OPERATIONS[scene](stream(seed, "operations"), config)
    faults = _faults(stream(seed, "faults"), config)
    return Plan(seed, config, (*operations, *faults))


def _scene(chance: Random) -> str:
    at = chance.randrange(sum(share for _, share in SHARES))
    for name, share in SHARES:
        at -= share
        if at < 0:
            return name
    raise AssertionError("a draw is below the sum of the shares")


def _config(chance: Random, scene: str) -> Config:
    limits: dict[str, int] = {}
    if scene == "script" and chance.random() < 0.3:
        limits["effects_max"] = chance.choice((1, 2, 4))
    if scene == "script" and chance.random() < 0.3:
        limits["inflight_max"] = chance.choice((1, 2, 3))
    if scene == "script" and chance.random() < 0.3:
        limits["mailbox_max"] = chance.choice((1, 2, 5))
    if chance.random() < 0.4:
        limits["idempotency_window"] = log(chance, SECOND, 86_400 * SECOND)
    return Config(
        batch=log(chance, 1, 1000),
        cell_cache=log(chance, 1, 4096),
        resident_bytes_max=chance.choice((1, 300, 1 << 28)),
        snapshot_every=log(chance, 1, 500),
        burst=chance.choice((1, 1, 4, 30)),
        flush_ns=log(chance, MS // 10, 2 * SECOND),
        span_ns=log(chance, SECOND, 600 * SECOND),
        scene=scene,
        limits=limits,
    )


# ---- faults ---------------------------------------------------------------------------------


def _faults(chance: Random, config: Config) -> list[Decision]:
    """Half of the classes are off; those that end a run early are rare."""
    on = [c for c in CLASSES[:5] if chance.random() < 0.5]
    on += [c for c in CLASSES[5:] if chance.random() < 0.08]
    made: list[Decision] = []
    for name in on:
        most = 1 if name in ("lying", "corrupt") else 5 if name != "outside" else 16
        count = chance.randint(1, most)
        made += [{"fault": name, **_FAULTS[name](chance, config)} for _ in range(count)]
    return made


def _crash(chance: Random, _config: Config) -> Decision:
    point = chance.choice(POINTS)
    side = chance.choice(("before", "after"))
    return {"point": point, "nth": log(chance, 1, 60) - 1, "side": side}


def _flush(chance: Random, _config: Config) -> Decision:
    kinds = [kind for kind in FLUSH_FAULTS if kind != "lying"]
    return {"nth": log(chance, 1, 60), "kind": chance.choice(kinds)}


def _outside(chance: Random, _config: Config) -> Decision:
    return {"nth": log(chance, 1, 30) - 1, "kind": chance.choice(OUTSIDE_FAULTS)}


def _clock(chance: Random, config: Config) -> Decision:
    kind = chance.choice(("jump", "jump", "freeze"))
    by = chance.choice((-YEAR, YEAR, -3600 * SECOND, 3600 * SECOND, -SECOND))
    return {"at": int(chance.random() * config.span_ns), "kind": kind, "by": by}


def _second(chance: Random, config: Config) -> Decision:
    return {"at": int(chance.random() * config.span_ns), "write": chance.random() < 0.5}


def _lying(chance: Random, _config: Config) -> Decision:
    return {"nth": log(chance, 1, 60)}


def _corrupt(chance: Random, config: Config) -> Decision:
    kind = chance.choice(("flip", "flip", "roll_back", "lose_blob"))
    at = int(chance.random() * config.span_ns)
    return {"at": at, "kind": kind, "pick": chance.random()}


_FAULTS: Final = {
    "crash": _crash,
    "flush": _flush,
    "outside": _outside,
    "clock": _clock,
    "second": _second,
    "lying": _lying,
    "corrupt": _corrupt,
}
