"""How a reducer of the kit runs: one tick of `tick(state, event, ctx) -> state` in the lane.

State and event are made fresh from canonical bytes for each tick, so nothing a reducer keeps or
changes reaches another tick.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from tallystick.errors import LimitExceeded, NotCanonical, SchemaMismatch, TickFault
from tallystick.model.abi import Halted, Ran, TickInput, write_output
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.tuples import make
from tallystick.modules.lane import Space
from tallystick.modules.lane_runtime import LaneStop
from tallystick.values import canon
from tallystick.workflow.bundle import WorkflowSpec
from tallystick.workflow.ctx import Ctx
from tallystick.workflow.deliver import event_of, outcome_of
from tallystick.workflow.shape import Shape, shape_of


class Reducer:
    """A reducer workflow, ready to run in one namespace."""

    __slots__ = ("_code", "_engine", "_init", "_put", "_spec", "_take", "namespace", "shape")

    def __init__(self, namespace: Space, spec: WorkflowSpec, engine: str) -> None:
        self.namespace = namespace
        self.shape: Shape = shape_of(spec)
        self._spec = spec
        self._engine = engine
        self._code: Callable[..., Any] = spec.tick
        self._init: Callable[..., Any] | None = spec.init
        self._put = self.shape.state_codec.put
        self._take = self.shape.state_codec.take

    def tick(self, catalogue: Catalogue, workflow: Workflow, tick: TickInput) -> Ran | Halted:
        """Run one delivery; whatever goes wrong in it is a fault."""
        namespace = self.namespace
        namespace.start(workflow.limits.fuel)
        try:
            ctx = Ctx(catalogue, self._spec.bundle, tick.ctx, tick.key)
            state: Any = tick.state
            if state is not None:
                state = plain_state(workflow, state)
                state = state if self._take is None else self._take(state)
            came = tick.event.receipt()
            if came is None:
                event = event_of(self.shape, tick.event.plain(), ctx)
            else:
                event = outcome_of(self.shape, came, ctx.now)
            after = self._code(state, event, ctx)
            if after is None:
                self._end()
            elif self._put is not None:
                after = self._put(after)
            output = ctx.output(workflow.state, after)
            used = namespace.meter.used
            return make(Ran, (output, write_output(output), used, self._engine, False, True))
        except BaseException as why:  # noqa: BLE001 - the fence around module code
            return halted(why, namespace, workflow, self._engine)

    def _end(self) -> None:
        """None ends the cell; a reducer that never says so has forgotten a case."""
        if not self.shape.may_end:
            name = self._spec.name
            message = f"{name} returned None, and its annotation does not say that it may"
            raise TickFault(f"{message}; None deletes the cell", code="bad_output")

    def init(self, catalogue: Catalogue, workflow: Workflow, tick: TickInput) -> Any:
        """The first state by the class's own `init(ctx, event)`; None when it has none."""
        if self._init is None:
            return None
        namespace = self.namespace
        namespace.start(workflow.limits.fuel)
        try:
            ctx = Ctx(catalogue, self._spec.bundle, tick.ctx, tick.key)
            made = self._init(ctx, event_of(self.shape, tick.event.plain(), ctx))
            plain = self.shape.state_codec.plain(made)
            return workflow.state.admit(plain).bytes
        except BaseException as why:  # noqa: BLE001 - the fence around module code
            return halted(why, namespace, workflow, self._engine)


def plain_state(workflow: Workflow, data: bytes) -> Any:
    """The state as a fresh plain value; the schema's own reader is the faster decoder."""
    try:
        return workflow.state.plain(data)
    except SchemaMismatch:
        return canon.decode(data)  # an older version that the workflow says it reads


def halted(why: BaseException, namespace: Space, workflow: Workflow, engine: str) -> Halted:
    """The fault that an exception of module code is; interrupts of the process go through."""
    used = namespace.meter.used
    if isinstance(why, LaneStop):
        limit = None
        if why.code == "fuel":
            most = workflow.limits.fuel
            limit = {"name": "fuel", "max": most, "got": max(used, most) + 1}
        return Halted(why.code, why.message, used, engine, limit)
    if isinstance(why, LimitExceeded):
        return Halted(why.code, why.message, used, engine, why.limit)
    if isinstance(why, TickFault):
        return Halted(why.code, why.message, used, engine)
    if isinstance(why, NotCanonical | SchemaMismatch):
        return Halted("bad_output", why.message, used, engine)
    if isinstance(why, RecursionError | MemoryError):
        # How deep the host's stack is must not be seen in a record.
        return Halted("exception", f"{type(why).__name__} in module code", 0, engine)
    if isinstance(why, Exception):
        return Halted("exception", said(why, namespace), used, engine)
    raise why


def said(why: Exception, namespace: Space) -> str:
    """What an exception of module code says, and where in the artifact it was raised."""
    try:
        text = f"{type(why).__name__}: {why}"
    except Exception:  # noqa: BLE001 - the words of module code are module code too
        text = type(why).__name__
    ours = namespace.paths()
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(why.__traceback__)
        if frame.f_code.co_filename in ours
    ]
    return f"{text} (at {places[-1][0]}:{places[-1][1]})" if places else text
