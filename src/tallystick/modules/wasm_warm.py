"""Memory that stays mapped between two instances (05 section 5).

A fresh instance needs zeroed memory, and getting it from the system and giving it back takes
longer than a small tick.
The engine can keep places for instances instead, and clean them itself; each instance still
begins with the memory and the tables of its module and nothing else.
Names that the package keeps to itself are needed for it, and room for addresses: without either
the engine works as ever.
"""

from __future__ import annotations

import mmap
import sys
from importlib import import_module
from typing import Any, Final

from wasmtime import Config

PLACES: Final = 16  # instances at a time, and modules whose image lies ready
CLEANED_BYTES: Final = 256 * 1024  # so much is wiped by hand; the system wipes the rest
ADDRESSED_BYTES: Final = 2**32  # what a module can name, so that no limit is met before ours
_SETTINGS: Final = {
    "total_core_instances": PLACES,
    "total_memories": PLACES,
    "total_tables": PLACES,
    "total_stacks": 0,
    "total_gc_heaps": 0,
    "max_memory_size": ADDRESSED_BYTES,
    "linear_memory_keep_resident": CLEANED_BYTES,
    "table_keep_resident": CLEANED_BYTES,
}
_AREA: Final = "wasmtime_pooling_allocation_"


def keep_warm(config: Config) -> bool:
    """Let an engine of this configuration keep places; False when it cannot be done here."""
    if sys.platform != "linux" or not _has_room(2 * PLACES * ADDRESSED_BYTES):
        return False
    try:
        names: Any = import_module("wasmtime._bindings")
        setters = [
            (getattr(names, f"{_AREA}config_{name}_set"), value)
            for name, value in _SETTINGS.items()
        ]
        make, drop = getattr(names, f"{_AREA}config_new"), getattr(names, f"{_AREA}config_delete")
        apply = getattr(names, f"{_AREA}strategy_set")
    except (AttributeError, ImportError):
        return False
    places = make()
    for setter, value in setters:
        setter(places, value)
    apply(config.ptr(), places)
    drop(places)
    return True


def _has_room(size: int) -> bool:
    """True when so many addresses may be reserved: the engine would end the process if not."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        mmap.mmap(-1, size, flags=flags, prot=0).close()
    except OSError:
        return False
    return True
