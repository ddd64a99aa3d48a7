"""The Python lane: what it refuses, what it meters, what it finds (AU-12 to AU-14)."""

from __future__ import annotations

import os

import pytest

from tallystick.errors import BadDefinition
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.modules.runners import Runners
from tallystick.testing.world import TestWorld
from tests.workflow.apps import HELLO
from tests.workflow.names import loaded, module_of

REFUSED_LINES = [
    ("import time", "TL101"),
    ("import os", "TL101"),
    ("import random", "TL101"),
    ("import socket", "TL101"),
    ("import re", "TL101"),
    ("import sys", "TL101"),
    ("import asyncio", "TL401"),
    ("import threading", "TL101"),
    ("from datetime import datetime", "TL101"),
    ("from os import path", "TL101"),
    ("from functools import lru_cache", "TL101"),
    ("from math import sin", "TL101"),
    ("from uuid import uuid4", "TL101"),
    ("from typing import sys", "TL101"),
    ("from tallystick import kernel", "TL101"),
    ("import tallystick.node", "TL101"),
    ("open('x')", "TL105"),
    ("exec('1')", "TL105"),
    ("eval('1')", "TL105"),
    ("compile('1', '', 'eval')", "TL105"),
    ("__import__('os')", "TL105"),
    ("globals()", "TL105"),
    ("vars()", "TL105"),
    ("input()", "TL105"),
    ("breakpoint()", "TL105"),
    ("setattr(app, 'x', 1)", "TL105"),
    ("id(app)", "TL102"),
    ("hash('a')", "TL102"),
    ("().__class__.__bases__", "TL105"),
    ("app.workflow.__globals__", "TL105"),
    ("__builtins__", "TL105"),
    ("list = 3", "TL105"),
    ("def f(str): return str", "TL105"),
    ("def f():\n    global app", "TL105"),
    ("for x in {1, 2}: pass", "TL103"),
    ("y = [x for x in set((1, 2))]", "TL103"),
    ("try:\n    pass\nexcept:\n    pass", "TL106"),
    ("try:\n    pass\nexcept BaseException:\n    pass", "TL106"),
]


@pytest.mark.clause("X-12")
@pytest.mark.parametrize(("line", "code"), REFUSED_LINES)
def test_escapes_are_refused_at_load(line: str, code: str) -> None:
    """AU-12: clock, chance, files, network, asyncio, dunders, globals and sets, by lint code."""
    with pytest.raises(BadDefinition) as caught:
        module_of(f"{HELLO}\n{line}\n")
    assert caught.value.code == "lane.refused"
    assert caught.value.where["lint"] == code
    assert caught.value.hint


MUTABLE = [
    ("SEEN = []", "SEEN"),
    ("SEEN = {}", "SEEN"),
    ("SEEN = ([],)", "SEEN"),
    ("SEEN = iter((1,))", "SEEN"),
    ("def f(x=[]):\n    return x", "a default of f"),
    ("class Box:\n    held = []", "Box.held"),
    ("class Box:\n    pass\nBOX = Box()", "BOX"),
    ("def make():\n    seen = []\n    def f(): return seen\n    return f\nf = make()", "closure"),
]


@pytest.mark.parametrize(("line", "name"), MUTABLE)
def test_what_could_remember_is_refused_by_name(line: str, name: str) -> None:
    """AU-12: lists, dicts, iterators and objects at module level, in defaults and closures."""
    with pytest.raises(BadDefinition) as caught:
        module_of(f"{HELLO}\n{line}\n")
    assert caught.value.code == "lane.mutable_global"
    assert name in caught.value.where["name"]


def test_frozen_things_may_stand_in_a_module() -> None:
    """AU-12 control: tuples, frozensets, enums, records, functions and classes are accepted."""
    module_of(
        HELLO
        + """
from enum import Enum
from decimal import Decimal
class Colour(Enum):
    red = 1
TABLE = ((1, "a"), (2, "b"))
WORDS = frozenset(("a", "b"))
PRICE = Decimal("1.5")
FIRST = Guest(visits=1)
def double(x, by=2):
    return x * by
"""
    )


