"""What a WASM binary says about itself, read without an engine (05 section 5).

The sections give imports, exports and the number of functions.
The code tells whether an instance may serve again: `leaks` lists every reason why something could
stay behind that restoring memory and exported globals does not undo.
What is not understood counts as a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallystick.errors import BadDefinition

SIZE_MAX: Final = 4 * 1024 * 1024
FUNCTIONS_MAX: Final = 20_000
PROOF_MAX: Final = 512 * 1024  # bytes of code; reading more would cost more than it saves
HIDDEN_GLOBAL: Final = "a mutable global that is not exported"
MAGIC: Final = b"\0asm\x01\0\0\0"

_IMPORT, _FUNCTION, _GLOBAL, _EXPORT, _CODE = 2, 3, 6, 7, 10
_NUMERIC: Final = frozenset({0x7F, 0x7E, 0x7D, 0x7C})  # i32 i64 f32 f64
_KINDS: Final = ("function", "table", "memory", "global", "tag")


class Export(NamedTuple):
    """One exported thing: its kind and its number among those of its kind."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Binary:
    """The outline of a module: what it wants, what it gives, and why it may not be pooled."""

    imports: tuple[str, ...]
    exports: dict[str, Export]
    functions: int
    globals: tuple[str, ...]  # the exported mutable ones, which a pool restores
    leaks: tuple[str, ...]


class _Bytes:
    """A reader over a span of the binary; running over its end is a refusal."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise _invalid("it ends too early")
        found = self.data[self.at]
        self.at += 1
        return found

    def leb(self) -> int:
        """An unsigned number; also skips a signed one."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise _invalid("a number in it is too long")

    def skip(self, count: int) -> None:
        if count > self.end - self.at:
            raise _invalid("it ends too early")
        self.at += count

    def name(self) -> str:
        size = self.leb()
        begin = self.at
        self.skip(size)
        return self.data[begin : self.at].decode("utf-8", "replace")


def read_binary(data: bytes) -> Binary:
    """The outline of a binary; refuses what is too large, wants imports or is no core module."""
    if len(data) > SIZE_MAX:
        raise _refused("wasm.too_large", f"a module has at most {SIZE_MAX} bytes, not {len(data)}")
    if not data.startswith(MAGIC):
        raise _invalid("it does not begin like a core module")
    sections = dict(_sections(data))
    functions = sections[_FUNCTION].leb() if _FUNCTION in sections else 0
    if functions > FUNCTIONS_MAX:
        message = f"a module has at most {FUNCTIONS_MAX} functions, not {functions}"
        raise _refused("wasm.too_large", message)
    imports = tuple(_imports(sections[_IMPORT])) if _IMPORT in sections else ()
    if imports:
        raise _refused("wasm.import", f"a module imports nothing; this one wants {imports[0]}")
    exports = _exports(sections[_EXPORT]) if _EXPORT in sections else {}
    names = {export.number: name for name, export in exports.items() if export.kind == "global"}
    restored, leaks = _globals(sections.get(_GLOBAL), names)
    leaks += _code(sections.get(_CODE))
    return Binary(imports, exports, functions, restored, tuple(dict.fromkeys(leaks)))


def _sections(data: bytes) -> Iterator[tuple[int, _Bytes]]:
    whole = _Bytes(data, len(MAGIC), len(data))
    while whole.at < whole.end:
        number, size = whole.byte(), whole.leb()
        begin = whole.at
        whole.skip(size)
        yield number, _Bytes(data, begin, whole.at)


def _imports(section: _Bytes) -> Iterator[str]:
    """The first import is enough to refuse, so the types of the others are not read."""
    if section.leb():
        yield f"{section.name()}.{section.name()}"


def _exports(section: _Bytes) -> dict[str, Export]:
    found: dict[str, Export] = {}
    for _ in range(section.leb()):
        name, kind = section.name(), section.byte()
        if kind >= len(_KINDS):
            raise _invalid(f"export {name} is of an unknown kind")
        found[name] = Export(_KINDS[kind], section.leb())
    return found


