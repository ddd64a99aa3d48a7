"""The same as `wasm_plain` by the C interface of the engine, without its conversions.

Signatures are checked once, when a module is loaded; here a call writes its arguments, runs, and
reads one number back.
A fresh instance is mostly objects that hold what the engine writes, so one object holds it all.
It needs names that the package keeps to itself; where one is missing, `Plain` serves.
"""

# ruff: noqa: SLF001 - the names that the package keeps to itself are the point of this file
from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    cast,
    memmove,
    string_at,
)
from importlib import import_module
from typing import Any, Final

from wasmtime import Trap, WasmtimeError

from tallystick.modules.wasm_plain import Cap, Code, Plain, limits_of, within


class Raw(Plain):
    """An instance by its addresses; its memory may move with every call."""

    _owned: int | None = None

    def __init__(self, code: Code, cap: Cap) -> None:
        self._owned = store = _STORE(code.engine.ptr(), None, None)
        self._context = context = _CONTEXT(store)
        _LIMIT(store, *limits_of(cap))
        self._held = held = _Held()
        self._values, self._trap = byref(held), byref(held, _TRAP_AT)
        self._instance = instance = byref(held, _INSTANCE_AT)
        self.refill(cap.fuel)  # also tables and globals are filled by metered code
        self._check(_NEW(context, code.module.ptr(), None, 0, instance, self._trap))
        self._memory = byref(held, _MEMORY_AT)
        _FIND(context, instance, b"memory", 6, byref(held, _EXPORT_AT))

    def __del__(self) -> None:
        if self._owned is not None:
            _DELETE(self._owned)

    def refill(self, fuel: int) -> None:
        """Give a run its fuel, and the time until the next interrupt."""
        self._check(_FILL(self._context, fuel))
        _DEADLINE(self._context, 1)

    def export(self, name: str) -> Any:
        """The handle of an export; which kind it is was checked at load."""
        found, text = _EXTERN(), name.encode()
        _FIND(self._context, self._instance, text, len(text), byref(found))
        return byref(found, _OF_AT)

    def call(self, function: Any, first: int = 0, second: int = 0) -> int:
        """Run a function of the ABI, which takes the first of these and gives a number or none."""
        held = self._held
        held.first, held.second = first, second
        failed = _CALL(self._context, function, self._values, 2, self._trap)
        if failed or held.trap:
            self._check(failed)
        return int(held.first)

    def write(self, at: int, data: bytes) -> None:
        """Put bytes into memory."""
        within(at, len(data), _SIZE(self._context, self._memory))
        memmove(_DATA(self._context, self._memory) + at, data, len(data))

    def read(self, at: int, size: int) -> bytes:
        """Take bytes out of memory."""
        within(at, size, _SIZE(self._context, self._memory))
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
        self._check(_SET(self._context, of, byref(value)))

    def fuel(self) -> int:
        """What is left."""
        self._check(_LEFT(self._context, byref(self._held, _LEFT_AT)))
        return int(self._held.left)

    def _check(self, failed: int | None) -> None:
        """Raise what the engine says; whoever is raised frees what it holds."""
        if failed:
            raise WasmtimeError._from_ptr(cast(failed, _ERROR_P))
        trap = self._held.trap
        if trap:
            self._held.trap = None
            raise Trap._from_ptr(cast(trap, _TRAP_P))


def _typed(name: str, result: Any, *arguments: Any) -> Any:
    """A function of the library under a type of ours: looking it up gives a new object."""
    function = _private.dll[name]
    function.restype, function.argtypes = result, arguments
    return function


try:
    _private: Any = import_module("wasmtime._bindings")
    _P: Final = c_void_p
    _EXTERN: Final[Any] = _private.wasmtime_extern
    _VALUE: Final[Any] = _private.wasmtime_val
    _TRAP_P: Final[Any] = POINTER(_private.wasm_trap_t)
    _ERROR_P: Final[Any] = POINTER(_private.wasmtime_error_t)

    class _Held(Structure):
        """All that the engine writes for one instance; the two raw values come first."""

        _fields_ = (
            ("first", c_int64),
            ("first_high", c_int64),
            ("second", c_int64),
            ("second_high", c_int64),
            ("trap", c_void_p),
            ("left", c_uint64),
            ("instance", _private.wasmtime_instance_t),
            ("memory", _EXTERN),
        )

    _TRAP_AT, _LEFT_AT = _Held.trap.offset, _Held.left.offset
    _INSTANCE_AT, _EXPORT_AT = _Held.instance.offset, _Held.memory.offset
    _OF_AT: Final[int] = _EXTERN.of.offset
    _MEMORY_AT: Final[int] = _EXPORT_AT + _OF_AT
    _STORE: Final = _typed("wasmtime_store_new", _P, _P, _P, _P)
    _DELETE: Final = _typed("wasmtime_store_delete", None, _P)
    _CONTEXT: Final = _typed("wasmtime_store_context", _P, _P)
    _LIMIT: Final = _typed("wasmtime_store_limiter", None, _P, *[c_int64] * 5)
    _FILL: Final = _typed("wasmtime_context_set_fuel", _P, _P, c_uint64)
    _LEFT: Final = _typed("wasmtime_context_get_fuel", _P, _P, _P)
    _DEADLINE: Final = _typed("wasmtime_context_set_epoch_deadline", None, _P, c_uint64)
    _NEW: Final = _typed("wasmtime_instance_new", _P, _P, _P, _P, c_size_t, _P, _P)
    _FIND: Final = _typed("wasmtime_instance_export_get", c_bool, _P, _P, c_char_p, c_size_t, _P)
    _CALL: Final = _typed("wasmtime_func_call_unchecked", _P, _P, _P, _P, c_size_t, _P)
    _DATA: Final = _typed("wasmtime_memory_data", _P, _P, _P)
    _SIZE: Final = _typed("wasmtime_memory_data_size", c_size_t, _P, _P)
    _GET: Final = _typed("wasmtime_global_get", None, _P, _P, _P)
    _SET: Final = _typed("wasmtime_global_set", _P, _P, _P, _P)
    _ = Trap._from_ptr, WasmtimeError._from_ptr
    calls: type[Plain] = Raw
except (AttributeError, ImportError):
    calls = Plain
