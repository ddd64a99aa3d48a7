"""The items of hot readers: patterns of single canonical items, and their values (ADR 0010).

A pattern proves numbers, lengths and digests to be canonical by its own form.
That the bytes of a text are text is proven by the strict reader, once per text.
The memories are bounded, because most of what they hold is a stranger's choice.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any, Final

from tallystick.values import canon

MEMORY_MAX: Final = 4096
DEPTH: Final = 3  # a field of a record, in the list of a frame's body


class _Numbers(dict[bytes, int]):
    """Natural numbers by their bytes, which the pattern has proven to be the shortest."""

    def __missing__(self, raw: bytes) -> int:
        width = len(raw)
        made = raw[0] if width == 1 else int.from_bytes(raw[1:], "big")  # as `number_of`
        if len(self) >= MEMORY_MAX:
            self.clear()  # places in history: the old ones do not come again
        self[raw] = made
        if width in canon.LOTS and canon.put_int(made - 1) in self:
            # What comes one after the other, as places do, is read in lots of one width.
            first, pack, end = canon.LOTS[width]
            lot = range(made, min(made + 64, end))
            self.update(zip(map(pack, repeat(first), lot), lot, strict=False))
        return made


class _Sizes(dict[bytes, int]):
    """Lengths of byte strings by their heads, which the pattern has proven to be the shortest."""

    def __missing__(self, raw: bytes) -> int:
        made = raw[0] - 0x40 if len(raw) == 1 else int.from_bytes(raw[1:], "big")
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


class _Texts(dict[bytes, str]):
    """Texts by their bytes; what is not one canonical text is refused."""

    def __missing__(self, raw: bytes) -> str:
        made = text_of(raw)
        if len(self) < MEMORY_MAX:
            self[raw] = made
        return made


def whole(raw: bytes) -> Any:
    """The value of bytes that must be exactly one item.

    Its errors only send the caller to the general reader, which says what is wrong and where.
    """
    reader = canon.Reader(raw, 0)
    value = reader.item(DEPTH)
    if reader.pos != len(raw):
        raise ValueError("more than one item")
    return value


def text_of(raw: bytes) -> str:
    """The text of bytes that must be exactly one text, for those that do not recur."""
    value = whole(raw)
    if type(value) is not str:
        raise ValueError("a text expected")
    return value


def number_of(raw: bytes) -> int:
    """The number of bytes that a pattern has proven, for those that do not recur."""
    return raw[0] if len(raw) == 1 else int.from_bytes(raw[1:], "big")


NUMBERS: Final[dict[bytes, int]] = _Numbers()
SIZES: Final[dict[bytes, int]] = _Sizes()
TEXTS: Final[dict[bytes, str]] = _Texts()

# Patterns of one item each, without a group.
NAT: Final = (
    rb"(?:[\x00-\x17]|\x18[\x18-\xff]|\x19[\x01-\xff].|\x1a(?!\x00\x00).{4}|\x1b(?!\x00{4}).{8})"
)
# The head of a byte string; nothing is longer than four bytes can say.
SIZE: Final = rb"(?:[\x40-\x57]|\x58[\x18-\xff]|\x59[\x01-\xff].|\x5a(?!\x00\x00).{4})"


def _string(major: int, most: int) -> bytes:
    """Strings of a major type of up to so many bytes, head and content.

    There is one way for each length under 24, so that nothing is searched for its end; a longer
    one ends where what follows begins, and whoever takes it compares its length with its head.
    """
    head = major << 5
    ways = [re.escape(bytes((head | n,))) + b".{%d}" % n for n in range(24)]
    ways.append(re.escape(bytes((head | 24,))) + b".{25,%d}?" % (most + 1))
    return b"(?:" + b"|".join(ways) + b")"


# The bounds keep hostile content from making the engine try many splits.
TEXT: Final = _string(3, 64)
OCTETS: Final = _string(2, 128)  # nearly every key; what may be longer is a SIZE and its content
DIGEST: Final = rb".{32}"


def key(*names: str) -> bytes:
    """Literal texts: keys, and values that are fixed."""
    return b"".join([re.escape(canon.put_text(name)) for name in names])


def get(item: bytes, head: bytes = b"") -> bytes:
    """A group for an item, behind a fixed head."""
    return head + b"(" + item + b")"


def digest(name: str) -> bytes:
    """A key and the group of its digest."""
    return key(name) + get(DIGEST, rb"\x58\x20")


def may_digest(name: str) -> bytes:
    """A key and the group of its digest, or null and no group."""
    return key(name) + rb"(?:\xf6|" + get(DIGEST, rb"\x58\x20") + rb")"


def nat(name: str) -> bytes:
    """A key and the group of its number."""
    return key(name) + get(NAT)


def text(name: str) -> bytes:
    """A key and the group of its text."""
    return key(name) + get(TEXT)


def octets(name: str) -> bytes:
    """A key and the group of its short byte string, head included."""
    return key(name) + get(OCTETS)


def bare(raw: bytes) -> bytes:
    """The content of a short byte string."""
    if raw[0] < 0x58:
        return raw[1:]
    if raw[1] != len(raw) - 2 or raw[1] < 24:
        raise ValueError("another length than the head says")
    return raw[2:]


def size(name: str) -> bytes:
    """A key and the group of the head of its byte string; the content follows the pattern."""
    return key(name) + get(SIZE)


def may(*parts: bytes) -> bytes:
    """What may be absent; a way that is empty costs the engine less than a repetition."""
    return b"(?:" + b"".join(parts) + b"|)"


def pattern(*parts: bytes) -> re.Pattern[bytes]:
    """The compiled pattern of a segment."""
    return re.compile(b"".join(parts), re.DOTALL)
