"""Secrets by name: is each one known, and may this grant use it (06 section 5)?

Only the definitions of the manifest are read; no value of a secret comes near a pure room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallystick.authority.denial import Denial
from tallystick.values.schema.references import Reference

Definitions = Mapping[str, Mapping[str, Any]]


def unknown_secret(found: Iterable[Reference], definitions: Definitions) -> Denial | None:
    """Stage 2 of admission: the first reference that no `defsecret` answers."""
    for path, name in found:
        if name not in definitions:
            return Denial("shape", "secret.unknown", f"there is no defsecret {name}", path=path)
    return None


def forbidden_secret(
    found: Iterable[Reference], definitions: Definitions, grant: str
) -> Denial | None:
    """Stage 3 of admission: the first secret that may not be used under the grant."""
    for path, name in found:
        if grant not in definitions[name].get("allowed_caps", ()):
            message = f"{name} may not be used under the grant {grant}"
            return Denial("capability", "secret.not_allowed", message, path=path)
    return None
