"""The WASM engine and its settings (05 section 5): one per process, the same for every module.

The settings leave nothing to the machine: no threads, canonical NaN, fuel for every instruction.
Their hash is part of the engine's name, which stands in every tick record.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Final, Protocol

from wasmtime import Config, Engine, FuncType, MemoryType, Module, Trap, TrapCode, WasmtimeError

from tallystick.errors import BadDefinition
from tallystick.modules.wasm_binary import HIDDEN_GLOBAL, Binary, read_binary
from tallystick.modules.wasm_plain import Code
from tallystick.modules.wasm_warm import keep_warm
from tallystick.values import canon

FUEL_SCALE: Final = 100  # instructions for one unit of `limits.fuel`
STACK_BYTES: Final = 512 * 1024

SETTINGS: Final[dict[str, bool | int | str]] = {
    "consume_fuel": True,
    "cranelift_nan_canonicalization": True,
    "cranelift_opt_level": "speed",
    "epoch_interruption": True,
    "gc_support": False,
    "max_wasm_stack": STACK_BYTES,
    "parallel_compilation": False,
    "shared_memory": False,
    "wasm_bulk_memory": True,
    "wasm_custom_page_sizes": False,
    "wasm_exceptions": False,
    "wasm_function_references": False,
    "wasm_gc": False,
    "wasm_memory64": False,
    "wasm_multi_memory": False,
    "wasm_multi_value": True,
    "wasm_reference_types": True,
    "wasm_relaxed_simd": False,
    "wasm_simd": True,
    "wasm_stack_switching": False,
    "wasm_tail_call": False,
    "wasm_threads": False,
    "wasm_wide_arithmetic": False,
}

_CONFIG_HASH: Final = sha256(canon.encode(SETTINGS)).hexdigest()
ENGINE: Final = f"wasmtime/{version('wasmtime')}/{_CONFIG_HASH[:8]}"
ENTRY: Final = (["i32", "i32"], ["i64"])
ALLOC: Final = (["i32"], ["i32"])
INITIALIZE: Final[tuple[list[str], list[str]]] = ([], [])


@cache
def engine() -> Engine:
    """The engine of this process; it may be used by every thread."""
    return Engine(_config())


@cache
def warm_engine() -> Engine | None:
    """The same engine for instances that live for one tick; None where memory cannot be kept.

    It takes the same compiled code, so that outputs, fuel and traps are the same.
    """
    config = _config()
    return Engine(config) if keep_warm(config) else None


def _config() -> Config:
    config = Config()
    for name, value in SETTINGS.items():
        setattr(config, name, value)
    return config


def interrupt() -> None:
    """Stop what runs now in any thread; a tick that was not meant is run again."""
    for each in (engine(), warm_engine()):
        if each is not None:
            each.increment_epoch()


class Kept(Protocol):
    """Where compiled code may lie between two starts; whoever gives one answers for its bytes."""

    def get(self, name: bytes) -> bytes | None:
        """What was put under a name, byte for byte, or None."""
        ...

    def put(self, name: bytes, data: bytes) -> None:
        """Keep it, or not."""
        ...


class Compiled:
    """A module that keeps the ABI, compiled; shared by every world of a node."""

    __slots__ = ("_warm", "binary", "entries", "module")

    def __init__(self, data: bytes, kept: Kept | None = None) -> None:
        self.binary: Binary = read_binary(data)
        name = sha256(data).digest() + ENGINE.encode() + _CONFIG_HASH.encode()
        found = None if kept is None else _ready(kept.get(name))
        self.module = found or _compiled(data)
        if kept is not None and found is None:
            kept.put(name, bytes(self.module.serialize()))
        self.entries = frozenset(_entries(self.module))
        self._warm: Code | None = None

    @property
    def code(self) -> Code:
        """For instances that may stay."""
        return Code(engine(), self.module)

    @property
    def warm(self) -> Code:
        """For instances that live for one tick; the same as `code` where that gains nothing."""
        if self._warm is None:
            self._warm = self._warmed() or self.code
        return self._warm

    def _warmed(self) -> Code | None:
        # The warm engine bounds tables by itself: a module that could notice does not go there.
        other = warm_engine() if set(self.binary.leaks) <= {HIDDEN_GLOBAL} else None
        if other is None:
            return None
        try:
            return Code(other, Module.deserialize(other, self.module.serialize()))
        except WasmtimeError:
            return None  # its tables or globals do not fit

    @property
    def pooled(self) -> bool:
        """True when an instance may serve again after its memory and globals are restored."""
        return not self.binary.leaks

    def check_entry(self, name: str) -> None:
        """Refuse an entrypoint that is not exported with the signature of the ABI."""
        if name not in self.entries:
            raise _export(f"the module exports no {name}(i32, i32) -> i64")


def _ready(held: bytes | None) -> Module | None:
    """Compiled code that this engine takes; another engine's is made anew."""
    try:
        return None if held is None else Module.deserialize(engine(), held)
    except WasmtimeError:
        return None


def _compiled(data: bytes) -> Module:
    try:
        return Module(engine(), data)
    except WasmtimeError as why:
        hint = "compile it without threads, 64-bit memory and other extensions"
        said = str(why).splitlines()[0]
        message = f"the module uses what the lane does not offer: {said}"
        raise BadDefinition(message, code="wasm.feature", hint=hint) from why


def _entries(module: Module) -> list[str]:
    """The exports that can be entrypoints; refuses a module without memory or alloc."""
    types = {export.name: export.type for export in module.exports}
    if not isinstance(types.get("memory"), MemoryType):
        raise _export("the module exports no memory called memory")
    if _signature(types.get("alloc")) != ALLOC:
        raise _export("the module exports no alloc(i32) -> i32")
    if "_initialize" in types and _signature(types["_initialize"]) != INITIALIZE:
        raise _export("_initialize takes and gives nothing")
    return [name for name, each in types.items() if _signature(each) == ENTRY]


def _signature(found: object) -> tuple[list[str], list[str]] | None:
    if not isinstance(found, FuncType):
        return None
    return [str(each) for each in found.params], [str(each) for each in found.results]


def _export(message: str) -> BadDefinition:
    hint = "export memory, alloc and the entrypoint of the workflow"
    return BadDefinition(message, code="wasm.export", hint=hint)


def code_of(trap: Trap) -> str:
    """Why a run trapped, in one word that is the same on every machine."""
    code: TrapCode | None = trap.trap_code
    return "unknown" if code is None else code.name.lower()
