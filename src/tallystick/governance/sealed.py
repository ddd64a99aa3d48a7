"""Sealed bundles: Python that comes from elsewhere is somebody's who may propose (06 section 6).

Where the manifest in force lists no key of such a principal there is nobody to seal, and the scope
of the caller's token is what counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick.authority.approvals import key_of
from tallystick.errors import BadDefinition, NotCanonical
from tallystick.model.bundle import Bundle
from tallystick.values import canon, seal

_SCOPE: Final = "propose"

Principals = Sequence[Mapping[str, Any]]


def check_sealed(candidate: Bundle, active: Bundle, principals: Principals) -> None:
    """Refuse new Python without a seal of somebody who may propose: `bundle.unsigned`."""
    keys = proposers(principals)
    fresh = _python(candidate).keys() - _python(active).keys()
    if not keys or not fresh or is_sealed(candidate, keys):
        return
    raise BadDefinition(
        "the bundle brings Python that nobody sealed who may propose",
        code="bundle.unsigned",
        where={"bundle": candidate.root, "artifacts": sorted(fresh)},
        hint="`tally bundle seal FILE --key ID`, with a key of a principal with the scope propose",
    )


def is_sealed(bundle: Bundle, keys: Sequence[bytes]) -> bool:
    """True when one of these keys has sealed the bundle."""
    statement = seal.bundle_statement(bundle=bundle.root)
    made = seals_of(bundle)
    return any(seal.verify(public, statement, each) for each in made for public in keys)


def proposers(principals: Principals) -> list[bytes]:
    """The keys of those who may propose."""
    found = (key_of(one["id"], principals) for one in principals if _SCOPE in one.get("scopes", ()))
    return [public for public in found if public is not None]


def _python(bundle: Bundle) -> dict[str, None]:
    """The Python artifacts of a bundle, by hash."""
    found: dict[str, None] = {}
    for node in bundle.definitions():
        runtime = node.get("runtime", {})
        if runtime.get("kind") == "python":
            found[runtime["artifact"]["root_hash"]] = None
    return found


def seals_of(bundle: Bundle) -> list[Any]:
    """The seals that lie beside a bundle; whose they are is not said by that."""
    if bundle.seals is None:
        return []
    try:
        found = canon.decode(bundle.seals)
    except NotCanonical:
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
