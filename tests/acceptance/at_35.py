"""AT-35 playbook-tokens (RL-10): random nets under kills have the histories of the model."""

from __future__ import annotations

import http.client
import random
import threading
import time
from typing import Any

from tallystick.playbooks.bundle import play_bundle
from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import Till, receipt
from tests.playbooks.model import Model, Net
from tests.playbooks.stage import broken, done
from tests.playbooks.test_model import TOLD, random_net, text_of

STEP = "sys/playbook.step@1"
SETTINGS = """
[executors]
routes = { "playbook.step" = "pool:steps" }
"""
ENDS = ("success", "failed", "partial")
Deed = tuple[int, Any]  # where it stands in the journal, and a receipt, or None for a patch


def run(bench: Bench) -> dict[str, Any]:
    """Play nets a world at a time, kill the node meanwhile, and play them again in the model."""
    made = {f"e{i}": random_net(random.Random(f"{bench.seed}/{i}")) for i in range(bench["nets"])}
    names = list(made)
    world = play_bundle().to_zip()
    odd: list[str] = []
    tally = {"tokens": 0, "receipts": 0, "takeovers": 0, "final_steps": 0}
    with Place(bench.fresh("node"), SETTINGS, bench.planted, world=world) as place:
        place.start()
        for wave, first in enumerate(range(0, len(names), bench["wave"])):
            some = {name: made[name] for name in names[first : first + bench["wave"]]}
            where = _play(place, bench, f"w{wave}", some)
            odd += _compare(place, where, some, tally)
        place.stop()
    return {"nets": len(made), "kills": len(place.starts) - 1, "odd": odd[:20], **tally}


# ---- playing ---------------------------------------------------------------------------------


class Worker(threading.Thread):
    """Performs steps, well or badly, by chance; sometimes it only takes them and is gone."""

    def __init__(self, place: Place, seed: str) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._chance = random.Random(seed)
        self._over = threading.Event()

    def run(self) -> None:
        """Take and settle until told to end, whatever becomes of the node."""
        while not self._over.is_set():
            till = Till(self._place)
            try:
                while not self._over.is_set():
                    self._some(till)
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(0.05)  # the node is gone, or its token is of the one before
            finally:
                till.close()

    def _some(self, till: Till) -> None:
        wish = {"worker": "steps", "pools": ["steps"], "max": 20, "wait_ms": 100}
        status, found = till.ask("/v1/work/lease", {**wish, "lease_ms": 1500})
        assert status in (200, 204), found
        for job in found["items"] if found else ():
            chance = self._chance.random
            if chance() < 0.05:
                continue  # a lease that is lost
            value = done(1) if chance() < 0.8 else broken()
            value["patches"] = {"n": 1} if chance() < 0.3 else {}
            body = receipt(job, value, effect=STEP, executor="playbook.step")
            till.settle(job, body)

    def end(self) -> None:
        """Go home."""
        self._over.set()
        self.join(60)


def _play(place: Place, bench: Bench, name: str, nets: dict[str, Net]) -> str:
    """Play nets in a world of their own to their ends; the path of the world."""
    made = place.tally("world", "create", name, "--bundle", str(place.bundle))
    assert made.returncode == 0, made.stderr
    world = f"/v1/worlds/{name}"
    till = Till(place)
    key = {"public_key": till.pair.public.hex(), "executors": ["playbook.step"], "effects": [STEP]}
    status, said = till.ask(f"{world}/keys", key)
    till.close()
    assert status == 202, said
    worker = Worker(place, f"{bench.seed}/{name}")
    worker.start()
    try:
        for execution, net in nets.items():
            body = {"playbook": text_of(net), "allow": {"python": {}}, "execution": execution}
            status, said = place.ask("POST", f"{world}/executions", {**body, "unchecked": True})
            assert status == 202, said
        for _ in range(bench["kills"]):
            time.sleep(bench.random.uniform(0.0, bench["pause_s"]))
            place.kill()
            place.start()
        _until_ended(place, world, bench["wait_s"])
    finally:
        worker.end()
    return world


