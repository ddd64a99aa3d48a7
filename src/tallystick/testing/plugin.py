"""The pytest plugin: `pytest -p tallystick.testing.plugin` (K-48).

The fixture `world` is a `TestWorld` of the module's `app`; at teardown its journal is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.testing.world import TestWorld


def pytest_addoption(parser: pytest.Parser) -> None:
    """The seed of every world."""
    group = parser.getgroup("tally", "worlds of tallystick")
    group.addoption("--tally-seed", type=int, default=0, help="seed of the worlds")


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[TestWorld]:
    """A world of the `app` that the test module imports."""
    app: Any = getattr(request.module, "app", None)
    if app is None:
        pytest.fail(f"{request.module.__name__} has no `app` to make a world of")
    seed: Any = request.config.getoption("--tally-seed")
    made = TestWorld(app, seed=seed)
    yield made
    made.assert_replays()
