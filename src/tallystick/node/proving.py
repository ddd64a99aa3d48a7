"""A share of a proof, in a process of its own: verdicts on some of the open cells of a world.

Proofs cost time on all cores, and the kernel's thread has none to give.
A share reads the journal over a connection of its own, up to one sequence, and tells its verdicts.
Run as `python -m tallystick.node.proving`, with the order on standard input; it says when it is
ready for it, because loading takes longer than most orders.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.governance.prove import TAIL, Prover, Verdict, live_cells
from tallystick.governance.rerun import Overlay
from tallystick.journal.base import Reader
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.frames import is_tick, open_frame
from tallystick.modules.builtin import Builtin
from tallystick.modules.runners import Runners
from tallystick.node.worlds import world_at
from tallystick.values import canon

READY: Final = b"."


class Share(NamedTuple):
    """Which cells of a world are proved here, as of which sequence, on which candidate.

    With `only` these cells and no others, each with the sequence up to which it is proved already;
    `tail` is how many ticks count, None for all.
    """

    world: str
    seq: int
    manifest: bytes
    number: int = 0
    of: int = 1
    tail: int | None = TAIL
    only: Mapping[CellId, int] | None = None

    def has(self, ident: CellId) -> bool:
        """True for the cells of this share."""
        if self.only is not None and ident not in self.only:
            return False
        return self.of == 1 or sha256(ident.key).digest()[0] % self.of == self.number


def prove_share(reader: Reader, share: Share, blobs: Mapping[bytes, bytes]) -> Iterator[Verdict]:
    """The verdicts of one share; `blobs` holds the candidate."""
    live = _world(reader, share, share.seq, blobs)
    runner = live.runner
    assert isinstance(runner, Runners), "made below"
    prover = Prover(live.catalogue(share.manifest), runner.rebuilt)
    rest: dict[CellId, int] = {}
    for ident in live_cells(live):
        if not share.has(ident):
            continue
        verdict = prover.at_rest(live, ident)
        if verdict is not None:
            yield verdict
        else:
            cell = live.cell(ident)
            assert cell is not None, "a live cell is in the world"
            proved = 0 if share.only is None else share.only[ident]
            rest[ident] = max(cell.born_seq, proved + 1)
    if rest:
        yield from _run(reader, share, blobs, (prover, live, rest))


def _run(
    reader: Reader,
    share: Share,
    blobs: Mapping[bytes, bytes],
    work: tuple[Prover, World, dict[CellId, int]],
) -> Iterator[Verdict]:
    """Run the recorded ticks of reducers, from the newest snapshot before all of them."""
    prover, live, rest = work
    first = _tails(reader, share, live, rest)
    begin = min(first.values()) - 1
    older = [row.seq for row in reader.snapshots(share.world) if row.seq <= begin]
    start = _world(reader, share, older[-1] if older else 0, blobs)
    frames = reader.read(share.world, after=start.seq, upto=share.seq)
    for verdict in prover.run(start, frames, first, share.tail):
        cell = live.cell(verdict.cell)
        assert cell is not None, "a live cell is in the world"
        yield verdict._replace(seq=cell.last_seq)


def _tails(reader: Reader, share: Share, live: World, rest: dict[CellId, int]) -> dict[CellId, int]:
    """The first tick of each cell that counts."""
    tail = share.tail
    begin = min(rest.values()) - 1
    # Counting costs a pass; it pays where few cells have long histories.
    if tail is None or share.seq - begin <= tail * live.cell_count:
        return rest
    seen: dict[CellId, list[int]] = {ident: [] for ident in rest}
    for frame in reader.read(share.world, after=begin, upto=share.seq):
        if is_tick(frame.body):
            record: Any = open_frame(frame.body)[3][0]
            ident = CellId(record.workflow, record.key)
            ticks = seen.get(ident)
            if ticks is not None and frame.seq >= rest[ident]:
                ticks.append(frame.seq)
    return {**rest, **{ident: ticks[-tail:][0] for ident, ticks in seen.items() if ticks}}


def _world(reader: Reader, share: Share, seq: int, blobs: Mapping[bytes, bytes]) -> World:
    """The world as of a sequence, with the candidate beside it; 0 is before its first frame."""
    overlay = Overlay(StagedBlobs(reader, share.world))
    for digest, data in blobs.items():
        overlay.put(digest, data)
    runner = Runners(overlay, lanes={"builtin": Builtin()})
    if seq == 0:
        return World(share.world, overlay, runner)
    world = world_at(reader, share.world, runner, seq=seq)
    world.rehouse(overlay)
    return world


# ---- the process ------------------------------------------------------------------------------


def put_order(folder: Path, share: Share, blobs: Mapping[bytes, bytes]) -> bytes:
    """What a process is told."""
    only = None if share.only is None else [[*cell, seq] for cell, seq in share.only.items()]
    fields = {**share._asdict(), "only": only}
    return canon.encode({"folder": str(folder), "share": fields, "blobs": list(blobs.values())})


def _main() -> None:
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    raw = canon.decode(sys.stdin.buffer.read())
    only = raw["share"].pop("only")
    known = None if only is None else {CellId(name, key): seq for name, key, seq in only}
    share = Share(**raw["share"], only=known)
    blobs = {canon.digest_of(data): data for data in raw["blobs"]}
    reader = SqliteReader(Path(raw["folder"]))
    try:
        for verdict in prove_share(reader, share, blobs):
            data = canon.encode(verdict.row())
            sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
    finally:
        reader.close()


def read_rows(data: bytes) -> Iterator[dict[str, Any]]:
    """The verdicts that a process wrote."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield canon.decode(data[at + 4 : at + 4 + size])
        at += 4 + size


if __name__ == "__main__":
    _main()
