"""Every tool of the kit has a test that it passes and one in which it finds a planted defect.

Tests say with `@pytest.mark.kit("tool")` which tool they show, and with `finds=True` that a defect
is planted in them.
A tool that is added to the kit and to no test is named here.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

import tallystick.testing
import tests.testing
from tallystick.testing import TestWorld, plugin

# The rows of the table in 05 section 6; `explore` is what that table calls simulate.
TOOLS = (
    "tick",
    "script",
    "assert_replays",
    "crash_everywhere",
    "explore",
    "assert_no_cross_delivery",
    "apply",
    "golden",
    "strategies",
    "tally_hashseeds",
)
BESIDES = ("check_workflow", "assert_law")  # 05 section 7
# What tests are made of: it asserts nothing by itself.
ANSWERS = {"cancelled", "denied", "duplicate", "error", "late", "malformed", "ok", "timeout"}
MATERIAL = ANSWERS | {"TestWorld", "in_wasm", "tally_seed"}
SAME = {"tally_golden": "golden"}  # the option of a tool

Mark = tuple[str, bool]


def marks() -> Iterator[Mark]:
    """The tools that the tests of this folder show, and whether they find a defect there."""
    for found in pkgutil.iter_modules(tests.testing.__path__):
        module = importlib.import_module(f"{tests.testing.__name__}.{found.name}")
        for _, test in inspect.getmembers(module, inspect.isfunction):
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "kit" and test.__module__ == module.__name__:
                    yield mark.args[0], mark.kwargs.get("finds", False)


def lacking(tools: tuple[str, ...], given: list[Mark]) -> list[Mark]:
    """The tools without a test of one of the two kinds."""
    return [
        (tool, finds) for tool in tools for finds in (False, True) if (tool, finds) not in given
    ]


def offered() -> set[str]:
    """The names of the kit: what it exports, and the options of its plugin."""
    parser = pytest.Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    options = {option.dest for option in parser.getgroup("tally").options}
    return {*tallystick.testing.__all__, *options}


@pytest.mark.clause("K-48")
def test_every_tool_has_its_control() -> None:
    """AU-24: ten tools, each shown to pass and to fail on its planted defect."""
    assert len(set(TOOLS)) == 10
    given = list(marks())
    assert lacking(TOOLS + BESIDES, given) == []
    assert {tool for tool, _ in given} == {*TOOLS, *BESIDES}, "a mark names no tool"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_without_its_control_is_named(tool: str) -> None:
    """AU-24 control: one mark taken away is missed."""
    left = [mark for mark in marks() if mark != (tool, True)]
    assert lacking(TOOLS, left) == [(tool, True)]


def test_no_tool_is_left_out() -> None:
    """AU-24: whatever the kit exports is a tool of the list, or what tests are made of."""
    named = {SAME.get(name, name) for name in offered()}
    assert named - MATERIAL - {*TOOLS, *BESIDES} == set()
    inside = {"script", "assert_replays", "apply"}
    assert inside <= set(dir(TestWorld))
    assert {*TOOLS, *BESIDES} - named == {*inside, "strategies"}
