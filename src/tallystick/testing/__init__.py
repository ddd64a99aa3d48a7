"""Testing: what the project ships to its users for testing, and tests itself with.

Owns: `TestWorld` and the tools around it, the deterministic simulator, its checkers and controls.
May import: `node` and everything below it.
Refuses: real time, real chance and real input or output; a seed is the whole input.
"""

from tallystick.testing.answers import (
    cancelled,
    denied,
    duplicate,
    error,
    late,
    malformed,
    ok,
    timeout,
)
from tallystick.testing.crash import crash_everywhere
from tallystick.testing.cross import assert_no_cross_delivery
from tallystick.testing.explore import explore
from tallystick.testing.golden import golden
from tallystick.testing.lawful import assert_law
from tallystick.testing.search import check_workflow
from tallystick.testing.sources import in_wasm
from tallystick.testing.transition import tick
from tallystick.testing.world import TestWorld

__all__ = [
    "TestWorld",
    "assert_law",
    "assert_no_cross_delivery",
    "cancelled",
    "check_workflow",
    "crash_everywhere",
    "denied",
    "duplicate",
    "error",
    "explore",
    "golden",
    "in_wasm",
    "late",
    "malformed",
    "ok",
    "tick",
    "timeout",
]
