"""The environment of every process of the kit."""

from __future__ import annotations

import os
from pathlib import Path


def plain_environment() -> dict[str, str]:
    """This checkout first, and nothing of the caller's settings.

    Bytecode is kept, as an installation keeps it: a start would else compile every source again.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    root = Path(__file__).resolve().parents[3]
    paths = [str(root / "src"), str(root)]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}
