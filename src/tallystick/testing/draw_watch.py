"""People at a watched directory: edits and looks, and what operators do meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

from tallystick.testing.chances import log, spread, upkeep
from tallystick.testing.plan import Config, Decision


def operations(chance: Random, config: Config) -> list[Decision]:
    """What happens to the workspace of one run."""
    made: list[dict[str, Any]] = [{"do": "send", "look": True} for _ in range(4)]
    made += [_operation(chance, n) for n in range(log(chance, 4, 30))]
    return [*spread(chance, config.span_ns, made)]


def _operation(chance: Random, n: int) -> dict[str, Any]:
    roll = chance.random()
    if roll < 0.2:
        # Contents come back: what was made of them once is made again.
        return {"do": "send", "edit": "a.txt", "text": f"a{chance.randrange(4)}"}
    if roll < 0.4:
        return {"do": "send", "edit": "f.txt", "text": f"f{n}"}
    if roll < 0.75:
        return {"do": "send", "look": True}
    if roll < 0.85:
        verb = chance.choice(("suspend", "resume", "resume"))
        target = {"workflow": "sys/workspace@1", "key": "ws"}
        return {"do": "operate", "verb": verb, **target, "force": False}
    return upkeep(chance)
