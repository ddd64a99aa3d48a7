"""The program that the simulation runs: a few small workflows that meet every kernel path.

Three of them obey a script that comes with their events, so that one random list of words draws
effects, keys, timers, joins, faults and endings in any order.
They differ in what they declare: lifecycle, reaction to faults, and the arms they have.
The reducers are user code: the reference model calls them too, and nothing else of this room.
"""

# tidy: the workflows and the words that they obey are one program.
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallystick.modules.python import Outcome
from tallystick.values import canon

ORDER: Final = "sim/order@1"
BARE: Final = "sim/bare@1"
FRAGILE: Final = "sim/fragile@1"
ACCOUNT: Final = "sim/account@1"
LEDGER: Final = "sim/ledger@1"

START: Final = "sim/Start@1"
BEGIN: Final = "sim/Begin@1"
TOUCH: Final = "sim/Touch@1"
POKE: Final = "sim/Poke@1"
DEPOSIT: Final = "sim/Deposit@1"
POSTED: Final = "sim/Posted@1"
COMPLETED: Final = "sys/WorkflowCompleted@1"
FAULT: Final = "sys/WorkflowFault@1"
RECEIPT: Final = "sys/EffectReceiptEnvelope@1"
REJECTED: Final = "sys/EffectReceiptRejected@1"
PROGRESS: Final = "sys/EffectStreamFrame@1"
CANCEL: Final = "sys/CancelRequested@1"
ANSWERS: Final = (RECEIPT, REJECTED, PROGRESS)

CHARGE: Final = "sim/charge@1"
TIMER: Final = "sys/timer.set@1"
SPAWN: Final = "sys/workflow.spawn@1"
CALL: Final = "sys/workflow.call@1"
UNDO: Final = "sys/effect.cancel@1"
UNDECLARED: Final = "sim/undeclared@1"

BULK: Final = 70_000  # over the inline size, so that parameters are kept by digest
MODULE: Final = "sim/code@1"


@dataclass(frozen=True, slots=True)
class Spec:
    """What the model must know of a workflow; the manifest says the same to the product."""

    reducer: str
    event: str
    arms: Mapping[str, str]
    lifecycle: str = "process"
    on_fault: str = "fail"
    effects: frozenset[str] = frozenset()
    keyed: bool = True

    @property
    def is_entity(self) -> bool:
        """True for one that rests between events and reopens."""
        return self.lifecycle == "entity"

    @property
    def after_fault(self) -> str:
        """The status of a cell whose tick has faulted."""
        return "suspended" if self.on_fault == "suspend" else "failed"


_ASKS: Final = frozenset({CHARGE, TIMER, SPAWN, CALL, UNDO})
_ARMS: Final = {POKE: "Poke", RECEIPT: "Receipt"}

# Two workflows share one event schema: compiling it is most of what opening a world costs.
_FULL: Final = {
    START: "Start",
    TOUCH: "Touch",
    **_ARMS,
    REJECTED: "Rejected",
    PROGRESS: "Progress",
    CANCEL: "Cancel",
}

SPECS: Final[Mapping[str, Spec]] = {
    ORDER: Spec("script", "sim/Full@1", _FULL, effects=_ASKS),
    BARE: Spec("script", "sim/Bare@1", {BEGIN: "Start", **_ARMS}, effects=_ASKS),
    FRAGILE: Spec(
        "script",
        "sim/Full@1",
        _FULL,
        lifecycle="entity",
        on_fault="suspend",
        effects=_ASKS,
    ),
    ACCOUNT: Spec("account", "sim/Account@1", {DEPOSIT: "Deposit"}, lifecycle="entity"),
    LEDGER: Spec(
        "ledger",
        "sim/Ledger@1",
        {DEPOSIT: "Deposit", POSTED: "Posted", COMPLETED: "Completed", FAULT: "Fault"},
        lifecycle="entity",
        keyed=False,
    ),
}

# Event, workflow, key field, whether a missing cell is created: in manifest order.
ROUTES: Final[tuple[tuple[str, str, str | None, bool], ...]] = (
    (START, ORDER, "order", True),
    (BEGIN, BARE, "order", True),
    (TOUCH, FRAGILE, "order", True),
    (POKE, ORDER, "order", False),
    (POKE, BARE, "order", False),
    (POKE, FRAGILE, "order", False),
    (DEPOSIT, LEDGER, None, True),
    (DEPOSIT, ACCOUNT, "account", True),
    (POSTED, LEDGER, None, True),
    (COMPLETED, LEDGER, None, True),
    (FAULT, LEDGER, None, True),
)

