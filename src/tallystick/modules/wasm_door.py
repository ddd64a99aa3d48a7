"""The door to the WASM lane: the engine is an extra, and is loaded when it is needed.

A missing engine says nothing about a module, so it is never the outcome of a tick: it is raised.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from tallystick.errors import LaneMissing
from tallystick.model.abi import Runner

_LANE: Final = "tallystick.modules.wasm"
_ENGINE: Final = "tallystick.modules.wasm_engine"


def open_wasm(blobs: Any, known: dict[str, Any], kept: Any = None, elsewhere: Any = None) -> Runner:
    """A lane for one world; refuses with `wasm.not_installed` where there is no engine."""
    try:
        lane = import_module(_LANE)
    except ModuleNotFoundError as why:
        if why.name != "wasmtime":
            raise
        message = "a module of this world is WASM, and the engine is not installed here"
        raise LaneMissing(message) from why
    settings = lane.GuestSettings(known=known, kept=kept)
    made: Runner = lane.WasmLane(blobs, settings, elsewhere)
    return made


def interrupt_wasm() -> None:
    """Stop the WASM code that runs now, if the engine was ever loaded."""
    loaded = sys.modules.get(_ENGINE)
    if loaded is not None:
        loaded.interrupt()
