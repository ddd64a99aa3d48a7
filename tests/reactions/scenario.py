"""Scenarios: at a desk that is closed at the end, and with a guard switched off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors import file_place
from tallystick.model.records import WorkflowFaulted
from tallystick.reactions import guards, keys, runs
from tests.reactions.desk import Desk

Scenario = Callable[[Path], None]


@contextmanager
def at_desk(root: Path, *texts: str, replays: bool = True, **more: Any) -> Iterator[Desk]:
    """A desk that is closed; at the end its world replays to the same root."""
    desk = Desk(root, *texts, **more)
    try:
        yield desk
        assert desk.records(WorkflowFaulted) == []
        if replays:
            desk.run()
            assert desk.verify().first is None
    finally:
        desk.close()


@contextmanager
def planted(module: Any, name: str, value: Any) -> Iterator[None]:
    """Something else in the place of a name, and back."""
    was = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, was)


@contextmanager
def without(guard: str, answer: Any) -> Iterator[None]:
    """One guard switched off: whatever it is asked, it gives the same answer.

    `module__name` is a rule elsewhere, with a broken one in its place.
    """
    room, _, name = guard.rpartition("__")
    module: Any = {"": guards, "keys": keys, "runs": runs, "place": file_place}[room]
    made = answer if callable(answer) else lambda *_args, **_more: answer
    with planted(module, name, made):
        yield


def guarded(**switches: Any) -> Callable[[Scenario], Any]:
    """A scenario that passes, and fails with each of these guards switched off (RX-01)."""

    def wrap(body: Scenario) -> Any:
        @pytest.mark.parametrize("off", [None, *switches])
        def test(tmp_path: Path, off: str | None) -> None:
            if off is None:
                body(tmp_path / "w")
                return
            with without(off, switches[off]), pytest.raises(AssertionError):
                body(tmp_path / "w")

        test.__name__, test.__doc__ = body.__name__, body.__doc__
        return test

    return wrap