BODY = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Go(Record): key: str
class Out(Record): text: str
def same(given):  # so that the text does not show what comes out of it
    return given
@app.workflow(key="key")
def run(state: Out | None, event: Go, ctx: Ctx) -> Out:
    found = None
    {body}
    return Out(text=str(found))
"""


def outcome(body: str) -> tuple[TestWorld, list]:
    world, app = loaded(BODY.replace("{body}", body))
    world.send(app.Go(key="a"))
    world.assert_replays()
    return world, world.records(WorkflowFaulted)


FAULTS = [
    ("s = same(frozenset(('a', 'b')))\n    for x in s: found = x", "set_order"),
    ("s = same(frozenset(('a', 'b')))\n    found = [x for x in s]", "set_order"),
    ("s = same(frozenset(('a', 'b')))\n    found = list(s)", "set_order"),
    ("s = same(frozenset(('a', 'b')))\n    found = ''.join(s)", "set_order"),
    ("s = same(frozenset(('a', 'b')))\n    a, b = s", "set_order"),
    ("s = same(frozenset(('a', 'b')))\n    found = [*s]", "set_order"),
    ("s = same(set(('a', 'b')))\n    found = s.pop()", "set_order"),
    ("while True: pass", "fuel"),
    ("for x in range(10**9): pass", "fuel"),
    ("found = [0] * 10**9", "fuel"),
    ("found = 2 ** 100000", "fuel"),
    ("found = 1 << 100000", "fuel"),
    ("found = 'x' * 2000000", "fuel"),
    ("def f(): return f()\n    f()", "exception"),
    ("found = 1 // 0", "exception"),
    ("found = getattr(ctx, '__class__')", "exception"),
    ("ctx.log('x', level='loud')", "exception"),
    ("return Out(text=3)", "bad_output"),
    ("return 'text'", "bad_output"),
]


@pytest.mark.clause("X-03", "X-04")
@pytest.mark.parametrize(("body", "code"), FAULTS)
def test_what_may_not_happen_is_a_fault_and_replays(body: str, code: str) -> None:
    """AU-12, AU-13: each ends the tick with its code, alike at replay; the world goes on."""
    world, faults = outcome(body)
    assert [fault.code for fault in faults] == [code]
    assert world.records(Ticked) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("s = frozenset((2, 1))\n    found = (sorted(s), len(s), 2 in s, s | {3} == {1, 2, 3})",
         "([1, 2], 2, True, True)"),
        ("found = sum([x * 2 for x in range(5) if x % 2])", "8"),
        ("found = max({3, 9, 4})", "9"),
        ("try:\n        found = [][1]\n    except IndexError:\n        found = 'caught'", "caught"),
        ("f = lambda x: x ** 2\n    found = f(4) << 1", "32"),
    ],
)  # fmt: skip
def test_ordinary_code_runs(body: str, text: str) -> None:
    """AU-12 control: sets without their order, comprehensions, lambdas and operators work."""
    world, faults = outcome(body)
    assert faults == []
    run = next(iter(world.app.workflows.values())).code
    assert world.cell(run, "a").state.text == text


# Steps of functions, loops, comprehensions and large builtins; the tree is counted, not byte code.
GOLDEN_FUEL = [
    ("pass", 1),
    ("for x in range(10): pass", 11),
    ("found = [x for x in range(10)]", 11),
    ("found = [x + y for x in range(3) for y in range(4)]", 16),
    ("f = lambda x: x\n    f(1); f(2)", 3),
    ("n = 0\n    while n < 5: n += 1", 6),
    ("found = len(list(range(640)))", 11),
    ("def g(n): return n if n == 0 else g(n - 1)\n    found = g(6)", 8),
]


@pytest.mark.clause("X-03")
@pytest.mark.parametrize(("body", "fuel"), GOLDEN_FUEL)
def test_fuel_is_counted_on_the_tree(body: str, fuel: int) -> None:
    """AU-13: golden counts; the same on every CPython, because the tree is what is metered."""
    world, _faults = outcome(body)
    assert [record.fuel for record in world.records(Ticked)] == [fuel]
    assert [record.engine for record in world.records(Ticked)] == ["python/1"]


PLANTED = {
    "hidden state": (
        "class Box: pass\n",
        "held = getattr(Box, 'n', 0) + 1\n    Box.n = held\n    found = held",
    ),
    "identity": ("", "found = repr(same)"),  # both namespaces live, so their functions differ
    "hash order": ("", "found = f\"{same(frozenset([event.key, 'b', 'c', 'd', 'e']))}\""),
    "order of a copy": (
        "from collections import deque\n",
        "found = deque(same(set(['b', event.key, 'c', 'd']) | {'e', 'f'}))",
    ),
}
SAMPLED = int(os.environ.get("TALLY_SAMPLED", "400"))  # the design's count is 2,000
HARMLESS = """
from tallystick import Bundle, Ctx, Record
app = Bundle("t")
class Go(Record): key: str
class Out(Record): text: str; marks: frozenset[str] = frozenset()
WORDS = frozenset(["a", "b"])
@app.workflow(key="key", lifecycle="entity")
def run(state: Out | None, event: Go, ctx: Ctx) -> Out:
    held = frozenset() if state is None else state.marks
    more = held | {event.key} | WORDS - {"a"} ^ set("xyz")
    more |= frozenset(["k"]) & WORDS.union(["k"])
    fits = isinstance(held, frozenset) and isinstance({1}, set) and more >= held
    fits = fits and type(held) is frozenset and type({1}) is set and isinstance(set, type)
    match more:
        case frozenset(): kind = "frozen"
        case _: kind = "other"
    table = {frozenset(["b", "a"]): len(more), WORDS: 2}
    text = f"{sorted(more)} {fits} {kind} {max(more)} {table[WORDS]} {'b' in more} {more == held}"
    return Out(text=text, marks=more)
