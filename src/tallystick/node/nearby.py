"""What stands near something in a journal, found by the derived index instead of by reading it all.

The index says where; the frames themselves are read from the journal, so an index that is behind
or wrong can only show less.
Everything here is bounded: a cell with a long life, or an event with many consequences, is shown in
part, and how much was left out is told.
Of a trimmed world the part above its floor is shown, and `floor` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from tallystick.journal.base import Reader
from tallystick.journal.index import Index, IntentRow
from tallystick.journal.refusals import trimmed
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import KIND_OF, WorldForked, WorldRestored
from tallystick.views.effects import EffectFilter, Settlements
from tallystick.views.graph import DRAWN, NODES_MAX, Focus, graph
from tallystick.views.journal import cause, entries
from tallystick.views.pages import Page, listed, number_cursor
from tallystick.views.timeline import BARS_MAX, Timeline, last_word

# Holds that a record about the whole world has laid on its open effects.
_WHOLE_HOLDS: Final[dict[str | None, type]] = {"fork": WorldForked, "restore": WorldRestored}
FRAMES_MAX: Final = 2 * NODES_MAX
LOOKED_MAX: Final = 2 * BARS_MAX


@dataclass(frozen=True, slots=True)
class Stretch:
    """A world's journal up to a sequence, and what the index knows of it."""

    index: Index
    reader: Reader
    world: str
    upto: int
    floor: int = 0

    def frame(self, seq: int) -> Sealed | None:
        """The frame that holds a sequence; None for one that is in an archive."""
        if seq <= self.floor:
            return None
        return next(iter(self.reader.read(self.world, seq - 1, seq)), None)

    def frames(self, places: Iterable[int]) -> list[Sealed]:
        """The frames that hold these sequences, each once and in order."""
        found: list[Sealed] = []
        for seq in sorted(places):
            if seq > self.upto or (found and seq <= found[-1].last):
                continue
            frame = self.frame(seq)
            if frame is not None:
                found.append(frame)
        return found


def with_floor(found: dict[str, Any], floor: int) -> dict[str, Any]:
    """The answer; that of a trimmed world with where its journal begins."""
    return {**found, "floor": floor} if floor else found


def cell_timeline(stretch: Stretch, cell: CellId) -> dict[str, Any]:
    """What happened to one cell."""
    place = _place(cell)
    places = stretch.index.touches(stretch.world, place, stretch.floor, LOOKED_MAX)
    made = Timeline(cell)
    for frame in stretch.frames(places):
        made.read([frame], stretch.index.time_at(stretch.world, frame.seq))
    whole = stretch.index.count_touches(stretch.world, place, stretch.upto)
    whole -= stretch.index.count_touches(stretch.world, place, stretch.floor)
    made.more += max(0, whole - LOOKED_MAX)
    return with_floor({**made.shown(), "as_of": stretch.upto}, stretch.floor)


def cell_last_word(stretch: Stretch, cell: CellId) -> dict[str, Any] | None:
    """The last thing that was done to a cell from outside, or went wrong in it."""
    places = stretch.index.last_of(stretch.world, _place(cell), ("lifecycle", "fault"))
    return last_word(stretch.frames(places), cell)


def effects_page(stretch: Stretch, page: Page, wanted: EffectFilter) -> dict[str, Any]:
    """A page of the effects that were asked for, in that order, settled ones included."""
    page.checked()
    after = 0 if page.after is None else number_cursor(page.after)
    named = {"status": wanted.status, "effect": wanted.effect}
    only = {name: value for name, value in named.items() if value is not None}
    begin = max(after, stretch.floor)
    rows = stretch.index.intents(stretch.world, begin, page.limit + 1, **only)
    shown = [
        _effect_row(stretch, row) for row in rows[: page.limit] if row.opened_seq <= stretch.upto
    ]
    following = str(rows[page.limit - 1].opened_seq) if len(rows) > page.limit else None
    found = listed([row for row in shown if wanted.passes(row)], following, stretch.upto)
    return with_floor(found, stretch.floor)


