"""What a tick needs of an instance, through the public interface of the engine (05 section 5).

An instance lives in a store of its own, with its limits, its fuel and its deadline.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from wasmtime import Engine, Instance, Module, Store


class Outside(Exception):  # noqa: N818 - no error of ours: what a module says about its memory
    """A module named memory that it does not have."""


class Cap(NamedTuple):
    """What a run may use: instructions and bytes of memory."""

    fuel: int
    memory_bytes: int


class Code(NamedTuple):
    """A compiled module and the engine that it is compiled for."""

    engine: Engine
    module: Module


class Plain:
    """An instance; making it and `call` raise `Trap`, reading and writing `Outside`."""

    def __init__(self, code: Code, cap: Cap) -> None:
        self._store = store = Store(code.engine)
        store.set_limits(*limits_of(cap))
        self.refill(cap.fuel)  # also tables and globals are filled by metered code
        self._exports: Any = Instance(store, code.module, ()).exports(store)
        self._memory: Any = self._exports["memory"]

    def refill(self, fuel: int) -> None:
        """Give a run its fuel, and the time until the next interrupt."""
        self._store.set_fuel(fuel)
        self._store.set_epoch_deadline(1)

    def export(self, name: str) -> Any:
        """A function or a global by its name; it exists."""
        return self._exports[name]

    def call(self, function: Any, first: int = 0, second: int = 0) -> int:
        """Run a function of the ABI, which takes the first of these and gives a number or none."""
        numbers = (first, second)[: len(function.type(self._store).params)]
        return function(self._store, *numbers) or 0

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into memory."""
        within(at, len(data), self.size())
        self._memory.write(self._store, data, at)

    def read(self, at: int, size: int) -> bytes:
        """Take bytes out of memory."""
        within(at, size, self.size())
        return bytes(self._memory.read(self._store, at, at + size))

    def size(self) -> int:
        """How many bytes of memory there are now."""
        return int(self._memory.data_len(self._store))

    def value(self, of: Any) -> Any:
        """What a global holds, in a form that `put_back` takes."""
        return of.value(self._store)

    def put_back(self, of: Any, value: Any) -> None:
        """Give a global its value back."""
        of.set_value(self._store, value)

    def fuel(self) -> int:
        """What is left."""
        return self._store.get_fuel()


def limits_of(cap: Cap) -> tuple[int, int, int, int, int]:
    """Bytes of memory, elements of tables, instances, tables (any number), memories of a store."""
    # What a table holds takes memory too, a word for each.
    return cap.memory_bytes, cap.memory_bytes // _WORD_BYTES, 1, -1, 1


def within(at: int, size: int, most: int) -> None:
    """Refuse what is not all in memory."""
    if at + size > most:
        raise Outside(f"{size} bytes at {at} are not within {most} bytes of memory")


_WORD_BYTES: Final = 8
