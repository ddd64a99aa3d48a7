"""The table of commands: every row is whole, and what is not there answers plainly (ND-28)."""

from __future__ import annotations

import click
import pytest

from tallystick.cli.main import tally as tree
from tallystick.cli.shape import ANY, HASH, misfit
from tallystick.cli.table import NOUNS, VERBS
from tests.cli.runs import tally

WORDS = [command.words for command in VERBS]


def leaf(words: str) -> click.Command:
    found: click.Command = tree
    for word in words.split():
        assert isinstance(found, click.Group)
        found = found.commands[word]
    return found


@pytest.mark.clause("K-45")
@pytest.mark.parametrize("words", WORDS)
def test_every_command_takes_the_globals_and_explains_itself(words: str):
    """ND-28: `--help` ends with 0 and names every option, the global ones too."""
    done = tally(*words.split(), "--help")
    assert done.code == 0
    for name in ("--data", "--url", "--token", "--world", "--json", "--quiet"):
        assert name in done.out
    params = [param.name for param in leaf(words).params]
    assert len(params) == len(set(params)), "no option hides another"


def test_every_command_is_listed_once():
    """ND-28: words are unique, nouns are those of the table, each row says what it prints."""
    assert len(WORDS) == len(set(WORDS))
    assert {words.split()[0] for words in WORDS if " " in words} == set(NOUNS)
    assert [c.words for c in VERBS if c.shape is None or not c.says] == []


@pytest.mark.parametrize("words", ["nonsense", "world", "world nonsense", "cell show", "send a"])
def test_misuse_ends_with_2(words: str):
    """ND-28: bad usage is 2, with a problem object under --json and nothing on the output."""
    done = tally(*words.split(), "--json")
    assert (done.code, done.out) == (2, "")
    assert done.problem["code"] == "request.usage"
    assert tally(*words.split()).code == 2


def test_shapes_find_misfits():
    """ND-28 control: missing, extra and wrong fields of every kind are found by path."""
    shape = {"a": int, "b?": [str], "c": (None, HASH), "d": {"e": float}, "f": ANY}
    good = {"a": 1, "c": None, "d": {"e": 1}, "f": object()}
    assert misfit(shape, good) is None
    assert misfit(shape, {**good, "b": ["x"], "c": "sha256:" + "0" * 64}) is None
    bad = [
        {},
        {**good, "x": 1},
        {**good, "a": "1"},
        {**good, "a": True},
        {**good, "b": "x"},
        {**good, "b": [1]},
        {**good, "c": "sha256:0"},
        {**good, "d": []},
        {**good, "d": {"e": "1"}},
        [],
    ]
    assert [value for value in bad if misfit(shape, value) is None] == []
