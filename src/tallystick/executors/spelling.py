"""How the value of a secret may be spelled, so that each spelling can be found again.

Theory of operation.
A spelling is a row of places; each place lists the texts that may stand there.
One row covers many writings: at each place of the URL row stands the character itself or its
escape, so a reader that escapes only some characters is covered too.
A row is used twice: as a regular expression over whole texts, and place by place at the end of a
chunk, where the question is whether the secret may go on in the next one.
Bytes are searched as Latin-1 text, in which every byte is one character.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final, TypeAlias

Spelling: TypeAlias = tuple[tuple[str, ...], ...]

_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_BASE64_ALSO: Final = {
    "+": ("+", "-", "%2B", "%2b"),
    "/": ("/", "_", "\\/", "%2F", "%2f"),
}
_PLACE_MAX: Final = 12  # the longest text of one place: two escaped UTF-16 units


def spellings(value: str) -> tuple[Spelling, ...]:
    """Every spelling of a value in a text, plain and escaped ones first."""
    body = value.encode("utf-8", "surrogatepass")
    found = [
        tuple(_in_json(char) for char in value),
        tuple(_in_url(octet) for octet in body),
        tuple(_either_case(digit) for digit in body.hex()),
        *(_in_base64(body, offset) for offset in range(3)),
    ]
    return tuple(dict.fromkeys(row for row in found if row))


def spellings_in_bytes(value: str) -> tuple[Spelling, ...]:
    """The same for bytes, in which a character beyond ASCII is more than one byte."""
    rows = (
        tuple(tuple(_octets(text) for text in place) for place in row) for row in spellings(value)
    )
    return tuple(dict.fromkeys(rows))


def _octets(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _in_json(char: str) -> tuple[str, ...]:
    units = char.encode("utf-16-be", "surrogatepass")
    escaped = "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
    short = (_SHORT[char],) if char in _SHORT else ()
    # Both cases of the digits; mixed ones no encoder writes.
    upper = re.sub(r"[0-9a-f]{4}", lambda found: found[0].upper(), escaped)
    return tuple(dict.fromkeys((char, *short, escaped, upper)))


def _in_url(octet: int) -> tuple[str, ...]:
    escapes = tuple(dict.fromkeys((f"%{octet:02X}", f"%{octet:02x}")))
    plain = (chr(octet),) if octet < 128 else ()
    return (*plain, *escapes, "+") if octet == 0x20 else (*plain, *escapes)


def _either_case(digit: str) -> tuple[str, ...]:
    return (digit, digit.upper()) if digit.isalpha() else (digit,)


def _in_base64(body: bytes, offset: int) -> Spelling:
    """The characters that the value alone decides when it starts at this offset of a group.

    The first and the last character may hold bits of a neighbour, so those are left out.
    """
    whole = b64encode(bytes(offset) + body).decode("ascii").rstrip("=")
    bits = 8 * (offset + len(body))
    inner = whole[(8 * offset + 5) // 6 : bits // 6]
    return tuple(_BASE64_ALSO.get(char, (char,)) for char in inner)


def pattern_of(row: Spelling) -> str:
    """The row as a regular expression."""
    return "".join(_place(place) for place in row)


def _place(place: tuple[str, ...]) -> str:
    if len(place) == 1:
        return re.escape(place[0])
    return "(?:" + "|".join(re.escape(text) for text in place) + ")"


def longest(row: Spelling) -> int:
    """The most characters that the spelling takes."""
    return sum(max(map(len, place)) for place in row)


def unfinished(text: str, row: Spelling) -> int | None:
    """Where in a text the spelling starts without ending, or None; the earliest such place."""
    for start in range(max(0, len(text) - longest(row) + 1), len(text)):
        if _runs_out(text, start, row):
            return start
    return None


def _runs_out(text: str, start: int, row: Spelling) -> bool:
    """True when the text ends inside the spelling that starts here."""
    ways = {start}
    for place in row:
        after: set[int] = set()
        for at in ways:
            rest = text[at : at + _PLACE_MAX]
            if any(len(rest) < len(word) and word.startswith(rest) for word in place):
                return True
            after.update(at + len(word) for word in place if rest.startswith(word))
        ways = after
    return False
