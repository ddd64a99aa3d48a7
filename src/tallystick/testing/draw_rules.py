"""Operations under rules: what desks ask for, who decides, and which workers come."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tallystick.testing import program_rules as program
from tallystick.testing.chances import key, log, spread, upkeep
from tallystick.testing.plan import Config, Decision
from tallystick.testing.ports import MS
from tallystick.testing.remote import WORKERS

_WORDS: Final = tuple(program.EFFECTS)
_HOW: Final = ("done", "done", "done", "late", "dies")
_SAID: Final = ("approve", "approve", "approve", "approve", "reject")
_GOVERN: Final = ("propose", "shadow", "shadow", "vote", "vote", "apply")


def _send(chance: Random, keys: int) -> dict[str, Any]:
    todo = [chance.choice(_WORDS) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
    return {"do": "send", "value": program.go(key(chance, keys), todo, chance.randint(1, 9))}


def _operation(chance: Random, keys: int) -> dict[str, Any]:
    roll, who, pick = chance.random(), chance.choice(program.VOTERS), chance.random()
    if roll < 0.38:
        return _send(chance, keys)
    if roll < 0.62:
        return {"do": "decide", "pick": pick, "who": who, "word": chance.choice(_SAID)}
    if roll < 0.74:
        how, worker = chance.choice(_HOW), chance.choice(WORKERS)
        return {"do": "lease", "who": worker, "most": chance.randint(1, 4), "how": how}
    if roll < 0.90:
        made = {"do": chance.choice(_GOVERN), "pick": pick, "who": who}
        return {**made, "word": chance.choice(_SAID), "tail": log(chance, 1, 60)}
    if roll < 0.93:
        cell = {"workflow": program.DESK, "key": key(chance, keys), "force": True}
        return {"do": "operate", "verb": "cancel", **cell}
    made = upkeep(chance)
    return {"do": "pin"} if made["do"] == "activate" else made


def _changed(chance: Random) -> list[dict[str, Any]]:
    """One change all the way, so that some are applied; now and then nobody is asked."""
    said = {"pick": 0.999, "who": program.BOSSES[0], "word": "approve", "tail": log(chance, 1, 60)}
    words = ["propose", "shadow", "vote", "apply"]
    if chance.random() < 0.25:
        words.remove("vote")
    return [{"do": name, **said} for name in words]


def operations(chance: Random, config: Config) -> list[Decision]:
    """What happens under rules in one run."""
    keys = log(chance, 1, 6)
    made = [_operation(chance, keys) for _ in range(log(chance, 6, 60))]
    timed = spread(chance, config.span_ns, made)
    if chance.random() < 0.5:
        at = int(chance.random() * config.span_ns)
        timed += [{**each, "at": at + i * 50 * MS} for i, each in enumerate(_changed(chance))]
    return sorted(timed, key=lambda each: each["at"])
