"""The built-in workflow `sys/lane@1`: the serial queue of one (reaction, target).

Theory of operation (08 section 6, stages 4 to 8).
A trigger passes trust, depth and lineage, then the cooldown, then the duplicates of its run key,
then the breaker and the rules; where it stops, a record says so.
While a run is active the mode says what waits.
A deferred trigger waits for its timer or for anything newer, which takes its place.
All time is the recorded one.
"""

# tidy: the pipeline of one trigger is read as one trail.
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.reactions import guards, keys, runs
from tallystick.reactions.cell import MS, Asked, Body, Told, Turn, tell
from tallystick.reactions.decide import DEFER, DENY, decide, trigger_fingerprint
from tallystick.reactions.document import Definition
from tallystick.reactions.facts import facts_of, guard_facts
from tallystick.values import canon

READ: Final = "sys/cell.read@1"
RUN: Final = "sys/reaction@1"
COALESCED: Final = Told("deduped", "coalesced", "mode")
MOVED_NS: Final = 1_000 * MS
MOVED_MAX: Final = 10
ENDED: Final = ("complete", "failed", "aborted", "reused", "replayed")


def lane(turn: Turn, body: Body | None, tag: str, value: Mapping[str, Any]) -> Body:
    """One tick of a lane."""
    if body is None:
        assert tag == "Offered", "a lane begins with its first trigger"
        body = _new(value)
    _TAKE[tag](turn, body, value)
    return body


def _new(trigger: Mapping[str, Any]) -> Body:
    return {
        "workspace_id": trigger["workspace_id"],
        "reaction": trigger["reaction"],
        "target_id": trigger["target"]["target_id"],
        "count": 0,
        "cool_until_ns": 0,
        "cool_print": None,
        "pending": None,
        "deferred": None,
        "waiting": [],
        "looking": {},
        "active": {},
        "starts": [],
        "spent": [],
        "breaker": {"state": "closed", "until_ns": 0, "probe": None},
        "last_outcome": None,
        "last_input_digest": None,
        "failures_in_row": 0,
    }


def _ref(body: Body, word: str) -> str:
    body["count"] += 1
    return f"{word}:{body['count']}"


def _definition(turn: Turn, trigger: Mapping[str, Any]) -> Definition:
    return turn.definition(trigger["definition_hash"])


# ---- a trigger comes ------------------------------------------------------------------------


