"""AT-11 apply-quiescence (RL-06, I8): an apply refuses by name, or happens whole."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from tallystick.modules.source import bundle_of
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place

SOURCE = Path(__file__).parent / "world" / "versions.py"
JOB = "versions/job@1"
SETTINGS = """
[executors]
routes = { stamper = "pool:stamps" }
"""


def version(number: int) -> bytes:
    """The bundle of a version, as one file."""
    text = SOURCE.read_bytes().replace(b"VERSION = 1\n", b"VERSION = %d\n" % number)
    made: bytes = bundle_of({"app.py": text}).to_zip()
    return made


def run(bench: Bench) -> dict[str, Any]:
    """Apply while something is open, in three ways; drained; then with kills in the middle."""
    place = Place(bench.fresh("node"), SETTINGS, bench.planted, world=version(1))
    with place:
        place.start()
        ident = _approved(place, 2)
        by_command = _refused(place, ident, _cell, _commanded)
        refused = [by_command, *(_refused(place, ident, each, _asked) for each in _OTHERS)]
        early = [row["record"]["record"] for row in place.rows("governance")]
        applied = _applied(place, ident)
        killed = [_killed(place, bench, number) for number in range(3, 3 + bench["kills"])]
        mixed = _mixed(place)
        place.stop()
        verified = place.tally("--json", "verify", "--replay").returncode
    return {
        "refused": refused,
        "refusals_recorded": early.count("ApplyRefused"),
        "applied": applied,
        "killed": killed,
        "by_kill": {word: sum(k["ended"] == word for k in killed) for word in ("old", "new")},
        "ticks_of_another_version": mixed,
        "verify_exit": verified,
    }


# ---- what stands in the way ------------------------------------------------------------------


def _cell(place: Place) -> tuple[str, Any]:
    """A cell that has begun and not ended."""
    _send(place, "Begin", id="cell", ask=False)
    return "cell_open", lambda: _send(place, "End", id="cell")


def _intent(place: Place) -> tuple[str, Any]:
    """An effect that nobody performs."""
    _send(place, "Begin", id="intent", ask=True)
    (row,) = place.get("/effects?status=open")["items"]
    path = f"/v1/worlds/main/effects/{row['intent']}/cancel"
    return "intent_open", lambda: place.ask("POST", path, {"reason": "drained"})


def _queue(place: Place) -> tuple[str, Any]:
    """Mail for a cell that is suspended."""
    _send(place, "Begin", id="queue", ask=False)
    place.ask("POST", f"/v1/worlds/main/cells/{_JOB}/queue/suspend", {"reason": "held"})
    _send(place, "End", id="queue")
    path = f"/v1/worlds/main/cells/{_JOB}/queue/resume"
    return "mailbox", lambda: place.ask("POST", path, {"reason": "drained"})


_JOB = JOB.replace("/", "%2F")


def _send(place: Place, kind: str, **value: Any) -> None:
    body = {"schema": f"versions/{kind}@1", "value": value}
    status, said = place.ask("POST", "/v1/worlds/main/events", body)
    assert status == 202, said


_OTHERS = (_intent, _queue)


def _commanded(place: Place, ident: str) -> Any:
    """Apply by the command; its problem, or what it did."""
    done = place.tally("--json", "gov", "apply", ident)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stderr if done.returncode else done.stdout)


def _asked(place: Place, ident: str) -> Any:
    """The same over HTTP."""
    return place.ask("POST", f"/v1/worlds/main/proposals/{ident}/apply", {})[1]


def _refused(place: Place, ident: str, open_: Any, apply: Any) -> dict[str, Any]:
    """Apply over one blocker; what it said, and whether the state moved."""
    wanted, drain = open_(place)
    before = place.root()
    said = apply(place, ident)
    after = place.root()
    drain()
    return {
        "code": said.get("code"),
        "wanted": wanted,
        "named": sorted(row[0] for row in said.get("where", {}).get("blockers", [])),
        "state_same": before["state_root"] == after["state_root"],
        "manifest_same": before["manifest"] == after["manifest"],
    }


# ---- what happens whole ----------------------------------------------------------------------


def _approved(place: Place, number: int) -> str:
    """A proposal of a version, tried and approved."""
    path = place.folder / f"v{number}.zip"
    path.write_bytes(version(number))
    done = place.tally("--json", "gov", "propose", "--bundle", str(path))
    assert done.returncode == 0, done.stderr
    ident = str(json.loads(done.stdout)["proposal"])
    for verb in ("shadow", "approve"):
        status, said = place.ask("POST", f"/v1/worlds/main/proposals/{ident}/{verb}", {})
        assert status in (200, 202), (verb, said)
    return ident


def _applied(place: Place, ident: str) -> dict[str, Any]:
    """Apply when nothing is open; a new cell begins in the new version."""
    wanted = place.get(f"/proposals/{ident}")["manifest"]
    said = _commanded(place, ident).get("status")
    took = place.root()["manifest"] == wanted
    return {"said": said, "manifest": took, "began": _after(place, 2)}


def _killed(place: Place, bench: Bench, number: int) -> dict[str, Any]:
    """Kill the node at a random moment of an apply; it is the old or the new one afterwards."""
    ident = _approved(place, number)
    old = place.root()["manifest"]
    new = place.get(f"/proposals/{ident}")["manifest"]
    _tried(place, ident, number)
    told: list[Any] = []
    asking = threading.Thread(target=_hopeful, args=(place, ident, told))
    asking.start()
    time.sleep(bench.random.uniform(0.0, bench["after_s"]))
    place.kill()
    asking.join()
    place.start()
    found = place.root()["manifest"]
    state = place.get(f"/proposals/{ident}")["state"]
    ended = {old: "old", new: "new"}.get(found, "neither")
    if ended == "old":
        _asked(place, ident)
    began = _after(place, number)
    return {"ended": ended, "state": state, "told": told == ["applied"], "began": began}


def _tried(place: Place, ident: str, number: int) -> None:
    """Let the modules be tried before, by an apply that is refused: the next one only switches."""
    _send(place, "Begin", id=f"tried{number}", ask=False)
    _asked(place, ident)
    _send(place, "End", id=f"tried{number}")


def _hopeful(place: Place, ident: str, told: list[Any]) -> None:
    """Ask a node that is about to be killed."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        told.append(_asked(place, ident).get("status"))


