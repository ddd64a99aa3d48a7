"""Loading an app from source, and reaching the names it defines."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from tallystick.model.bundle_python import LANE
from tallystick.modules.lane import Compiled, Space
from tallystick.testing.sources import Built, built
from tallystick.testing.world import TestWorld


def loaded(source: str, **more: Any) -> tuple[TestWorld, SimpleNamespace]:
    """A world of the source, and the classes and functions as that world's app knows them."""
    made = built(source, more.pop("denied")) if "denied" in more else _built(source)
    world = TestWorld(made, **more)
    return world, names_of(world)


def names_of(world: TestWorld) -> SimpleNamespace:
    """What the source of a world defines."""
    code = next(iter(world.app.workflows.values())).tick
    return SimpleNamespace(**{k: v for k, v in code.__globals__.items() if k.isidentifier()})


@cache
def _built(source: str) -> Built:
    return built(source)


def module_of(source: str) -> Any:
    """The one module of a source, executed in the lane."""
    return Space(Compiled({"app.py": source.encode()}, LANE)).modules["app"]