def _offered(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    trigger = dict(given)
    definition = _definition(turn, trigger)
    if any(guard_facts(definition, trigger, tripped=False).values()):
        _judge(turn, body, trigger, None)
        return
    if body["deferred"] is not None:
        old = body["deferred"]
        body["deferred"] = None
        tell(turn, turn.read(old["trigger"]), Told("deduped", "replaced", "P6"))
        _judge(turn, body, trigger, {**old, "deadline_ns": None})
        return
    if guards.is_cooling(body, trigger, turn.now_ns):
        _cool(turn, body, trigger, definition)
        return
    _pass(turn, body, trigger, definition)


def _cool(turn: Turn, body: Body, trigger: dict[str, Any], definition: Definition) -> None:
    """G6: inside the window; the same again is dropped, something new waits for the end of it."""
    fingerprint = trigger_fingerprint(definition, trigger)
    if fingerprint == body["cool_print"]:
        tell(turn, trigger, Told("cooled_down", None, "G6"))
        return
    trigger["cooldown_remaining_ms"] = (body["cool_until_ns"] - turn.now_ns) // MS
    body["cool_print"] = fingerprint
    old = body["pending"]
    if old is None:
        body["pending"] = {"trigger": turn.keep_trigger(trigger), "ref": _ref(body, "cool")}
        turn.timer(body["pending"]["ref"], body["cool_until_ns"])
        return
    was = turn.read(old["trigger"])
    trigger["coalesced"] = was["coalesced"] + 1
    tell(turn, was, COALESCED)
    body["pending"] = {**old, "trigger": turn.keep_trigger(trigger)}


def _pass(turn: Turn, body: Body, trigger: Mapping[str, Any], definition: Definition) -> None:
    """The trigger goes on, and a window begins."""
    if trigger["kind"] != "command":
        if body["pending"] is not None:
            # Its timer is late: what waited is older than this, and must not run after it.
            tell(turn, turn.read(body["pending"]["trigger"]), COALESCED)
            body["pending"] = None
        body["cool_until_ns"] = turn.now_ns + definition["cooldown_ms"] * MS
        body["cool_print"] = trigger_fingerprint(definition, trigger)
    _queue(turn, body, trigger, definition)


def _queue(turn: Turn, body: Body, trigger: Mapping[str, Any], definition: Definition) -> None:
    """The mode: what happens to a trigger while a run is active."""
    body.pop("moved", None)  # this one is newer, or is the one that comes again
    if _run_key(definition, trigger) in body["active"]:
        tell(turn, trigger, Told("attached", None, "run_key"))
        return
    mode, busy = definition["mode"], len(body["active"]) + len(body["looking"])
    if busy == 0 or (mode["kind"] == "parallel" and busy < mode["max"]):
        _look(turn, body, trigger, definition)
        return
    if mode["kind"] == "queue":
        if len(body["waiting"]) >= mode["max"]:
            tell(turn, trigger, Told("denied", "queue_full", "mode"))
            return
        body["waiting"].append(turn.keep_trigger(trigger))
        return
    for old in body["waiting"]:
        tell(turn, turn.read(old), COALESCED)
    body["waiting"] = [turn.keep_trigger(trigger)]
    if mode["kind"] == "restart":
        for run_key in sorted(body["active"]):
            told = {"run_key": run_key, "verb": "abort", "reason": "restart", "principal": "lane"}
            turn.emit("RunControl", told)


def _run_key(definition: Definition, trigger: Mapping[str, Any]) -> str:
    fingerprint = trigger_fingerprint(definition, trigger)
    return keys.run_key(definition.hash, fingerprint, trigger["target"]["target_id"])


# ---- duplicates -----------------------------------------------------------------------------


def _look(turn: Turn, body: Body, trigger: Mapping[str, Any], definition: Definition) -> None:
    """Read the one cell that its run key names: it is the unique constraint (R8)."""
    ref = _ref(body, "look")
    body["looking"][ref] = turn.keep_trigger(trigger)
    key = canon.encode(_run_key(definition, trigger))
    turn.ask(Asked(READ, {"workflow": RUN, "key": key}, ref, "plain"))


def _looked(turn: Turn, body: Body, ref: str, payload: Mapping[str, Any]) -> None:
    trigger = turn.read(body["looking"].pop(ref))
    state = None if not payload["found"] else payload["state"]
    run = None if state is None else canon.decode(state)["body"]
    attempts = [] if run is None else run["attempts"]
    if not guards.is_known(attempts) or runs.is_overtaken(attempts[-1]):
        _judge(turn, body, trigger, None)
        return
    last = attempts[-1]
    if last["state"] in ("queued", "running"):
        tell(turn, trigger, Told("attached", None, "run_key"))
    elif last["state"] == "complete":
        _request(turn, body, trigger, ("replay", last["decision_id"]))
        return
    else:
        code = last["code"] if last["state"] == "failed" else "aborted"
        tell(turn, trigger, Told("reused_failure", code, "run_key"))
    _pump(turn, body)


# ---- the decision ---------------------------------------------------------------------------


# tidy: the facts of one decision and what follows from it.
def _judge(
    turn: Turn, body: Body, trigger: Mapping[str, Any], earlier: Mapping[str, Any] | None
) -> None:
    """Breaker and rules; `earlier` is the deferral that this evaluation follows."""
    definition = _definition(turn, trigger)
    tripped = _breaker(turn, body, definition)
    deadline = None if earlier is None else earlier["deadline_ns"]
    lane_facts = {
        **body,
        "queued": len(body["waiting"]),
        "active": len(body["active"]),
        "evaluations": 0 if earlier is None else earlier["evaluations"],
        "tripped": tripped,
        "expired": deadline is not None and turn.now_ns >= deadline,
    }
    manifest = turn.manifest(trigger["inputs"])
    at = {"time": turn.now_ns, "seq": turn.seq}
    facts = facts_of(definition, trigger, manifest, lane_facts, at)
    turn.keep(facts)
    previous = None if earlier is None else earlier["decision_id"]
    made = decide(definition, trigger, facts, previous)
    turn.emit("Decision", made)
    first = made["reasons"][0]
    if made["outcome"] == DENY:
        tell(turn, trigger, Told("denied", first["code"], first["guard"]))
        body["last_outcome"] = "denied"
        _pump(turn, body)
    elif made["outcome"] == DEFER:
        tell(turn, trigger, Told("deferred", first["code"], first["guard"]))
        _defer(turn, body, trigger, (made, lane_facts["evaluations"], deadline))
    else:
        _request(turn, body, trigger, ("run", made["decision_id"]))
        body["starts"].append(turn.now_ns)
        if body["breaker"]["state"] == "half":
            body["breaker"]["probe"] = made["run_key"]


def _defer(
    turn: Turn,
    body: Body,
    trigger: Mapping[str, Any],
    made: tuple[Mapping[str, Any], int, int | None],
) -> None:
    decision, evaluations, deadline = made
    wake = decision["wake"]
    assert wake is not None, "a deferral says when it wakes"
    if deadline is None:
        deadline = turn.now_ns + wake["deadline_ms"] * MS
    ref = _ref(body, "wake")
    body["deferred"] = {
        "trigger": turn.keep_trigger(trigger),
        "decision_id": decision["decision_id"],
        "deadline_ns": deadline,
        "evaluations": evaluations + 1,
        "ref": ref,
    }
    turn.timer(ref, min(turn.now_ns + wake["after_ms"] * MS, deadline))


def _breaker(turn: Turn, body: Body, definition: Definition) -> bool:
    """G8: closed, open for a window, then half-open until the one run that it lets pass ends."""
    window_ns = definition["breaker"]["window_ms"] * MS
    since = turn.now_ns - window_ns
    body["starts"] = [at for at in body["starts"] if at > since]
    body["spent"] = [row for row in body["spent"] if row[0] > since]
    breaker = body["breaker"]
    if breaker["state"] == "closed":
        if guards.is_tripped(definition, body, turn.now_ns):
            until = turn.now_ns + window_ns
            body["breaker"] = {"state": "open", "until_ns": until, "probe": None}
            turn.emit("TriggerOutcome", _alert(body))
            return True
        return False
    if breaker["state"] == "open":
        if turn.now_ns < breaker["until_ns"]:
            return True
        body["breaker"] = {**breaker, "state": "half"}
        return False
    return breaker["probe"] is not None


def _alert(body: Body) -> dict[str, Any]:
    """One record when the breaker opens, whatever is refused after it."""
    return {
        "trigger_id": None,
        "workspace_id": body["workspace_id"],
        "reaction": body["reaction"],
        "target": None,
        "outcome": "alert",
        "code": "breaker_open",
        "guard": "G8",
        "paths": [],
        "count": len(body["starts"]),
    }


def _request(
    turn: Turn, body: Body, trigger: Mapping[str, Any], asked: tuple[str, str | None]
) -> None:
    kind, decision_id = asked
    run_key = _run_key(_definition(turn, trigger), trigger)
    body["active"][run_key] = {
        "trigger": turn.keep_trigger(trigger),
        "decision_id": decision_id,
        "counted": kind == "run",
    }
    _start(turn, body, run_key, kind)


def _start(turn: Turn, body: Body, run_key: str, kind: str) -> None:
    row = body["active"][run_key]
    turn.emit(
        "RunRequested",
        {
            "workspace_id": body["workspace_id"],
            "run_key": run_key,
            "kind": kind,
            "decision_id": row["decision_id"],
            "trigger": turn.read(row["trigger"]),
        },
    )


# ---- a run ends -----------------------------------------------------------------------------


def _settled(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    outcome, run_key = given["outcome"], given["run_key"]
    row = body["active"].get(run_key)
    if outcome == "refused":
        _uncount(body, run_key, row)
    elif row is not None:
        trigger = turn.read(row["trigger"])
        body["last_outcome"] = outcome
        body["last_input_digest"] = trigger["input_digest"]
        body["failures_in_row"] = body["failures_in_row"] + 1 if outcome == "failed" else 0
        if given["tokens"]:
            body["spent"].append([turn.now_ns, given["tokens"]])
        _probe(turn, body, run_key, outcome, _definition(turn, trigger))
        retry = _definition(turn, trigger)["retry"]
        if outcome == "failed" and 0 < given["attempt"] <= retry["max"]:
            body["count"] += 1
            turn.timer(f"retry:{run_key}", turn.now_ns + retry["backoff_ms"] * MS)
            return
        if given["code"] == "input_moved" and not body["waiting"]:
            _come_again(turn, body, row["trigger"], given["attempt"])
    body["active"].pop(run_key, None)
    _pump(turn, body)


def _come_again(turn: Turn, body: Body, trigger: Any, attempt: int) -> None:
    """Try once more what was given up because an input moved, unless something newer comes.

    Mostly the next look tells of the move and brings a newer trigger.
    Inputs that moved and moved back before that look tell nothing: their last state would be lost.
    """
    if attempt <= MOVED_MAX:
        ref = _ref(body, "moved")
        body["moved"] = {"trigger": trigger, "ref": ref, "attempt": attempt}
        turn.timer(ref, turn.now_ns + (MOVED_NS << min(attempt, 6)))


def _moved(turn: Turn, body: Body, held: Mapping[str, Any]) -> None:
    if body["active"] or body["looking"]:
        _come_again(turn, body, held["trigger"], held["attempt"] + 1)
        return
    trigger = turn.read(held["trigger"])
    _queue(turn, body, trigger, _definition(turn, trigger))


def _uncount(body: Body, run_key: str, row: Mapping[str, Any] | None) -> None:
    """A request that became no run does not count for the breaker, and is no probe of it."""
    if row is not None and row["counted"]:
        body["starts"] = body["starts"][:-1]
    if body["breaker"]["probe"] == run_key:
        body["breaker"] = {**body["breaker"], "probe": None}


def _probe(turn: Turn, body: Body, run_key: str, outcome: str, definition: Definition) -> None:
    """The run that a half-open breaker let pass has ended: closed again, or open again."""
    breaker = body["breaker"]
    if breaker["state"] != "half" or breaker["probe"] != run_key:
        return
    if outcome == "failed":
        until = turn.now_ns + definition["breaker"]["window_ms"] * MS
        body["breaker"] = {"state": "open", "until_ns": until, "probe": None}
    else:
        body["breaker"] = {"state": "closed", "until_ns": 0, "probe": None}
        body["starts"] = []


def _pump(turn: Turn, body: Body) -> None:
    """Take what waits, as far as the mode lets it go on."""
    while body["waiting"]:
        trigger = turn.read(body["waiting"][0])
        definition = _definition(turn, trigger)
        most = definition["mode"]["max"] if definition["mode"]["kind"] == "parallel" else 1
        if len(body["active"]) + len(body["looking"]) >= most:
            return
        body["waiting"].pop(0)
        _look(turn, body, trigger, definition)


# ---- timers and control ---------------------------------------------------------------------


def _receipt(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    ref, status = given["issuer_ref"] or "", given["status"]["$tag"]
    if ref in body["looking"]:
        payload = {"found": False, "state": None}
        if status == "ok":
            payload = canon.decode(given["receipt_payload"])
        _looked(turn, body, ref, payload)
        return
    word, _, rest = ref.partition(":")
    if word == "cool" and body["pending"] is not None and body["pending"]["ref"] == ref:
        trigger = turn.read(body["pending"]["trigger"])
        body["pending"] = None
        _pass(turn, body, trigger, _definition(turn, trigger))
    elif word == "wake" and body["deferred"] is not None and body["deferred"]["ref"] == ref:
        earlier = body["deferred"]
        body["deferred"] = None
        _judge(turn, body, turn.read(earlier["trigger"]), earlier)
    elif word == "moved" and body.get("moved", {}).get("ref") == ref:
        _moved(turn, body, body["moved"])
    elif word == "retry" and rest in body["active"]:
        _start(turn, body, rest, "retry")


def _rejected(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    """An unreadable receipt of a read is no answer: the trigger is judged as the first one."""
    ref = given["issuer_ref"] or ""
    if ref in body["looking"]:
        _looked(turn, body, ref, {"found": False, "state": None})


def _controlled(turn: Turn, body: Body, given: Mapping[str, Any]) -> None:
    if given["verb"] == "reset":
        body["breaker"] = {"state": "closed", "until_ns": 0, "probe": None}
        body["starts"], body["spent"] = [], []
        return
    dropped = [*body["waiting"]]
    body.pop("moved", None)
    for name in ("pending", "deferred"):
        if body[name] is not None:
            dropped.append(body[name]["trigger"])
            body[name] = None
    body["waiting"] = []
    for held in dropped:
        tell(turn, turn.read(held), Told("aborted", "disabled", "kill_switch"))


_TAKE: Final = {
    "Offered": _offered,
    "Settled": _settled,
    "Controlled": _controlled,
    "Receipt": _receipt,
    "Rejected": _rejected,
}
