"""AT-24 file-escape (RL-19, I32): no byte lands outside the workspace, whatever the path says."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.bundle import zipped
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.wishes import granted, wish

SETTINGS = """
[executors.file]
workspaces = {{ project = "{root}" }}
"""
TRICKS = (
    "../outside/a",
    "in/../../outside/a",
    "{outside}/a",
    "link/a",
    "in/link/a",
    "file-link",
    "./../outside/a",
    "in//../../outside/a",
    ".git/hooks/post-commit",
    "in/.git/config",
    "nul\x00l",
    "in/fifo",
    "",
    ".",
    "..",
    "in/" + "a" * 300,
    "/".join(["d"] * 3000),
)


def run(bench: Bench) -> dict[str, Any]:
    """Ask for writes by every trick, then while directory and link change places."""
    root, outside = bench.fresh("root"), bench.fresh("outside")
    (outside / "kept").write_text("kept")
    (root / "in").mkdir()
    (root / "link").symlink_to(outside)
    (root / "in" / "link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "kept")
    os.mkfifo(root / "in" / "fifo")
    settings = SETTINGS.format(root=root)
    world = zipped("tools")
    with Place(bench.fresh("node"), settings, planted=bench.planted, world=world) as place:
        place.start()
        outcomes = {}
        for number, trick in enumerate(TRICKS):
            path = trick.format(outside=outside)
            wish(place, "Keep", f"t{number}", path=path, text="out")
            outcomes[trick[:40]] = granted(place, "Keep", f"t{number}")["code"] or "ok"
        raced = _raced(bench, place, root, outside)
        wish(place, "Keep", "good", path="in/good", text="in")
        good = granted(place, "Keep", "good")["status"]
    return {
        "outcomes": outcomes,
        "raced": raced,
        "good": good,
        "outside": sorted(path.name for path in outside.rglob("*")),
        "kept": (outside / "kept").read_text(),
    }


# tidy: the racer and the race.
def _raced(bench: Bench, place: Place, root: Path, outside: Path) -> dict[str, int]:
    """Write below a directory that turns into a link out and back, as fast as it can."""
    stop = threading.Event()
    (root / "swap").mkdir()

    def swap() -> None:
        place = root / "swap"
        for turn in count():
            if stop.is_set():
                return
            aside = root / f"aside{turn}"
            # A step that a write has just made impossible is left out; the next turn goes on.
            for act, *more in (
                (place.rename, aside),
                (place.symlink_to, outside),
                (place.unlink,),
                (aside.rename, place),
            ):
                with suppress(OSError):
                    act(*more)  # type: ignore[arg-type]  # a method of a path

    racer = threading.Thread(target=swap)
    racer.start()
    counted = {"ok": 0, "failed": 0}
    try:
        for number in range(bench["races"]):
            wish(place, "Keep", f"r{number}", path=f"swap/r{number}", text="out")
        for number in range(bench["races"]):
            counted[granted(place, "Keep", f"r{number}")["status"]] += 1
    finally:
        stop.set()
        racer.join()
    return counted


def faults(found: dict[str, Any]) -> list[str]:
    """A byte outside, a trick that worked, or an honest write that did not."""
    wrong = []
    if found["outside"] != ["kept"] or found["kept"] != "kept":
        wrong.append(f"outside is {found['outside'][:5]}")
    worked = [trick for trick, code in found["outcomes"].items() if code == "ok"]
    if worked:
        wrong.append(f"these worked: {worked}")
    if found["good"] != "ok":
        wrong.append(f"an honest write: {found['good']}")
    return wrong


CASE = Case(
    number="at-24",
    name="file-escape",
    rows="RL-19 I32",
    run=run,
    faults=faults,
    suite="none",
    planted="paths_as_they_come",
    small={"races": 20},
    full={"races": 2000},
)
