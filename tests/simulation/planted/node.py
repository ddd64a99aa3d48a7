"""Defects of the driver, the journal and the collection."""

from __future__ import annotations

from tallystick.errors import SyncFailed
from tallystick.journal.base import Fenced
from tallystick.journal.memory import MemoryJournal
from tallystick.kernel import replay, snapshot
from tallystick.kernel.machine import fold_frame
from tallystick.kernel.reach import Marks
from tallystick.model.frames import open_frame
from tallystick.node.driver import Driver
from tests.simulation.planted.swap import swapped

_stage = Driver.stage
_flush = Driver.flush
_promote = snapshot.promote


def ack_before_flush():
    def stage(self, frame, ticket=None):
        _stage(self, frame, ticket)
        if ticket is not None:
            ticket.answer = frame.answer

    return swapped((Driver, "stage", stage))


def dispatch_before_flush():
    def stage(self, frame, ticket=None):
        _stage(self, frame, ticket)
        for ident in frame.opened:
            self.publish(ident)

    return swapped((Driver, "stage", stage))


def flush_retried_after_eio():
    def flush(self):
        batch = list(self.staged)
        try:
            return _flush(self)
        except SyncFailed:
            self.staged = batch
            return _flush(self)

    return swapped((Driver, "flush", flush))


def delta_cleared_before_durable():
    def stage(self, frame, ticket=None):
        _stage(self, frame, ticket)
        if frame.snapshot is not None:
            _promote(self.world, frame.snapshot)

    return swapped((Driver, "stage", stage), (snapshot, "promote", lambda _world, _plan: None))


def tail_check_off():
    def fold_frames(world, frames):
        for frame in frames:
            fold_frame(world, open_frame(frame.body)[3], frame.hash)

    return swapped((replay, "fold_frames", fold_frames))


def epoch_not_checked():
    def append(self, batch):
        book = self._book(batch.world)
        if book.head()[:2] != batch.expect[:2]:
            return Fenced(book.head())
        book.blobs.update(batch.blobs)
        book.frames.extend(batch.frames)
        book.epochs.extend([book.epoch] * len(batch.frames))
        book.snapshots.extend(batch.snapshots)
        return book.head()._replace(epoch=batch.expect.epoch)

    return swapped((MemoryJournal, "_append", append))


def gc_forgets_open_intents():
    def forget(_self, _what):
        return None

    return swapped((Marks, "_intent", forget), (Marks, "_intent_leaf", forget))


DEFECTS = {
    "ack before flush": ack_before_flush,
    "dispatch before flush": dispatch_before_flush,
    "flush retried after EIO": flush_retried_after_eio,
    "delta cleared before snapshot durable": delta_cleared_before_durable,
    "tail check off": tail_check_off,
    "epoch not checked": epoch_not_checked,
    "GC forgets open intents": gc_forgets_open_intents,
}
