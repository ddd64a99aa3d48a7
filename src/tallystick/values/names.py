"""Names: the forms of 01 section 1, checked in one place.

A name is a promise about identity, so there is one spelling for each and nothing is repaired.
`sys/` is reserved: it may be referenced, never defined, replaced or submitted from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

NAME_MAX = 200
KNOWN_MAX = 256  # compared with an unknown name, for a hint

_DEFINITION = re.compile(r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*@([1-9][0-9]*)", re.ASCII)
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HASH = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that offers the known name closest to an unknown one; empty when none is close.

    `Greet` is close to `demo/Greet@1`.
    Looks at names only, and at a bounded number of them: a longer text is nobody's slip of the
    pen, and comparing is work that a stranger could ask for.
    """
    some = sorted(known)[:KNOWN_MAX] if len(word) <= NAME_MAX else []
    bare = [each for each in some if each.rpartition("/")[2].partition("@")[0] == word]
    close = bare or get_close_matches(word, some, 1)
    return f"did you mean {close[0]}?" if close else ""


def is_definition(name: str) -> bool:
    """True for `namespace/Name@version`, at most 200 characters."""
    return len(name) <= NAME_MAX and _DEFINITION.fullmatch(name) is not None


def is_field(name: str) -> bool:
    """True for a field, slot, grant or alias name."""
    return _FIELD.fullmatch(name) is not None


def is_tag(name: str) -> bool:
    """True for the tag of a variant arm."""
    return _TAG.fullmatch(name) is not None


def is_hash(text: str) -> bool:
    """True for `sha256:` and 64 lower-case hex digits."""
    return _HASH.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """True for a lower-case 8-4-4-4-12 uuid."""
    return _UUID.fullmatch(text) is not None


def is_reserved(name: str) -> bool:
    """True for names under `sys/`."""
    return name.startswith("sys/")


def version_of(name: str) -> int:
    """The version number of a definition name."""
    return int(name.rpartition("@")[2])


def stem_of(name: str) -> str:
    """A definition name without its version."""
    return name.rpartition("@")[0]
