r"""Globs of reaction files: literals, `?`, `*`, `**` and `{a,b}`, and nothing else.

Theory of operation.
So small a language has a decidable intersection: `intersect` walks both patterns at once and gives
a path that matches both, or None when there is none (08 section 2, G3).
`**` is a whole segment and stands for any number of segments, also none; `*` and `?` stay inside a
segment; braces do not nest and are written out first.

Matching takes time linear in the path: an expression is made in which every star but the last of
its segment, and every `**` but the last, takes the first fit and never gives it back.
The first fit is as good as any, because what follows has the more room for it.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from tallystick.errors import BadDefinition
from tallystick.reactions.tree import fold

ALTERNATIVES_MAX: Final = 64
GLOB_MAX: Final = 1024
STAR, ANY = "*", "?"
DEEP: Final = "**"
_FILLER: Final = "a"
State = TypeVar("State")


class Glob(NamedTuple):
    """A pattern that was read: its text, and its alternatives as segments."""

    text: str
    alternatives: tuple[tuple[str, ...], ...]
    expression: re.Pattern[str]

    def matches(self, path: bytes) -> bool:
        """True when the path, relative and clean, is one of those that are meant."""
        text = path.decode("utf-8", "surrogateescape")
        return self.expression.fullmatch(text + "/" if text else "") is not None


@lru_cache(maxsize=4096)
def parse(text: str) -> Glob:
    """Read a glob; BadDefinition with code `reaction.bad_glob` says what it may not hold."""
    if not text or len(text) > GLOB_MAX:
        raise _bad(text, f"a glob has 1 to {GLOB_MAX} characters")
    for char in text:
        # Brackets would be a class elsewhere; a glob that quietly means less is worse than none.
        if char in "\\[]" or not char.isprintable():
            raise _bad(text, f"{char!r} has no meaning in a glob")
    if text[0] in "!/":
        raise _bad(text, "it is relative, and not a negation")
    alternatives = tuple(_segments(text, plain) for plain in _written_out(text))
    joined = "|".join(_expression(segments) for segments in alternatives)
    return Glob(text, alternatives, re.compile(joined))


def match(glob: str, path: bytes, *, folding: bool = False) -> bool:
    """True when the path is one that the glob means; `folding` takes no account of case."""
    if folding:
        return parse(_folded(glob)).matches(fold(path))
    return parse(glob).matches(path)


def match_any(globs: tuple[str, ...], path: bytes, *, folding: bool = False) -> str | None:
    """The first of the globs that means the path."""
    return next((glob for glob in globs if match(glob, path, folding=folding)), None)


def below(glob: str, path: bytes) -> str | None:
    """A glob that starts with `./`, read below a target; None when no glob can say that path."""
    if not glob.startswith("./"):
        return glob
    try:
        base = path.decode()
        made = f"{base}/{glob[2:]}" if base else glob[2:]
        if _SPECIAL.isdisjoint(base):
            parse(made)
            return made
    except (UnicodeDecodeError, BadDefinition):
        pass
    return None


_SPECIAL: Final = frozenset("*?{}")


def _folded(glob: str) -> str:
    return fold(glob.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


# ---- reading --------------------------------------------------------------------------------


def _bad(text: str, why: str) -> BadDefinition:
    return BadDefinition(
        f"the glob {text!r} cannot be used: {why}",
        code="reaction.bad_glob",
        where={"glob": text},
        hint="globs know literals, ?, *, ** as a whole segment, and {a,b}; ? also means a bracket",
    )


def _written_out(text: str) -> list[str]:
    """The alternatives of all braces, each without braces."""
    done, rest = [""], text
    while "{" in rest:
        before, _, tail = rest.partition("{")
        body, closed, rest = tail.partition("}")
        if not closed or "{" in body or "}" in before:
            raise _bad(text, "braces do not nest and have both ends")
        choices = body.split(",")
        done = [made + before + choice for made in done for choice in choices]
        if len(done) > ALTERNATIVES_MAX:
            raise _bad(text, f"braces make more than {ALTERNATIVES_MAX} patterns")
    if "}" in rest:
        raise _bad(text, "a brace has no beginning")
    return [made + rest for made in done]


def _segments(text: str, plain: str) -> tuple[str, ...]:
    """The segments of one alternative; neighbouring `**` are one, neighbouring stars too."""
    found: list[str] = []
    for segment in plain.removeprefix("./").split("/"):
        if segment in ("", ".", ".."):
            raise _bad(text, "a segment is empty, '.' or '..'")
        if DEEP in segment and segment != DEEP:
            raise _bad(text, "** stands for whole segments")
        if not (segment == DEEP and found and found[-1] == DEEP):
            found.append(segment)
    return tuple(found)


# ---- matching -------------------------------------------------------------------------------


def _expression(segments: tuple[str, ...]) -> str:
    """An expression over the path with a slash after each segment."""
    chunks: list[list[str]] = [[]]
    for segment in segments:
        if segment == DEEP:
            chunks.append([])
        else:
            chunks[-1].append(_segment_expression(segment))
    first, *rest = ("".join(chunk) for chunk in chunks)
    if not rest:
        return first
    middle = "".join(f"(?>(?:[^/]+/)*?{chunk})" for chunk in rest[:-1])
    return f"{first}{middle}(?:[^/]+/)*{rest[-1]}"


def _segment_expression(segment: str) -> str:
    first, *rest = (
        "".join("[^/]" if char == ANY else re.escape(char) for char in piece)
        for piece in segment.split(STAR)
    )
    if not rest:
        return f"{first}/"
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    # Only one end fits, so to look for another one later is of no use.
    return f"{first}{middle}(?>[^/]*{rest[-1]}/)"


# ---- intersection ---------------------------------------------------------------------------


def intersect(one: str, other: str) -> bytes | None:
    """A short path that both globs mean; None when there is no such path."""
    best: str | None = None
    for left in parse(one).alternatives:
        for right in parse(other).alternatives:
            found = _common_path(left, right)
            if found is not None and (best is None or len(found) < len(best)):
                best = found
    return None if best is None else best.encode("utf-8", "surrogateescape")


def _common_path(left: tuple[str, ...], right: tuple[str, ...]) -> str | None:
    """Breadth first over (place in left, place in right, is there a segment yet)."""
    start = (0, 0, False)
    came: dict[tuple[int, int, bool], tuple[tuple[int, int, bool], str] | None] = {start: None}
    queue: deque[tuple[int, int, bool]] = deque([start])
    while queue:
        at = queue.popleft()
        i, j, some = at
        if i == len(left) and j == len(right) and some:
            return _spelled(came, at)
        for to, segment in _next_segments(left, right, i, j):
            state = (to[0], to[1], some or segment != "")
            if state not in came:
                came[state] = (at, segment)
                # A move without a segment is free, so it is looked at first.
                (queue.append if segment else queue.appendleft)(state)
    return None


def _next_segments(
    left: tuple[str, ...], right: tuple[str, ...], i: int, j: int
) -> list[tuple[tuple[int, int], str]]:
    moves: list[tuple[tuple[int, int], str]] = []
    one = left[i] if i < len(left) else None
    other = right[j] if j < len(right) else None
    if one == DEEP:
        moves.append(((i + 1, j), ""))
    if other == DEEP:
        moves.append(((i, j + 1), ""))
    if one is not None and other is not None:
        segment = _common_segment(STAR if one == DEEP else one, STAR if other == DEEP else other)
        if segment is not None:
            moves.append(((i + (one != DEEP), j + (other != DEEP)), segment))
    return moves


@lru_cache(maxsize=4096)
def _common_segment(one: str, other: str) -> str | None:
    """Breadth first over (place, place, dots so far); '.' and '..' are no names."""
    start = (0, 0, 0)
    came: dict[tuple[int, int, int], tuple[tuple[int, int, int], str] | None] = {start: None}
    queue: deque[tuple[int, int, int]] = deque([start])
    while queue:
        at = queue.popleft()
        i, j, dots = at
        if i == len(one) and j == len(other) and dots == _NO_DOTS:
            return _spelled(came, at, "")
        for to, char in _next_chars(one, other, i, j):
            state = (*to, _dots(dots, char))
            if state not in came:
                came[state] = (at, char)
                (queue.append if char else queue.appendleft)(state)
    return None


_NO_DOTS: Final = 3


def _dots(dots: int, char: str) -> int:
    """How many dots a name is so far; 3 when it can be a name."""
    if not char:
        return dots
    return min(dots + 1, _NO_DOTS) if char == "." and dots < _NO_DOTS else _NO_DOTS


def _next_chars(one: str, other: str, i: int, j: int) -> list[tuple[tuple[int, int], str]]:
    moves: list[tuple[tuple[int, int], str]] = []
    a = one[i] if i < len(one) else None
    b = other[j] if j < len(other) else None
    if a == STAR:
        moves.append(((i + 1, j), ""))
    if b == STAR:
        moves.append(((i, j + 1), ""))
    if a is None or b is None:
        return moves
    to = (i + (a != STAR), j + (b != STAR))
    if a in (STAR, ANY):
        moves.append((to, _FILLER if b in (STAR, ANY) else b))
    elif b in (STAR, ANY, a):
        moves.append((to, a))
    return moves


def _spelled(came: dict[State, tuple[State, str] | None], at: State, between: str = "/") -> str:
    pieces: list[str] = []
    step = came[at]
    while step is not None:
        at, piece = step
        if piece:
            pieces.append(piece)
        step = came[at]
    return between.join(reversed(pieces))
