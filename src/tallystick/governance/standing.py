"""What a candidate changes whether or not anything of it ran: allow lists, grants, rules."""

from __future__ import annotations

from typing import Any

from tallystick.authority.attenuate import attenuate
from tallystick.authority.denial import Denial
from tallystick.model.catalogue import Catalogue, Grant
from tallystick.values import canon
from tallystick.values.names import is_reserved


def allowlists(base: Catalogue, candidate: Catalogue) -> list[dict[str, Any]]:
    """The workflows whose allowed effects change."""
    found: list[dict[str, Any]] = []
    for name in sorted({**base.workflows, **candidate.workflows}):
        old, new = base.workflows.get(name), candidate.workflows.get(name)
        before = frozenset() if old is None else old.effects_emitted
        after = frozenset() if new is None else new.effects_emitted
        if is_reserved(name) or before == after:
            continue
        found.append(
            {
                "workflow": name,
                "effects_emitted": sorted(after),
                "added": sorted(after - before),
                "removed": sorted(before - after),
            }
        )
    return found


def authority(base: Catalogue, candidate: Catalogue) -> dict[str, Any]:
    """What changes about grants and rules; a widened grant is named by its field."""
    old, new = base.grants, candidate.grants
    return {
        "grants_added": sorted(name for name in new if name not in old),
        "grants_removed": sorted(name for name in old if name not in new),
        "grants_widened": [
            f"{name}.{field}"
            for name in sorted(new)
            if name in old
            for field in _widened(old[name], new[name])
        ],
        "rules_changed": _rules_changed(base, candidate),
    }


def _widened(old: Grant, new: Grant) -> list[str]:
    """The fields in which a grant allows more than before."""
    if old.cap != new.cap:
        return ["cap"]
    # A field that is gone is unrestricted now.
    held = (name for name, value in sorted(old.params.items()) if value is not None)
    found = [name for name in held if new.params.get(name) is None]
    for name, value in sorted(new.params.items()):
        if isinstance(attenuate(old, {name: value}, None, new.name), Denial):
            found.append(name)
    ends = (old.expires_ns, new.expires_ns)
    if ends[0] is not None and (ends[1] is None or ends[1] > ends[0]):
        found.append("expires_ns")
    return sorted({*found})


def _rules_changed(base: Catalogue, candidate: Catalogue) -> list[int]:
    old, new = (
        [canon.encode(dict(r)) for p in c.policies for r in p.rules] for c in (base, candidate)
    )
    both = range(max(len(old), len(new)))
    return [n for n in both if old[n : n + 1] != new[n : n + 1]]
