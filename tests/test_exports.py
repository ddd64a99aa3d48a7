"""The public surface is small, sorted and pinned (ST-04)."""

from __future__ import annotations

import tallystick

# Adding a name here is a promise to keep it; at most 40.
PINNED = [
    "Backoff",
    "Blob",
    "Bundle",
    "Call",
    "Cancelled",
    "Ctx",
    "Duration",
    "Effect",
    "EffectFailed",
    "Fail",
    "File",
    "Flow",
    "FlowTimeout",
    "Hash",
    "Http",
    "Human",
    "Json",
    "Llm",
    "Nat",
    "On",
    "Read",
    "Record",
    "Retry",
    "Shell",
    "Sql",
    "Time",
    "Timer",
    "Where",
    "__version__",
    "call",
    "checkpoint",
    "effect",
    "gather",
    "outcome",
    "receive",
    "sleep",
    "spawn",
    "start",
    "timeout",
    "wait_first",
]


def test_all_is_pinned_sorted_and_small() -> None:
    """ST-04: `__all__` is exactly the pinned list."""
    assert tallystick.__all__ == PINNED
    assert sorted(set(tallystick.__all__)) == tallystick.__all__
    assert len(tallystick.__all__) <= 40


def test_all_is_what_a_reader_sees() -> None:
    """ST-04: nothing public is left out of `__all__`, and nothing in it is missing."""
    for name in tallystick.__all__:
        assert getattr(tallystick, name) is not None  # the kit is imported when it is asked for
    rooms = {name for name, value in vars(tallystick).items() if hasattr(value, "__path__")}
    modules = {"errors"}  # reached as tallystick.errors, like the rooms
    # pytest leaves names with an @ in modules whose assertions it rewrites.
    public = {name for name in vars(tallystick) if name[0] not in "_@"} - rooms - modules
    assert public | {"__version__"} == set(tallystick.__all__)


def test_star_import_gives_the_surface() -> None:
    """ST-04: `from tallystick import *` gives the pinned names, so they all exist."""
    seen: dict[str, object] = {}
    exec("from tallystick import *", seen)
    assert sorted(set(seen) - {"__builtins__"}) == PINNED
