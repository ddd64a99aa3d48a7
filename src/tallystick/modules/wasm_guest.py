"""A guest is one instance of a module: made, run, and restored (05 section 5).

A pooled guest gives the same output for the same fuel as a fresh one.
That holds because fuel is counted from the call of `alloc` on, when both stand at the same image,
and because only modules whose code cannot keep anything else are pooled.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tallystick.modules.wasm_engine import Compiled
from tallystick.modules.wasm_plain import Cap, Code, Plain

POOLED_BYTES_MAX: Final = 1024 * 1024  # copying more costs more than a fresh instance


class Image(NamedTuple):
    """What a guest looked like before its first run."""

    memory: bytes
    globals: tuple[tuple[Any, Any], ...]


class Guest:
    """A module ready to run in a store of its own; raises `Trap` if its start does."""

    __slots__ = ("_alloc", "_calls", "_entries", "_image", "compiled")

    def __init__(self, compiled: Compiled, code: Code, cap: Cap, layer: type[Plain]) -> None:
        self.compiled = compiled
        self._calls = layer(code, cap)
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
        calls = self._calls
        entry = self._entries.get(entrypoint)
        if entry is None:
            entry = self._entries[entrypoint] = calls.export(entrypoint)
        calls.refill(fuel)
        at = calls.call(self._alloc, len(data)) & _WORD
        calls.write(at, data)
        answer = calls.call(entry, at, len(data))
        return calls.read((answer >> 32) & _WORD, answer & _WORD)

    def fuel(self) -> int:
        """What is left of the fuel of the run."""
        return self._calls.fuel()


INITIALIZE: Final = "_initialize"
_WORD: Final = 0xFFFFFFFF
