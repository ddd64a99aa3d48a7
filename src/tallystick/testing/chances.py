"""What every scene of a simulation draws alike."""

from __future__ import annotations

from random import Random
from typing import Any


def log(chance: Random, low: int, high: int) -> int:
    """A number between, each magnitude as likely as the next."""
    return int(low * (high / low) ** chance.random())


def key(chance: Random, keys: int) -> str:
    """Some keys are hot: the first is asked for more often than all others."""
    return f"k{min(int(chance.expovariate(3 / keys)), keys)}"


def upkeep(chance: Random) -> dict[str, Any]:
    """Something that operators do to any world."""
    kind = chance.choice(("activate", "activate", "trust", "revoke", "gc", "fork", "audit", "pin"))
    if kind == "fork":
        pending = chance.choice(("suspend", "suspend", "suspend", "cancel", "reissue"))
        return {"do": kind, "pick": chance.random(), "pending": pending}
    return {"do": kind}


def spread(chance: Random, span_ns: int, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations with their times, in order."""
    timed = [{**each, "at": int(chance.random() * span_ns)} for each in made]
    return sorted(timed, key=lambda each: each["at"])
