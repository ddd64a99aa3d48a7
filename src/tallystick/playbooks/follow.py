"""The tick of a chain: a step has ended well, and the one step behind it begins.

Theory of operation.
Where nothing has to be evaluated between two steps, the net moves by a few fields: a result, a run,
the numbers that count them.
Such a tick is played here, over what the tick before it has left in memory, and only these fields
are written again.
It gives the bytes that `interpret` would give, and declines whenever anything else may move: a
failure, a patch, a large result, a gate, a join, a token that waits, a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tallystick.model.abi import Came
from tallystick.playbooks.iterate import Live, Moved
from tallystick.playbooks.loops import inside
from tallystick.playbooks.play import ref_of
from tallystick.playbooks.requests import params_of
from tallystick.playbooks.values import INLINE_MAX
from tallystick.playbooks.written import Change, Row, written_again
from tallystick.values import canon


class Turn(NamedTuple):
    """A run that has ended, its step, the step behind it, and what its worker told."""

    run: str
    step: str
    after: str
    told: dict[str, Any]


def follow(live: Live, came: Came, reads: Callable[[bytes], Any]) -> Moved | None:
    """Play the receipt of a step if it only leads to the next; None leaves everything as it was.

    `reads` gives what a worker told, of its bytes.
    """
    turn = _turn(live, came, reads)
    if turn is None:
        return None
    results = turn.told["results"] or {}
    if any(_is_large(value) for value in (turn.told["result"], *results.values())):
        return None
    tasks = {name: {"v": value} for name, value in results.items()}
    group, token, begun = _move(live.net, turn, tasks)
    mode = live.plan.steps[turn.step]["next"]["mode"]
    net, doc = live.net, live.state["doc"]
    live.wrote = written_again(doc, net, live.memory, _changed(net, turn, begun))
    live.state = live.wrote.state
    params = params_of(net, live.plan, doc, begun)
    trace = _trace(turn, mode, (group, token, begun))
    asked = (params | {"iteration": None, "iter": {}, "resume": None}, _params(params))
    timeout = live.plan.timeout_of(turn.after)
    return Moved(live.wrote.data, trace, 5, asked, ref_of(begun, None, 1), timeout)


def _is_large(value: Any) -> bool:
    """True for a value that a state holds by its hash."""
    if value is None or type(value) is bool or type(value) is int:
        return False
    return len(canon.encode(value)) > INLINE_MAX


def _turn(live: Live, came: Came, reads: Callable[[bytes], Any]) -> Turn | None:
    """What a receipt has ended, if it leads to the next step and to nothing else."""
    net, ref = live.net, came.issuer_ref or ""
    if not _is_still(live):
        return None
    name = ref.partition("#")[0]
    run = net["runs"].get(name)
    if run is None or "final" in run or "wish" in run["open"].get(ref, {"wish": None}):
        return None
    after = live.plan.follower(run["step"])
    if after is None:
        return None
    told = reads(came.payload)
    if told["status"] != "ok" or told["error"] is not None:
        return None
    if told["patches"] or told["ref"] is not None:
        return None
    return Turn(name, run["step"], after, told)


def _is_still(live: Live) -> bool:
    """True when nothing waits in the net for what a step may change, and no bound is near."""
    net, limits = live.net, live.plan.spec["limits"]
    if net["phase"] != "running" or net["ready"] or net["tokens"] or live.loops:
        return False
    for group in net["groups"].values():
        if any(not join["fired"] for join in group["joins"].values()):
            return False
    room = net["counts"]["created"] < limits["max_tokens"]
    return bool(room and net["ids"]["r"] < limits["max_step_runs"])


def _move(net: dict[str, Any], turn: Turn, tasks: dict[str, Any]) -> tuple[str, str, str]:
    """End a run and begin the next one; its group, the token between them, and its name."""
    name, step, after, told = turn
    run = net["runs"].pop(name)
    net["results"][step] = {"run": name, "v": {"v": told["result"]}, "tasks": tasks}
    net["last"] = step
    ids, counts = net["ids"], net["counts"]
    ids["t"] += 1
    ids["r"] += 1
    counts["created"] += 1
    counts["consumed"] += 1
    counts["step_runs"][after] = counts["step_runs"].get(after, 0) + 1
    begun = f"r{ids['r']}"
    unit = {"i": None, "k": 1}
    opened = {ref_of(begun, None, 1): unit}
    group: str = run["group"]
    net["runs"][begun] = {"step": after, "group": group, "args": None, "open": opened}
    return group, f"t{ids['t']}", begun


# ---- bytes ----------------------------------------------------------------------------------

_SIMPLE: Final = (type(None), bool, int, str)


def _changed(net: dict[str, Any], turn: Turn, begun: str) -> dict[str, Change]:
    """The fields of the net that such a tick changes; what is simple is written here."""
    row, runs = net["results"][turn.step], net["runs"]
    told = None
    if not row["tasks"] and type(turn.told["result"]) in _SIMPLE:
        told = _ROW + canon.encode_item(turn.told["result"]) + _RUN + _TEXT(turn.run) + _TASKS
    count = net["counts"]["step_runs"][turn.after]
    return {
        "ids": _IDS[0] + b"".join([key + _NUMBERS[net["ids"][name]] for name, key in _IDS[1]]),
        "runs": _one_run(begun, runs[begun]) if len(runs) == 1 else None,
        "last": None,
        "results": Row(turn.step, row, told),
        "counts": Row(turn.after, count, _NUMBERS[count]),
    }


def _params(params: dict[str, Any]) -> bytes:
    """The params of a step that is asked for the first time, their keys in canonical order."""
    data = params["data"]
    return b"".join(
        (
            _ASKED,
            canon.put_text(params["doc"]),
            _RUN,
            _TEXT(params["run"]),
            _DATA,
            inside(data, 1) if data else _NOTHING,
            _ITER,
            _TEXT(params["step"]),
            _KINDS,
            canon.encode_item(params["kinds"]),
            _EXECUTION,
            canon.put_text(params["execution"]),
            _ITERATION,
        )
    )


def _one_run(name: str, run: dict[str, Any]) -> bytes:
    """The runs of a net in which only this one goes on, which has just begun."""
    opened = _OPEN + _TEXT(ref_of(name, None, 1)) + _UNIT
    return b"".join(
        (_ONE, _TEXT(name), _ARGS, opened, _STEP, _TEXT(run["step"]), _GROUP, _TEXT(run["group"]))
    )


_TEXT: Final = canon.put_key
_NUMBERS: Final = canon.NUMBERS
_IDS: Final = (canon.head(5, 3), [(name, canon.put_key(name)) for name in ("g", "r", "t")])
_ONE: Final = canon.head(5, 1)
_NOTHING: Final = canon.encode_item({})
_ASKED: Final = canon.PREFIX + canon.head(5, 9) + canon.put_key("doc")
_DATA: Final = canon.put_key("data")
_ITER: Final = canon.put_key("iter") + _NOTHING + canon.put_key("step")
_KINDS: Final = canon.put_key("kinds")
_EXECUTION: Final = canon.put_key("resume") + canon.encode_item(None) + canon.put_key("execution")
_ITERATION: Final = canon.put_key("iteration") + canon.encode_item(None)
_ARGS: Final = canon.head(5, 4) + canon.put_key("args") + canon.encode_item(None)
_OPEN: Final = canon.put_key("open") + canon.head(5, 1)
_UNIT: Final = canon.encode_item({"i": None, "k": 1})
_ROW: Final = canon.head(5, 3) + canon.put_key("v") + canon.head(5, 1) + canon.put_key("v")
_TASKS: Final = canon.put_key("tasks") + canon.encode_item({})
_RUN: Final = canon.put_key("run")
_STEP: Final = canon.put_key("step")
_GROUP: Final = canon.put_key("group")
_TOKEN: Final = canon.put_key("token")


def _event(word: str) -> bytes:
    return canon.put_key("event") + canon.put_text(word)


_HEAD: Final = (
    canon.PREFIX + canon.head(5, 1) + canon.put_key("events") + canon.head(4, 5) + canon.head(5, 3)
)
_ROUTED: Final = _event("step.done") + canon.head(5, 6)
_MODE: Final = canon.put_key("mode")
_FIRST: Final = b"".join(
    (
        _event("next.evaluated"),
        canon.put_key("matched") + canon.encode_item([0]),
        canon.put_key("undefined") + canon.encode_item([]),
        canon.head(5, 4),
    )
)
_ENQUEUED: Final = _event("token.enqueued") + _GROUP
_NEXT: Final = canon.head(5, 4)
_CONSUMED: Final = _event("token.consumed") + _TOKEN
_LAST: Final = canon.head(5, 3)
_SCHEDULED: Final = _event("step.scheduled")


def _trace(turn: Turn, mode: str, made: tuple[str, str, str]) -> bytes:
    """The five events of such a tick, their keys in canonical order."""
    group, token, begun = map(_TEXT, made)
    ended = _RUN + _TEXT(turn.run)
    step = _STEP + _TEXT(turn.step)
    after = _STEP + _TEXT(turn.after)
    begins = _RUN + begun
    return b"".join(
        (
            (_HEAD + ended + step + _ROUTED),
            (ended + _MODE + _TEXT(mode) + step + _FIRST),
            (after + _ENQUEUED + group + _TOKEN + token),
            (_NEXT + begins + after + _CONSUMED + token),
            (_LAST + begins + after + _SCHEDULED),
        )
    )
