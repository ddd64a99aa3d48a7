"""The WASM lane: modules of any language behind the one ABI, in a sandbox (05 section 5).

A module gets a canonical `TickInput` and answers a canonical `TickOutput`; it can reach nothing
else.
A trap, the end of its fuel and an answer that is no output are faults with a code.
Every tick has a fresh instance, or one that is proven to be as good as fresh.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from wasmtime import Trap, TrapCode, WasmtimeError

from tallystick.errors import BadDefinition, NotCanonical, SchemaMismatch, TallyError, TickFault
from tallystick.model.abi import Content, Halted, Ran, TickInput, read_output
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.limits import Limits
from tallystick.modules.wasm_engine import ENGINE, FUEL_SCALE, Compiled, Kept, code_of
from tallystick.modules.wasm_guest import Cap, Guest
from tallystick.modules.wasm_raw import Outside, Plain, calls
from tallystick.values import canon

INIT: Final = "init"
FUEL_MAX: Final = 2**63 - 1  # what the engine can count
MEMORY_MAX: Final = 2**32  # what a module can name


class Blobs(Protocol):
    """Where artifacts are read from."""

    def get(self, digest: bytes, /) -> bytes | None:
        """The bytes of that digest, or None."""
        ...


class Call(NamedTuple):
    """One run: what, with which document, and how much it may use."""

    artifact: str
    entrypoint: str
    data: bytes
    limits: Limits


class Answered(NamedTuple):
    """What a run gave and what it cost."""

    data: bytes
    fuel: int


class WasmLane:
    """Runs the WASM modules of one world; with `pooled` off every tick has a fresh guest."""

    def __init__(
        self,
        blobs: Blobs,
        known: dict[str, Compiled] | None = None,
        *,
        pooled: bool = True,
        layer: type[Plain] = calls,
        kept: Kept | None = None,
    ) -> None:
        self._blobs = blobs
        self._kept = kept
        self._known = {} if known is None else known  # shared by the worlds of a node
        self._pooled = pooled
        self._layer = layer
        self._idle: dict[tuple[str, int], Guest] = {}

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        """Run one delivery; whatever the module does wrong is a fault."""
        del content  # not offered to WASM
        ran = self._run(_call(catalogue, workflow, workflow.entrypoint, tick))
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
            if INIT not in self._compiled(call.artifact).entries:
                return None
        except TallyError as why:
            return _refused(why)
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
        ran = self._run(Call(artifact, entrypoint, canon.encode(given), catalogue.limits))
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

    # ---- running ----------------------------------------------------------------------------

    def _compiled(self, hash_text: str) -> Compiled:
        known = self._known.get(hash_text)
        if known is None:
            data = self._blobs.get(canon.raw_of(hash_text))
            if data is None:
                message = f"the artifact {hash_text} is not in the store"
                raise BadDefinition(message, code="bundle.incomplete", where={"path": hash_text})
            known = self._known[hash_text] = Compiled(data, self._kept)
        return known

    def _run(self, call: Call) -> Answered | Halted:
        try:
            compiled = self._compiled(call.artifact)
            compiled.check_entry(call.entrypoint)
        except TallyError as why:
            return _refused(why)
        while True:
            ran = self._attempt(compiled, call)
            if ran is not None:
                return ran
            # The interrupt was meant for another thread: the one it was meant for is not here.

    def _attempt(self, compiled: Compiled, call: Call) -> Answered | Halted | None:
        """One run to its end; None when it was interrupted from outside."""
        fuel, memory = call.limits.fuel * FUEL_SCALE, call.limits.memory_bytes
        cap = Cap(min(fuel, FUEL_MAX), min(memory, MEMORY_MAX))
        place = (call.artifact, cap.memory_bytes)
        guest = self._idle.pop(place, None)
        fresh = guest is None
        try:
            if guest is None:
                guest = Guest(compiled, cap, self._layer)
                fresh = not (self._pooled and guest.keep())
            data = guest.run(call.entrypoint, call.data, cap.fuel)
            used = cap.fuel - guest.fuel()
            if not fresh and guest.restore():
                self._idle[place] = guest
            return Answered(data, used)
        except Outside as why:
            used = 0 if guest is None else cap.fuel - guest.fuel()
            return Halted("bad_output", f"the module names memory wrongly: {why}", used, ENGINE)
        except Trap as trap:
            left = 0 if guest is None else guest.fuel()
            return _trapped(trap, call.limits.fuel, cap.fuel - left)
        except WasmtimeError:
            message = f"the module needs more than memory_bytes {memory}"
            return Halted("trap", message, 0, ENGINE)


def _call(catalogue: Catalogue, workflow: Workflow, entrypoint: str, tick: TickInput) -> Call:
    artifact = str(catalogue.modules[workflow.module].artifact)
    return Call(artifact, entrypoint, tick.envelope(), workflow.limits)


def _trapped(trap: Trap, limit: int, used: int) -> Halted | None:
    code = trap.trap_code
    if code is TrapCode.INTERRUPT:
        return None
    if code is TrapCode.OUT_OF_FUEL:
        over = {"name": "fuel", "max": limit, "got": limit + 1}
        return Halted("fuel", f"the tick used more than its fuel of {limit}", used, ENGINE, over)
    return Halted("trap", f"the module trapped: {code_of(trap)}", used, ENGINE)


def _refused(why: TallyError) -> Halted:
    return Halted("exception", f"{why.code}: {why.message}", 0, ENGINE)
