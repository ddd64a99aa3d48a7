"""A part of a proof, in a process of its own: verdicts on open cells of a world.

Proofs cost time on all cores, and the kernel's thread has none to give.
The process reads the journal over a connection of its own, up to one sequence, and is asked in
turn: which of its cells have a verdict as they stand, and what a stretch of the history says of
the others.
Run as `python -m tallystick.node.proving`, with orders on standard input; it says when it is ready
for them, because loading takes longer than most of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec

from tallystick.governance.prove import Prover
from tallystick.governance.rerun import Overlay
from tallystick.governance.stretches import Stretch
from tallystick.journal.base import Reader
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.quiescence import live_cells
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed, is_tick, open_frame
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Runners
from tallystick.node.worlds import world_at
from tallystick.values import canon

READY: Final = b"."
SIZE: Final = 4  # bytes that say how long a message is; one of no length ends an answer
_ROWS: Final = 256  # of one message
_NEWS: Final = 1024  # records between two words about them

Row = list[Any]
Cells = Mapping[CellId, int]


class Case(NamedTuple):
    """What is proved: which candidate, on which world, by how many ticks of a cell; None for all.

    `blobs` holds the candidate.
    """

    folder: str
    world: str
    manifest: bytes
    tail: int | None
    blobs: tuple[bytes, ...]


class Share(NamedTuple):
    """Which open cells, as of which sequence.

    With `only` these cells and no others, each with the sequence up to which it is proved already.
    """

    seq: int
    number: int = 0
    of: int = 1
    only: Cells | None = None

    def has(self, ident: CellId) -> bool:
        """True for the cells of this share."""
        if self.only is not None and ident not in self.only:
            return False
        return class_of(ident, self.of) == self.number


def class_of(ident: CellId, of: int) -> int:
    """Cells in so many classes of nearly the same size, by their keys."""
    return 0 if of == 1 else sha256(ident.key).digest()[0] % of


class Proving:
    """The side of the process: answers, as rows of plain values."""

    def __init__(
        self, reader: Reader, case: Case, news: Callable[[int], None] = lambda _records: None
    ) -> None:
        self._news = news
        self._reader = reader
        self._case = case
        self._blobs = {canon.digest_of(data): data for data in case.blobs}

    def rest(self, share: Share) -> Iterator[Row]:
        """The cells of a share: a verdict, or the first tick that has to be run."""
        live = self._world(share.seq)
        runner = live.runner
        assert isinstance(runner, Runners), "made below"
        prover = Prover(live.catalogue(self._case.manifest), runner.rebuilt)
        for cell in live_cells(live):
            if not share.has(cell.id):
                continue
            verdict = prover.at_rest(live, cell)
            if verdict is None:
                proved = 0 if share.only is None else share.only[cell.id]
                yield [*cell.id, max(cell.born_seq, proved + 1), None]
            else:
                yield [*cell.id, verdict.seq, canon.encode(verdict.row())]

    def count(self, stretch: Stretch, first: Cells) -> Iterator[Row]:
        """The last ticks of cells in a stretch, as many of each as can count."""
        tail = self._case.tail
        seen: dict[CellId, list[int]] = {}
        for frame in self._reader.read(self._case.world, after=stretch.after, upto=stretch.upto):
            if is_tick(frame):
                record: Any = open_frame(frame.body)[3][0]
                ident = CellId(record.workflow, record.key)
                if frame.seq >= first.get(ident, stretch.upto + 1):
                    seen.setdefault(ident, []).append(frame.seq)
        for ident, ticks in seen.items():
            yield [*ident, ticks if tail is None else ticks[-tail:]]

    def run(self, stretch: Stretch, first: Cells) -> Iterator[Row]:
        """What a stretch says of cells, from the newest snapshot that is not behind its begin."""
        reader, world = self._reader, self._case.world
        older = [row.seq for row in reader.snapshots(world) if row.seq <= stretch.after]
        start = self._world(older[-1] if older else 0)
        cells = {ident: max(seq, stretch.after + 1) for ident, seq in first.items()}
        frames = self._telling(reader.read(world, after=start.seq, upto=stretch.upto), stretch)
        prover = Prover(start.catalogue(self._case.manifest))
        for ticks in prover.run(start, frames, cells, self._case.tail):
            found = canon.encode([list(each) for each in ticks.found]) if ticks.found else None
            yield [*ticks.cell, ticks.count, found]

    def _telling(self, frames: Iterable[Sealed], stretch: Stretch) -> Iterator[Sealed]:
        """The frames, and every now and then a word about how many records there were."""
        told = stretch.after
        for frame in frames:
            yield frame
            if frame.last >= told + _NEWS:
                self._news(frame.last - told)
                told = frame.last

    def _world(self, seq: int) -> World:
        """The world as of a sequence, with the candidate beside it; 0 is before its first frame."""
        world = self._case.world
        overlay = Overlay(StagedBlobs(self._reader, world))
        for digest, data in self._blobs.items():
            overlay.put(digest, data)
        runner = Runners(overlay, lanes={"builtin": Builtin()})
        if seq == 0:
            return World(world, overlay, runner)
        made = world_at(self._reader, world, runner, seq=seq)
        made.rehouse(overlay)
        return made


# ---- the wire ---------------------------------------------------------------------------------


def put_case(case: Case) -> bytes:
    """The first order: what is proved."""
    return _message(case._asdict() | {"blobs": list(case.blobs)})


def put_share(share: Share) -> bytes:
    """Ask for the verdicts on cells as they stand."""
    only = None if share.only is None else _put_cells(share.only)
    return _message({"do": "rest", "share": share._asdict() | {"only": only}})


def put_stretch(what: str, stretch: Stretch, first: Cells) -> bytes:
    """Ask to `count` or to `run` the ticks of cells in a stretch."""
    return _message({"do": what, "stretch": [*stretch], "first": _put_cells(first)})


def _put_cells(cells: Cells) -> list[Row]:
    return [[*ident, seq] for ident, seq in cells.items()]


def _take_cells(rows: Iterable[Row]) -> dict[CellId, int]:
    return {CellId(workflow, key): seq for workflow, key, seq in rows}


def _message(value: Any) -> bytes:
    """One message: rows are many and plain, what stands in a report is a document in them."""
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(SIZE, "big") + data


def read_message(data: bytes) -> Any:
    """What a message says."""
    return msgspec.msgpack.decode(data)


def _take(source: IO[bytes]) -> Any:
    """The next order; None when there are no more."""
    size = source.read(SIZE)
    return read_message(source.read(int.from_bytes(size, "big"))) if size else None


def _answered(proving: Proving, order: Mapping[str, Any]) -> Iterator[Row]:
    if order["do"] == "rest":
        raw = order["share"]
        only = None if raw["only"] is None else _take_cells(raw["only"])
        return proving.rest(Share(**raw | {"only": only}))
    ask: dict[str, Callable[[Stretch, Cells], Iterator[Row]]] = {
        "count": proving.count,
        "run": proving.run,
    }
    return ask[order["do"]](Stretch(*order["stretch"]), _take_cells(order["first"]))


def _serve(source: IO[bytes], out: IO[bytes]) -> None:
    raw = _take(source)
    if raw is None:
        return
    case = Case(**raw | {"blobs": tuple(raw["blobs"])})
    reader = SqliteReader(Path(case.folder))
    try:

        def news(records: int) -> None:
            out.write(_message(records))
            out.flush()

        proving = Proving(reader, case, news)
        while (order := _take(source)) is not None:
            rows = _answered(proving, order)
            while page := list(islice(rows, _ROWS)):
                out.write(_message(page))
            out.write(bytes(SIZE))
            out.flush()
    finally:
        reader.close()


def _main() -> None:
    # What a module prints must not stand among the answers.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        out.write(READY)
        out.flush()
        _serve(sys.stdin.buffer, out)


if __name__ == "__main__":
    _main()