# ---- the scripted reducer -------------------------------------------------------------------


class _Turn:
    """What one tick of a script collects."""

    def __init__(self, state: dict[str, Any], logical_ns: int) -> None:
        self.state = state
        self.logical_ns = logical_ns
        self.effects: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.status = "running"
        self.deleted = False

    def ask(self, effect: str, params: Any, ref: str, **more: Any) -> None:
        self.state["open"] += 1
        self.effects.append({"effect": effect, "params": params, "issuer_ref": ref, **more})

    def charge(self, ref: str, note: str = "", **more: Any) -> None:
        self.ask(CHARGE, {"order": self.state["order"], "note": note}, ref, **more)

    def child(self, effect: str, key: str) -> None:
        payload = {"order": key, "todo": ["post", "done"]}
        params = {
            "workflow": ORDER,
            "key": canon.encode(key),
            "payload": {"schema": START, "value": canon.encode(payload)},
            "caps": None,
        }
        self.ask(effect, params, effect)

    def poke(self) -> None:
        value = {"order": self.state["order"], "todo": ["note"]}
        self.events.append({"schema": POKE, "value": value})


def _charge_keyed(turn: _Turn, arg: str) -> None:
    turn.charge("k" + arg, idempotency_key=arg.encode())


def _charge_conflict(turn: _Turn, arg: str) -> None:
    turn.charge("x" + arg, "other", idempotency_key=arg.encode())


def _charge_timed(turn: _Turn, arg: str) -> None:
    turn.charge("timed", timeout_ns=int(arg))


def _charge_many(turn: _Turn, arg: str) -> None:
    for i in range(int(arg)):
        turn.charge(f"m{i}")


def _set_timer(turn: _Turn, arg: str) -> None:
    turn.ask(TIMER, {"deliver_at_ns": turn.logical_ns + int(arg), "key": None}, "timer")


def _post(turn: _Turn, _arg: str) -> None:
    value = {"account": turn.state["order"], "amount": len(turn.state["log"])}
    turn.events.append({"schema": POSTED, "value": value})


def _end(turn: _Turn, arg: str) -> None:
    """End at once, also while asking for something: what comes back must not reopen a process."""
    if arg == "bad":
        turn.ask(UNDECLARED, {}, "bad")
    elif arg == "self":
        turn.poke()
    elif arg == "spawn":
        turn.child(SPAWN, turn.state["order"] + ".c")
    elif arg == "charge":
        turn.charge("last")
    elif arg:
        _charge_keyed(turn, arg)
    turn.status = "completed"


def _mix(turn: _Turn, arg: str) -> None:
    """Several requests in one tick, one of them against another."""
    turn.charge("c")
    turn.ask(UNDECLARED, {}, "bad")
    _charge_keyed(turn, arg)
    turn.ask(UNDO, {"intent": None, "issuer_ref": "c"}, "undo")
    _charge_keyed(turn, arg)


def _fault(_turn: _Turn, _arg: str) -> None:
    raise ValueError("the script says so")


def _set_status(status: str) -> Callable[[_Turn, str], None]:
    def action(turn: _Turn, _arg: str) -> None:
        turn.status = status

    return action


def _delete(turn: _Turn, arg: str) -> None:
    if arg:
        _end(turn, arg)
    turn.status = "running"
    turn.deleted = True


WORDS: Final[Mapping[str, Callable[[_Turn, str], None]]] = {
    "note": lambda _turn, _arg: None,
    "charge": lambda turn, _arg: turn.charge("c"),
    "bulk": lambda turn, _arg: turn.charge("bulk", "b" * BULK),
    "keyed": _charge_keyed,
    "conflict": _charge_conflict,
    "timed": _charge_timed,
    "many": _charge_many,
    "timer": _set_timer,
    "mix": _mix,
    "bad": lambda turn, _arg: turn.ask(UNDECLARED, {}, "bad"),
    "misfit": lambda turn, _arg: turn.ask(CHARGE, {"order": 7}, "misfit"),
    "cancel": lambda turn, arg: turn.ask(UNDO, {"intent": None, "issuer_ref": arg}, "undo"),
    "spawn": lambda turn, arg: turn.child(SPAWN, arg),
    "call": lambda turn, arg: turn.child(CALL, arg),
    "post": _post,
    "self": lambda turn, _arg: turn.poke(),
    "fault": _fault,
    "done": _end,
    "fail": _set_status("failed"),
    "delete": _delete,
}


