"""Defects of approvals, flows, budgets, proposals and leases."""

from __future__ import annotations

from tallystick.kernel import approve, capacity, govern
from tallystick.kernel.levels import Levels
from tallystick.kernel.proposals import Proposals
from tallystick.node.leases import Leases
from tests.simulation.planted.swap import swapped

_shadowed = Proposals.shadowed
_status_of = govern.status_of  # type: ignore[attr-defined]


def anybody_approves():
    return swapped((approve, "_check_right", lambda _world, _given, _detail: None))


def approvals_never_expire():
    return swapped((approve, "_check_time", lambda _given, _detail, _logical_ns: None))


def a_full_flow_lets_out():
    return swapped((capacity, "tight_in", lambda *_: []))


def a_refund_is_forgotten():
    def spend(self, claims, usage, *, out):
        """What was set aside stays so for ever."""

    return swapped((Levels, "spend", spend))


def a_shadow_keeps_old_votes():
    def shadowed(self, record):
        votes = self.get(record.proposal).votes
        _shadowed(self, record)
        self._change(record.proposal, votes=votes)

    return swapped((Proposals, "shadowed", shadowed))


def apply_without_a_yes():
    def status_of(proposal, manifest, rules):
        found = _status_of(proposal, manifest, rules)
        return "approved" if found == "shadowed" else found

    return swapped((govern, "status_of", status_of))


def leases_forgotten_at_restart():
    return swapped((Leases, "remember", lambda _self, _world, _rows: None))


DEFECTS = {
    "anybody approves": anybody_approves,
    "approvals never expire": approvals_never_expire,
    "a full flow lets out": a_full_flow_lets_out,
    "a refund is forgotten": a_refund_is_forgotten,
    "a shadow keeps old votes": a_shadow_keeps_old_votes,
    "apply without a yes": apply_without_a_yes,
    "leases forgotten at restart": leases_forgotten_at_restart,
}
