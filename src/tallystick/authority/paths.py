"""Paths and globs: clean, relative, and meaning the same on every file system.

The pure half of the file rule; the executor opens beneath a directory handle as well.
Globs know literals, `?`, `*`, `**` and `{a,b}` and nothing else.
Matching is bounded by pattern times path, never by backtracking over both.
"""

from __future__ import annotations

from typing import Any

PATH_MAX = 4096
ALTERNATIVES_MAX = 64
# Characters a file system or a reader may drop, so that a name looks like another one.
_HIDDEN = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2028\u2029\u3164\ufeff\uffa0"


def unclean(path: Any) -> str | None:
    """Why a path is not a clean relative one, or None when it is."""
    if type(path) is not str or not path or len(path) > PATH_MAX:
        return "the path is not a text of 1 to 4096 characters"
    if any(_forbidden(c) for c in path):
        return "the path holds a control, hidden or reserved character"
    if path[0] in "/~":
        return "the path is not relative"
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            return "the path has an empty or dot segment"
        if segment[-1] in " ." or segment[0] == " ":
            return "a segment begins or ends with a blank or ends with a dot"
        folded = segment.lower()
        if folded == ".git" or folded.startswith("git~"):
            return "the path enters .git"
    return None


def _forbidden(c: str) -> bool:
    if "\x20" <= c <= "\x7e":
        return c in '\\:*?"<>|'
    code = ord(c)
    if code < 0xA0 or 0x200B <= code <= 0x200F or 0x202A <= code <= 0x202E:
        return True
    if 0x2060 <= code <= 0x206F or 0xFE00 <= code <= 0xFE0F or 0xD800 <= code <= 0xDFFF:
        return True
    return 0xE0000 <= code <= 0xE0FFF or c in _HIDDEN


def covers_path(prefix: Any, path: Any) -> bool:
    """True when a path lies at or under a prefix, counted in whole segments."""
    if type(prefix) is not str or type(path) is not str:
        return False
    if not path.startswith(prefix):
        return False
    return prefix.endswith("/") or prefix in ("", path) or path[len(prefix)] == "/"


def glob_covers(pattern: Any, path: str) -> bool:
    """True when a clean path matches the glob."""
    if type(pattern) is not str:
        return False
    wanted = path.split("/")
    for plain in _alternatives(pattern.removeprefix("./")):
        if _segments_match(plain.split("/"), wanted):
            return True
    return False


def _alternatives(pattern: str) -> list[str]:
    """The pattern without braces, written out; a broken or huge one matches nothing."""
    done = [""]
    rest = pattern
    while "{" in rest:
        head, _, tail = rest.partition("{")
        body, closed, rest = tail.partition("}")
        choices = body.split(",")
        if not closed or "{" in body or len(done) * len(choices) > ALTERNATIVES_MAX:
            return []
        done = [before + head + choice for before in done for choice in choices]
    return [before + rest for before in done]


def _segments_match(patterns: list[str], segments: list[str]) -> bool:
    """Dynamic programming over segments: which lengths of the path are reached so far."""
    reached = [True] + [False] * len(segments)
    for pattern in patterns:
        after = [False] * (len(segments) + 1)
        if pattern == "**":
            open_from = False
            for at, here in enumerate(reached):
                open_from = open_from or here
                after[at] = open_from
        else:
            for at, segment in enumerate(segments):
                after[at + 1] = reached[at] and _segment_matches(pattern, segment)
        reached = after
    return reached[-1]


def _segment_matches(pattern: str, text: str) -> bool:
    """`*` and `?` inside one segment, with one point of return."""
    p = t = 0
    star = -1
    mark = 0
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, mark = p, t
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", text[t]):
            p += 1
            t += 1
        elif star >= 0:
            mark += 1
            p, t = star + 1, mark
        else:
            return False
    return all(c == "*" for c in pattern[p:])
