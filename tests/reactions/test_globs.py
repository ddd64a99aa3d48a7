"""Globs: what they match, what they refuse, and whether two of them meet (RX-10; F-12)."""

from __future__ import annotations

import itertools
import os
import random
import time

import pytest

from tallystick.errors import BadDefinition
from tallystick.reactions import globs

PAIRS = int(os.environ.get("TALLY_GLOB_PAIRS", "400"))

MATCHES = [
    ("a/b.txt", b"a/b.txt", True),
    ("a/b.txt", b"a/bxtxt", False),
    ("*", b"a", True),
    ("*", b"a/b", False),
    ("*", b".hidden", True),
    ("**", b"a/b/c", True),
    ("**", b"", True),
    ("a/**", b"a", True),
    ("a/**", b"a/b/c", True),
    ("a/**", b"ab", False),
    ("**/a", b"a", True),
    ("**/a", b"x/y/a", True),
    ("**/a", b"x/ya", False),
    ("a/**/b", b"a/b", True),
    ("a/**/b", b"a/x/y/b", True),
    ("a/**/b/**/c", b"a/b/x/b/c", True),
    ("?.py", b"a.py", True),
    ("?.py", "\u00e9.py".encode(), True),
    ("?.py", b"\xff.py", True),
    ("?.py", b"ab.py", False),
    ("*.{py,pyi}", b"m.pyi", True),
    ("{a,b}/{c,d}", b"b/c", True),
    ("{a,b}/{c,d}", b"b/e", False),
    ("a*b*c", b"axbxbxc", True),
    ("a*b*c", b"axbx", False),
    ("*ab", b"aab", True),
    ("./a/*", b"a/b", True),
    ("a.b", b"a.b", True),
    ("a.b", b"axb", False),
]


@pytest.mark.parametrize(("glob", "path", "expected"), MATCHES)
def test_a_glob_means_these_paths(glob: str, path: bytes, expected: bool) -> None:
    """08 section 2: literals, ?, *, ** and braces, by raw bytes of the path."""
    assert globs.match(glob, path) is expected


@pytest.mark.parametrize(
    "glob",
    [
        *("", "a//b", "/a", "../a", "a/./b", "a**", "a/**b", "{a", "a}", "{a,{b,c}}", "[ab]"),
        *("!a", "a\\b", "{a,b}" * 7, "a\n", "x" * 2000),
    ],
)
def test_what_is_no_glob_is_refused(glob: str) -> None:
    """08 section 2: nothing else is known, so that a glob never quietly means less."""
    with pytest.raises(BadDefinition) as caught:
        globs.parse(glob)
    assert caught.value.code == "reaction.bad_glob"


@pytest.mark.clause("F-12")
def test_s23_folding_takes_no_account_of_case() -> None:
    """S23: the scope Out/** allows out/x where names fold, and only there."""
    assert globs.match("Out/**", b"out/x", folding=True)
    assert not globs.match("Out/**", b"out/x")


def test_a_glob_below_a_target() -> None:
    """08 section 2: ./ is the target; a target that no glob can spell has no such globs."""
    assert globs.below("./**/*.py", b"src/tree") == "src/tree/**/*.py"
    assert globs.below("./**", b"") == "**"
    assert globs.below("docs/*", b"src") == "docs/*"
    assert globs.below("./*", b"a*b") is None
    assert globs.below("./*", b"a\xff") is None


def test_matching_is_linear() -> None:
    """A pattern made to go back and forth takes no longer than others (factor far over any)."""
    glob = "**/" + "a*" * 30 + "b/**/" + "x/**/" * 20 + "y"
    path = b"/".join([b"a" * 200] * 40)
    before = time.perf_counter()
    for _ in range(20):
        assert not globs.match(glob, path)
    assert time.perf_counter() - before < 5


def spelled(letters: str, longest: int) -> list[str]:
    return [
        "".join(word)
        for length in range(1, longest + 1)
        for word in itertools.product(letters, repeat=length)
    ]


SEGMENTS = spelled("ab", 3)
ALL_PATHS = [
    "/".join(path).encode()
    for length in (1, 2, 3)
    for path in itertools.product(SEGMENTS if length < 3 else spelled("ab", 2), repeat=length)
]


def some_segment(chance: random.Random) -> str:
    """At most one star and two other characters, so that a common name has at most 3 letters."""
    if chance.random() < 0.2:
        return "**"
    if chance.random() < 0.15:
        return "{a,b" + chance.choice(["a", "*", "?"]) + "}"
    made = [chance.choice("ab?") for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.5:
        made[chance.randrange(len(made))] = "*"
    return "".join(made)


def some_glob(chance: random.Random) -> str:
    return "/".join(some_segment(chance) for _ in range(chance.randint(1, 2)))


@pytest.mark.clause("F-12")
def test_rx10_intersection_agrees_with_brute_force() -> None:
    """RX-10: a witness matches both; where none is given, no path of the enumeration does.

    `TALLY_GLOB_PAIRS=10000` runs the number of the design.
    """
    chance = random.Random(20261115)
    met = 0
    for _ in range(PAIRS):
        one, other = some_glob(chance), some_glob(chance)
        left, right = globs.parse(one), globs.parse(other)
        brute = any(left.matches(path) and right.matches(path) for path in ALL_PATHS)
        witness = globs.intersect(one, other)
        assert (witness is not None) == brute, (one, other, witness)
        if witness is not None:
            met += 1
            assert left.matches(witness), (one, other, witness)
            assert right.matches(witness), (one, other, witness)
    assert PAIRS * 0.2 < met < PAIRS * 0.9, "both answers have to be tried"


def test_dots_are_no_names() -> None:
    """A witness is a path that can exist: '..' is none."""
    assert globs.intersect(".?", "?.") is None
    assert globs.intersect(".?", "*") == b".a"
    assert globs.intersect("**", "**") == b"a"
    assert globs.intersect("a/**", "a") == b"a"
