r"""The grammar of patterns, read straight into a position automaton (Glushkov).

Literals, `.` (all but line feed), classes, `\d \w \s` as ASCII, groups, `|`,
`? * + {m} {m,} {m,n}`. There are no anchors, no lookaround, no back-references.
Each character item of the pattern is one bit; a repeat unfolds to copies of its operand.
"""

from __future__ import annotations

from dataclasses import dataclass

PATTERN_MAX = 200
ITEMS_MAX = 1024
_REPEAT_MAX = 1000
_WORK_MAX = 16 * ITEMS_MAX  # empty groups unfold to no items, but still to work
_TOP = 0x110000

Ranges = tuple[tuple[int, int], ...]  # half-open, sorted, disjoint

_DIGIT: Ranges = ((48, 58),)
_WORD: Ranges = ((48, 58), (65, 91), (95, 96), (97, 123))
_SPACE: Ranges = ((9, 14), (32, 33))
_DOT: Ranges = ((0, 10), (11, _TOP))
_SETS = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROL = {"n": 10, "r": 13, "t": 9}


class BadPattern(Exception):  # noqa: N818 - a signal inside the room; it becomes schema.bad_bound
    """The pattern is outside the grammar, or too large."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the automaton: may it be empty, and which items begin and end it."""

    nullable: bool
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Automaton:
    """All items of a pattern, what may follow each, and how the whole begins and ends."""

    items: list[Ranges]
    follow: list[int]
    whole: Part


def automaton_of(text: str) -> Automaton:
    """The automaton of a pattern; refuses other grammar and patterns that are too large."""
    if len(text) > PATTERN_MAX:
        raise BadPattern(f"a pattern has at most {PATTERN_MAX} characters")
    parser = _Parser(text)
    whole = parser.whole()
    return Automaton(parser.items, parser.follow, whole)


_EMPTY = Part(nullable=True, first=0, last=0)


