"""The environment of every process of the kit."""

from __future__ import annotations

import os
from pathlib import Path


def plain_environment() -> dict[str, str]:
    """This checkout first, and nothing of the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    root = Path(__file__).resolve().parents[3]
    paths = [str(root / "src"), str(root)]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}
