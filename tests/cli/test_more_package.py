"""How the package looks for compiled rooms: a fit build is used, any other is not."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick.node.clock import SystemClock

PACKAGE = Path(tallystick.__file__).parent


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of its own in place of ours, and finders that are put back."""
    here = tmp_path / "tallystick"
    shutil.copytree(PACKAGE, here, ignore=shutil.ignore_patterns("_fast", "__pycache__"))
    monkeypatch.setattr(tallystick, "__file__", str(here / "__init__.py"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delenv("TALLY_PURE", raising=False)
    return here


def build(here: Path, name: str, size: int = 3) -> Path:
    """What a build of these sources leaves, with a library that holds nothing."""
    folder = here / "_fast" / tallystick._build_name(here, name)
    folder.mkdir(parents=True)
    (folder / "canon.so").write_bytes(b"lib")
    note = [["tallystick.values.canon", "canon.so", size]]
    (folder / "built.json").write_text(json.dumps(note))
    return folder


def test_a_fit_build_is_found_first(copy: Path):
    """VA-20: the compiled modules are found in place of the pure ones, and only they."""
    assert not tallystick._prefer_compiled(), "there is no build yet"
    folder = build(copy, "codec")
    before = len(sys.meta_path)
    assert tallystick._prefer_compiled()
    assert len(sys.meta_path) == before + 1
    finder = sys.meta_path[0]
    spec = finder.find_spec("tallystick.values.canon", None)
    assert spec is not None
    assert spec.origin == str(folder / "canon.so")
    assert finder.find_spec("tallystick.values.names", None) is None


def test_the_pure_path_can_be_forced(copy: Path, monkeypatch: pytest.MonkeyPatch):
    """VA-20: TALLY_PURE=1 uses no build, however fit."""
    build(copy, "rooms")
    monkeypatch.setenv("TALLY_PURE", "1")
    assert not tallystick._prefer_compiled()


@pytest.mark.parametrize("damage", ["stale", "cut", "no note", "bad note"])
def test_a_build_that_does_not_fit_is_not_used(copy: Path, damage: str):
    """VA-20: of other sources, cut off, or without its note: the pure path serves."""
    folder = build(copy, "codec", size=4 if damage == "cut" else 3)
    if damage == "stale":
        (copy / "values" / "canon.py").write_text("# other\n")
    elif damage == "no note":
        (folder / "built.json").unlink()
    elif damage == "bad note":
        (folder / "built.json").write_text("[1]")
    before = list(sys.meta_path)
    assert not tallystick._prefer_compiled()
    assert sys.meta_path == before


def test_without_sources_no_build_is_trusted(copy: Path):
    """VA-20: a package that has lost its sources cannot tell a stale build, so it uses none."""
    build(copy, "codec")
    (copy / "errors.py").unlink()
    assert not tallystick._prefer_compiled()


def test_the_clock_of_a_node_samples_time_and_chance():
    """D4: whole nanoseconds that do not go back by much, and 64 bytes that differ."""
    clock = SystemClock()
    one, two = clock.sample(), clock.sample()
    assert type(one.now_ns) is int
    assert two.now_ns >= one.now_ns > 1_600_000_000_000_000_000
    assert len(one.entropy) == len(two.entropy) == 64
    assert one.entropy != two.entropy
