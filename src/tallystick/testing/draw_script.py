"""Operations on the scripted workflows: random lists of words, keys, duplicates and bad bytes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tallystick.testing import program
from tallystick.testing.chances import key, log, spread, upkeep
from tallystick.testing.plan import Config, Decision
from tallystick.testing.ports import MS, SECOND

_ARGS: Final[Mapping[str, tuple[str, ...]]] = {
    "keyed": ("a", "b"),
    "conflict": ("a", "b"),
    "mix": ("a", "b"),
    "many": ("2", "3", "5"),
    "cancel": ("c", "timer", "ka", "bulk"),
    "done": ("", "", "", "bad", "self", "spawn", "charge", "a"),
    "delete": ("", "", "bad", "self", "spawn", "charge", "a"),
}
_LIKELY: Final = ("charge", "charge", "keyed", "timer", "timed", "call", "post", "done", "bulk")
_WORKFLOW_OF: Final = {
    program.START: program.ORDER,
    program.BEGIN: program.BARE,
    program.TOUCH: program.FRAGILE,
    program.DEPOSIT: program.ACCOUNT,
}


def _word(chance: Random, keys: int) -> str:
    word = chance.choice(_LIKELY if chance.random() < 0.5 else tuple(program.WORDS))
    if word in ("timer", "timed"):
        return f"{word}:{log(chance, MS, 100 * SECOND)}"
    if word in ("spawn", "call"):
        return f"{word}:{key(chance, keys)}"
    args = _ARGS.get(word)
    return f"{word}:{chance.choice(args)}" if args else word


def _value(chance: Random, schema: str, keys: int) -> dict[str, Any]:
    if schema == program.DEPOSIT:
        amount = chance.randrange(40)
        return {"account": key(chance, keys), "amount": amount, "ref": chance.randrange(1000)}
    words = [_word(chance, keys) for _ in range(chance.choice((0, 1, 1, 2, 3, 4)))]
    return {"order": key(chance, keys), "todo": words}


def _send(chance: Random, keys: int, idem: dict[str, Any]) -> dict[str, Any]:
    schemas = (program.START, program.BEGIN, program.TOUCH, program.POKE, program.DEPOSIT)
    schema = chance.choice((*schemas, program.DEPOSIT, program.START))
    made: dict[str, Any] = {"do": "send", "schema": schema, "value": _value(chance, schema, keys)}
    roll = chance.random()
    if roll < 0.3:
        name = f"i{chance.randrange(6)}"
        known = idem.setdefault(name, made)
        if chance.random() < 0.7:
            # The same key with the same event: the first answer again, and one record.
            made = {"do": "send", "schema": known["schema"], "value": known["value"]}
        made["idem"] = name
    elif roll < 0.36:
        made["schema"] = chance.choice((program.RECEIPT, "sim/Nothing@1"))
    elif roll < 0.42:
        made["value"] = chance.choice(({}, {"order": 3}, None, [1]))
    return made


def _operation(chance: Random, keys: int, idem: dict[str, Any]) -> dict[str, Any]:
    roll = chance.random()
    if roll < 0.72:
        return _send(chance, keys, idem)
    if roll < 0.84:
        return {
            "do": "operate",
            "verb": chance.choice(("suspend", "resume", "resume", "skip", "cancel")),
            "workflow": chance.choice(tuple(_WORKFLOW_OF.values())),
            "key": key(chance, keys),
            "force": chance.random() < 0.3,
        }
    return upkeep(chance)


def _collections(chance: Random, made: list[Decision]) -> list[Decision]:
    """Collections while what was sent by digest is still in use: by chance they hardly meet."""
    large = [each for each in made if "bulk" in _todo(each)]
    return [
        {"do": "gc", "at": each["at"] + log(chance, MS, SECOND)}
        for each in large
        if chance.random() < 0.6
    ]


def _todo(decision: Decision) -> list[str]:
    value = decision.get("value")
    return value.get("todo", []) if isinstance(value, dict) else []


def operations(chance: Random, config: Config) -> list[Decision]:
    """What happens to the scripted workflows of one run."""
    keys = log(chance, 1, 12)
    idem: dict[str, Any] = {}
    made = [_operation(chance, keys, idem) for _ in range(log(chance, 6, 60))]
    timed: list[Decision] = [*spread(chance, config.span_ns, made)]
    return sorted([*timed, *_collections(chance, timed)], key=lambda each: each["at"])
