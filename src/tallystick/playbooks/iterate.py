"""The one tick that happens a thousand times: an iteration has ended well, and the next begins.

Theory of operation.
Between two iterations of a loop the net stays as it is: only the loop's own counters move.
Such a tick is played here, over what the tick before it has left in memory, and its state is
written from pieces: the bytes of the net are those of the tick before.
It gives the bytes that `interpret` would give, and declines whenever anything else may move: a
failure, a patch, a large result, a full page, the last iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tallystick.model.abi import Came
from tallystick.playbooks.loops import Page, inside, put_loops
from tallystick.playbooks.net import PAGE
from tallystick.playbooks.plan import Plan
from tallystick.playbooks.play import iteration_of, ref_of
from tallystick.playbooks.requests import own_iter, params_of
from tallystick.playbooks.trace import put_turn
from tallystick.playbooks.values import INLINE_MAX, Content, Values
from tallystick.playbooks.written import Memory, Written
from tallystick.values import canon

_ITER: Final = canon.put_key("iter")
_STEP: Final = canon.put_key("step")


class Request(NamedTuple):
    """The params of a loop's units: the value, and the bytes around what is a unit's own."""

    value: dict[str, Any]
    before: bytes
    after: bytes


class Live:
    """A state that was just written, as it is held in memory; only a tick changes it."""

    __slots__ = ("loops", "memory", "net", "pages", "plan", "requests", "state", "values", "wrote")

    def __init__(self, wrote: Written, net: dict[str, Any], plan: Plan, memory: Memory) -> None:
        self.wrote = wrote
        self.state = wrote.state
        self.net = net
        self.loops: dict[str, dict[str, Any]] = wrote.state["loops"]
        self.plan = plan
        self.memory = memory
        # run -> its open page as bytes, the params of its units, and its items.
        self.pages: dict[str, Page] = {}
        self.requests: dict[str, Request] = {}
        self.values: dict[str, list[Any]] = {}


class Moved(NamedTuple):
    """What a short tick answers: encoded state and trace, and the next unit, if there is one.

    `told` is how many events the trace tells.
    """

    state: bytes
    trace: bytes
    told: int
    params: tuple[dict[str, Any], bytes] | None
    ref: str
    timeout_ns: int | None


class Reads(NamedTuple):
    """How a tick reads: what a worker told, and a blob by its name."""

    told: Callable[[bytes], Any]
    content: Content


# tidy: every reason to decline stands in front of the first change.
def iterate(live: Live, state: bytes, came: Came, reads: Reads) -> Moved | None:
    """Play the receipt of a step if it only moves its loop on; None leaves everything as it was."""
    ref = came.issuer_ref or ""
    i = iteration_of(ref)
    if i is None:
        return None
    name = ref.partition("/")[0]
    loop = live.loops.get(name)
    if loop is None or i not in loop["open"] or not _is_still(live, name):
        return None
    told = reads.told(came.payload)
    if told["status"] != "ok" or told["patches"] or told["ref"] is not None:
        return None
    run = live.net["runs"][name]
    n = run["loop"]["n"]
    if loop["ok"] + loop["failed"] + 1 >= n or len(loop["page"]) + 1 >= PAGE:
        return None
    begins = loop["next"] < n
    if begins and len(loop["open"]) + len(run["open"]) != _width(live, run):
        return None  # more than one may begin
    result = inside(told["result"])
    if len(canon.PREFIX) + len(result) > INLINE_MAX:
        return None
    _settle(live, name, i, told["result"], result)
    params = None
    at = loop["next"]
    trace = put_turn(name, i, at) if begins else put_turn(name, i)
    if begins:
        loop["next"] += 1
        loop["open"].append(at)
        params = _params(live, name, at, reads.content)
    timeout = live.plan.timeout_of(run["step"])
    # The state before up to the value of its last field, which is that of the loops.
    wrote = state[: live.wrote.cut] + put_loops(live.loops, live.pages)
    return Moved(wrote, trace, 1 + begins, params, ref_of(name, at, 1), timeout)


def _width(live: Live, run: Mapping[str, Any]) -> int:
    width: int = live.plan.steps[run["step"]]["loop"]["max_in_flight"]
    return width


def _is_still(live: Live, name: str) -> bool:
    """True when nothing but this loop can go on now."""
    net = live.net
    if net["phase"] != "running" or net["ready"]:
        return False
    for other, loop in live.loops.items():
        run = net["runs"][other]
        full = len(loop["open"]) + len(run["open"]) >= _width(live, run)
        if other != name and loop["next"] < run["loop"]["n"] and not full:
            return False
    return True


def _settle(live: Live, name: str, i: int, value: Any, item: bytes) -> None:
    loop = live.loops[name]
    for other in live.loops:
        if other not in live.pages:
            live.pages[other] = Page(live.loops[other]["page"])
    loop["open"].remove(i)
    loop["ok"] += 1
    loop["page"].append([i, {"v": value}])
    live.pages[name].add(i, item)


# ---- bytes ----------------------------------------------------------------------------------


def _params(live: Live, name: str, i: int, content: Content) -> tuple[dict[str, Any], bytes]:
    """The params of an iteration; what all iterations of a run share is encoded once."""
    request = live.requests.get(name)
    if request is None:
        request = live.requests[name] = _request(live, name)
    run = live.net["runs"][name]
    items = live.values.get(name)
    if items is None:
        content(live.state["held"][0])  # what it names may be read once it was read itself
        items = live.values[name] = Values(content).read(run["loop"]["items"])
    own = own_iter(live.net, live.plan.steps[run["step"]]["loop"], items, i)
    value = {**request.value, "iter": own, "iteration": i}
    parts = (request.before, canon.encode_item(own), request.after, canon.put_int(i))
    return value, b"".join(parts)


def _request(live: Live, name: str) -> Request:
    value = params_of(live.net, live.plan, live.state["doc"], name) | {"resume": None}
    marked = canon.encode({**value, "iter": None, "iteration": None})
    # In canonical order `iter` is followed by `step`, and `iteration` is the last of all.
    mark = _ITER + b"\xf6" + _STEP
    at = marked.rindex(mark) + len(_ITER)
    return Request(value, marked[:at], marked[at + 1 : -1])