def script(state: Any, event: Any, ctx: Any) -> Outcome:
    """Follow the script: wait for what is open, unless a poke brings words of its own."""
    tag, value = event["$tag"], event["$value"]
    fresh = {"order": "", "log": [], "todo": [], "open": 0, "seen_ns": 0}
    kept = dict(state or fresh, seen_ns=ctx["now_ns"])
    kept["log"] = [*kept["log"], _heard(tag, value)][-12:]
    turn = _Turn(kept, ctx["logical_now_ns"])
    if tag in ("Start", "Touch", "Poke"):
        kept["order"] = value["order"]
        kept["todo"] = [*value["todo"], *kept["todo"]][:20]
    elif tag in ("Receipt", "Rejected"):
        kept["open"] = max(kept["open"] - 1, 0)
    elif tag == "Cancel":
        turn.status = "failed"
    _follow(turn, at_once=tag == "Poke")
    if turn.status == "failed":
        reason = {"code": "sim.failed", "message": tag}
        return Outcome(kept, "failed", reason=reason, effects=turn.effects, events=turn.events)
    result = kept["log"] if turn.status == "completed" else None
    kept = None if turn.deleted else kept  # type: ignore[assignment]  # null deletes the cell
    return Outcome(kept, turn.status, result, effects=turn.effects, events=turn.events)


def _heard(tag: str, value: Mapping[str, Any]) -> str:
    if tag == "Receipt":
        return f"{value['issuer_ref']}:{value['status']['$tag']}"
    return f"{value['issuer_ref']}:{tag}" if tag in ("Rejected", "Progress") else tag


def _follow(turn: _Turn, *, at_once: bool) -> None:
    kept = turn.state
    while kept["todo"] and turn.status == "running" and not turn.deleted:
        if kept["open"] and not at_once:
            return
        word, _, arg = kept["todo"][0].partition(":")
        kept["todo"] = kept["todo"][1:]
        WORDS[word](turn, arg)
        at_once = False


# ---- plain entities -------------------------------------------------------------------------


def account(state: Any, event: Any, _ctx: Any) -> Any:
    """Keep what came in the order it came; a multiple of eleven closes the account."""
    value = event["$value"]
    if value["amount"] % 11 == 0:
        return Outcome(None)
    refs = [] if state is None else state["refs"]
    total = 0 if state is None else state["total"]
    return {"total": total + value["amount"], "refs": [*refs, value["ref"]][-40:]}


def ledger(state: Any, event: Any, _ctx: Any) -> Any:
    """Count what happened, by kind, and remember the order of the last few."""
    tag, value = event["$tag"], event["$value"]
    seen = [] if state is None else state["seen"]
    count = 0 if state is None else state["count"]
    said = value.get("account") or value.get("workflow")
    return {"count": count + 1, "seen": [*seen, f"{tag} {said}"][-30:]}


REDUCERS: Final[Mapping[str, Callable[[Any, Any, Any], Any]]] = {
    "script": script,
    "account": account,
    "ledger": ledger,
}


def outcome(spec: Spec, state: Any, event: Any, ctx: Any) -> Outcome | None:
    """What the reducer of a workflow answers; None when it raises."""
    try:
        out = REDUCERS[spec.reducer](state, event, ctx)
    except ValueError:
        return None
    return out if isinstance(out, Outcome) else Outcome(out)


def routes_of(schema: str, value: Mapping[str, Any]) -> Iterator[tuple[tuple[str, bytes], bool]]:
    """The cells that an event goes to, and whether a missing one is created."""
    for event, workflow, field, create in ROUTES:
        if event == schema:
            yield (workflow, canon.encode(value[field]) if field else b""), create


def envelope(status: str, ref: str) -> tuple[str, dict[str, Any]]:
    """What a reducer reads of a receipt: its schema, and the fields that these look at."""
    if status == "rejected":
        return REJECTED, {"issuer_ref": ref}
    return RECEIPT, {"issuer_ref": ref, "status": {"$tag": status}}


FUNCTIONS: Final = {
    (MODULE, name.split("/")[1].split("@")[0]): REDUCERS[spec.reducer]
    for name, spec in SPECS.items()
}
