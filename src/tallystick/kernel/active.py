"""What is compiled when a manifest becomes active: routes, rules and bound slots.

Nothing here is computed again on a hot path (11 section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from tallystick.authority.flow import Flows, compile_flows
from tallystick.authority.policy import PolicyVerdict, Rules
from tallystick.kernel.parts import Mail
from tallystick.model import envelopes
from tallystick.model.catalogue import Catalogue, Effect, Grant, Subscription, Upcast, Workflow
from tallystick.model.cells import CellId
from tallystick.model.effects import Site
from tallystick.model.records import JudgedGrant, JudgedRule
from tallystick.values import names

# Continuations reach a cell by their recorded origin, never through the routing table (K-13).
CONTINUATIONS: Final = frozenset(
    {envelopes.RECEIPT, envelopes.REJECTED, envelopes.PROGRESS, envelopes.CANCEL}
)


@dataclass(frozen=True, slots=True)
class Route:
    """One way from an event schema to a workflow; `forged` are arms that the kernel alone fills.

    `key_name` is the one field that the key is, where the path leads no further and no code is run.
    `filtered` says that the subscription takes some events only, `starts` that it gives a new cell
    its first state.
    """

    subscription: Subscription
    workflow: Workflow
    arm: str | None
    upcasts: tuple[Upcast, ...]
    key_path: tuple[str, ...]
    forged: frozenset[str] = frozenset()
    key_name: str | None = None
    filtered: bool = False
    starts: bool = False


class Agreed(NamedTuple):
    """What capability and policy said yes with, and the two as they are recorded.

    Without a verdict policy is asked each time: parameters, key or moment have a say.
    """

    effect: Effect
    site: Site
    held: Grant
    grant: JudgedGrant
    verdict: PolicyVerdict | None = None
    rule: JudgedRule | None = None


@dataclass(frozen=True, slots=True)
class Active:
    """The active manifest, compiled."""

    catalogue: Catalogue
    doors: frozenset[str]  # the schemas that anybody may send
    routes: Mapping[str, tuple[Route, ...]]
    rules: Rules
    slots: Mapping[str, Mapping[str, Grant]]
    flows: Flows
    # Prepared identities by (workflow, effect), made when first asked for.
    sites: dict[tuple[str, str], Site]
    # Agreements that no parameter or moment can take back, by (workflow, effect, cap slot).
    standing: dict[tuple[str, str, str | None], Agreed]
    # The grants of cells that have some of their own: what they were made of, slots, all by name.
    held: dict[CellId, tuple[Any, Mapping[str, Grant], Mapping[str, Grant]]]

    def way_of(self, workflow: str, mail: Mail) -> Route | None:
        """The subscription that an entry of a mailbox came by, as it is today; calls have none.

        Of several one without a filter: an entry does not say who sent it.
        """
        found = None
        for way in self.routes.get(mail.schema, ()):
            if way.workflow.name == workflow and way.arm == mail.arm:
                if not way.filtered:
                    return way
                found = found or way
        return found

    def begins(self, workflow: str, mail: Mail) -> bool:
        """True when an entry is read by the cell that begins anew after a delete (K-35, X-01)."""
        if mail.schema in _CONTINUED:
            return False  # it is for the cell that asked
        way = self.way_of(workflow, mail)
        return way is None or way.subscription.create_if_missing


_CONTINUED: Final = frozenset({envelopes.RECEIPT, envelopes.REJECTED, envelopes.PROGRESS})


def activate(catalogue: Catalogue) -> Active:
    """Compile the tables of a catalogue."""
    return Active(
        catalogue=catalogue,
        doors=frozenset(name for name in catalogue.schemas if not names.is_reserved(name)),
        routes=_routes(catalogue),
        rules=Rules.compile(catalogue.policies),
        slots={
            workflow: {slot: catalogue.grants[name] for slot, name in bound.items()}
            for workflow, bound in catalogue.bindings.items()
        },
        flows=compile_flows(catalogue.flows, catalogue.budgets),
        sites={},
        standing={},
        held={},
    )


def _routes(catalogue: Catalogue) -> dict[str, tuple[Route, ...]]:
    table: dict[str, list[Route]] = {}
    for subscription in catalogue.subscriptions:
        workflow = catalogue.workflows[subscription.workflow]
        for schema, reached in _reached(catalogue, subscription, workflow):
            path = reached.key_path
            single = len(path) == 1 and subscription.key_fn is None
            filtered = bool(subscription.origins or subscription.tags)
            route = replace(
                reached,
                key_name=path[0] if single else None,
                filtered=filtered,
                starts=subscription.init_state is not None or subscription.init_fn is not None,
            )
            table.setdefault(schema, []).append(route)
            for older, chain in _older(schema, catalogue):
                upcast = replace(route, upcasts=chain)
                table.setdefault(older, []).append(upcast)
    return {schema: tuple(routes) for schema, routes in table.items()}


def _reached(
    catalogue: Catalogue, subscription: Subscription, workflow: Workflow
) -> list[tuple[str, Route]]:
    """The schemas a subscription takes: its own and, for a variant, those of its arms (K-31)."""
    path = tuple(subscription.key_field.split(".")) if subscription.key_field else ()
    own = subscription.event
    # A path may be written as seen in the variant; an arm that comes alone is not inside one yet.
    inner = path[1:] if path[:1] == ("$value",) else path
    if own != workflow.event_name:
        is_variant = "variant" in catalogue.schemas[own].type
        key_path = path if is_variant else inner
        return [(own, Route(subscription, workflow, workflow.arms[own], (), key_path))]
    found = [(own, Route(subscription, workflow, None, (), path, workflow_forged(workflow)))]
    for schema, tag in workflow.arms.items():
        if schema not in CONTINUATIONS:
            found.append((schema, Route(subscription, workflow, tag, (), inner)))
    return found


def workflow_forged(workflow: Workflow) -> frozenset[str]:
    """The tags of a workflow's event that hold `sys/` values: no sender may choose them (K-09)."""
    return frozenset(tag for name, tag in workflow.arms.items() if names.is_reserved(name))


def _older(schema: str, catalogue: Catalogue) -> list[tuple[str, tuple[Upcast, ...]]]:
    """Older schemas that upcasts lead from to this one, with the chain to run."""
    found: list[tuple[str, tuple[Upcast, ...]]] = []
    frontier: list[tuple[str, tuple[Upcast, ...]]] = [(schema, ())]
    while frontier:
        target, chain = frontier.pop(0)
        for older, upcast in catalogue.upcasts.items():
            if upcast.to == target and upcast not in chain:
                step = (older, (upcast, *chain))
                found.append(step)
                frontier.append(step)
    return found