def _after(place: Place, number: int) -> int:
    """The version that a new cell begins in."""
    name = f"killed{number}"
    _send(place, "Begin", id=name, ask=False)
    began: int = place.get(f"/cells/{_JOB}/{name}")["state"]["began"]
    _send(place, "End", id=name)
    return began


def _mixed(place: Place) -> int:
    """Ticks under another module than the one that was active when they ran."""
    changes = [
        row["seq"] for row in place.rows("activate") if row["record"]["record"] == "BundleActivate"
    ]
    seen: dict[int, set[str]] = {}
    for row in place.rows("tick"):
        era = sum(row["seq"] > seq for seq in changes)
        seen.setdefault(era, set()).add(row["record"]["module_hash"])
    return sum(len(modules) > 1 for modules in seen.values())


def faults(found: dict[str, Any]) -> list[str]:
    """A blocker that was not named or not minded, a state that moved, or half a change."""
    wrong = []
    for each in found["refused"]:
        if each["code"] != "gov.not_quiescent":
            wrong.append(f"applied over {each['wanted']}")
        if each["wanted"] not in each["named"]:
            wrong.append(f"{each['wanted']} is not named")
        if not (each["state_same"] and each["manifest_same"]):
            wrong.append(f"a refusal over {each['wanted']} changed the world")
    if found["applied"] != {"said": "applied", "manifest": True, "began": 2}:
        wrong.append(f"drained, it said {found['applied']}")
    states = {"old": "approved", "new": "applied"}
    for number, each in enumerate(found["killed"], 3):
        if states.get(each["ended"]) != each["state"] or each["began"] != number:
            wrong.append(f"after a kill it is {each}")
        if each["told"] and each["ended"] != "new":
            wrong.append("it was told that it is applied, and it is not")
    if found["ticks_of_another_version"] or found["verify_exit"]:
        wrong.append("versions are mixed in the journal")
    return wrong


CASE = Case(
    number="at-11",
    name="apply-quiescence",
    rows="RL-06 I8",
    run=run,
    faults=faults,
    planted="apply_ignores_open_intents",
    small={"kills": 1, "after_s": 0.05},
    full={"kills": 12, "after_s": 0.05},
)
