"""Which path runs in this process: the pure one, or a compiled build of the same sources.

Both give equal bytes, so nothing but speed hangs on it; people are told how to get the faster one.
"""

from __future__ import annotations

import os
from typing import Final

from tallystick import _COMPILED

_NAMES: Final = {"": "pure", "codec": "codec", "rooms": "compiled"}
_FORCED: Final = "unset TALLY_PURE: it asks for the pure path"
_BUILT: Final = "`make fast-wheel` in a checkout, then `pip install` the wheel it leaves in dist/"


def path_in_use() -> str:
    """`pure`; `codec` when canonical bytes alone are compiled; `compiled` when the rooms are."""
    return _NAMES[_COMPILED]


def way_to_compiled() -> str | None:
    """What to do for the compiled path; None where it runs."""
    if path_in_use() == "compiled":
        return None
    return _FORCED if os.environ.get("TALLY_PURE") == "1" else _BUILT
