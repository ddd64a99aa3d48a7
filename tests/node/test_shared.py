"""Worlds that share a node: a few of one do not wait for the many of another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.journal.base import Append, Head
from tallystick.model.frames import GENESIS
from tallystick.node import commits
from tallystick.node.commits import Commits, Ways
from tallystick.node.outlet import Outlet
from tallystick.node.writer import Rhythm

RHYTHM = Rhythm(max_wait_ns=4_000_000)


class World:
    """A world with so much staged, as commits see one."""

    def __init__(self, name: str, frames: int, staged_ns: int, told: list[str]) -> None:
        self.name = name
        self.staged_ns = staged_ns
        self.driver = SimpleNamespace(
            staged=[None] * frames, staged_bytes=0, cut=self._cut, committed=self._committed
        )
        self._told = told

    def _cut(self) -> Any:
        batch = [SimpleNamespace(frame=SimpleNamespace(snapshot=None)) for _ in self.driver.staged]
        append = Append(self.name, [], Head(0, GENESIS, 1), {})
        return SimpleNamespace(batch=batch, append=append) if batch else None

    def _committed(self, _cut: Any, _head: Any) -> None:
        self._told.append(self.name)


def shared(told: list[str], **worlds: tuple[int, int]) -> Commits:
    """Commits over worlds with so many frames, staged so long ago."""
    writer: Any = SimpleNamespace(
        is_quick=True, commit=lambda batch: [each.expect for each in batch]
    )
    made: Any = {name: World(name, *given, told) for name, given in worlds.items()}
    ways = Ways(writer, Outlet(), lambda _: None, lambda act: act(), lambda _: False)
    return Commits(made, RHYTHM, ways)


@pytest.mark.invariant("I40")
def test_several_worlds_wait_a_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """AT-27, in small: what waits alone may wait for company; with another world it goes soon."""
    monkeypatch.setattr(commits.time, "monotonic_ns", lambda: 10_000_000)  # type: ignore[attr-defined]
    a_while_ago, just_now = 8_500_000, 9_900_000
    assert not shared([], main=(5, a_while_ago)).due()
    assert not shared([], main=(5, a_while_ago), side=(0, 0)).due()
    assert shared([], main=(5, a_while_ago), side=(1, just_now)).due()
    assert shared([], main=(5, 6_000_000)).due()
    assert not shared([], main=(5, just_now), side=(1, just_now)).due()


@pytest.mark.invariant("I40")
def test_who_has_little_in_a_commit_is_told_first() -> None:
    """AT-27, in small: one answer of a quiet world is not behind the many of a busy one."""
    told: list[str] = []
    shared(told, main=(50, 0), side=(1, 0), other=(3, 0)).cut(calm=True)
    assert told == ["side", "other", "main"]
