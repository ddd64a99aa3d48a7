"""The WASM lane: modules of any language behind the one ABI, in a sandbox (05 section 5).

A module gets a canonical `TickInput` and answers a canonical `TickOutput`; it can reach nothing
else.
A trap, the end of its fuel and an answer that is no output are faults with a code.
Every tick has a fresh instance, or one that is proven to be as good as fresh.
Where a module runs, here or in a worker process, is asked once and changes no outcome.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from tallystick.errors import BadDefinition, NotCanonical, SchemaMismatch, TickFault
from tallystick.model.abi import Content, Halted, Ran, TickInput, read_output
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.limits import Limits
from tallystick.modules.wasm_call import Answered, Blobs, Call, Place
from tallystick.modules.wasm_engine import ENGINE
from tallystick.modules.wasm_run import GuestSettings, Instances, refused
from tallystick.values import canon

INIT: Final = "init"


class Elsewhere(Protocol):
    """Who runs what this process should not."""

    def place(self, artifact: str, blobs: Blobs) -> Place | None:
        """Where an artifact must run; None is here."""
        ...


class WasmLane:
    """Runs the WASM modules of one world, here or `elsewhere`."""

    def __init__(
        self,
        blobs: Blobs,
        settings: GuestSettings | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._blobs = blobs
        self.here = Instances(blobs, settings)
        self._elsewhere = elsewhere
        self._places: dict[str, Place] = {}

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery; whatever the module does wrong is a fault."""
        del content  # not offered to WASM
        call = _call(catalogue, workflow, workflow.entrypoint, tick)
        ran = self._run(call)
        if isinstance(ran, Halted):
            return ran
        try:
            return Ran(read_output(canon.decode(ran.data)), ran.data, ran.fuel, ENGINE)
        except (TickFault, NotCanonical) as why:
            return Halted("bad_output", why.message, ran.fuel, ENGINE)

    def init(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput
    ) -> bytes | Halted | None:
        """The first state by the module's own `init`; None when it exports none."""
        call = _call(catalogue, workflow, INIT, tick)
        try:
            if INIT not in self._place(call.artifact).entries(call.artifact):
                return None
        except BadDefinition as why:
            return refused(why)
        ran = self._run(call)
        if isinstance(ran, Halted):
            return ran
        try:
            raw = canon.decode(ran.data)
            state = read_output(raw).state
            if len(raw) > 1 or not isinstance(state, bytes):
                return Halted("bad_output", "init answers {state} alone", ran.fuel, ENGINE)
            return workflow.state.read(state).bytes
        except (TickFault, NotCanonical, SchemaMismatch) as why:
            return Halted("bad_output", why.message, ran.fuel, ENGINE)

    def pure(
        self, catalogue: Catalogue, module: str, entrypoint: str, data: bytes, ctx: bytes | None
    ) -> bytes | Halted:
        """Call a pure function: `{version, input, ctx?}` in, `{output}` out (K-02)."""
        given: dict[str, Any] = {"version": 1, "input": canon.decode(data)}
        if ctx is not None:
            given["ctx"] = canon.decode(ctx)
        artifact = str(catalogue.modules[module].artifact)
        call = _limited(artifact, entrypoint, canon.encode(given), catalogue.limits)
        ran = self._run(call)
        if isinstance(ran, Halted):
            return ran
        try:
            answer = canon.decode(ran.data)
        except NotCanonical as why:
            return Halted("bad_output", why.message, ran.fuel, ENGINE)
        if type(answer) is not dict or answer.keys() != {"output"}:
            message = "a pure function answers {output} and nothing else"
            return Halted("bad_output", message, ran.fuel, ENGINE)
        return canon.encode(answer["output"])

    def _run(self, call: Call) -> Answered | Halted:
        try:
            return self._place(call.artifact).run(call)
        except BadDefinition as why:
            return refused(why)

    def _place(self, artifact: str) -> Place:
        known = self._places.get(artifact)
        if known is None:
            asked = self._elsewhere
            known = None if asked is None else asked.place(artifact, self._blobs)
            known = self._places[artifact] = known or self.here
        return known


def _call(catalogue: Catalogue, workflow: Workflow, entrypoint: str, tick: TickInput) -> Call:
    artifact = str(catalogue.modules[workflow.module].artifact)
    return _limited(artifact, entrypoint, tick.envelope(), workflow.limits)


def _limited(artifact: str, entrypoint: str, data: bytes, limits: Limits) -> Call:
    return Call(artifact, entrypoint, data, limits.fuel, limits.memory_bytes)
