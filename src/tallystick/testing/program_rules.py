"""The program of the scene of rules: desks that ask for what needs a yes, room, money or a worker.

One workflow, five effects; each word of an event asks for one of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tallystick.modules.python import Outcome
from tallystick.testing.bundle import Bundle, built
from tallystick.values import canon

MODULE: Final = "rule/code@1"
DESK: Final = "rule/desk@1"
GO: Final = "rule/Go@1"
RECEIPT: Final = "sys/EffectReceiptEnvelope@1"

PAY: Final = "rule/pay@1"  # needs two of three people, within a time
CALL: Final = "rule/call@1"  # two at a time in the world, one for each desk
PACED: Final = "rule/paced@1"  # two at once, then one for each gap of time
SPEND: Final = "rule/spend@1"  # out of a budget
FAR: Final = "rule/far@1"  # done by workers that lease it
EFFECTS: Final[Mapping[str, str]] = {
    "pay": PAY, "call": CALL, "paced": PACED, "spend": SPEND, "far": FAR,
}  # fmt: skip

SECOND: Final = 1_000_000_000
TTL_NS: Final = 40 * SECOND
GAP_NS: Final = 5 * SECOND
BURST: Final = 2
OPEN_WORLD: Final = 2
OPEN_CELL: Final = 1
QUEUE_MAX: Final = 4
LIMIT: Final = 30
NEEDED: Final = 2
BOSSES: Final = ("ann", "bob", "cyd")
VOTERS: Final = (*BOSSES, "eve")  # eve may not decide
SCOPES: Final = ["propose", "approve", "apply"]

_TEXT: Final[Any] = {"text": {}}
_NAT: Final[Any] = {"nat": {}}
_SCHEMAS: Final[Mapping[str, Any]] = {
    "rule/Key@1": _TEXT,
    GO: {"record": {"desk": _TEXT, "todo": {"list": _TEXT}, "n": _NAT}},
    "rule/State@1": {"record": {"heard": {"list": _TEXT}, "asked": _NAT}},
    "rule/Params@1": {"record": {"desk": _TEXT, "n": _NAT}},
    "rule/Done@1": {"record": {"ref": _TEXT}},
    "rule/Event@1": {"variant": {"Go": {"ref": GO}, "Receipt": {"ref": RECEIPT}}},
}


def desk(state: Any, event: Any, _ctx: Any) -> Any:
    """Ask for what the words say; remember how each ended."""
    tag, value = event["$tag"], event["$value"]
    kept: dict[str, Any] = dict(state or {"heard": [], "asked": 0})
    if tag == "Receipt":
        said = f"{value['issuer_ref']}:{value['status']['$tag']}"
        kept["heard"] = [*kept["heard"], said][-8:]
        return kept
    params = {"desk": value["desk"], "n": value["n"]}
    kept["asked"] += len(value["todo"])
    asked = [{"effect": EFFECTS[w], "params": params, "issuer_ref": w} for w in value["todo"]]
    return Outcome(kept, effects=asked)


FUNCTIONS: Final = {(MODULE, "desk"): desk}


def _effect(name: str) -> dict[str, Any]:
    return {
        "$kind": "defeffect",
        "name": name,
        "params": "rule/Params@1",
        "receipt": "rule/Done@1",
        "impl": {"module": "rule/outside@1", "entrypoint": "outside"},
    }


def _flows() -> list[dict[str, Any]]:
    return [
        {
            "name": "calls",
            "match": {"effect": CALL},
            "max_open": {"world": OPEN_WORLD, "cell": OPEN_CELL},
            "queue_max": QUEUE_MAX,
        },
        {
            "name": "pace",
            "match": {"effect": PACED},
            "rate": {"count": 1, "per_ns": GAP_NS, "burst": BURST},
            "queue_max": QUEUE_MAX,
        },
        {
            "name": "purse",
            "match": {"effect": SPEND},
            "budget": {"name": "purse", "cost": "{{ params.n }}"},
        },
    ]


# tidy: the definitions of one small program, in the order of reading.
def _sources(fuel: int) -> list[dict[str, Any]]:
    python = {
        "kind": "python",
        "python": "3.11",
        "artifact": {"kind": "python_bundle", "root_hash": "sha256:" + "2" * 64},
    }
    approval = {"by": ["role:boss"], "count": NEEDED, "ttl_ns": TTL_NS}
    rules = [
        {"id": "pay", "when": {"effect": PAY}, "decision": "require_approval"},
        {"id": "rest", "when": {"origin": "workflow"}, "decision": "allow"},
    ]
    rules[0] |= {"approval": approval, "reason": "it costs"}
    return [
        *({"$kind": "defschema", "name": n, "type": t} for n, t in _SCHEMAS.items()),
        {"$kind": "defmodule", "name": MODULE, "runtime": python},
        {"$kind": "defmodule", "name": "rule/outside@1", "runtime": {"kind": "external"}},
        *map(_effect, EFFECTS.values()),
        {"$kind": "defpolicy", "name": "rule/all@1", "rules": rules},
        {
            "$kind": "defworkflow",
            "name": DESK,
            "state": "rule/State@1",
            "event": "rule/Event@1",
            "effects_emitted": sorted(EFFECTS.values()),
            "lifecycle": "entity",
            "key_schema": "rule/Key@1",
            "impl": {"module": MODULE, "entrypoint": "desk"},
            "cap_slots": {"any": "effect"},
        },
        _manifest(fuel),
    ]


def _manifest(fuel: int) -> dict[str, Any]:
    people = [
        {"id": who, "kind": "human", "roles": ["boss"], "scopes": SCOPES}
        if who in BOSSES
        else {"id": who, "kind": "human", "scopes": ["read"]}
        for who in VOTERS
    ]
    budget = {"name": "purse", "unit": "tokens", "limit": LIMIT, "scope": "world"}
    return {
        "$kind": "manifest",
        "air_version": "2",
        "routing": {"subscriptions": [{"event": GO, "workflow": DESK, "key_field": "desk"}]},
        "authority": {
            "grants": [{"name": "any", "cap": "sys/effect@1", "params": {}}],
            "policies": ["rule/all@1"],
            "flows": _flows(),
            "budgets": [budget],
        },
        "governance": {"principals": people, "rules": {"approvals": 1}},
        "module_bindings": {DESK: {"slots": {"any": "any"}}},
        "limits": {"fuel": fuel},
    }


@lru_cache(maxsize=4)
def bundle_of(fuel: int) -> Bundle:
    """The bundle of the desks; two that differ in one limit are two bundles."""
    return built(_sources(fuel))


def go(who: str, todo: list[str], n: int) -> dict[str, Any]:
    """The event that tells a desk what to ask for."""
    return {"desk": who, "todo": todo, "n": n}


def cost_of(params: bytes | None) -> int:
    """What a request wants to spend."""
    return int(canon.decode(params or b"")["n"])
