"""Planted defects of what stands on the kernel, and of what only time and numbers show.

`kit/planted.py` starts a node with one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tallystick.node.driver import Driver
from tallystick.playbooks import ends
from tallystick.playbooks.net import ROOT
from tallystick.reactions import guards


def final_step_twice() -> None:
    """The last step of a playbook runs once more when it has run."""
    finish = ends._finish

    def again(play: Any) -> None:
        step, state = play.plan.spec["final_step"], play.state
        if step is not None and state["counts"]["step_runs"].get(step) == 1:
            play.net.token(step, ROOT, {"from": None, "run": None, "args": None, "final": True})
            play.drain()
            if state["ready"] or state["runs"]:
                return
        finish(play)

    ends._finish = again  # a defect is planted


def self_event_by_path() -> None:
    """Whatever stands where a reaction has written counts as written by it."""

    def by_path(definition: Any, place: Any, _after: Any, stamps: Any) -> bool:
        return any(stamp.reaction == definition.name for stamp in stamps.by_path(*place))

    guards.is_self = by_path  # a defect is planted


_KEPT: Final[list[bytes]] = []


def frames_kept_for_ever() -> None:
    """Memory grows with history: every commit leaves a quarter of a megabyte behind."""
    release = Driver.release

    def greedy(self: Driver, cut: Any) -> None:
        _KEPT.append(b"x" * 262_144)
        release(self, cut)

    Driver.release = greedy  # type: ignore[method-assign]  # a defect is planted


def slow_events() -> None:
    """Every input takes a twentieth of a second, and everybody behind it waits."""
    handle = Driver.handle

    def slow(self: Driver, ticket: Any) -> None:
        time.sleep(0.05)
        handle(self, ticket)

    Driver.handle = slow  # type: ignore[method-assign]  # a defect is planted


DEFECTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (final_step_twice, self_event_by_path, frames_kept_for_ever, slow_events)
}
