"""Defects of folding: order, time, caches, fences, timers."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack, contextmanager
from itertools import count

from tallystick.kernel import fold_cells, fold_effects, fold_mail, replay
from tallystick.kernel.parts import TIMER
from tallystick.kernel.store import Store
from tallystick.model.records import EventAdmitted, IntentOpened
from tests.simulation.planted.swap import refolded, swapped

_inherit = fold_mail.inherit
_event_admitted = fold_cells.event_admitted
_opened = fold_effects.opened
_fence = fold_cells._fence
_fold_frames = replay.fold_frames
_put = Store.put
_edit = Store.edit


def mailbox_last_in_first_out():
    def push(world, cell, mail):
        cell.mailbox = deque((mail, *cell.mailbox))
        if cell.status == "completed":
            cell.status = "running"
        fold_mail.requeue(world, cell)

    return swapped((fold_cells, "push", push), (fold_effects, "push", push))


def child_time_sampled():
    ticking = count(1)

    def inherit(world):
        parent, _, hops = _inherit(world)
        return parent, next(ticking), hops

    return swapped((fold_cells, "inherit", inherit), (fold_effects, "inherit", inherit))


def fold_over_a_set():
    def event_admitted(world, record):
        # The order of a set is the order of hashes.
        mixed = tuple(sorted(record.to, key=hash)) if len(record.to) > 1 else record.to
        _event_admitted(world, record._replace(to=mixed))

    return refolded(EventAdmitted, event_admitted)


def timer_rearmed_twice():
    def opened(world, record):
        _opened(world, record)
        if record.effect == TIMER:
            due = world.intents.get(record.intent).due_ns
            world.timers.add(due + 1, record.intent)

    return refolded(IntentOpened, opened)


@contextmanager
def fence_in_memory_only():
    opening = []

    def fold_frames(world, frames):
        opening.append(world)
        try:
            _fold_frames(world, frames)
        finally:
            opening.pop()

    def fence(world, idem):
        if not opening:
            _fence(world, idem)

    with ExitStack() as stack:
        stack.enter_context(swapped((replay, "fold_frames", fold_frames)))
        stack.enter_context(swapped((fold_cells, "_fence", fence)))
        yield


def eviction_drops_a_dirty_cell():
    def evict(store, key):
        if len(store.delta) > store._most:
            oldest = next(iter(store.delta))
            if oldest != key:
                del store.delta[oldest]

    def put(self, key, entry):
        _put(self, key, entry)
        evict(self, key)

    def edit(self, key):
        found = _edit(self, key)
        evict(self, key)
        return found

    return swapped((Store, "put", put), (Store, "edit", edit))


DEFECTS = {
    "mailbox last-in first-out": mailbox_last_in_first_out,
    "child time sampled at replay": child_time_sampled,
    "fold over a set": fold_over_a_set,
    "timer re-armed twice": timer_rearmed_twice,
    "duplicate fence in memory only": fence_in_memory_only,
    "eviction drops a dirty cell": eviction_drops_a_dirty_cell,
}
