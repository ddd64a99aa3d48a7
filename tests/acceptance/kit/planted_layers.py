"""Planted defects of what stands on the kernel, and of what only time and numbers show.

`kit/planted.py` starts a node with one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tallystick.journal import sqlite_tables
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

    guards.is_self = by_path  # type: ignore[assignment]  # a defect is planted


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


# ---- another release ---------------------------------------------------------------------------

NEXT_ROWS: Final = 300_000
_NEXT: Final = f"""
CREATE TABLE next(n INTEGER);
INSERT INTO next WITH RECURSIVE c(n) AS
  (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {NEXT_ROWS}) SELECT n FROM c;
"""


def _released() -> Callable[[Any, int], None]:
    """A release whose files have one more table; its own way to upgrade, which tells of itself."""
    upgrade = sqlite_tables._upgrade
    sqlite_tables.UPGRADES[sqlite_tables.FORMAT] = _NEXT
    sqlite_tables.FORMAT += 1  # type: ignore[misc]  # no defect: a later release

    def telling(db: Any, version: int) -> None:
        if version < sqlite_tables.FORMAT:
            Path(db.db_filename("main")).with_name("upgrading").touch()
        upgrade(db, version)

    sqlite_tables._upgrade = telling
    return telling


def next_release() -> None:
    """No defect, but a later release of the product."""
    _released()


def upgrade_in_pieces() -> None:
    """A later release that says that it has upgraded, and then does."""
    telling = _released()

    def hasty(db: Any, version: int) -> None:
        later = sqlite_tables.FORMAT
        if version < later:
            db.execute("UPDATE meta SET value=? WHERE key='format'", (later,))
            Path(db.db_filename("main")).with_name("upgrading").touch()
            time.sleep(0.2)
            db.execute(_NEXT)
        else:
            telling(db, version)

    sqlite_tables._upgrade = hasty  # a defect is planted


DEFECTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        final_step_twice,
        self_event_by_path,
        frames_kept_for_ever,
        slow_events,
        next_release,
        upgrade_in_pieces,
    )
}
