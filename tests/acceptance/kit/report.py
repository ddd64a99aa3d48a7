"""Reports: an acceptance test counts with its command, its seed, its figures and its control."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[3]
REPORTS: Final = ROOT / "reports"
SYNCS: Final = 100


def write(number: str, found: dict[str, Any], folder: Path = REPORTS) -> Path:
    """Write `NUMBER.json`; the figures are as they were seen.

    Where this checkout stands is nobody's business, nor where Python does: paths in a traceback
    begin at their roots.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.json"
    text = json.dumps(found, indent=2, sort_keys=True)
    for root in (ROOT, sysconfig.get_path("stdlib")):
        text = text.replace(f"{root}/", "")
    path.write_text(text + "\n", encoding="utf-8")
    return path


def machine(folder: Path) -> dict[str, Any]:
    """What the figures were measured on: cores, and how long one small sync takes here."""
    path = folder / "probe"
    taken = []
    with path.open("wb") as file:
        for _ in range(SYNCS):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    path.unlink()
    taken.sort()
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "sync_ms": {"median": _ms(taken[SYNCS // 2]), "max": _ms(taken[-1])},
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def commit() -> str:
    """The commit that was tested, or the one that what was tested began from."""
    return _git("rev-parse", "HEAD")


def src() -> str:
    """The hash of the tree of src/ as it was tested, written down or not.

    A commit is renamed when its history moves; `git rev-parse COMMIT:src` finds this one again.
    """
    with tempfile.TemporaryDirectory(prefix="tally-tree-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _git("add", "--all", "src", **index)
        return _git("write-tree", "--prefix=src/", **index)


def src_of(named: str) -> str:
    """The hash of the tree of src/ in a commit."""
    return _git("rev-parse", f"{named}:src")


def _git(*words: str, **more: str) -> str:
    done = subprocess.run(
        ["git", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, **more},
    )
    return done.stdout.strip() if done.returncode == 0 and done.stdout else "unknown"
