"""What a worker is told of a unit: the names that its pipeline reads, and nothing else.

Of `data`, what is empty is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.playbooks import files
from tallystick.playbooks.plan import Plan
from tallystick.playbooks.reading import SCOPES
from tallystick.playbooks.values import Kept


# tidy: one answer, all of its fields.
def params_of(state: Mapping[str, Any], plan: Plan, doc: str, name: str) -> dict[str, Any]:
    """The params of every unit of a run, but for what is its own: iteration, iter and resume."""
    run = state["runs"][name]
    step = run["step"]
    reads = plan.reads(step)
    ctx = {key: row["v"] for key, row in state["ctx"].items()}
    results = state["results"]
    workload = state["workload"]
    if reads is not None:
        results = {key: row for key, row in results.items() if key in reads}
        if "ctx" not in reads:
            ctx = {key: kept for key, kept in ctx.items() if key in reads}
        if "workload" not in reads and not _may_hold(workload, _bare(plan, step, reads)):
            workload = None
    join = run.get("join") if reads is None or "join" in reads else None
    data = {
        "args": run["args"],
        "ctx": ctx,
        "join": join,
        "results": results,
        "stamped": files.stamp_of(state) is not None,
        "workload": workload,
    }
    return {
        "execution": state["execution"],
        "run": name,
        "step": step,
        "doc": doc,
        "kinds": plan.kinds(step),
        "data": {name: value for name, value in data.items() if value},
    }


def own_iter(
    state: Mapping[str, Any], rules: Mapping[str, Any], items: list[Any], i: int
) -> dict[str, Any]:
    """The `iter` of one iteration; in a child, `parent` is that of the loop that called it."""
    made = {rules["iterator"]: items[i], "index": i}
    parent = state["parent"]
    if parent is not None and parent["iter"]:
        made["parent"] = parent["iter"]
    return made


def _bare(plan: Plan, step: str, reads: frozenset[str]) -> frozenset[str]:
    """The names that may be found in the workload: no scope, and not the item of the loop."""
    return reads - SCOPES - {plan.steps[step].get("loop", {}).get("iterator")}


def _may_hold(kept: Kept, names: frozenset[str]) -> bool:
    """True unless none of the names is a key of a kept map."""
    return bool(names) and ("h" in kept or any(key in names for key in kept["v"]))
