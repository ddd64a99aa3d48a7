"""Tallystick: a workflow runtime for people who must be able to prove what happened.

The pure rooms may be compiled (`scripts/build_fast`) from their very sources.
A build lies in a folder of `_fast` that is named by the hash of the sources it was made from, so
one of other sources is never found; TALLY_PURE=1 forces the pure path.
Both give equal bytes and equal errors.
"""

import json as _json
import os as _os
import sys as _sys
from collections.abc import Sequence as _Sequence
from hashlib import sha256 as _sha256
from importlib import import_module as _import_module
from importlib.machinery import ModuleSpec as _ModuleSpec
from importlib.util import spec_from_file_location as _spec_from_file_location
from pathlib import Path as _Path
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

__version__ = "0.1.0"

# The kit: where each public name is defined. It is imported when first asked for, so that a room
# does not carry the kit along.
_KIT = {
    "Backoff": "workflow.retry",
    "Blob": "workflow.outside",
    "Bundle": "workflow.bundle",
    "Call": "workflow.outside",
    "Cancelled": "workflow.traps",
    "Ctx": "workflow.ctx",
    "Duration": "values.schema.annotations",
    "Effect": "workflow.effects",
    "EffectFailed": "workflow.traps",
    "Fail": "workflow.traps",
    "File": "workflow.outside",
    "Flow": "workflow.flow",
    "FlowTimeout": "workflow.traps",
    "Hash": "values.schema.annotations",
    "Http": "workflow.outside",
    "Human": "workflow.outside",
    "Json": "values.schema.annotations",
    "Llm": "workflow.outside",
    "Nat": "values.schema.annotations",
    "On": "workflow.bundle",
    "Read": "workflow.outside",
    "Record": "workflow.records",
    "Retry": "workflow.retry",
    "Shell": "workflow.outside",
    "Sql": "workflow.outside",
    "Time": "values.schema.annotations",
    "Timer": "workflow.outside",
    "Where": "values.schema.annotations",
    "__version__": "",
    "call": "workflow.traps",
    "checkpoint": "workflow.traps",
    "effect": "workflow.traps",
    "gather": "workflow.traps",
    "outcome": "workflow.traps",
    "receive": "workflow.traps",
    "sleep": "workflow.traps",
    "spawn": "workflow.traps",
    "start": "workflow.traps",
    "timeout": "workflow.traps",
    "wait_first": "workflow.traps",
}

__all__ = list(_KIT)


if _TYPE_CHECKING:
    from tallystick.values.schema.annotations import Duration as Duration
    from tallystick.values.schema.annotations import Hash as Hash
    from tallystick.values.schema.annotations import Json as Json
    from tallystick.values.schema.annotations import Nat as Nat
    from tallystick.values.schema.annotations import Time as Time
    from tallystick.values.schema.annotations import Where as Where
    from tallystick.workflow.bundle import Bundle as Bundle
    from tallystick.workflow.bundle import On as On
    from tallystick.workflow.ctx import Ctx as Ctx
    from tallystick.workflow.effects import Effect as Effect
    from tallystick.workflow.flow import Flow as Flow
    from tallystick.workflow.outside import Blob as Blob
    from tallystick.workflow.outside import Call as Call
    from tallystick.workflow.outside import File as File
    from tallystick.workflow.outside import Http as Http
    from tallystick.workflow.outside import Human as Human
    from tallystick.workflow.outside import Llm as Llm
    from tallystick.workflow.outside import Read as Read
    from tallystick.workflow.outside import Shell as Shell
    from tallystick.workflow.outside import Sql as Sql
    from tallystick.workflow.outside import Timer as Timer
    from tallystick.workflow.records import Record as Record
    from tallystick.workflow.retry import Backoff as Backoff
    from tallystick.workflow.retry import Retry as Retry
    from tallystick.workflow.traps import Cancelled as Cancelled
    from tallystick.workflow.traps import EffectFailed as EffectFailed
    from tallystick.workflow.traps import Fail as Fail
    from tallystick.workflow.traps import FlowTimeout as FlowTimeout
    from tallystick.workflow.traps import call as call
    from tallystick.workflow.traps import checkpoint as checkpoint
    from tallystick.workflow.traps import effect as effect
    from tallystick.workflow.traps import gather as gather
    from tallystick.workflow.traps import outcome as outcome
    from tallystick.workflow.traps import receive as receive
    from tallystick.workflow.traps import sleep as sleep
    from tallystick.workflow.traps import spawn as spawn
    from tallystick.workflow.traps import start as start
    from tallystick.workflow.traps import timeout as timeout
    from tallystick.workflow.traps import wait_first as wait_first


