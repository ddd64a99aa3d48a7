"""A guest is one instance of a module: made, run, and restored (05 section 5).

A pooled guest gives the same output for the same fuel as a fresh one.
That holds because fuel is counted from the call of `alloc` on, when both stand at the same image,
and because only modules whose code cannot keep anything else are pooled.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from wasmtime import Func, Global, Instance, Memory, Store

from tallystick.modules import wasm_raw
from tallystick.modules.wasm_engine import Compiled, engine

POOLED_BYTES_MAX: Final = 1024 * 1024  # copying more costs more than a fresh instance


class Cap(NamedTuple):
    """What a run may use: instructions and bytes of memory."""

    fuel: int
    memory_bytes: int


class Image(NamedTuple):
    """What an instance looked like before its first run."""

    memory: bytes
    globals: tuple[tuple[Global, Any], ...]


class Guest:
    """A module ready to run in a store of its own; raises `Trap` if its start does."""

    __slots__ = ("_alloc", "_calls", "_entries", "_image", "_linked", "compiled", "store")

    def __init__(
        self, compiled: Compiled, cap: Cap, calls: type[wasm_raw.Plain] = wasm_raw.calls
    ) -> None:
        self.compiled = compiled
        self.store = store = Store(engine())
        store.set_limits(memory_size=cap.memory_bytes, instances=1, memories=1)
        store.set_fuel(cap.fuel)
        store.set_epoch_deadline(1)
        self._linked = Instance(store, compiled.module, []).exports(store)
        self._calls = calls(store, cast("Memory", self._linked["memory"]))
        self._alloc = cast("Func", self._linked["alloc"])
        if "_initialize" in compiled.binary.exports:
            cast("Func", self._linked["_initialize"])(store)
        self._image: Image | None = None

    def keep(self) -> bool:
        """Remember what the instance looks like; False when it may not serve again."""
        if not self.compiled.pooled or self._calls.size() > POOLED_BYTES_MAX:
            return False
        found = [cast("Global", self._linked[name]) for name in self.compiled.binary.globals]
        held = tuple((each, each.value(self.store)) for each in found)
        self._image = Image(self._calls.read(0, self._calls.size()), held)
        return True

    def restore(self) -> bool:
        """Make the instance what it was; False when it has grown and must go."""
        image = self._image
        if image is None or self._calls.size() != len(image.memory):
            return False
        self._calls.write(0, image.memory)
        for each, value in image.globals:
            each.set_value(self.store, value)
        return True

    def run(self, entrypoint: str, data: bytes, fuel: int) -> bytes:
        """Hand a document to an entrypoint and take its answer."""
        calls, store = self._calls, self.store
        store.set_fuel(fuel)
        store.set_epoch_deadline(1)
        at = calls.call(self._alloc, len(data)) & _WORD
        calls.write(at, data)
        answer = calls.call(cast("Func", self._linked[entrypoint]), at, len(data))
        return calls.read((answer >> 32) & _WORD, answer & _WORD)

    def fuel(self) -> int:
        """What is left of the fuel of the run."""
        return self._calls.fuel()


_WORD: Final = 0xFFFFFFFF