def _effect_row(stretch: Stretch, row: IntentRow) -> dict[str, Any]:
    """Both halves of an effect, read from the frames that the index names."""
    places = [row.opened_seq, *([] if row.settled_seq is None else [row.settled_seq])]
    if row.status == "open" or row.attempts > 1:
        found = stretch.index.records(
            stretch.world, row.opened_seq - 1, LOOKED_MAX, intent=row.intent
        )
        places += [each.seq for each in found]
    if row.hold in _WHOLE_HOLDS:
        kind = KIND_OF[_WHOLE_HOLDS[row.hold]]
        places += [
            each.seq for each in stretch.index.records(stretch.world, row.opened_seq, kind=kind)
        ]
    halves = Settlements().read(stretch.frames(places)).known[row.intent]
    return halves.row()


def _place(cell: CellId) -> tuple[str, bytes]:
    return cell.workflow, sha256(cell.key).digest()


# ---- graphs ---------------------------------------------------------------------------------


def graph_around(stretch: Stretch, focus: Focus) -> dict[str, Any]:
    """What led to a record or a cell, and what came of it; without a focus, how it all began."""
    if focus.seq is None and focus.cell is None:
        return with_floor(_beginning(stretch), stretch.floor)
    if focus.seq is not None and 0 < focus.seq <= stretch.floor:
        raise trimmed(stretch.world, stretch.floor)
    seeds = [focus.seq] if focus.seq is not None else []
    if focus.cell is not None:
        place = _place(focus.cell)
        seeds = stretch.index.touches(stretch.world, place, stretch.floor, NODES_MAX)
    seeds = [seq for seq in seeds if seq <= stretch.upto]  # the index knows what came later, too
    walk = _Walk(stretch)
    walk.go(seeds, walk.causes)
    walk.go(seeds, walk.consequences)
    frames = sorted(walk.frames.values(), key=lambda frame: frame.seq)
    found = graph(frames, focus)
    found["more"] += walk.left
    return with_floor(found, stretch.floor)


def _beginning(stretch: Stretch) -> dict[str, Any]:
    frames: list[Sealed] = []
    for frame in stretch.reader.read(stretch.world, stretch.floor, stretch.upto):
        frames.append(frame)
        if len(frames) == NODES_MAX:
            break  # every frame holds a record or more
    found = graph(frames)
    drawn = stretch.index.count_kinds(stretch.world, sorted(DRAWN), stretch.upto)
    drawn -= stretch.index.count_kinds(stretch.world, sorted(DRAWN), stretch.floor)
    found["more"] = max(0, drawn - len(found["nodes"]))
    return found


class _Walk:
    """Goes from record to record, backwards or forwards, and gathers their frames."""

    def __init__(self, stretch: Stretch) -> None:
        self._stretch = stretch
        self.frames: dict[int, Sealed] = {}
        self.left = 0

    def go(self, seeds: Iterable[int], step: Any) -> None:
        """Follow a direction from the seeds; what is beyond the bound is only counted."""
        waiting = deque(seeds)
        seen = dict.fromkeys(waiting)
        while waiting:
            frame = self._frame(waiting.popleft())
            if frame is None:
                continue
            if len(self.frames) > FRAMES_MAX:
                self.left += 1 + len(waiting)
                return
            for seq in step(frame):
                if seq not in seen and seq <= self._stretch.upto:
                    seen[seq] = None
                    waiting.append(seq)

    def _frame(self, seq: int) -> Sealed | None:
        frame = self._stretch.frame(seq)
        if frame is not None:
            self.frames[frame.seq] = frame
        return frame

    def causes(self, frame: Sealed) -> list[int]:
        """What the records of a frame name as their cause, and where their intents were opened."""
        found: list[int] = []
        for entry in entries([frame]):
            named = cause(entry.record)
            if named is not None and named < frame.seq:
                found.append(named)
            intent = getattr(entry.record, "intent", None)
            if intent is not None:
                rows = self._stretch.index.intents(self._stretch.world, limit=1, intent=intent)
                found += [row.opened_seq for row in rows if row.opened_seq < frame.seq]
        return found

    def consequences(self, frame: Sealed) -> list[int]:
        """What names a record of a frame as its cause, and the later news of its intents."""
        index, world = self._stretch.index, self._stretch.world
        found: list[int] = []
        for entry in entries([frame]):
            rows = index.records(world, frame.last, NODES_MAX, cause=entry.seq)
            intent = getattr(entry.record, "intent", None)
            if intent is not None:
                rows += index.records(world, frame.last, NODES_MAX, intent=intent)
            found += [row.seq for row in rows]
        return found
