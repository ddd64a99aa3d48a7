"""Approvals: who may decide about intents and proposals, and whose seal it carries (06 section 3).

A rule names principals by id, or `role:NAME` for all who have the role in the manifest in force.
A rule that names nobody leaves the decision to every caller with the scope for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_KEY: Final = "ed25519:"

Principals = Sequence[Mapping[str, Any]]


def may_decide(principal: str, by: Sequence[str] | None, principals: Principals) -> bool:
    """True when the rule gives the decision to this principal."""
    if by is None or principal in by:
        return True
    roles = [role for one in principals if one["id"] == principal for role in one.get("roles", ())]
    return any(f"role:{role}" in by for role in roles)


def may_act(principal: str, scope: str, principals: Principals) -> bool:
    """True when the manifest in force gives a scope of governance to a principal.

    A manifest that lists nobody leaves it to the tokens of the node; a workflow must be listed.
    """
    if not principals and not principal.startswith("workflow:"):
        return True
    return any(one["id"] == principal and scope in one.get("scopes", ()) for one in principals)


def key_of(principal: str, principals: Principals) -> bytes | None:
    """The registered public key of a principal; None without a readable one."""
    for one in principals:
        text = one.get("key", "")
        if one["id"] == principal and text.startswith(_KEY):
            try:
                return bytes.fromhex(text.removeprefix(_KEY))
            except ValueError:
                return None
    return None
