"""How a value says that it does not fit, before anybody has asked where.

The hot path raises a bare `Misfit` and keeps no books.
Only when one was raised does the slow pass walk the value again and find every path.
"""

from __future__ import annotations


class Misfit(Exception):  # noqa: N818 - a signal inside the room; it never leaves it
    """A value does not fit: `code` without the prefix `value.`, and what was expected."""

    __slots__ = ("code", "expected")

    def __init__(self, code: str, expected: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.expected = expected
