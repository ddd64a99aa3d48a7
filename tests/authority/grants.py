"""Grants and requests as a loaded manifest gives them, for the tests of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallystick.authority.capabilities import CapabilityRequest, CapabilityYes, judge_capability
from tallystick.authority.denial import Denial
from tallystick.model.catalogue import Catalogue, Effect, Grant

NOW = 1_800_000_000_000_000_000
WORKFLOW = {"kind": "workflow", "workflow": "com.acme/order.step@1", "key": "o-17"}


def _nothing(name: str) -> dict[str, Any]:
    raise KeyError(name)


def catalogue(grants: Sequence[Mapping[str, Any]] = ()) -> Catalogue:
    """The catalogue of an empty manifest with these grants."""
    manifest: dict[str, Any] = {"$kind": "manifest", "air_version": "2"}
    manifest |= {"schemas": [], "modules": [], "workflows": [], "effects": []}
    manifest["authority"] = {"grants": [dict(grant) for grant in grants]}
    return Catalogue.load(manifest, _nothing)


EMPTY = catalogue()


def grant(cap: str, name: str = "g", **params: Any) -> Grant:
    """A grant of a `sys/` capability."""
    given = {"name": name, "cap": f"sys/{cap}@1"}
    if params:
        given["params"] = params  # type: ignore[assignment]  # a JSON object
    return catalogue([given]).grants[name]


def effect(name: str) -> Effect:
    """A `sys/` effect."""
    return EMPTY.effects[f"sys/{name}@1"]


def request(asked: Effect, held: Grant, params: Any, **changes: Any) -> CapabilityRequest:
    """A request of one effect with one bound grant in slot `s`."""
    plain = CapabilityRequest(
        effect=asked,
        slots={"s": held},
        declared={"s": asked.cap_type},
        cap_slot=None,
        params=params,
        origin=WORKFLOW,
        logical_now_ns=NOW,
        revoked=frozenset(),
        grants={held.name: held},
    )
    return plain._replace(**changes)


def judge(name: str, held: Grant, params: Any, **changes: Any) -> CapabilityYes | Denial:
    """The judgement of one `sys/` effect under one grant."""
    return judge_capability(request(effect(name), held, params, **changes))


def code_of(judged: CapabilityYes | Denial) -> str:
    """`ok`, or the code of the denial."""
    return judged.code if isinstance(judged, Denial) else "ok"