def __getattr__(name: str) -> object:
    """A name of the kit, imported on first use."""
    if name not in _KIT:
        raise AttributeError(f"module 'tallystick' has no attribute {name!r}")
    found = getattr(_import_module(f"tallystick.{_KIT[name]}"), name)
    globals()[name] = found
    return found


# What a build is made of, the larger one first; all of it decides whether a build is stale, also
# the files that are read but not compiled, because constants are folded across files.
# What waits or breaks off stays with the interpreter: the watchdog's exception arrives between two
# of its steps only, and the writer's thread does little but wait.
_SETS = {
    "rooms": (
        "errors.py",
        "values",
        "model",
        "authority",
        "kernel",
        "playbooks",
        "modules",
        "workflow/codec.py",
        "workflow/ctx.py",
        "workflow/deliver.py",
        "workflow/flow.py",
        "workflow/loop.py",
        "executors/base.py",
        "journal/base.py",
        "journal/sqlite.py",
        "journal/sqlite_read.py",
        "journal/staged.py",
        "node/at_once.py",
        "node/calls.py",
        "node/clock.py",
        "node/commits.py",
        "node/dispatch.py",
        "node/driver.py",
        "node/engine.py",
        "node/hosted.py",
        "node/lane.py",
        "node/metrics.py",
        "node/outlet.py",
        "node/outside.py",
        "node/points.py",
        "node/receipts.py",
        "api/events.py",
        "api/http1.py",
        "api/once.py",
        "api/wire.py",
    ),
    "codec": ("errors.py", "values/canon.py"),
}


def _sources(here: _Path, name: str) -> list[_Path]:
    """The Python files of a set, in order."""
    found: list[_Path] = []
    for part in _SETS[name]:
        place = here / part
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return found


def _build_name(here: _Path, name: str) -> str:
    """The folder that a build of these sources for this Python has; raises OSError."""
    state = _sha256()
    for path in _sources(here, name):
        data = path.read_bytes()
        state.update(f"{path.relative_to(here).as_posix()} {len(data)}\n".encode())
        state.update(data)
    return f"{name}_{_sys.implementation.cache_tag.replace('-', '')}_{state.hexdigest()[:16]}"


def _libraries(build: _Path) -> dict[str, str]:
    """Module name -> library, when every one is as long as the build has left it, else none."""
    try:
        note = _json.loads((build / "built.json").read_text(encoding="utf-8"))
        whole = all((build / file).stat().st_size == size for _, file, size in note)
        return {module: str(build / file) for module, file, _ in note} if whole else {}
    except (OSError, ValueError, TypeError):
        return {}  # cut off or damaged: the pure path serves


class _Compiled:
    """Finds the compiled modules in their build; all others are found as ever."""

    def __init__(self, libraries: dict[str, str]) -> None:
        self._libraries = libraries

    def find_spec(
        self, name: str, _path: _Sequence[str] | None = None, _target: _ModuleType | None = None
    ) -> _ModuleSpec | None:
        library = self._libraries.get(name)
        return None if library is None else _spec_from_file_location(name, library)


def _prefer_compiled() -> str:
    """Let compiled modules be found in place of the pure ones; the set's name, "" without one."""
    here = _Path(__file__).parent
    if _os.environ.get("TALLY_PURE") == "1" or not (here / "_fast").is_dir():
        return ""
    for name in _SETS:
        try:
            libraries = _libraries(here / "_fast" / _build_name(here, name))
        except OSError:
            continue  # a package without its sources cannot tell a stale build
        if libraries:
            # Before all other finders, and before any room is imported: half of a room compiled
            # and half of it pure would be two sets of classes in one process.
            _sys.meta_path.insert(0, _Compiled(libraries))
            return name
    return ""


_COMPILED = _prefer_compiled()  # the set that this process runs, for those who tell it
