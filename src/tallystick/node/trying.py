"""Trying a candidate on what a journal holds, beside the live world (06 sections 7 and 9).

Everything here runs in a worker thread over a connection of its own; the live world is not
touched, and nothing that a trial asks for leaves it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from tallystick.governance.prove import Prover, Verdict, live_cells
from tallystick.governance.rerun import Order
from tallystick.governance.shadow import Candidate, Shadowing, shadow
from tallystick.journal.base import Reader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import open_world
from tallystick.kernel.world import Settings, World
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed, is_tick, open_frame
from tallystick.model.records import Ticked, WorkflowFaulted
from tallystick.node.hosting import Modules
from tallystick.node.worlds import world_at

_STRETCH: Final = 4096  # sequences that are read at a time on the way back


class Stage(NamedTuple):
    """Where a trial takes place: a journal, a world of it, and how its code runs."""

    reader: Reader
    world: str
    modules: Modules
    settings: Settings

    def at(self, seq: int | None = None) -> World:
        """The world as of a sequence, in memory of its own."""
        runner = self.modules(StagedBlobs(self.reader, self.world))
        found = world_at(self.reader, self.world, runner, seq=seq, settings=self.settings)
        found.read_only = False
        return found

    def genesis(self) -> World:
        """The world before its first frame."""
        blobs = StagedBlobs(self.reader, self.world)
        return open_world(self.world, [], blobs, self.modules(blobs), settings=self.settings)


def shadowed(
    stage: Stage, candidate: Candidate, tail: int, order: Order, stop: Callable[[], bool]
) -> Shadowing:
    """Run the last external inputs of a world on a candidate."""
    live = stage.at()
    since = _since(stage, live.seq, tail)
    frames = list(stage.reader.read(stage.world, since, live.seq))
    return shadow(stage.at(since), live, frames, candidate, order, stop=stop)


def _since(stage: Stage, head: int, tail: int) -> int:
    """The sequence behind which the last inputs stand; never before the first frame."""
    found: deque[int] = deque()
    upto = head
    while upto > 0 and len(found) <= tail:
        after = max(0, upto - _STRETCH)
        stretch = [
            frame.seq for frame in stage.reader.read(stage.world, after, upto) if _is_input(frame)
        ]
        found.extendleft(reversed(stretch))
        upto = after
    first = next(iter(stage.reader.read(stage.world, 0, 1))).last
    inputs = list(found)[-tail:] if tail else [head + 1]
    return max(first, (inputs[0] if inputs else head + 1) - 1)


def _is_input(frame: Sealed) -> bool:
    if is_tick(frame.body):
        return False
    return getattr(open_frame(frame.body)[3][0], "stamp", None) is not None


def verdicts(stage: Stage, manifest: bytes, tail: int | None) -> list[Verdict]:
    """A verdict for each open cell: as it stands, or by its last ticks run again."""
    live = stage.at()
    prover = Prover(live.catalogue(manifest))
    found: list[Verdict] = []
    rest: dict[CellId, int] = {}
    for ident in live_cells(live):
        verdict = prover.at_rest(live, ident)
        if verdict is None:
            rest[ident] = 0
        else:
            found.append(verdict)
    if not rest:
        return found
    frames = list(stage.reader.read(stage.world, 0, live.seq))
    first = _first_ticks(frames, rest, tail)
    since = min(first.values())
    start = stage.genesis() if since <= frames[0].last else stage.at(since - 1)
    behind = [frame for frame in frames if frame.seq > start.seq]
    return found + [_placed(live, each) for each in prover.run(start, behind, first)]


def _first_ticks(
    frames: Iterable[Sealed], cells: Iterable[CellId], tail: int | None
) -> dict[CellId, int]:
    """Where the last ticks of each cell begin."""
    seen: dict[CellId, deque[int]] = {ident: deque(maxlen=tail) for ident in cells}
    for frame in frames:
        if is_tick(frame.body):
            record = open_frame(frame.body)[3][0]
            assert isinstance(record, Ticked | WorkflowFaulted), "a tick begins with its outcome"
            known = seen.get(CellId(record.workflow, record.key))
            if known is not None:
                known.append(frame.seq)
    return {ident: places[0] if places else 1 for ident, places in seen.items()}


def _placed(live: World, verdict: Verdict) -> Verdict:
    """The verdict at the sequence where its cell stands now."""
    cell = live.cell(verdict.cell)
    assert cell is not None, "a live cell is in the world"
    return verdict._replace(seq=cell.last_seq)
