"""A guest is one instance of a module: made, run, and restored (05 section 5).

A pooled guest gives the same output for the same fuel as a fresh one.
That holds because fuel is counted from the call of `alloc` on, when both stand at the same image,
and because only modules whose code cannot keep anything else are pooled.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from wasmtime import Store

from tallystick.modules import wasm_raw
from tallystick.modules.wasm_engine import Compiled, engine

POOLED_BYTES_MAX: Final = 1024 * 1024  # copying more costs more than a fresh instance


class Cap(NamedTuple):
    """What a run may use: instructions and bytes of memory."""

    fuel: int
    memory_bytes: int


class Image(NamedTuple):
    """What a guest looked like before its first run."""

    memory: bytes
    globals: tuple[tuple[Any, Any], ...]


class Guest:
    """A module ready to run in a store of its own; raises `Trap` if its start does."""

    __slots__ = ("_alloc", "_calls", "_entries", "_image", "compiled", "store")

    def __init__(
        self, compiled: Compiled, cap: Cap, calls: type[wasm_raw.Plain] = wasm_raw.calls
    ) -> None:
        self.compiled = compiled
        self.store = store = Store(engine())
        # What a table holds takes memory too, a word for each.
        store.set_limits(cap.memory_bytes, cap.memory_bytes // _WORD_BYTES, 1, -1, 1)
        store.set_epoch_deadline(1)
        store.set_fuel(cap.fuel)  # also tables and globals are filled by metered code
        self._calls = calls(store, calls.link(store, compiled.module))
        if INITIALIZE in compiled.binary.exports:
            self._calls.call(self._calls.export(INITIALIZE))
        self._alloc = self._calls.export("alloc")
        self._entries: dict[str, Any] = {}
        self._image: Image | None = None

    def keep(self) -> bool:
        """Remember what the guest looks like; False when it may not serve again."""
        calls = self._calls
        if not self.compiled.pooled or calls.size() > POOLED_BYTES_MAX:
            return False
        found = [calls.export(name) for name in self.compiled.binary.globals]
        held = tuple((each, calls.value(each)) for each in found)
        self._image = Image(calls.read(0, calls.size()), held)
        return True

    def restore(self) -> bool:
        """Make the guest what it was; False when it has grown and must go."""
        image, calls = self._image, self._calls
        if image is None or calls.size() != len(image.memory):
            return False
        calls.write(0, image.memory)
        for each, value in image.globals:
            calls.put_back(each, value)
        return True

    def run(self, entrypoint: str, data: bytes, fuel: int) -> bytes:
        """Hand a document to an entrypoint and take its answer."""
        calls, store = self._calls, self.store
        entry = self._entries.get(entrypoint)
        if entry is None:
            entry = self._entries[entrypoint] = calls.export(entrypoint)
        store.set_fuel(fuel)
        store.set_epoch_deadline(1)
        at = calls.call(self._alloc, len(data)) & _WORD
        calls.write(at, data)
        answer = calls.call(entry, at, len(data))
        return calls.read((answer >> 32) & _WORD, answer & _WORD)

    def fuel(self) -> int:
        """What is left of the fuel of the run."""
        return self._calls.fuel()


INITIALIZE: Final = "_initialize"
_WORD: Final = 0xFFFFFFFF
_WORD_BYTES: Final = 8
