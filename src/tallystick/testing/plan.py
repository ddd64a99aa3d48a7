"""Plans: what happens in one run, drawn from a seed before it begins.

A plan is a configuration and a list of decisions (client operations and faults).
Every decision stands alone, so that shrinking may drop any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tallystick.model.limits import DEFAULTS
from tallystick.node.points import NAMES as POINTS
from tallystick.testing import program
from tallystick.testing.disk import FLUSH_FAULTS
from tallystick.testing.ports import MS, OUTSIDE_FAULTS, SECOND, YEAR, stream

Decision = Mapping[str, Any]

CLASSES: Final = ("crash", "flush", "outside", "clock", "second", "lying", "corrupt")


@dataclass(frozen=True, slots=True)
class Config:
    """How a node is set up in one run; the defaults are the plainest."""

    batch: int = 1
    cell_cache: int = 4096
    resident_bytes_max: int = 1 << 28
    snapshot_every: int = 500
    burst: int = 1
    flush_ns: int = MS
    span_ns: int = 60 * SECOND
    limits: Mapping[str, int] = field(default_factory=dict)

    def bounds(self) -> dict[str, int]:
        """The limits of the manifest with their defaults."""
        return {**DEFAULTS, **self.limits}


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, whole: the same plan gives the same trace on any machine."""

    seed: str
    config: Config
    decisions: tuple[Decision, ...]

    def without(self, gone: frozenset[int]) -> Plan:
        """The same plan with some decisions left out, by index."""
        kept = tuple(d for i, d in enumerate(self.decisions) if i not in gone)
        return replace(self, decisions=kept)

    def json(self) -> dict[str, Any]:
        """The plan as a regress file holds it."""
        config = {name: getattr(self.config, name) for name in Config.__slots__}
        config["limits"] = dict(self.config.limits)
        return {
            "seed": self.seed,
            "config": config,
            "decisions": [dict(each) for each in self.decisions],
        }

    @classmethod
    def of_json(cls, raw: Mapping[str, Any]) -> Plan:
        """The plan of a regress file."""
        return cls(raw["seed"], Config(**raw["config"]), tuple(raw["decisions"]))


def draw(seed: str) -> Plan:
    """The plan of a seed."""
    config = _config(stream(seed, "config"))
    operations = _operations(stream(seed, "operations"), config)
    faults = _faults(stream(seed, "faults"), config)
    return Plan(seed, config, (*operations, *faults))


def _log(chance: Random, low: int, high: int) -> int:
    """A number between, each magnitude as likely as the next."""
    return int(low * (high / low) ** chance.random())


def _config(chance: Random) -> Config:
    limits: dict[str, int] = {}
    if chance.random() < 0.3:
        limits["effects_max"] = chance.choice((1, 2, 4))
    if chance.random() < 0.3:
        limits["inflight_max"] = chance.choice((1, 2, 3))
    if chance.random() < 0.3:
        limits["mailbox_max"] = chance.choice((1, 2, 5))
    if chance.random() < 0.4:
        limits["idempotency_window"] = _log(chance, SECOND, 86_400 * SECOND)
    return Config(
        batch=_log(chance, 1, 1000),
        cell_cache=_log(chance, 1, 4096),
        resident_bytes_max=chance.choice((1, 300, 1 << 28)),
        snapshot_every=_log(chance, 1, 500),
        burst=chance.choice((1, 1, 4, 30)),
        flush_ns=_log(chance, MS // 10, 2 * SECOND),
        span_ns=_log(chance, SECOND, 600 * SECOND),
        limits=limits,
    )


# ---- operations -----------------------------------------------------------------------------

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
        return f"{word}:{_log(chance, MS, 100 * SECOND)}"
    if word in ("spawn", "call"):
        return f"{word}:{_key(chance, keys)}"
    args = _ARGS.get(word)
    return f"{word}:{chance.choice(args)}" if args else word


def _key(chance: Random, keys: int) -> str:
    """Some keys are hot: the first is asked for more often than all others."""
    return f"k{min(int(chance.expovariate(3 / keys)), keys)}"


def _value(chance: Random, schema: str, keys: int) -> dict[str, Any]:
    if schema == program.DEPOSIT:
        amount = chance.randrange(40)
        return {"account": _key(chance, keys), "amount": amount, "ref": chance.randrange(1000)}
    words = [_word(chance, keys) for _ in range(chance.choice((0, 1, 1, 2, 3, 4)))]
    return {"order": _key(chance, keys), "todo": words}


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
            "key": _key(chance, keys),
            "force": chance.random() < 0.3,
        }
    kind = chance.choice(("activate", "activate", "trust", "revoke", "gc", "fork", "audit", "pin"))
    if kind == "fork":
        pending = chance.choice(("suspend", "suspend", "suspend", "cancel", "reissue"))
        return {"do": kind, "pick": chance.random(), "pending": pending}
    return {"do": kind}


def _operations(chance: Random, config: Config) -> list[Decision]:
    keys = _log(chance, 1, 12)
    idem: dict[str, Any] = {}
    made = []
    for _ in range(_log(chance, 6, 60)):
        at = int(chance.random() * config.span_ns)
        made.append({**_operation(chance, keys, idem), "at": at})
    return sorted(made, key=lambda each: each["at"])


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
    return {"point": point, "nth": _log(chance, 1, 60) - 1, "side": side}


def _flush(chance: Random, _config: Config) -> Decision:
    kinds = [kind for kind in FLUSH_FAULTS if kind != "lying"]
    return {"nth": _log(chance, 1, 60), "kind": chance.choice(kinds)}


def _outside(chance: Random, _config: Config) -> Decision:
    return {"nth": _log(chance, 1, 30) - 1, "kind": chance.choice(OUTSIDE_FAULTS)}


def _clock(chance: Random, config: Config) -> Decision:
    kind = chance.choice(("jump", "jump", "freeze"))
    by = chance.choice((-YEAR, YEAR, -3600 * SECOND, 3600 * SECOND, -SECOND))
    return {"at": int(chance.random() * config.span_ns), "kind": kind, "by": by}


def _second(chance: Random, config: Config) -> Decision:
    return {"at": int(chance.random() * config.span_ns), "write": chance.random() < 0.5}


def _lying(chance: Random, _config: Config) -> Decision:
    return {"nth": _log(chance, 1, 60)}


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
