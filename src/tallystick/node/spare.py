"""Spare memory: what a snapshot needed for a moment goes back to the system.

Merging ten thousand changed cells makes and drops tens of megabytes of nodes; the C library keeps
the holes, and with more cells there are more of them, though nothing is held (I42).
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Hand free memory back, where the C library can; a millisecond or a few, on any thread."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
