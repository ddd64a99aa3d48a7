"""Planted defects: a node that is wrong in one known way, so that a control can find it.

`python -m tests.acceptance.kit.planted NAME ARGS...` is `tally ARGS...` with the defect NAME.
Each changes one thing that the product does on purpose.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final

from tallystick.cli import main as cli
from tallystick.errors import SyncFailed
from tallystick.journal import sqlite, sqlite_tables, verify
from tallystick.journal.base import Append, Full, Head
from tallystick.journal.sqlite import SqliteJournal
from tallystick.kernel import fold_cells, roots
from tallystick.node import engine, files
from tallystick.node.commits import Commits
from tallystick.node.dispatch import Dispatch
from tallystick.node.driver import Cut, Driver
from tallystick.node.engine import Engine
from tallystick.node.hosted import Hosted
from tallystick.node.node import Node
from tallystick.node.outside import Outside
from tests.acceptance.kit import planted_guards, planted_layers
from tests.simulation import planted as simulated

GAP_S: Final = 0.15


def _release_first(*, answers: bool, intents: bool) -> None:
    """Let answers or intents out when a commit is cut, a moment before it is written."""
    commit, release = Commits._commit, Driver.release

    def early(self: Driver, cut: Cut) -> None:
        for frame, _, ticket in cut.batch:
            if answers and ticket is not None and frame.answer.kind != "error":
                ticket.answer = frame.answer
                self.outbox.answered(ticket)
            for ident in frame.opened if intents else ():
                self.publish(ident)

    def late(self: Driver, cut: Cut) -> None:
        told = [each._replace(ticket=None) if _told(each) else each for each in cut.batch]
        release(self, cut._replace(batch=told) if answers else cut)

    def wrong(self: Commits, cuts: list[tuple[Hosted, Cut]], *, calm: bool) -> None:
        for hosted, cut in cuts:
            early(hosted.driver, cut)
        self._ways.post(self._ways.outlet.taken())
        time.sleep(GAP_S)
        commit(self, cuts, calm=calm)

    Commits._commit = wrong  # type: ignore[method-assign]  # a defect is planted
    Driver.release = late  # type: ignore[method-assign]  # a defect is planted


def _told(each: Any) -> bool:
    return each.ticket is not None and each.ticket.answer is not None


def ack_before_commit() -> None:
    """Callers are answered before the commit that holds their event."""
    _release_first(answers=True, intents=False)


def release_before_commit() -> None:
    """Answers and effects go out before the commit that holds them."""
    _release_first(answers=True, intents=True)


def synchronous_normal() -> None:
    """A commit is not synced: the log is, when it is folded into the file."""

    def lazy(db: Any) -> None:
        durable(db)
        sqlite_tables.pragma(db, "synchronous=NORMAL")

    durable = sqlite_tables._make_durable
    sqlite_tables._make_durable = lazy  # a defect is planted


def _head(each: Append) -> Head:
    """Where the journal would end if the batch were there."""
    if not each.frames:
        return each.expect
    last = each.frames[-1]
    return Head(last.last, last.hash, each.expect.epoch)


def sync_error_ignored() -> None:
    """A sync that fails counts as one that did not."""
    append = SqliteJournal.append

    def hopeful(self: SqliteJournal, *batch: Append) -> Any:
        try:
            return append(self, *batch)
        except SyncFailed:
            self._poison = None
            return [_head(each) for each in batch]

    SqliteJournal.append = hopeful  # type: ignore[method-assign]  # a defect is planted


def full_disk_ignored() -> None:
    """A commit that finds no space counts as one that did."""
    append = SqliteJournal.append

    def hopeful(self: SqliteJournal, *batch: Append) -> Any:
        pairs = zip(append(self, *batch), batch, strict=True)
        return [_head(each) if isinstance(found, Full) else found for found, each in pairs]

    SqliteJournal.append = hopeful  # type: ignore[method-assign]  # a defect is planted


def no_lock() -> None:
    """Two nodes may have one folder, and wait for each other's commits."""
    connect = sqlite.connect  # type: ignore[attr-defined]

    def patient(*given: Any, **options: Any) -> Any:
        db = connect(*given, **options)
        db.set_busy_timeout(5000)
        return db

    files.fcntl.flock = lambda *_: None  # type: ignore[attr-defined]  # a defect is planted
    sqlite.connect = patient  # type: ignore[attr-defined]


