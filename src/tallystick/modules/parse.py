"""Source text to its tree, the one way for all of this room."""

from __future__ import annotations

import ast
from typing import Final

_TRIES: Final = 4


def parsed(source: bytes | str, path: str = "<source>") -> ast.Module:
    """The tree of a source; raises SyntaxError or ValueError for one that has none.

    Python before 3.11.5 counts the depth of a tree in one place for the whole process: a collection
    or another thread that parses in the middle breaks the count, and a good source ends in a
    SystemError (gh-106905). The source has no part in that, so it is parsed again.
    """
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source, path)
        except SystemError:
            continue
    return ast.parse(source, path)