def _until_ended(place: Place, world: str, wait_s: float) -> None:
    """Open gates wherever one is waited for; return when all have ended, or time is over."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        _, found = place.ask("GET", f"{world}/executions")
        states = {row["execution"]: row["status"] for row in found["items"]}
        if all(state in ENDS for state in states.values()):
            return
        for name, state in states.items():
            if state == "waiting":
                body = {"set": {"n": 1}, "reason": "go on"}
                place.ask("PATCH", f"{world}/executions/{name}/ctx", body)
        time.sleep(0.1)


# ---- playing it again ------------------------------------------------------------------------


def _compare(
    place: Place, world: str, nets: dict[str, Net], tally: dict[str, int]
) -> list[str]:  # fmt: skip
    """What the node has told differently from the model, given the same deeds in their order."""
    deeds = _deeds(place, world, tally)
    odd = []
    for name, net in nets.items():
        history = _history(place, f"{world}/executions/{name}")
        status = place.ask("GET", f"{world}/executions/{name}")[1]["status"]
        model = Model(net)
        for _, given in sorted(deeds.get(name, []), key=lambda deed: deed[0]):
            _do(model, given)
        if history != model.history:
            odd.append(f"{world}/{name}: another history")
        elif status != model.result:
            odd.append(f"{world}/{name}: {status}, and the model says {model.result}")
        tally["tokens"] += len(history)
        if net.final is not None:
            tally["final_steps"] += 1
    return odd


def _do(model: Model, given: Any) -> None:
    """One deed; what comes for a run that is over finds nobody, here and there."""
    if given is None:
        model.patch()
        return
    run, index, ok, patch = given
    if run in model.runs and index in model.runs[run].open:
        model.settle(run, index, ok=ok, patch=patch)


def _deeds(place: Place, world: str, tally: dict[str, int]) -> dict[str, list[Deed]]:
    """What came from outside to each execution, by the journal."""
    asked: dict[str, Any] = {}
    found: dict[str, list[Deed]] = {}
    for row in _rows(place, world, "intent"):
        record = row["record"]
        if record["record"] == "IntentOpened" and record["effect"] == STEP:
            asked[row["intent"]] = record["params"]
        elif record["record"] == "EffectAttempted":
            tally["takeovers"] += 1
    for row in _rows(place, world, "receipt"):
        if row["intent"] in asked and row["record"]["status"] == "ok":
            said, of = row["record"]["payload"], asked[row["intent"]]
            tally["receipts"] += 1
            given = (int(of["run"][1:]), of["iteration"], said["status"] == "ok")
            found.setdefault(row["key"], []).append((row["seq"], (*given, bool(said["patches"]))))
    for row in _rows(place, world, "event"):
        if row["record"]["schema"] == "sys/PlayCtxPatch@1":
            found.setdefault(row["record"]["value"]["execution"], []).append((row["seq"], None))
    return found


def _rows(place: Place, world: str, kind: str) -> list[dict[str, Any]]:
    return _pages(place, f"{world}/journal?limit=1000&kind={kind}")


def _history(place: Place, path: str) -> list[tuple[str, ...]]:
    """What the node tells of the tokens of an execution."""
    return [
        (word, row["token"], row["step"])
        for row in _pages(place, f"{path}/events?limit=1000")
        if (word := row["event_type"].removeprefix("token.")) in TOLD
    ]


def _pages(place: Place, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        status, page = place.ask("GET", f"{path}{after}")
        assert status == 200, page
        rows += page["items"]
        if page["next"] is None:
            return rows
        after = f"&after={page['next']}"


def faults(found: dict[str, Any]) -> list[str]:
    """A history that the model does not have, or a run without anything to bear."""
    wrong = list(found["odd"])
    if not (found["kills"] and found["receipts"] and found["final_steps"]):
        wrong.append("nothing was killed, settled or ended by a final step")
    return wrong


CASE = Case(
    number="at-35",
    name="playbook-tokens",
    rows="RL-10 I34 I37 I38",
    run=run,
    faults=faults,
    planted="final_step_twice",
    small={"nets": 12, "wave": 12, "kills": 1, "pause_s": 0.5, "wait_s": 60},
    full={"nets": 500, "wave": 25, "kills": 2, "pause_s": 1.0, "wait_s": 120},
)
