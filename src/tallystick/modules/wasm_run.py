"""Running WASM modules here: compiled once, in guests that are fresh or as good as fresh.

What a module does wrong is the `Halted` of its run: a trap, the end of its fuel, memory that it
names wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from wasmtime import Trap, TrapCode, WasmtimeError

from tallystick.errors import BadDefinition, LaneMissing
from tallystick.model.abi import Halted
from tallystick.modules.wasm_call import Answered, Blobs, Call, code_at
from tallystick.modules.wasm_engine import ENGINE, FUEL_SCALE, Compiled, Kept, code_of
from tallystick.modules.wasm_guest import Guest
from tallystick.modules.wasm_plain import Cap, Outside, Plain
from tallystick.modules.wasm_raw import calls

FUEL_MAX: Final = 2**63 - 1  # what the engine can count
_LIMITS: Final = "limits"  # memories and tables over the limits of their store
MEMORY_MAX: Final = 2**32  # what a module can name


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSettings:
    """How modules are compiled and their guests made; none of it changes an outcome.

    `known` holds what is compiled and may be shared by the worlds of a node.
    `kept` keeps compiled code between two starts.
    With `pooled` off every run has a fresh guest.
    `layer` is the way in which guests are called.
    """

    known: dict[str, Compiled] = field(default_factory=dict)
    kept: Kept | None = None
    pooled: bool = True
    layer: type[Plain] = calls


class Instances:
    """Runs modules in this process."""

    def __init__(self, blobs: Blobs, settings: GuestSettings | None = None) -> None:
        self._blobs = blobs
        self._settings = settings or GuestSettings()
        self.idle: dict[tuple[str, int], Guest] = {}

    def entries(self, artifact: str) -> frozenset[str]:
        """What a module exports as entrypoints; refuses one that does not keep the ABI."""
        return self._compiled(artifact).entries

    def run(self, call: Call) -> Answered | Halted:
        """One run to its end; whatever the module does wrong is in the answer."""
        compiled = self._compiled(call.artifact)
        compiled.check_entry(call.entrypoint)
        while True:
            ran = self.attempt(compiled, call)
            if ran is not None:
                return ran
            # The interrupt was meant for another thread: the one it was meant for is not here.

    def attempt(self, compiled: Compiled, call: Call) -> Answered | Halted | None:
        """One run; None when it was interrupted from outside."""
        fuel, memory = call.fuel * FUEL_SCALE, call.memory_bytes
        cap = Cap(min(fuel, FUEL_MAX), min(memory, MEMORY_MAX))
        place = (call.artifact, cap.memory_bytes)
        guest = self.idle.pop(place, None)
        fresh = guest is None
        try:
            if guest is None:
                guest = self._guest(compiled, cap)
                fresh = not (self._settings.pooled and guest.keep())
            data = guest.run(call.entrypoint, call.data, cap.fuel)
            used = cap.fuel - guest.fuel()
            if not fresh and guest.restore():
                self.idle[place] = guest
            return Answered(data, used)
        except Outside as why:
            used = 0 if guest is None else cap.fuel - guest.fuel()
            return Halted("bad_output", f"the module names memory wrongly: {why}", used, ENGINE)
        except Trap as trap:
            left = 0 if guest is None else guest.fuel()
            return _trapped(trap, call.fuel, cap.fuel - left)
        except WasmtimeError as why:
            if _LIMITS not in str(why):
                # The machine has run out of something: that says nothing about the module.
                raise LaneMissing(
                    f"no instance can be made: {why}", code="wasm.no_instance"
                ) from why
            message = f"the module needs more than memory_bytes {memory}"
            return Halted("trap", message, 0, ENGINE)

    def _guest(self, compiled: Compiled, cap: Cap) -> Guest:
        layer = self._settings.layer
        if not (self._settings.pooled and compiled.pooled):
            try:
                return Guest(compiled, compiled.warm, cap, layer)
            except WasmtimeError:
                pass  # no place is free, or the limits forbid it: the other engine decides
        return Guest(compiled, compiled.code, cap, layer)

    def _compiled(self, hash_text: str) -> Compiled:
        settings = self._settings
        found = settings.known.get(hash_text)
        if found is None:
            found = Compiled(code_at(self._blobs, hash_text), settings.kept)
            settings.known[hash_text] = found
        return found


def refused(why: BadDefinition) -> Halted:
    """The end of a run that could not begin."""
    return Halted("exception", f"{why.code}: {why.message}", 0, ENGINE)


def _trapped(trap: Trap, limit: int, used: int) -> Halted | None:
    code = trap.trap_code
    if code is TrapCode.INTERRUPT:
        return None
    if code is TrapCode.OUT_OF_FUEL:
        over = {"name": "fuel", "max": limit, "got": limit + 1}
        return Halted("fuel", f"the tick used more than its fuel of {limit}", used, ENGINE, over)
    return Halted("trap", f"the module trapped: {code_of(trap)}", used, ENGINE)
