"""The shape of a JSON answer, small enough to stand beside its command.

A type stands for a value of it, `None` for null, a tuple for any of its members, a list of one for
a list of such items, a mapping for an object: every key is there, and no other; a key with `?` at
its end may be absent.
`ANY` fits everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ANY: Final = object
HASH: Final = "sha256:<hex>"
"""A text hash."""


def misfit(shape: Any, value: Any, path: str = "") -> str | None:
    """Where and why a value does not fit, or None."""
    if shape is ANY:
        return None
    if isinstance(shape, Mapping):
        return _object(shape, value, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path}: not a list"
        found = (misfit(shape[0], item, f"{path}/{i}") for i, item in enumerate(value))
        return next((why for why in found if why is not None), None)
    if isinstance(shape, tuple):
        fits = any(misfit(each, value, path) is None for each in shape)
        return None if fits else f"{path}: {value!r} is none of {shape}"
    if shape is None:
        return None if value is None else f"{path}: not null"
    if isinstance(shape, str):
        return None if _text(shape, value) else f"{path}: {value!r} is not {shape}"
    fits = type(value) is shape or (shape is float and type(value) is int)
    return None if fits else f"{path}: {value!r} is no {shape.__name__}"


def _text(shape: str, value: Any) -> bool:
    if shape != HASH:
        return bool(value == shape)
    return isinstance(value, str) and value.startswith("sha256:") and len(value) == 71


def _object(shape: Mapping[str, Any], value: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: not an object"
    known = {key.rstrip("?"): held for key, held in shape.items()}
    missing = [key for key in shape if not key.endswith("?") and key not in value]
    extra = [key for key in value if key not in known]
    if missing or extra:
        return f"{path}: missing {missing}, not known {extra}"
    found = (misfit(known[key], held, f"{path}/{key}") for key, held in value.items())
    return next((why for why in found if why is not None), None)
