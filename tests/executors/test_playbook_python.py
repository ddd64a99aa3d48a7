"""What a `python` tool of a playbook may look like, run here as the sandbox runs it."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.executors.playbook_python import main
from tallystick.executors.python_inside import call

ARGS = {"a": 2, "b": 3}
NAMES = """\
import math
from os import path as places
class Kept:
    n = 4
async def later():
    return 1
c, *d = a, b
def all_of():
    return (math.floor(2.5), places.basename("x/y"), Kept.n, c, d)
return all_of()
"""
ANSWERS: dict[str, tuple[str, Any]] = {
    "result": ("result = a * b", 6),
    "main": ("def main(a, b):\n    return a + b", 5),
    "result before main": ("def main(a, b):\n    return 1\nresult = 7", 7),
    "input_data": ("result = sorted(input_data)", ["a", "b"]),
    "context": ("result = context['step']", "s"),
    "nothing": ("c = a", None),
    "no function": ("main = 5", None),
    "return": ("return a - b", -1),
    "return in a branch": ("if a > 1:\n    return 'large'\nreturn 'small'", "large"),
    "return in a loop": ("for n in (1, 2):\n    if n == b - 1:\n        return n", 2),
    "return behind a function": ("def double(n):\n    return 2 * n\nreturn double(b)", 6),
    "return in a function only": ("def main(a, b):\n    return b", 3),
    "return before a function": ("if a:\n    return 9\ndef f():\n    return 1", 9),
    "names beside a return": (NAMES, (2, "y", 4, 2, [3])),
    "names of a comprehension": ("c = [n for n in (a, b)]\nreturn c + sorted({x for x in c})",
                                 [2, 3, 2, 3]),
    "a lambda beside a return": ("f = lambda n: n + a\nreturn f(1)", 3),
    "a return that stores nothing": ("return sum(n for n in (a, b))", 5),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_tool_answers_in_the_way_it_is_written(name: str) -> None:
    """07 section 6: `result`, a `return` at the top level, or `main` over the args."""
    code, wanted = ANSWERS[name]
    assert main(code, dict(ARGS), {}, {"step": "s"}) == wanted


def test_an_argument_called_result_is_no_answer() -> None:
    """07 section 6: what came in is not what comes out; `main` is asked, else it is given back."""
    given = {"result": 1}
    assert main("def main(result):\n    return result + 1", given, {}, {}) == 2
    assert main("x = 1", given, {}, {}) == 1


def test_libs_are_names_of_modules() -> None:
    """07 section 6: each alias is the whole module, also one inside a package."""
    code = "result = places.join('a', js.dumps(1))"
    assert main(code, {}, {"places": "os.path", "js": "json"}, {}) == "a/1"
    with pytest.raises(ModuleNotFoundError):
        main("result = 1", {}, {"x": "no_such_module_here"}, {})


@pytest.mark.parametrize("code", ["def f(:\n    return 1", "await x", "yield 1"])
def test_code_that_is_none_says_so(code: str) -> None:
    """07 section 6: a mistake is told as the interpreter tells it, and is no `return`."""
    with pytest.raises(SyntaxError):
        main(code, {}, {}, {})


ENTRIES: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, [1, 2]),
    ([1, 2], [1, 2]),
    (None, [None, None]),
    (5, [5, None]),
    ("x", ["x", None]),
]


@pytest.mark.parametrize(("args", "wanted"), ENTRIES)
def test_an_entry_is_called_with_what_args_are(args: Any, wanted: list[Any]) -> None:
    """04 section 6: a map by name, a list by place, nothing without, and anything else alone."""
    code = "def entry(a=None, b=None):\n    return [a, b]"
    assert call({"code": code, "entry": "entry", "args": args}) == wanted


def test_an_entry_that_is_not_there_is_an_error_of_the_code() -> None:
    """04 section 6: the name that was asked for is what is missing."""
    with pytest.raises(KeyError, match="entry"):
        call({"code": "x = 1", "entry": "entry", "args": None})
