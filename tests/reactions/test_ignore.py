"""Ignore rules with the meaning of gitignore, in layers (08 section 4; F-12)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tallystick.reactions import ignore


@pytest.mark.clause("F-12")
@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (b".tally/tally.db", "hard:.tally/"),
        (b"deep/.tally/workspace", "hard:.tally/"),
        (b"src/.a.txt.0011aaff.stage", "hard:*.stage"),
        (b"src/.a.txt.0011AAFF.stage", None),
        (b"src/a.swp", "soft:*.swp"),
        (b"4913", "soft:4913"),
        (b"src/a.txt~", "soft:*~"),
        (b"node_modules/x/y.js", "soft:node_modules/"),
        (b".git/index", "soft:.git/"),
        (b"src/targeting.rs", None),
    ],
)
def test_hard_and_soft_layers(path: bytes, rule: str | None) -> None:
    """08 section 4: each ignored path names the rule by which it is."""
    assert ignore.load(b"target\n").path(path) == rule


@pytest.mark.clause("F-12")
def test_hard_rules_are_not_taken_back() -> None:
    """W6: no layer brings our own folder back; a soft rule may be."""
    rules = ignore.load(b"!.tally/\n!*.tmp\n", b"!.tally\n", ["!*.stage", "!.tally/**"])
    assert rules.path(b".tally/x") == "hard:.tally/"
    assert rules.path(b".a.0123abcd.stage") == "hard:*.stage"
    assert rules.path(b"a.tmp") is None


def test_later_layers_win() -> None:
    """08 section 4: the last rule that fits decides, across the layers."""
    rules = ignore.load(b"*.log\n", b"!keep.log\n", ["keep.log"])
    assert rules.path(b"keep.log") == "settings:keep.log"
    assert ignore.load(b"*.log\n", b"!keep.log\n").path(b"keep.log") is None
    assert ignore.load(b"*.log\n").path(b"keep.log") == ".gitignore:*.log"


def test_rules_have_an_identity() -> None:
    """08 section 4: a change of the rules is seen; comments are no rules."""
    one = ignore.load(b"*.log\n")
    assert one.rules_id == ignore.load(b"# a word\n*.log\r\n\n").rules_id
    assert one.rules_id != ignore.load(b"*.log\n!a.log\n").rules_id


RULES = [
    b"*.log\n!keep.log\n",
    b"build/\n",
    b"/only-top\n",
    b"a/b\n",
    b"**/deep/file\n",
    b"x/**/y\n",
    b"x/**\n!x/keep\n",
    b"a?c\n[ab].txt\n[!a-c].md\n",
    b"\\#hash\n\\!bang\ntrail\\ \n",
    b"abc/*\n!abc/k\n",
    b"doc/*.txt\n",
    b"a**b\n",
    b"*\n!*/\n!*.py\n",
    b"[]x].q\nbroken[\n",
]
PATHS = [
    b"a.log", b"keep.log", b"s/keep.log", b"build/x", b"s/build/y", b"build.txt", b"only-top",
    b"s/only-top", b"a/b", b"s/a/b", b"a/b/c", b"deep/file", b"q/deep/file", b"x/y", b"x/1/y",
    b"x/1/2/y", b"x/keep", b"x/other", b"abc", b"a/c", b"a.txt", b"c.txt", b"d.md", b"b.md",
    b"#hash", b"!bang", b"trail ", b"abc/k", b"abc/z/k", b"doc/a.txt", b"doc/s/a.txt", b"ab",
    b"a1b", b"a/1b", b"m.py", b"s/m.py", b"].q", b"x.q", b"broken[",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here to compare with")
@pytest.mark.parametrize("rules", RULES)
def test_the_meaning_is_that_of_git(rules: bytes, tmp_path: Path) -> None:
    """08 section 4: over a table of rules and paths, git says the same."""
    env = {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=env)
    (tmp_path / ".gitignore").write_bytes(rules)
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=tmp_path,
        env=env,
        input=b"\0".join(PATHS) + b"\0",
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    theirs = set(done.stdout.split(b"\0")) - {b""}
    known = ignore.load(rules)
    soft = ignore.load()
    ours = {path for path in PATHS if known.path(path) is not None}
    assert ours == theirs
    assert not any(soft.path(path) for path in PATHS), "the soft layer would hide a difference"
