"""Sets in the lane: no order of chance gets out, and lint names where one could (AU-12, AU-14)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.errors import BadDefinition
from tallystick.modules.lint import lint
from tallystick.values import canon
from tallystick.workflow.sets import ORDERED, TURNED
from tests.modules.print_sets import printed
from tests.workflow.apps import HELLO
from tests.workflow.names import module_of

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).parent / "print_sets.py"
PLAIN = "print(str(set('abcdefghijkl')), str(frozenset('abcdefghijkl')))"


def under(seed: int, *words: str) -> str:
    """What an interpreter prints under a hash seed."""
    surroundings = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONHASHSEED": str(seed),
    }
    command = [sys.executable, *words]
    return subprocess.run(
        command, env=surroundings, capture_output=True, check=True, text=True
    ).stdout


@pytest.mark.clause("X-12")
def test_no_way_round_depends_on_the_hash_seed() -> None:
    """AU-12: 19 ways over 8 kinds of sets, and 11 of views, give one text under other hash seeds.

    Control: a plain set gives another text under them.
    """
    here = printed()
    assert len(here) == 19 * (8 + 11)
    assert [json.loads(under(seed, str(PROGRAM))) for seed in (1, 2)] == [here, here]
    assert len({under(seed, "-c", PLAIN) for seed in (1, 2)}) == 2


LEAKS = [
    'f"{ {1, 2} }"',
    "str({1, 2})",
    "repr(frozenset((1, 2)))",
    '"%s" % {1, 2}',
    '"{}".format({1, 2})',
    "list({1, 2})",
    "tuple({x for x in (1, 2)})",
    "dict.fromkeys({1, 2})",
    '",".join({"a", "b"})',
    "[*{1, 2}]",
    "[x for x in {1} | {2}]",
    "[x for x in frozenset((1,)).union((2,))]",
    "[x for x in made]",
    'f"{made}"',
    "enumerate(other)",
]
SCOPE = """
def f(given):
    made = set((1, 2))
    made |= {{3}}
    other = made - {{1}}
    return {}
"""


@pytest.mark.clause("K-05")
@pytest.mark.parametrize("leak", LEAKS)
def test_lint_names_each_way_out(leak: str) -> None:
    """AU-12, AU-15: TL103 with its line, and the same at load, for sets and names that hold one."""
    source = HELLO + SCOPE.format(leak)
    found = [each for each in lint({"app.py": source.encode()}) if each.code == "TL103"]
    assert [each.line for each in found] == [len(source.splitlines())]
    assert "sorted" in found[0].hint
    with pytest.raises(BadDefinition) as caught:
        module_of(source)
    assert caught.value.where["lint"] == "TL103"


FINE = [
    "sorted({2, 1})",
    "len(made) + max(other)",
    "[x for x in sorted(made)]",
    "[x for x in given]",
    "3 in made and made <= other",
    "set(made) | frozenset(given)",
    "sum([x for x in [1, 2]])",
    "(lambda made: [x for x in made])([1])",
]


@pytest.mark.parametrize("use", FINE)
def test_lint_leaves_other_uses_alone(use: str) -> None:
    """AU-15 control: order by value, membership, algebra, and names that hold something else."""
    assert lint({"app.py": (HELLO + SCOPE.format(use)).encode()}) == []
    rebound = "def f(made=(1,)):\n    return [x for x in made]\n"
    looped = "def g():\n    s = {1}\n    for s in [[1]]:\n        f'{s}'\n"
    assert lint({"app.py": (HELLO + rebound + looped).encode()}) == []


@pytest.mark.parametrize("base", [set, frozenset])
def test_our_sets_are_sets(base: type) -> None:
    """AU-02: equal to plain ones, of their type, closed under algebra, and encoded alike."""
    members = ["b", "a", "c"]
    for kind in (ORDERED[base], TURNED[base]):
        made = kind(members)
        assert made == base(members)
        assert isinstance(made, base)
        assert isinstance(base(members), kind)
        assert type(made | {"d"}) is kind  # type: ignore[operator]
        assert made - {"a"} == {"b", "c"}  # type: ignore[operator]
        assert {"a"} & made == {"a"}  # type: ignore[operator]
        assert kind[str] == base[str]  # type: ignore[index]
    assert list(ORDERED[base](members)) == ["a", "b", "c"] == list(TURNED[base](members))[::-1]
    mixed = ORDERED[base]([1, "a", (2, 3)])
    assert list(mixed) == [1, "a", (2, 3)]
    assert canon.encode(sorted(made)) == canon.encode(sorted(base(members)))


def test_partly_ordered_members_have_one_order() -> None:
    """AU-12: sets of sets compare by inclusion, which is no order: their texts decide."""
    kind = ORDERED[frozenset]
    some = [kind(part) for part in ("ab", "bc", "a", "c", "ca")]
    shown = {str(kind(some[n:] + some[:n])) for n in range(5)}
    assert len(shown) == 1
