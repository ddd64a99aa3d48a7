"""The built-in workflow `sys/workspace@1`: one watched directory.

Theory of operation.
It accepts one observation after the other, each only from the tree and number that it stands at, so
the cursor and all that follows from an observation are one journal frame.
It knows which definitions are loaded, trusted and enabled; it starts runs, a few at a time, taking
the reactions in turn, and keeps the rest in a bounded queue.
What can be long is kept beside the state (`rows`), so a tick costs the same whatever waits.
A run is started with grants narrowed to its definition and target.
"""

# tidy: one cell, everything that comes to it.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import guards, rows
from tallystick.reactions.cell import Asked, Body, Told, Turn, settled, tell
from tallystick.reactions.document import definition_of
from tallystick.reactions.grants import caps_of
from tallystick.reactions.tree import unshown
from tallystick.values import canon

SPAWN: Final = "sys/workflow.spawn@1"
RUN: Final = "sys/reaction@1"
ACTIVE_MAX: Final = 8
QUEUE_MAX: Final = 10_000
CAUSES_MAX: Final = 256
_SHORT: Final = 16  # hexadecimal digits that tell one root trigger from all others
OUTPUTS_MAX: Final = 4096
DRAIN: Final = 100  # records of one tick when a queue is given up


def workspace(turn: Turn, body: Body | None, tag: str, value: Mapping[str, Any]) -> Body:
    """One tick of a workspace."""
    if body is None:
        assert tag == "Added", "a workspace begins when it is added"
        body = _new(value)
    _TAKE[tag](turn, body, value)
    return body


def _new(given: Mapping[str, Any]) -> Body:
    return {
        "workspace_id": given["workspace_id"],
        "name": given["name"],
        "shared": given["shared"],
        "n": 0,
        "tree": None,
        "reactions": {},
        "read": {},
        "disabled": {},
        "since": {},
        "pins": [],
        "follow": False,
        "queue": {},
        "queued": 0,
        "turns": [],
        "active": {},
        "causes": {},
        "outputs": rows.new(),
    }