"""


@pytest.mark.parametrize("planted", PLANTED)
def test_sampling_finds_planted_nondeterminism(planted: str) -> None:
    """AU-14: hidden state and identity give two answers for one input: `nondeterministic`."""
    before, body = PLANTED[planted]
    source = BODY.replace("{body}", body).replace("@app.workflow", before + "@app.workflow")
    world, app = loaded(source)
    for number in range(3):
        world.send(app.Go(key=f"k{number}"))
    found = world.records(WorkflowFaulted)
    assert {fault.code for fault in found} == {"nondeterministic"}
    assert {fault.action for fault in found} == {"suspended"}


@pytest.mark.parametrize("planted", [*PLANTED, None])
def test_one_tick_in_64_is_sampled(planted: str | None) -> None:
    """AU-14: without `check_all` a planted defect is found in far less than 2,000 ticks; none else.

    `TALLY_SAMPLED=2000` runs as many.
    The runner of a node samples by input, so this is the same on every machine.
    """
    before, body = PLANTED[planted] if planted else ("", "found = event.key")
    source = BODY.replace("{body}", body).replace("@app.workflow", before + "@app.workflow")
    world, app = loaded(source)
    world.driver.world.runner = Runners(world.driver.blobs, library=world.library)
    for number in range(SAMPLED):
        world.do(world.submit_of(app.Go(key=f"k{number}")))
    world.run()
    found = [fault.code for fault in world.records(WorkflowFaulted)]
    assert (found != []) is (planted is not None)
    assert set(found) <= {"nondeterministic"}


def test_sets_that_let_no_order_out_are_left_alone() -> None:
    """AU-14 control: algebra, membership, order by value, types and annotations are no defect."""
    world, app = loaded(HARMLESS)
    for key in ("q", "a", "zz", "q"):
        world.send(app.Go(key=key))
    assert world.records(WorkflowFaulted) == []
    assert "True frozen" in world.cell(app.run, "q").state.text
    world.assert_replays()