def _globals(section: _Bytes | None, names: dict[int, str]) -> tuple[tuple[str, ...], list[str]]:
    """The globals that a pool restores, and those that it cannot."""
    restored: list[str] = []
    leaks: list[str] = []
    for index in range(section.leb() if section is not None else 0):
        assert section is not None, "only a section has globals"
        kind, changes = section.byte(), section.byte()
        if kind not in _NUMERIC:
            return (), ["a global that holds a reference"]
        for opcode in _opcodes(section):
            if opcode is None or opcode == _END:
                break
        if changes and index not in names:
            leaks.append(HIDDEN_GLOBAL)
        elif changes:
            restored.append(names[index])
    return tuple(restored), leaks


# ---- code -----------------------------------------------------------------------------------

_END: Final = 0x0B
_LASTING: Final = {
    0x26: "table.set",
    0xFC09: "data.drop",
    0xFC0C: "table.init",
    0xFC0D: "elem.drop",
    0xFC0E: "table.copy",
    0xFC0F: "table.grow",
    0xFC11: "table.fill",
}
# How many numbers stand behind an opcode; those of a prefix have it in front.
_NUMBERS: Final = {
    **dict.fromkeys((0x00, 0x01, 0x05, 0x0B, 0x0F, 0x1A, 0x1B, 0xD1, *range(0x45, 0xC5)), 0),
    **dict.fromkeys((0x02, 0x03, 0x04, 0x0C, 0x0D, 0x10, *range(0x20, 0x27)), 1),
    **dict.fromkeys((0x3F, 0x40, 0x41, 0x42, 0xD0, 0xD2), 1),
    **dict.fromkeys((0x11, *range(0x28, 0x3F)), 2),
    **dict.fromkeys(range(0xFC00, 0xFC08), 0),
    **dict.fromkeys((0xFC09, 0xFC0B, 0xFC0D, 0xFC0F, 0xFC10, 0xFC11), 1),
    **dict.fromkeys((0xFC08, 0xFC0A, 0xFC0C, 0xFC0E), 2),
}
_FIXED: Final = {0x43: 4, 0x44: 8}  # the float constants
_TABLES: Final = {0x0E: 1, 0x1C: 0}  # a counted list, and how many numbers behind it


def _opcodes(code: _Bytes) -> Iterator[int | None]:
    """The opcodes of a span, in order; None for one that is not known, which ends the reading."""
    while code.at < code.end:
        opcode = code.byte()
        if opcode == 0xFC:
            opcode = 0xFC00 + code.leb()
        numbers = _NUMBERS.get(opcode)
        if opcode in _FIXED:
            code.skip(_FIXED[opcode])
        elif opcode in _TABLES:
            numbers = code.leb() + _TABLES[opcode]
        elif numbers is None:
            yield None
            return
        for _ in range(numbers or 0):
            code.leb()
        yield opcode


def _code(section: _Bytes | None) -> list[str]:
    if section is None:
        return []
    if section.end - section.at > PROOF_MAX:
        return [f"more than {PROOF_MAX} bytes of code"]
    leaks: list[str] = []
    for _ in range(section.leb()):
        size = section.leb()
        body = _Bytes(section.data, section.at, section.at + size)
        section.skip(size)
        for _ in range(body.leb()):  # the locals: how many, of which type
            body.leb()
            body.byte()
        for opcode in _opcodes(body):
            if opcode is None:
                leaks.append("an instruction that is not known here")
            elif opcode in _LASTING:
                leaks.append(_LASTING[opcode])
    return leaks


def _invalid(why: str) -> BadDefinition:
    return _refused("wasm.invalid", f"the artifact is not a WASM module: {why}")


def _refused(code: str, message: str) -> BadDefinition:
    return BadDefinition(message, code=code, hint=_HINTS[code])


_HINTS: Final = {
    "wasm.invalid": "compile it as a core module, not as a component or as text",
    "wasm.import": "link without WASI and without undefined symbols",
    "wasm.too_large": "strip it, or split it into several modules",
}