def fold_over_a_set() -> None:
    """A root depends on the order in which this process happens to hash."""
    value = roots.keys_value

    def shuffled(world: Any) -> dict[str, Any]:
        return {**value(world), "order": [list({"a", "b", "c", "d", "e"}), []]}

    roots.keys_value = shuffled  # a defect is planted


def one_frame_per_commit() -> None:
    """Nothing is computed while a commit syncs."""
    engine.STAGED_FRAMES_MAX = 1  # type: ignore[misc]  # a defect is planted


def time_stands_still() -> None:
    """No world is ever told the time."""
    Engine._pass_time = lambda _self: None  # type: ignore[assignment, method-assign]  # a defect is planted


def no_back_pressure() -> None:
    """Whatever comes is taken, whoever may perform it."""

    def enter(self: Node, world: str, _hosted: Hosted, tickets: list[Any], size: int) -> None:
        self.lanes[world].count += len(tickets)
        tickets[0].size = size

    Node._enter = enter  # type: ignore[assignment, method-assign]  # a defect is planted
    Node.check_lane = lambda _self, _world: None  # type: ignore[assignment, method-assign]  # too
    Outside.backlog = lambda _self, _waiting: None  # type: ignore[assignment, method-assign]  # planted


def no_slots() -> None:
    """Every intent is performed at once."""
    serve = Dispatch.serve

    def generous(self: Dispatch, executor: Any, *more: Any) -> None:
        self._slots = executor.slots = 1_000_000
        serve(self, executor, *more)

    Dispatch.serve = generous  # type: ignore[assignment, method-assign]  # a defect is planted


def dispatch_while_stopping() -> None:
    """A node that stops goes on to start effects while it waits for those that run."""
    always = property(lambda _self: False, lambda _self, _value: None)
    Dispatch.stopping = always  # type: ignore[assignment]  # a defect is planted


def restore_without_hold() -> None:
    """A restored world performs again what its backup had open."""
    from tallystick.kernel import fold
    from tallystick.model.records import WorldRestored

    fold._FOLDS[WorldRestored] = fold._evidence


def no_duplicate_fence() -> None:
    """A key that was used before is not known any more."""
    fold_cells._fence = lambda _world, _idem: None  # type: ignore[assignment]  # a defect is planted


def verify_only_the_end() -> None:
    """A full verification looks at the newest frames alone."""
    judge = verify.verify
    verify.QUICK_SEQS = 5  # type: ignore[misc]  # a defect is planted

    def hasty(reader: Any, world: str, _level: str = "full", **more: Any) -> Any:
        return judge(reader, world, "quick", **more)

    planted_guards.everywhere("verify", judge, hasty)


def _simulated(defect: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
    """A defect of the simulation, planted for good."""

    def plant() -> None:
        _PLANTED.enter_context(defect())

    return plant


_PLANTED: Final = ExitStack()
_SIMULATED: Final = {defect.__name__: _simulated(defect) for defect in simulated.DEFECTS.values()}
DEFECTS: Final[dict[str, Callable[[], None]]] = (
    _SIMULATED
    | planted_guards.DEFECTS
    | planted_layers.DEFECTS
    | {
        each.__name__: each
        for each in (
            ack_before_commit,
            release_before_commit,
            synchronous_normal,
            sync_error_ignored,
            full_disk_ignored,
            no_lock,
            fold_over_a_set,
            one_frame_per_commit,
            time_stands_still,
            no_back_pressure,
            no_slots,
            dispatch_while_stopping,
            restore_without_hold,
            no_duplicate_fence,
            verify_only_the_end,
        )
    }
)


if __name__ == "__main__":
    DEFECTS[sys.argv.pop(1)]()
    sys.exit(cli.main())  # type: ignore[func-returns-value]
