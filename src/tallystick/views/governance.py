"""Governance for readers: proposals, who may do what, how full the flows are, who is pinned."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from tallystick.authority.flow import Flow
from tallystick.errors import UnknownName
from tallystick.kernel.parts import Cell
from tallystick.kernel.proposals import APPROVED, FINAL, SHADOWED, STALE, SUBMITTED, Proposal
from tallystick.kernel.propose import rules_in_force, standing
from tallystick.kernel.world import World
from tallystick.values import canon
from tallystick.views.pages import LIMIT_MAX, Page, known, listed, number_cursor
from tallystick.views.shown import key_json

STATES: Final = (SUBMITTED, SHADOWED, APPROVED, STALE, *FINAL)


def proposal_list(world: World, page: Page, status: str | None = None) -> dict[str, Any]:
    """Proposals in the order they came, with where each stands now."""
    page.checked()
    known("state", status, STATES)
    after = 0 if page.after is None else number_cursor(page.after)
    rows = [_brief(world, one) for one in world.proposals if int(one.id[2:]) > after]
    found = [row for row in rows if status is None or row["state"] == status]
    more = len(found) > page.limit
    items = found[: page.limit]
    return listed(items, items[-1]["proposal"][2:] if more else None, world.seq)


def proposal_show(world: World, ident: str) -> dict[str, Any]:
    """One proposal whole: what it changes, what was said, and what is missing."""
    found = world.proposals.get(ident)
    if found is None:
        raise UnknownName(
            f"no proposal {ident} here",
            code="gov.unknown_proposal",
            where={"proposal": ident},
            hint="`tally gov ls` lists them",
        )
    rules = rules_in_force(world)
    return {
        **_brief(world, found),
        "manifest": canon.text_of(found.manifest),
        "patch": canon.text_of(found.patch),
        "approvals": [{"principal": each.principal, "seq": each.seq} for each in found.votes],
        "rules": {**rules._asdict(), "require": list(rules.require)},
        "code": found.code,
        "as_of": world.seq,
    }


def _brief(world: World, one: Proposal) -> dict[str, Any]:
    return {
        "proposal": one.id,
        "state": standing(world, one),
        "author": one.author,
        "base": canon.text_of(one.base),
        "bundle": canon.text_of(one.bundle),
        "report_hash": _text(one.report),
        "complete": one.complete,
        "proof_hash": _text(one.proof),
        "votes": len(one.votes),
        "needed": rules_in_force(world).approvals,
    }


def _text(digest: bytes | None) -> str | None:
    return None if digest is None else canon.text_of(digest)


# ---- authority ------------------------------------------------------------------------------


# tidy: one shape, all of its fields.
def authority(world: World) -> dict[str, Any]:
    """Grants with what became of them, rules in their order, who governs, and pinned cells."""
    catalogue = world.active.catalogue
    manifest = catalogue.manifest
    held = manifest.get("governance", {})
    rules = rules_in_force(world)
    return {
        "manifest": canon.text_of(world.manifest),
        "grants": [
            {
                "name": grant.name,
                "cap": grant.cap,
                "cap_type": grant.cap_type,
                "params": dict(grant.params),
                "expires_ns": grant.expires_ns,
                "grant_hash": canon.text_of(grant.hash),
                "revoked": world.revoked.get(grant.name),
            }
            for grant in catalogue.grants.values()
        ],
        "revoked": dict(world.revoked),
        "bindings": manifest.get("module_bindings", {}),
        "policies": [
            {"policy": policy.name, "rules": [dict(rule) for rule in policy.rules]}
            for policy in catalogue.policies
        ],
        "principals": [
            {key: each[key] for key in each if key != "key"} | {"has_key": "key" in each}
            for each in held.get("principals", ())
        ],
        "rules": {**rules._asdict(), "require": list(rules.require)},
        "pins": pins(world),
        "as_of": world.seq,
    }


def pins(world: World, most: int = LIMIT_MAX) -> dict[str, Any]:
    """The cells that still run under older definitions: some of them, and how many."""
    found = (
        cell
        for name in sorted(world.cells)
        for _, cell in world.cells[name].entries()
        if cell.pin is not None
    )
    items = [_pin(cell) for cell in islice(found, min(most, world.pinned))]
    return {"items": items, "count": world.pinned}


def _pin(cell: Cell) -> dict[str, Any]:
    assert cell.pin is not None, "only asked of a pinned one"
    return {
        "workflow": cell.id.workflow,
        "key": key_json(cell.id.key),
        "manifest": canon.text_of(cell.pin),
        "last_seq": cell.last_seq,
    }


# ---- flows ----------------------------------------------------------------------------------


def flows(world: World) -> dict[str, Any]:
    """How full each flow is, place by place, and what is left of each budget."""
    levels, now_ns = world.levels, world.logical_ns
    return {
        "flows": [_flow(world, flow) for flow in world.active.flows.values()],
        "budgets": [_budget(name, row, world) for name, row in sorted(levels.budgets.items())],
        "queue": [
            {"intent": canon.text_of(each.intent), "place": place, "asked_seq": each.tick_seq}
            for place, each in enumerate(levels.queue[:LIMIT_MAX])
        ],
        "queued": len(levels.queue),
        "now_ns": now_ns,
        "as_of": world.seq,
    }


def _flow(world: World, flow: Flow) -> dict[str, Any]:
    levels = world.levels
    prefix = flow.name + " "
    rates = {place: tat for place, tat in levels.tats.items() if _of(place, flow.name)}
    return {
        "flow": flow.name,
        "max_open": dict(flow.most),
        "open": {
            place.removeprefix(prefix): count
            for place, count in sorted(levels.open.items())
            if count and place.startswith(prefix)
        },
        "queued": {
            place.removeprefix(prefix): count
            for place, count in sorted(levels.queued.items())
            if count and _of(place, flow.name)
        },
        "next_ns": {
            place.removeprefix(prefix): flow.earliest_ns(tat)
            for place, tat in sorted(rates.items())
            if flow.gap_ns is not None and tat > world.logical_ns
        },
        "over": "queue" if flow.queues else "deny",
    }


def _of(place: str, name: str) -> bool:
    return place == name or place.startswith(name + " ")


def _budget(name: str, row: tuple[int, int, int], world: World) -> dict[str, Any]:
    """One place of a budget; its name begins with the budget's own."""
    known: Mapping[str, Any] = {each["name"]: each for each in world.active.catalogue.budgets}
    budget = known.get(name.partition(" ")[0])
    window, spent, reserved = row
    limit = None if budget is None else budget["limit"]
    return {
        "budget": name,
        "unit": None if budget is None else budget["unit"],
        "limit": limit,
        "window": window,
        "spent": spent,
        "reserved": reserved,
        "free": None if limit is None else limit - spent - reserved,
    }