def _added(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    del turn
    body["name"], body["shared"] = given["name"], given["shared"]


def _loaded(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """The whole set of definitions; what runs keeps the one that it started with."""
    for data in given["blobs"]:
        turn.keep_bytes(data)
    made: dict[str, Any] = {}
    for data in given["definitions"]:
        definition = definition_of(data)
        made[definition.name] = {
            **turn.keep_bytes(data),
            "prompts": [{"blob": held} for held in definition["prompts"].values()],
        }
    body["reactions"] = made
    body["read"] = {}


def _trusted(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    del turn
    body["pins"] = sorted({*body["pins"], *given["definitions"]})
    if given["follow"] is not None:
        body["follow"] = given["follow"]


# ---- observations ---------------------------------------------------------------------------


def _observed(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    before = None if body["tree"] is None else body["tree"]["blob"]
    if given["n"] != body["n"] + 1 or given["before"] != before:
        turn.emit("TriggerOutcome", _stale(body, given))
        return
    for data in given["blobs"]:
        turn.keep_bytes(data)
    body["n"] = given["n"]
    body["tree"] = {"blob": given["after"]}
    for outcome in given["outcomes"]:
        turn.emit("TriggerOutcome", outcome)
    for trigger in given["triggers"]:
        # Pages of the last manifest are not sent again, so they are held here.
        body["read"][trigger["reaction"]] = {"blob": trigger["inputs"]}
        _offer(turn, body, trigger)


def _stale(body: Body, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trigger_id": None,
        "workspace_id": body["workspace_id"],
        "reaction": "",
        "target": None,
        "outcome": "stale_observation",
        "code": f"n {given['n']} after {body['n']}",
        "guard": "door",
        "paths": [],
        "count": len(given["triggers"]),
    }


def _offer(turn: Turn, body: Body, trigger: Mapping[str, Any]) -> None:
    name, wanted = trigger["reaction"], trigger["definition_hash"]
    known = body["reactions"].get(name)
    if known is None or known["blob"] != wanted:
        tell(turn, trigger, Told("denied", "definition_changed", "door"))
    elif name in body["disabled"]:
        tell(turn, trigger, Told("denied", "disabled", "kill_switch"))
    else:
        turn.emit("TriggerOffered", {**trigger, "trusted": _is_trusted(body, wanted)})


def _is_trusted(body: Body, definition_hash: str) -> bool:
    return body["follow"] or definition_hash in body["pins"]


# ---- requests, queue and slots --------------------------------------------------------------


def _requested(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    trigger, run_key = given["trigger"], given["run_key"]
    why = _refusal(body, given)
    if why is not None:
        tell(turn, trigger, why)
        turn.emit("RunSettled", settled(trigger, run_key, "refused", code=why.code))
        return
    tell(turn, trigger, Told("accepted", None, "queue"))
    if given["kind"] == "run" and trigger["depth"] > 0:
        _count_cause(body, _root(trigger))
    row = {
        "$type": rows.TYPE,
        "run_key": run_key,
        "kind": given["kind"],
        "decision_id": given["decision_id"],
        "trigger": turn.keep_trigger(trigger),
    }
    name = trigger["reaction"]
    if name not in body["turns"]:
        body["turns"].append(name)
    rows.push(turn, body["queue"].setdefault(name, rows.new()), turn.keep(row))
    body["queued"] += 1
    _pump(turn, body)


def _refusal(body: Body, given: Mapping[str, Any]) -> Told | None:
    """Why a request becomes no run, or None."""
    trigger = given["trigger"]
    name = trigger["reaction"]
    if name in body["disabled"] or trigger["observed_n"] <= body["since"].get(name, -1):
        return Told("denied", "disabled", "kill_switch")
    known = body["reactions"].get(name)
    if known is None or known["blob"] != trigger["definition_hash"]:
        return Told("denied", "definition_changed", "door")
    if not _is_trusted(body, trigger["definition_hash"]):
        return Told("denied", "untrusted", "trust")
    if given["run_key"] in body["active"]:
        return Told("attached", None, "run_key")
    if given["kind"] == "run" and guards.is_over_cause(body["causes"], _root(trigger)):
        return Told("denied", "cause_cap", "G5")
    if body["queued"] >= QUEUE_MAX:
        return Told("denied", "queue_full", "queue")
    return None


def _root(trigger: Mapping[str, Any]) -> str:
    return str(trigger["root_trigger_id"].removeprefix("sha256:")[:_SHORT])


def _count_cause(body: Body, root: str) -> None:
    """Count a run that another one led to; the first of them counts its root's own run too."""
    causes = body["causes"]
    causes[root] = causes.pop(root, 1) + 1
    while len(causes) > CAUSES_MAX:
        causes.pop(next(iter(causes)))


def _pump(turn: Turn, body: Body) -> None:
    """Start what fits, one reaction after the other."""
    while len(body["active"]) < ACTIVE_MAX:
        name = next((each for each in body["turns"] if each not in body["disabled"]), None)
        if name is None:
            return
        body["turns"].remove(name)
        waiting = body["queue"][name]
        row = turn.read(rows.pop(turn, waiting))
        body["queued"] -= 1
        if waiting["n"]:
            body["turns"].append(name)
        else:
            del body["queue"][name]
        _start(turn, body, row)


def _start(turn: Turn, body: Body, row: Mapping[str, Any]) -> None:
    trigger = turn.read(row["trigger"])
    definition = turn.definition(trigger["definition_hash"])
    body["active"][row["run_key"]] = {"reaction": trigger["reaction"], "trigger": row["trigger"]}
    fresh = _written(turn, body, trigger["reaction"], trigger["observed_n"])
    value = {
        "run_key": row["run_key"],
        "kind": row["kind"],
        "decision_id": row["decision_id"],
        "trigger": trigger,
        "outputs": [{"path": path, "post_id": post_id} for path, post_id in fresh.items()],
    }
    target = unshown(trigger["target"]["path"])
    params = {
        "workflow": RUN,
        "key": canon.encode(row["run_key"]),
        "payload": {"schema": "sys/RunStart@1", "value": canon.encode(value)},
        "caps": caps_of(definition, body["workspace_id"], target),
    }
    turn.ask(Asked(SPAWN, params, row["run_key"], "start"))


def _written(turn: Turn, body: Body, reaction: str, observed_n: int) -> dict[str, Any]:
    """What a reaction has written since an observation, by path."""
    found: dict[str, Any] = {}
    for name, path, post_id, n in rows.since(turn, body["outputs"], observed_n):
        if name is None:
            found.pop(path, None)
        elif name == reaction and n >= observed_n:
            found[path] = post_id
    return found


def _settled(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    if given["outcome"] == "refused":
        return
    body["active"].pop(given["run_key"], None)
    n = body["n"]
    for row in given["outputs"]:
        made = [given["reaction"], row["path"], row["post_id"], n]
        rows.push(turn, body["outputs"], made, n)
    rows.drop_oldest(body["outputs"], OUTPUTS_MAX)
    _pump(turn, body)


def _receipt(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """A run that could not be started frees its place, and says why."""
    run_key = given["issuer_ref"] or ""
    row = body["active"].get(run_key)
    if given["status"]["$tag"] != "ok" and row is not None:
        payload = canon.decode(given["receipt_payload"])
        trigger = turn.read(row["trigger"])
        turn.emit("RunSettled", settled(trigger, run_key, "failed", code=payload["code"]))


def _rejected(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    del turn, body, given


def _moved(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """A file was given to the user: no run may take it for its own any more."""
    rows.push(turn, body["outputs"], [None, given["path"], None, body["n"]], body["n"])


# ---- commands -------------------------------------------------------------------------------


def _commanded(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    verb, name = given["verb"], given["reaction"]
    if verb == "enable":
        body["disabled"].pop(name, None)
    elif verb == "disable":
        body["disabled"][name] = given["principal"]
        body["since"][name] = body["n"]
        for run_key, row in sorted(body["active"].items()):
            if row["reaction"] == name:
                _control(turn, run_key, "abort", given["principal"])
        _give_up(turn, body, name)
    elif verb == "drain":
        _give_up(turn, body, name)
    elif verb == "reset" and given["target_id"] is not None:
        told = {"target_id": given["target_id"], "verb": "reset", "principal": given["principal"]}
        turn.emit("LaneControl", told)
    elif given["run_key"] is not None and verb in ("retry", "abort"):
        queued = verb == "abort" and _abort_queued(turn, body, given["run_key"])
        if not queued:
            _control(turn, given["run_key"], verb, given["principal"])


def _abort_queued(turn: Turn, body: Body, run_key: str) -> bool:
    """Take one run out of the queue; false when it does not wait there."""
    for name, waiting in body["queue"].items():
        for held in rows.every(turn, waiting):
            row = turn.read(held)
            if row["run_key"] == run_key:
                body["queue"][name] = rows.without(turn, waiting, held)
                body["queued"] -= 1
                if not body["queue"][name]["n"]:
                    del body["queue"][name]
                    body["turns"].remove(name)
                _give_up_row(turn, row, "aborted")
                return True
    return False


def _give_up_row(turn: Turn, row: Mapping[str, Any], code: str) -> Mapping[str, Any]:
    trigger: Mapping[str, Any] = turn.read(row["trigger"])
    tell(turn, trigger, Told("aborted", code, "kill_switch"))
    turn.emit("RunSettled", settled(trigger, row["run_key"], "aborted", code=code))
    return trigger


def _control(turn: Turn, run_key: str, verb: str, principal: str) -> None:
    told = {"run_key": run_key, "verb": verb, "reason": verb, "principal": principal}
    turn.emit("RunControl", told)


def _give_up(turn: Turn, body: Body, name: str) -> None:
    """Abort a queue, so many records in one tick; the rest follows in the next."""
    waiting = body["queue"].get(name, rows.new())
    for _ in range(min(DRAIN, waiting["n"])):
        body["queued"] -= 1
        trigger = _give_up_row(turn, turn.read(rows.pop(turn, waiting)), "disabled")
        dropped = {"target_id": trigger["target"]["target_id"], "verb": "drop", "principal": "node"}
        turn.emit("LaneControl", dropped)
    if waiting["n"]:
        again = {"workspace_id": body["workspace_id"], "verb": "drain", "reaction": name}
        more = {"run_key": None, "target_id": None, "principal": "node"}
        turn.emit("ReactionCommand", {**again, **more})
    else:
        body["queue"].pop(name, None)
        body["turns"] = [each for each in body["turns"] if each != name]


_TAKE: Final = {
    "Added": _added,
    "Loaded": _loaded,
    "Trusted": _trusted,
    "Observed": _observed,
    "Requested": _requested,
    "Settled": _settled,
    "Commanded": _commanded,
    "Moved": _moved,
    "Receipt": _receipt,
    "Rejected": _rejected,
}
