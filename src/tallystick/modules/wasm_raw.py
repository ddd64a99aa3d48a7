"""Calls into an instance without the wrapper's conversions (05 section 5).

Signatures are checked once, when a module is loaded; here a call writes its arguments, runs, and
reads one number back.
It needs names that the package keeps to itself; where one is missing, `Plain` does the same
through the public interface.
"""

# ruff: noqa: SLF001 - the names that the package keeps to itself are the point of this file
from __future__ import annotations

from ctypes import POINTER, byref, c_size_t, c_uint64, c_void_p, memmove, string_at
from importlib import import_module
from typing import Any, Final

from wasmtime import Instance, Module, Store, Trap, WasmtimeError


class Outside(Exception):  # noqa: N818 - no error of ours: what a module says about its memory
    """A module named memory that it does not have."""


class Plain:
    """What a tick needs of an instance; `call` raises `Trap`, reading and writing `Outside`."""

    def __init__(self, store: Store, instance: Instance) -> None:
        self._store = store
        self._exports: Any = instance.exports(store)
        self._memory: Any = self._exports["memory"]

    @staticmethod
    def link(store: Store, module: Module) -> Instance:
        """An instance of a module without imports; raises `Trap` if its start does."""
        return Instance(store, module, ())

    def export(self, name: str) -> Any:
        """A function or a global by its name; it exists."""
        return self._exports[name]

    def call(self, function: Any, *numbers: int) -> int:
        """Run a function; one of the ABI gives a number."""
        return function(self._store, *numbers) or 0

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


class Raw(Plain):
    """The same by the C interface of the engine; memory may move with every call."""

    def __init__(self, store: Store, instance: Instance) -> None:
        self._store = store
        self._context: Any = store._context()
        self._instance: Any = instance._instance
        self._memory = self.export("memory")
        self._values: Any = _VALUES()
        self._trap: Any = _TRAP()
        self._left = c_uint64(0)

    @staticmethod
    def link(store: Store, module: Module) -> Instance:
        """An instance of a module without imports; raises `Trap` if its start does."""
        made, trap = _INSTANCE(), _TRAP()
        error = _NEW(store._context(), module.ptr(), None, 0, byref(made), byref(trap))
        if error:
            raise WasmtimeError._from_ptr(error)
        if trap:
            raise Trap._from_ptr(trap)
        return Instance._from_raw(made)

    def export(self, name: str) -> Any:
        """The handle of an export; which kind it is was checked at load."""
        found, text = _EXTERN(), name.encode()
        _FIND(self._context, byref(self._instance), text, len(text), byref(found))
        return byref(found.of)

    def call(self, function: Any, *numbers: int) -> int:
        """Run a function; one of the ABI gives a number."""
        values = self._values
        for at, number in enumerate(numbers):
            values[at].i64 = number
        error = _CALL(self._context, function, values, 2, byref(self._trap))
        if error:
            raise WasmtimeError._from_ptr(error)  # it frees what it holds
        if self._trap:
            trap, self._trap = self._trap, _TRAP()
            raise Trap._from_ptr(trap)  # it frees what it holds
        return int(values[0].i64)

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into memory."""
        _within(at, len(data), _SIZE(self._context, self._memory))
        memmove(_DATA(self._context, self._memory) + at, data, len(data))

    def read(self, at: int, size: int) -> bytes:
        """Take bytes out of memory."""
        _within(at, size, _SIZE(self._context, self._memory))
        return string_at(_DATA(self._context, self._memory) + at, size)

    def size(self) -> int:
        """How many bytes of memory there are now."""
        return int(_SIZE(self._context, self._memory))

    def value(self, of: Any) -> Any:
        """What a number of a global is, bit for bit."""
        held = _VALUE()
        _GET(self._context, of, byref(held))
        return held

    def put_back(self, of: Any, value: Any) -> None:
        """Give a global its value back."""
        error = _SET(self._context, of, byref(value))
        if error:
            raise WasmtimeError._from_ptr(error)

    def fuel(self) -> int:
        """What is left."""
        _FUEL(self._context, byref(self._left))
        return self._left.value


def _within(at: int, size: int, most: int) -> None:
    if at + size > most:
        raise Outside(f"{size} bytes at {at} are not within {most} bytes of memory")


def _typed(dll: Any, name: str, result: Any, count: int) -> Any:
    """A function of the library under a type of ours: looking it up gives a new object."""
    function = dll[name]
    function.restype, function.argtypes = result, [c_void_p] * count
    return function


try:
    _private: Any = import_module("wasmtime._bindings")
    _dll: Any = _private.dll
    _VALUES: Final[Any] = _private.wasmtime_val_raw * 2
    _VALUE: Final[Any] = _private.wasmtime_val
    _EXTERN: Final[Any] = _private.wasmtime_extern
    _TRAP: Final[Any] = POINTER(_private.wasm_trap_t)
    _ERROR: Final[Any] = POINTER(_private.wasmtime_error_t)
    _INSTANCE: Final[Any] = _private.wasmtime_instance_t
    _NEW: Final[Any] = _private._wasmtime_instance_new
    _FIND: Final[Any] = _private._wasmtime_instance_export_get
    _FUEL: Final[Any] = _private._wasmtime_context_get_fuel
    _CALL: Final[Any] = _typed(_dll, "wasmtime_func_call_unchecked", _ERROR, 5)
    _CALL.argtypes = [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p]
    _DATA: Final[Any] = _typed(_dll, "wasmtime_memory_data", c_void_p, 2)
    _SIZE: Final[Any] = _typed(_dll, "wasmtime_memory_data_size", c_size_t, 2)
    _GET: Final[Any] = _typed(_dll, "wasmtime_global_get", None, 3)
    _SET: Final[Any] = _typed(_dll, "wasmtime_global_set", _ERROR, 3)
    _ = Store._context, Instance._from_raw, Trap._from_ptr, WasmtimeError._from_ptr
    calls: type[Plain] = Raw
except (AttributeError, ImportError):
    calls = Plain
