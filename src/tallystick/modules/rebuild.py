"""A flow run over its recorded history, to see whether it would ask for the same (05 section 2).

It is what a tick does without a live coroutine, and the proof of an upgrade: equal requests after
every item mean that the history could have been written by this code.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from tallystick.model.abi import TickInput
from tallystick.model.catalogue import Catalogue
from tallystick.modules.flows import START, AsyncFlow, Live, Turn
from tallystick.modules.history import History
from tallystick.modules.reducers import halted
from tallystick.values import canon
from tallystick.values.schema import Admitted
from tallystick.workflow.flow import Flow
from tallystick.workflow.loop import Loop, Restarted

_NOTHING: Final = bytes(64)
_SHOWN_MAX: Final = 200


class Recorded(NamedTuple):
    """The history of one cell: its state, and what its code may know of where it is."""

    workflow: str
    key: bytes
    world: str
    state: bytes


class Rebuilt(NamedTuple):
    """How many items were run, and the first after which the flow asks for other things.

    `asked` is what it asks for after that item, or after the item that was wanted.
    """

    items: int
    item: int | None = None
    on: str | None = None
    asked: tuple[str, ...] = ()


class _Still:
    """The context of no tick: a rebuild takes time and chance from its items."""

    now_ns = 0

    def __init__(self, world: str) -> None:
        self.world = world

    def entropy(self) -> bytes:
        """None is drawn."""
        return _NOTHING


def rebuild(
    entry: AsyncFlow, catalogue: Catalogue, recorded: Recorded, upto: int | None = None
) -> Rebuilt:
    """Run a flow over its items; with `upto` the answer is what it asks for after that one."""
    workflow = catalogue.workflows[recorded.workflow]
    history = History.of(canon.decode(recorded.state))
    ctx = cast("Any", _Still(recorded.world))
    tick = TickInput(recorded.state, workflow.name, cast("Any", None), recorded.key or None, ctx)
    turn = Turn(entry, catalogue, workflow, tick)
    flow = Flow(catalogue, entry.spec.bundle)
    live = Live(flow, Loop(flow, workflow.limits.inbox_max))
    number = -1
    try:
        for number, item in enumerate(history.items(entry.blob)):
            entry.space.start(workflow.limits.fuel)
            value = item.value if item.ref is None else entry.blob(item.ref)
            value = history.start if item.on == START else value
            try:
                turn.deliver(live, item.on, value, (item.at, item.seed))
            except Restarted:
                return Rebuilt(number + 1, number, item.on, ("a checkpoint",))
            except BaseException as why:  # noqa: BLE001 - the fence around module code
                code = halted(why, entry.space, workflow, entry.engine).code
                return Rebuilt(number + 1, number, item.on, (f"fault {code}",))
            if number == upto or flow.did() != item.did:
                return Rebuilt(number + 1, number, item.on, _asked(flow))
    finally:
        live.loop.close()
    return Rebuilt(number + 1)


def _asked(flow: Flow) -> tuple[str, ...]:
    """What a flow asks for, for readers: effects by name and parameters, events by name."""
    effects = [f"{each.effect} {_shown(each.params)}" for each in flow.asked]
    return (*effects, *(f"event {each.schema} {_shown(each.value)}" for each in flow.emitted))


def _shown(value: bytes | Admitted) -> str:
    plain = value.value if isinstance(value, Admitted) else canon.decode(value)
    text = repr(plain)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."
