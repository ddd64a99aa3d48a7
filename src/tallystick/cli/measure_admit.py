"""What admission costs: twenty rules and three flows, one effect at a time (AG-14)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from tallystick.cli.here import modules_of
from tallystick.cli.pace import beat_us, cpu_of
from tallystick.kernel.admit import Asking, Case, judge
from tallystick.kernel.draft import Draft
from tallystick.kernel.parts import Cell
from tallystick.kernel.world import World
from tallystick.model.abi import EffectRequest
from tallystick.model.bundle import Bundle, make_bundle
from tallystick.model.cells import CellId
from tallystick.model.manifest_sources import canonical_sources
from tallystick.model.records import IntentOpened
from tallystick.modules.source import bundle_of
from tallystick.node.config import config_of
from tallystick.node.host import close_node, open_node
from tallystick.values import canon

RULES: Final = 20
BLOCK: Final = 100  # judgements between two beats: a pace counts only for the moment it is taken in
_SOURCE: Final = '''
"""A workflow that asks for one effect."""

from tallystick import Bundle, Ctx, Effect, Nat, Record

app = Bundle("bench")


class Asked(Record):
    name: str


class Done(Record):
    ok: bool


class Work(Effect[Done], executor="worker", timeout="1h"):
    model: str
    tokens: Nat


@app.workflow(key="name", effects=[Work])
def ask(state: Asked | None, event: Asked | Work.Settled, ctx: Ctx) -> Asked | None:
    return state
'''
_EFFECT: Final = "bench/Work@1"
_FLOW: Final = "bench/ask@1"
_PARAMS: Final = canon.encode({"model": "m-large", "tokens": 50})


# tidy: one manifest, all of its sections.
def governed_bundle() -> Bundle:
    """A world whose requests meet nineteen rules that say nothing, one that allows, three flows."""
    made: Bundle = bundle_of({"app.py": _SOURCE.encode()})
    rules: list[dict[str, Any]] = [
        {
            "id": f"no-{number}",
            "when": {"effect": _EFFECT},
            "where": f"{{{{ params.tokens > {100 + number} and params.model == 'm-{number}' }}}}",
            "decision": "deny",
        }
        for number in range(RULES - 1)
    ]
    rules.append({"id": "rest", "when": {"origin": "workflow"}, "decision": "allow"})
    policy = {"$kind": "defpolicy", "name": "bench/rules@1", "rules": rules}
    match = {"effect": _EFFECT}
    flows = [
        {"name": "open", "match": match, "max_open": {"world": 10**6, "cell": 10**6}},
        {"name": "rate", "match": match, "rate": {"count": 10**6, "per_ns": 10**9, "burst": 10**6}},
        {
            "name": "paid",
            "match": match,
            "keyed": {"key": "{{ params.model }}", "max_open": 10**6},
            "budget": {"name": "month", "cost": "{{ params.tokens }}"},
        },
    ]
    budgets = [{"name": "month", "unit": "tokens", "limit": 10**12}]
    grants = made.manifest["authority"]["grants"]
    authority = {
        "grants": grants,
        "policies": ["bench/rules@1"],
        "flows": flows,
        "budgets": budgets,
    }
    manifest = {**made.manifest, "authority": authority}
    manifest.pop("policies", None)
    nodes = [node for node in made.definitions() if node["$kind"] != "defpolicy"]
    definitions, whole = canonical_sources([[*nodes, policy], manifest])
    artifacts = {hash_: held.data for hash_, held in made.artifacts.items()}
    return make_bundle(definitions, whole, artifacts)


class Admitted(NamedTuple):
    """The median cost of admitting one effect, in microseconds, and the pace meanwhile."""

    us: float
    cpu: float


def timed(world: World, n: int) -> Admitted:
    """Judge n requests, with a beat after each block; each opens an intent, or it is wrong."""
    took: list[float] = []
    beats: list[float] = []
    for first in range(0, n, BLOCK):
        took += [_judged(world, number) for number in range(first, min(n, first + BLOCK))]
        beats.append(beat_us())
    return Admitted(median(took), cpu_of(beats))


def _judged(world: World, number: int) -> float:
    """One judgement, in microseconds."""
    ident = CellId(_FLOW, canon.encode(f"c{number % 64}"))
    draft = Draft(world)
    workflow = world.active.catalogue.workflows[_FLOW]
    asking = Asking(Cell(ident, world.seq + 1), workflow, world.seq + 1, world.logical_ns + 1)
    case = Case(draft, asking, 0, EffectRequest(_EFFECT, _PARAMS))
    begun = time.perf_counter()
    judge(case)
    took = (time.perf_counter() - begun) * 1e6
    assert isinstance(draft.records[-1], IntentOpened), "the last rule allows it"
    return took


def admit_figure(folder: Path, n: int) -> Admitted:
    """What admitting one effect costs."""

    async def run() -> Admitted:
        node = await open_node(config_of(folder, {}, {}), modules_of())
        try:
            world = await node.create("main", governed_bundle())
            return await node.look(world, lambda live: timed(live, n))
        finally:
            await close_node(node, 0)

    return asyncio.run(run())
