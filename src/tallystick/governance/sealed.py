"""Sealed bundles: Python that comes from elsewhere is somebody's who may propose (06 section 6).

Where the manifest in force lists no key of such a principal there is nobody to seal, and the scope
of the caller's token is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tallystick.authority.approvals import key_of
from tallystick.errors import BadDefinition, NotCanonical
from tallystick.model.bundle import Bundle
from tallystick.values import canon, seal

_SCOPE: Final = "propose"

Principals = Sequence[Mapping[str, Any]]


def check_sealed(candidate: Bundle, active: Bundle, principals: Principals) -> None:
    """Refuse new Python without a seal of somebody who may propose: `bundle.unsigned`."""
    keys = list(_keys(principals))
    fresh = _python(candidate).keys() - _python(active).keys()
    if not keys or not fresh:
        return
    statement = seal.bundle_statement(bundle=candidate.root)
    for made in _seals(candidate):
        if any(seal.verify(public, statement, made) for public in keys):
            return
    raise BadDefinition(
        "the bundle brings Python that nobody sealed who may propose",
        code="bundle.unsigned",
        where={"bundle": candidate.root, "artifacts": sorted(fresh)},
        hint="seal the bundle with the key of a principal with the scope propose",
    )


def _keys(principals: Principals) -> Iterator[bytes]:
    for one in principals:
        public = key_of(one["id"], principals)
        if public is not None and _SCOPE in one.get("scopes", ()):
            yield public


def _python(bundle: Bundle) -> dict[str, None]:
    """The Python artifacts of a bundle, by hash."""
    found: dict[str, None] = {}
    for node in bundle.definitions():
        runtime = node.get("runtime", {})
        if runtime.get("kind") == "python":
            found[runtime["artifact"]["root_hash"]] = None
    return found


def _seals(bundle: Bundle) -> list[Any]:
    if bundle.seals is None:
        return []
    try:
        found = canon.decode(bundle.seals)
    except NotCanonical:
        return []
    return found if isinstance(found, list) else []
