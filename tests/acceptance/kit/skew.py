"""Another clock for a node: a wall clock that is years off, by a library loaded before others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "skew.c"


def available() -> bool:
    """True where the library can be built."""
    return shutil.which("gcc") is not None


def build(folder: Path) -> Path:
    """Build the library."""
    out = folder / "skew.so"
    words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(out), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return out


def environment(library: Path, seconds: int) -> dict[str, str]:
    """What a process with that clock has in its environment."""
    return {"LD_PRELOAD": str(library), "KIT_SKEW_S": str(seconds)}
