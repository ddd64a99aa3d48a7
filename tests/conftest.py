"""What every test shares: the plugin that keeps the clauses, and one Hypothesis profile."""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = ["tests.clauses", "pytester"]

# Two busy cores make any deadline a coin toss; slowness is measured in bench/, not here.
settings.register_profile("tallystick", deadline=None)
settings.load_profile("tallystick")


@pytest.fixture(autouse=True)
def tally_replays() -> None:
    """Users' worlds are all replayed; our tests plant defects, and say what to replay."""
