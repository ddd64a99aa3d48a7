"""Flow control, the pure half: which flows a request meets, what it asks of them (06 section 4).

A claim is a flow, the key within it, and the cost against its budget; it stands in the record of
the intent, so that folding needs no expression.
Rates are the generic cell rate algorithm on logical time: one integer per place, no refill job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallystick.authority.denial import Denial
from tallystick.authority.policy import (
    TRACKS_MAX,
    Names,
    Patterns,
    PolicyFacts,
    fits,
    names_of,
    scope_of,
    when_of,
)
from tallystick.errors import BadDefinition
from tallystick.values import canon
from tallystick.values.expr import (
    Expression,
    ExpressionFault,
    Run,
    compile_expression,
    shared_run,
)

STAGE: Final = "capacity"
QUEUE_MAX: Final = 10_000
_BURST_NS_MAX: Final = 2**63 - 1  # behind any moment there is still one that can be said


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent in one window; without a window, ever."""

    name: str
    unit: str
    limit: int
    scope: str
    window_ns: int | None


@dataclass(frozen=True, slots=True)
class Flow:
    """One compiled flow; `gap_ns` is the time between two at an even rate."""

    name: str
    when: tuple[tuple[str, Patterns], ...]
    most: Mapping[str, int]
    key: Expression | None
    gap_ns: int | None
    burst: int
    cost: Expression | None
    budget: Budget | None
    queues: bool
    queue_max: int

    @property
    def reads_key(self) -> bool:
        """True when one of its expressions names the key of the cell that asks."""
        return any(each is not None and "key" in each.names for each in (self.key, self.cost))

    def earliest_ns(self, tat_ns: int) -> int:
        """When the next one may pass, after the theoretical arrival time of the last."""
        assert self.gap_ns is not None, "only asked of a flow with a rate"
        return tat_ns - (self.burst - 1) * self.gap_ns


class Flows(dict[str, Flow]):
    """The flows of a manifest by name, in order.

    Which of them a request meets depends on names alone, so it is found once for each combination.
    """

    __slots__ = ("_met",)

    def __init__(self, flows: Mapping[str, Flow]) -> None:
        super().__init__(flows)
        self._met: dict[Names, tuple[Flow, ...]] = {}

    def met_by(self, facts: PolicyFacts) -> tuple[Flow, ...]:
        """The flows whose `match` fits a request."""
        names = names_of(facts)
        found = self._met.get(names)
        if found is None:
            if len(self._met) >= TRACKS_MAX:
                self._met.clear()
            found = tuple(flow for flow in self.values() if fits(flow.when, facts))
            self._met[names] = found
        return found


def compile_flows(
    flows: Sequence[Mapping[str, Any]], budgets: Sequence[Mapping[str, Any]]
) -> Flows:
    """The flows of a manifest by name, in order; refuses a bad expression or an unknown budget."""
    known = {
        raw["name"]: Budget(
            raw["name"], raw["unit"], raw["limit"], raw.get("scope", "world"), raw.get("window_ns")
        )
        for raw in budgets
    }
    return Flows({raw["name"]: _flow(raw, known) for raw in flows})


def _flow(raw: Mapping[str, Any], budgets: Mapping[str, Budget]) -> Flow:
    name = raw["name"]
    keyed, rate, paid = raw.get("keyed", {}), raw.get("rate"), raw.get("budget")
    most = dict(raw.get("max_open", {}))
    if "max_open" in keyed:
        most["key"] = keyed["max_open"]
    if paid is not None and paid["name"] not in budgets:
        raise _bad(name, "/budget/name", f"there is no budget {paid['name']}")
    gap_ns, burst = (None, 1) if rate is None else _pace(name, rate)
    return Flow(
        name=name,
        when=when_of(name, "/match", raw.get("match", {})),
        most=most,
        key=_expression(name, "/keyed/key", keyed.get("key")),
        gap_ns=gap_ns,
        burst=burst,
        cost=None if paid is None else _expression(name, "/budget/cost", paid["cost"]),
        budget=None if paid is None else budgets[paid["name"]],
        queues=raw.get("over", "queue") == "queue",
        queue_max=raw.get("queue_max", QUEUE_MAX),
    )


def _pace(name: str, rate: Mapping[str, Any]) -> tuple[int, int]:
    """The time between two at an even rate, and how many may come at once."""
    gap_ns, burst = max(rate["per_ns"] // rate["count"], 1), rate.get("burst", 1)
    if gap_ns * burst > _BURST_NS_MAX:
        raise _bad(name, "/rate", f"a burst lasts longer than {_BURST_NS_MAX} ns")
    return gap_ns, burst


def _expression(name: str, path: str, source: str | None) -> Expression | None:
    if source is None:
        return None
    try:
        return compile_expression(source, strict=True)
    except ExpressionFault as fault:
        raise _bad(name, path, f"{fault.code} {fault.message}") from fault


def _bad(name: str, path: str, message: str) -> BadDefinition:
    return BadDefinition(message, code="flow.bad_flow", where={"flow": name, "path": path})


def claims_of(flows: Flows, facts: PolicyFacts) -> list[dict[str, Any]] | Denial:
    """What a request asks of each flow that it meets, in order, as it is recorded.

    A key or a cost that cannot be computed denies.
    """
    made: list[dict[str, Any]] = []
    run: Run | None = None
    met = flows.met_by(facts)
    for flow in met:
        if flow.key is None and flow.cost is None:
            made.append({"flow": flow.name})
            continue
        if run is None:
            run = shared_run(scope_of(facts, reads_key=any(each.reads_key for each in met)))
        try:
            made.append(_claim(flow, run, facts))
        except ExpressionFault as fault:
            message = f"flow {flow.name}: {fault.code} {fault.message}"
            return Denial(STAGE, "flow.cost_fault", message, flow.name)
    return made


def _claim(flow: Flow, run: Run, facts: PolicyFacts) -> dict[str, Any]:
    claim: dict[str, Any] = {"flow": flow.name}
    if flow.key is not None:
        claim["key"] = _text(flow.key.evaluate_in(run))
    budget = flow.budget
    if flow.cost is not None and budget is not None:
        cost = flow.cost.evaluate_in(run)
        if type(cost) is not int or cost < 0:
            raise ExpressionFault("a cost is a natural number")
        claim["cost"] = cost
        claim["budget"] = budget.name + _place(budget, claim, facts)
        claim["unit"] = budget.unit
        claim["window"] = facts.now_ns // budget.window_ns if budget.window_ns else 0
    return claim


def _place(budget: Budget, claim: Mapping[str, Any], facts: PolicyFacts) -> str:
    """Whose purse of a budget pays."""
    match budget.scope:
        case "world":
            return ""
        case "workflow":
            return f" {facts.workflow}"
        case "cell":
            return f" {facts.workflow} {facts.key.hex()}"
        case _:
            return f" {claim.get('key', '')}"


def _text(value: Any) -> str:
    """A key as text; what is no text or number is named by its hash."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return canon.hash_of(canon.encode(value))
