"""Seals as they come over the wire: base64 where JSON has no bytes."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from typing import Any, Final

_BYTES: Final = ("sig", "root")


def seal_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """A seal with its bytes; whether it is one is for the check of seals to say."""
    found = dict(given)
    for name in _BYTES:
        if name in found:
            found[name] = _bytes(found[name])
    if isinstance(found.get("path"), list):
        found["path"] = [_bytes(node) for node in found["path"]]
    return found


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return b64decode(value, validate=True)
    except (Error, ValueError):
        return b""
