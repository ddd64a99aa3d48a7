"""What every test shares: the plugin that keeps the clauses, and one Hypothesis profile."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tallystick.kernel import tick

pytest_plugins = ["tests.clauses", "pytester"]

# Two busy cores make any deadline a coin toss; slowness is measured in bench/, not here.
settings.register_profile("tallystick", deadline=None)
settings.load_profile("tallystick")


@pytest.fixture(autouse=True)
def tally_replays() -> None:
    """Users' worlds are all replayed; our tests plant defects, and say what to replay."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out on the compiled path what only the pure one can show: code put in place of code."""
    if str(tick.__file__).endswith(".py"):
        return
    skip = pytest.mark.skip(reason="compiled code calls itself, and not what a test put in place")
    for item in items:
        if item.get_closest_marker("pure_only") is not None:
            item.add_marker(skip)
