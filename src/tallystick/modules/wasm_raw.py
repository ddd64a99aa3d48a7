"""Calls into an instance without the wrapper's conversions (05 section 5).

Signatures are checked once, when a module is loaded; here a call writes its arguments, runs, and
reads one number back.
It needs names that the package keeps to itself; where one is missing, `Plain` does the same
through the public interface.
"""

from __future__ import annotations

from ctypes import POINTER, byref, c_size_t, c_uint64, c_void_p, memmove, string_at
from importlib import import_module
from typing import Any, Final, cast

from wasmtime import Func, Memory, Store, Trap, WasmtimeError


class Outside(Exception):  # noqa: N818 - no error of ours: what a module says about its memory
    """A module named memory that it does not have."""


class Plain:
    """What a tick needs of an instance; `call` raises `Trap`, reading and writing `Outside`."""

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store, self._memory = store, memory

    def call(self, function: Func, *numbers: int) -> int:
        """Run a function of the ABI."""
        return cast("int", function(self._store, *numbers))

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into memory."""
        _within(at, len(data), self.size())
        self._memory.write(self._store, data, at)

    def read(self, at: int, size: int) -> bytes:
        """Take bytes out of memory."""
        _within(at, size, self.size())
        return bytes(self._memory.read(self._store, at, at + size))

    def size(self) -> int:
        """How many bytes of memory there are now."""
        return self._memory.data_len(self._store)

    def fuel(self) -> int:
        """What is left."""
        return self._store.get_fuel()


class Raw(Plain):
    """The same by the C interface of the engine; memory may move with every call."""

    def __init__(self, store: Store, memory: Memory) -> None:
        super().__init__(store, memory)
        self._context: Any = store._context()  # noqa: SLF001 - the point of this file
        self._at: Any = byref(memory._memory)  # noqa: SLF001
        self._values: Any = (_VALUE * 2)()
        self._trap: Any = _TRAP()
        self._left = c_uint64(0)

    def call(self, function: Func, *numbers: int) -> int:
        """Run a function of the ABI."""
        values = self._values
        for at, number in enumerate(numbers):
            values[at].i64 = number
        error = _CALL(self._context, byref(function._func), values, 2, byref(self._trap))  # noqa: SLF001
        if error:
            raise WasmtimeError._from_ptr(error)  # noqa: SLF001 - it frees what it holds
        if self._trap:
            trap, self._trap = self._trap, _TRAP()
            raise Trap._from_ptr(trap)  # noqa: SLF001 - it frees what it holds
        return int(values[0].i64)

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into memory."""
        _within(at, len(data), _SIZE(self._context, self._at))
        memmove(_DATA(self._context, self._at) + at, data, len(data))

    def read(self, at: int, size: int) -> bytes:
        """Take bytes out of memory."""
        _within(at, size, _SIZE(self._context, self._at))
        return string_at(_DATA(self._context, self._at) + at, size)

    def size(self) -> int:
        """How many bytes of memory there are now."""
        return int(_SIZE(self._context, self._at))

    def fuel(self) -> int:
        """What is left."""
        _FUEL(self._context, byref(self._left))
        return self._left.value


def _within(at: int, size: int, most: int) -> None:
    if at < 0 or size < 0 or at + size > most:
        raise Outside(f"{size} bytes at {at} are not within {most} bytes of memory")


try:
    _private: Any = import_module("wasmtime._bindings")
    _VALUE: Final[Any] = _private.wasmtime_val_raw
    _TRAP: Final[Any] = POINTER(_private.wasm_trap_t)
    _CALL: Final[Any] = _private._wasmtime_func_call_unchecked  # noqa: SLF001
    _FUEL: Final[Any] = _private._wasmtime_context_get_fuel  # noqa: SLF001
    _DATA: Final[Any] = _private.dll["wasmtime_memory_data"]  # ours to type: a new object each time
    _DATA.restype, _DATA.argtypes = c_void_p, [c_void_p, c_void_p]
    _SIZE: Final[Any] = _private.dll["wasmtime_memory_data_size"]
    _SIZE.restype, _SIZE.argtypes = c_size_t, [c_void_p, c_void_p]
    _ = Store._context, Trap._from_ptr, WasmtimeError._from_ptr  # noqa: SLF001
    calls: type[Plain] = Raw
except (AttributeError, ImportError):
    calls = Plain
