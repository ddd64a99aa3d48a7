"""AT-18 torn-tail-or-middle (RL-18): a torn end is cut, a damaged middle stops the world."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.wreck import Wreck, copied, word_changed

SINK = "http://127.0.0.1:1/"
PIECE = 4096
FEWEST = 4  # places to cut at


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Cut the log of a killed node inside its last commit; change a byte in the middle."""
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        place.start()
        for number in range(12):
            place.send(f"o{number}", 2, SINK)
        log = place.data / "tally.db-wal"
        seq, before = place.root()["seq"], log.read_bytes()
        place.send("last", 2, SINK)
        place.kill()
        after = log.read_bytes()
        tails = []
        for number, at in enumerate(_cuts(bench, *_written(before, after))):
            copy = replace(place, folder=bench.fresh("tail"), process=None)
            data = copied(place.data, copy.data)
            # Cut off there, or not yet written from there on: the file is longer than its commits.
            rest = b"" if number % 2 else before[at:]
            (data / "tally.db-wal").write_bytes(after[:at] + rest)
            tails.append(_looked_at(copy) | {"at": at, "cut_off": not rest})
        middle = replace(place, folder=bench.fresh("middle"), process=None)
        copied(place.data, middle.data)
        word_changed(Wreck(middle.data, bench.random))
        damaged = _looked_at(middle)
        served = _serves(middle)
        shutil.rmtree(middle.folder)
    return {"seq": seq, "tails": tails, "middle": damaged, "middle_served": served}


def _written(before: bytes, after: bytes) -> tuple[int, int]:
    """The first byte of the log that a commit has changed, and the last."""
    before = before.ljust(len(after), b"\0")
    changed = [at for at in range(0, len(after), PIECE) if _differ(before, after, at)]
    first = next(at for at in range(changed[0], len(after)) if before[at] != after[at])
    ends = range(min(changed[-1] + PIECE, len(after)) - 1, first, -1)
    return first, next(at for at in ends if before[at] != after[at])


def _differ(before: bytes, after: bytes, at: int) -> bool:
    """True when a piece of the log has changed."""
    return before[at : at + PIECE] != after[at : at + PIECE]


def _cuts(bench: Bench, first: int, last: int) -> list[int]:
    """Places inside the last commit, the first and the last byte of it among them."""
    inside = range(first + 1, last)
    picked = bench.random.sample(inside, min(bench["cuts"], len(inside)))
    return sorted({first, *picked, last})


def _looked_at(copy: Place) -> dict[str, Any]:
    """What a caller sees of a copy: whether it verifies, and where it stands."""
    checked = copy.tally("--json", "verify", "--full").returncode
    shown = copy.tally("--json", "world", "root")
    root = json.loads(shown.stdout) if shown.returncode == 0 else {}
    return {"verify": checked, "exit": shown.returncode, "seq": root.get("seq")}


def _serves(copy: Place) -> str:
    """What a node says of its world after a change in the middle."""
    try:
        copy.start(30)
    except AssertionError:
        return f"exit {copy.process.returncode if copy.process else None}"
    try:
        status, said = copy.send("new", 2, SINK)
    finally:
        copy.kill()
    return f"{status} {said.get('code')}"


def faults(found: dict[str, Any]) -> list[str]:
    """A torn tail that is not cut, one that loses more, or a damaged middle that goes on."""
    wrong = [
        f"cut at {tail['at']}: {tail}"
        for tail in found["tails"]
        if tail["verify"] or tail["exit"] or (tail["seq"] or 0) < found["seq"]
    ]
    if len(found["tails"]) < FEWEST:
        wrong.append("the last commit was not found in the log")
    if (found["middle"]["exit"], found["middle_served"]) != (4, "exit 4"):
        wrong.append(f"a damaged middle: {found['middle']}, {found['middle_served']}")
    return wrong[:5]


CASE = Case(
    number="at-18",
    name="torn-tail-or-middle",
    rows="RL-18 I10",
    run=run,
    faults=faults,
    suite="none",
    planted="tail_check_off",
    small={"cuts": 3},
    full={"cuts": 120},
)