class _Parser:
    """Recursive descent over at most 200 characters; repeats parse their operand again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.items: list[Ranges] = []
        self.follow: list[int] = []
        self.work = 0

    def peek(self) -> str:
        return self.text[self.pos] if self.pos < len(self.text) else ""

    def whole(self) -> Part:
        part = self.choice()
        if self.pos < len(self.text):
            raise BadPattern(f"unexpected {self.peek()!r} at {self.pos}")
        return part

    def choice(self) -> Part:
        part = self.sequence()
        while self.peek() == "|":
            self.pos += 1
            other = self.sequence()
            part = Part(
                part.nullable or other.nullable, part.first | other.first, part.last | other.last
            )
        return part

    def sequence(self) -> Part:
        part = _EMPTY
        while self.peek() not in ("", "|", ")"):
            part = self.joined(part, self.repeated())
        return part

    def joined(self, a: Part, b: Part) -> Part:
        self.link(a.last, b.first)
        first = a.first | b.first if a.nullable else a.first
        last = a.last | b.last if b.nullable else b.last
        return Part(a.nullable and b.nullable, first, last)

    def link(self, ends: int, begins: int) -> None:
        while ends:
            low = ends & -ends
            self.follow[low.bit_length() - 1] |= begins
            ends ^= low

    def repeated(self) -> Part:
        start = self.pos
        part = self.atom()
        low, high = self.quantifier()
        if (low, high) == (1, 1):
            return part
        if self.peek() in tuple("?*+{") and self.peek():
            raise BadPattern(f"a second quantifier at {self.pos}")
        end = self.pos
        made = self.copies(start, part, low, high)
        self.pos = end
        return made

    def copies(self, start: int, first: Part, low: int, high: int) -> Part:
        """The operand low to high times; high < 0 is without end. Each copy has its own items."""
        if high == 0:
            return _EMPTY
        count = max(low, 1) if high < 0 else high
        total = _EMPTY
        for i in range(count):
            part = first
            if i:
                self.pos = start
                part = self.atom()
            if high < 0 and i == count - 1:
                self.link(part.last, part.first)
            if i >= low:
                part = Part(nullable=True, first=part.first, last=part.last)
            total = self.joined(total, part)
        return total

    def quantifier(self) -> tuple[int, int]:
        mark = self.peek()
        if mark == "{":
            return self.braces()
        found = {"?": (0, 1), "*": (0, -1), "+": (1, -1)}.get(mark)
        if found is None:
            return 1, 1
        self.pos += 1
        return found

    def braces(self) -> tuple[int, int]:
        end = self.text.find("}", self.pos)
        body = self.text[self.pos + 1 : end] if end >= 0 else ""
        low, comma, high = body.partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            raise BadPattern(f"a repeat is written {{m}}, {{m,}} or {{m,n}}, at {self.pos}")
        least = int(low)
        most = int(high) if high else (-1 if comma else least)
        if max(least, most) > _REPEAT_MAX or 0 <= most < least:
            raise BadPattern(f"repeat counts ascend, up to {_REPEAT_MAX}, at {self.pos}")
        self.pos = end + 1
        return least, most

    def atom(self) -> Part:
        self.work += 1
        if self.work > _WORK_MAX:
            raise BadPattern("the pattern unfolds to too much")
        char = self.peek()
        self.pos += 1
        if char == "(":
            return self.group()
        if char == "[":
            return self.item(self.char_class())
        if char == ".":
            return self.item(_DOT)
        if char == "\\":
            return self.item(self.escape())
        if char in tuple("?*+{}])^$"):
            raise BadPattern(f"{char!r} at {self.pos - 1} stands for itself only after a backslash")
        return self.item(((ord(char), ord(char) + 1),))

    def group(self) -> Part:
        if self.peek() == "?":
            if not self.text.startswith("?:", self.pos):
                raise BadPattern(f"lookaround and named groups are not used, at {self.pos}")
            self.pos += 2
        part = self.choice()
        if self.peek() != ")":
            raise BadPattern("a group is not closed")
        self.pos += 1
        return part

    def escape(self) -> Ranges:
        char = self.peek()
        self.pos += 1
        if char in _SETS:
            return _SETS[char]
        if char in _CONTROL:
            return ((_CONTROL[char], _CONTROL[char] + 1),)
        if not char or (char.isalnum() and char.isascii()):
            raise BadPattern(f"unknown escape at {self.pos - 1}")
        return ((ord(char), ord(char) + 1),)

    def char_class(self) -> Ranges:
        negative = self.peek() == "^"
        self.pos += negative
        found: list[tuple[int, int]] = []
        start = self.pos
        while self.peek() != "]" or self.pos == start:
            low = self.class_member()
            single = len(low) == 1 and low[0][1] == low[0][0] + 1
            more = self.text[self.pos : self.pos + 2]
            if single and len(more) == 2 and more[0] == "-" and more[1] != "]":
                self.pos += 1
                high = self.class_member()
                if len(high) != 1 or high[0][1] != high[0][0] + 1 or high[0][0] < low[0][0]:
                    raise BadPattern(f"a range in a class runs upwards, before {self.pos}")
                low = ((low[0][0], high[0][1]),)
            found.extend(low)
        self.pos += 1
        return _negated(_merged(found)) if negative else _merged(found)

    def class_member(self) -> Ranges:
        char = self.peek()
        if not char:
            raise BadPattern("a class is not closed")
        self.pos += 1
        if char == "\\":
            return self.escape()
        if char == "[":
            raise BadPattern(f"'[' at {self.pos - 1} in a class needs a backslash")
        return ((ord(char), ord(char) + 1),)

    def item(self, ranges: Ranges) -> Part:
        if len(self.items) >= ITEMS_MAX:
            raise BadPattern(f"the pattern unfolds to more than {ITEMS_MAX} items")
        bit = 1 << len(self.items)
        self.items.append(ranges)
        self.follow.append(0)
        return Part(nullable=False, first=bit, last=bit)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _negated(ranges: Ranges) -> Ranges:
    result: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if at < low:
            result.append((at, low))
        at = high
    if at < _TOP:
        result.append((at, _TOP))
    return tuple(result)
