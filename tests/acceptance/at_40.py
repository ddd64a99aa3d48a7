"""AT-40 upgrade-golden: older folders open, newer ones are left alone, upgrades are whole."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import apsw

from tallystick.journal.sqlite_tables import FORMAT
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.planted_layers import NEXT_ROWS
from tests.golden.folders import build

SINK = "http://127.0.0.1:1/"


def run(bench: Bench) -> dict[str, Any]:
    """Open every golden folder; refuse a newer one; kill a later release while it upgrades."""
    names = build.names()
    return {
        "folders": {name: _opened(bench, name) for name in names},
        "newer": _newer(bench, names[-1]),
        "upgrades": [_upgraded(bench, names[0]) for _ in range(bench["kills"])],
    }


def _laid(bench: Bench, name: str, golden: str) -> tuple[Place, dict[str, Any]]:
    place = Place(bench.fresh(name))
    return place, build.unpack(golden, place.data)


def _opened(bench: Bench, golden: str) -> dict[str, Any]:
    """The roots of a golden folder now, every tick of it again, and whether it goes on."""
    place, pinned = _laid(bench, "older", golden)
    with place:
        same = [build.root_of(place, world) == root for world, root in pinned.items()]
        replayed = place.tally("--json", "verify", "--replay").returncode
        place.start()
        went_on, _ = place.send("now", 2, SINK)
        place.stop()
    return {"roots_same": all(same), "verify_exit": replayed, "went_on": went_on}


def _newer(bench: Bench, golden: str) -> dict[str, Any]:
    """A folder of a format that is not known yet: refused, and not a byte of it changed."""
    place, _ = _laid(bench, "newer", golden)
    file = place.data / "tally.db"
    db = apsw.Connection(str(file))
    db.execute("UPDATE meta SET value=99 WHERE key='format'")
    db.close()
    before = _digest(file)
    done = place.tally("--json", "serve", "--listen", "127.0.0.1:0")
    said = json.loads(done.stderr.splitlines()[-1]) if done.stderr else {}
    log = file.with_name("tally.db-wal")
    untouched = before == _digest(file) and not (log.exists() and log.stat().st_size)
    return {"exit": done.returncode, "code": said.get("code"), "untouched": untouched}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _upgraded(bench: Bench, golden: str) -> dict[str, Any]:
    """Kill a later release in the middle of its upgrade, look, and let it try again."""
    place, pinned = _laid(bench, "upgraded", golden)
    place.planted = bench.planted or "next_release"
    with place:
        process = place.launch()
        mark = place.data / "upgrading"
        until = time.monotonic() + 60
        while not mark.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(bench.random.uniform(0.0, bench["after_s"]))
        process.kill()
        process.wait()
        between = _format(place)
        place.start()
        served, _ = place.send("now", 2, SINK)
        place.stop()
        after = _format(place)
        same = [_root_at(place, world, root) for world, root in pinned.items()]
        place.planted = ""
        refused = place.tally("world", "root").returncode
    return {
        "between": between,
        "after": after,
        "served": served,
        "roots_same": all(same),
        "older_release_exit": refused,
    }


def _root_at(place: Place, world: str, root: dict[str, Any]) -> bool:
    """True when the world had this root where it stood before the upgrade."""
    done = place.tally("--json", "--world", world, "world", "root", "--at", str(root["seq"]))
    assert done.returncode == 0, done.stderr
    return bool(json.loads(done.stdout)["root"] == root["root"])


def _format(place: Place) -> str:
    """`old`, `new`, or `half`: what is in the file, and what it says of itself."""
    db = apsw.Connection(str(place.data / "tally.db"))
    try:
        (version,) = db.execute("SELECT value FROM meta WHERE key='format'").fetchone()  # type: ignore[misc]
        there = db.execute("SELECT count(*) FROM sqlite_master WHERE name='next'").fetchone()[0]  # type: ignore[index]
        rows = db.execute("SELECT count(*) FROM next").fetchone()[0] if there else None  # type: ignore[index]
    finally:
        db.close()
    known = {(1, None): "old", (FORMAT + 1, NEXT_ROWS): "new"}  # the later release is planted
    return known.get((version, rows), "half")


def faults(found: dict[str, Any]) -> list[str]:
    """Another root, a newer folder that was touched, or half an upgrade."""
    wrong = []
    good = {"roots_same": True, "verify_exit": 0, "went_on": 202}
    wrong += [f"{name}: {each}" for name, each in found["folders"].items() if each != good]
    if found["newer"] != {"exit": 2, "code": "journal.format", "untouched": True}:
        wrong.append(f"a newer folder: {found['newer']}")
    for each in found["upgrades"]:
        whole = each["between"] in ("old", "new") and each["after"] == "new"
        if not whole or each["served"] != 202 or not each["roots_same"]:
            wrong.append(f"an upgrade that was killed: {each}")
        elif each["older_release_exit"] != 2:
            wrong.append("an older release opened a newer folder")
    return wrong


CASE = Case(
    number="at-40",
    name="upgrade-golden",
    rows="ST-13 I28",
    run=run,
    faults=faults,
    suite="none",  # tests/journal/test_upgrade.py shows it without processes
    planted="upgrade_in_pieces",
    small={"kills": 1, "after_s": 0.1},
    full={"kills": 6, "after_s": 0.5},
)
