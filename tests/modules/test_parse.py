"""Sources are parsed whatever else the process does meanwhile."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tallystick.modules.parse import parsed

SOURCE = "def f(a):\n" + "".join(f"    x{n} = [a + {n}, (a, {{a: {n}}})]\n" for n in range(600))


def deeper(frames: int) -> object:
    """Parse something with so many more frames on the stack."""
    return deeper(frames - 1) if frames else ast.parse("x = 1")


@contextmanager
def collected_in_the_middle() -> Iterator[list[str]]:
    """The next collection parses something itself, as the report of a lost exception does."""
    done: list[str] = []

    def collects(phase: str, _info: dict[str, Any]) -> None:
        if phase == "stop" and not done:
            done.append("parsed")
            deeper(20)

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(collects)
    gc.set_threshold(2000)
    try:
        yield done
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collects)


def test_a_collection_in_the_middle_is_no_fault_of_the_source() -> None:
    """AU-06: a good source has its tree, whatever is collected while it is made."""
    with collected_in_the_middle() as done:
        tree = parsed(SOURCE, "app.py")
    assert done, "something was collected"
    assert ast.dump(tree) == ast.dump(ast.parse(SOURCE, "app.py"))


@pytest.mark.skipif(sys.version_info >= (3, 11, 5), reason="mended in Python 3.11.5")
def test_python_alone_takes_it_for_one() -> None:
    """The control of the test above."""
    with collected_in_the_middle(), pytest.raises(SystemError):
        ast.parse(SOURCE, "app.py")


def test_what_does_not_parse_is_said() -> None:
    """AU-06: a source without a tree is refused as before."""
    with pytest.raises(SyntaxError):
        parsed("def f(:", "app.py")
    with pytest.raises((SyntaxError, ValueError), match="null"):  # the first since Python 3.11.4
        parsed("x = 1\0", "app.py")
