"""Verify: is what stands here what was written? (04 section 13, D9)

Quick looks at the newest sequences, the counts and the pages of the store.
Full looks at every hash, blob, seal, snapshot root and checkpoint.
Neither runs module code; running every tick again is `kernel.replay.verify`.
A verdict names the first bad sequence, and never repairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tallystick.errors import BlobLost, TallyError
from tallystick.journal.base import CheckpointRow, Reader, SnapshotRow
from tallystick.journal.chain import Chain, Finding
from tallystick.journal.checkpoints import fault_of
from tallystick.journal.lineage import floor_of, oldest, reaches
from tallystick.journal.present import REMEMBERED, Present, shown
from tallystick.journal.staged import StagedBlobs
from tallystick.journal.trie import missing_below
from tallystick.kernel import snapshot
from tallystick.kernel.catalogues import Catalogues
from tallystick.kernel.replay import open_world
from tallystick.kernel.roots import root
from tallystick.kernel.world import World
from tallystick.model.abi import Runner
from tallystick.values import canon

QUICK_SEQS: Final = 10_000
TRIES: Final = 5


class Verdict(NamedTuple):
    """What a verification found, in the shape of 04 section 9."""

    world: str
    level: str
    frames: int
    records: int
    receipts: dict[str, int]
    blobs: dict[str, int]
    snapshots: int
    checkpoints: int
    head: bytes
    root: bytes | None
    first_bad: Finding | None
    seconds: float
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing was found."""
        return self.first_bad is None

    def shape(self) -> dict[str, Any]:
        """The verdict as the command line and the API show it."""
        said = self._asdict()
        del said["findings"]
        bad = self.first_bad
        said["ok"] = self.ok
        said["head"] = canon.text_of(self.head)
        said["root"] = None if self.root is None else canon.text_of(self.root)
        said["first_bad"] = None if bad is None else bad._asdict()
        return said


def verify(
    reader: Reader,
    world: str,
    level: str = "full",
    *,
    checkpoints: Iterable[CheckpointRow] = (),
    keys: Mapping[str, bytes] | None = None,
    remembered: int = REMEMBERED,
) -> Verdict:
    """Judge the journal of a world.

    `checkpoints` are copies kept elsewhere; `keys` are public keys that may have signed them,
    beside those that the journal trusts; of so many blobs at most the names are remembered.
    """
    assert level in ("quick", "full"), "replay is the kernel's business"
    copies, left = list(checkpoints), TRIES
    while True:
        check = _Check(reader, world, level == "full", remembered)
        verdict = check.run(copies, dict(keys or {}))
        left -= 1
        if verdict.ok or not left or not check.is_overtaken():
            return verdict


class _Check:
    """One verification on its way."""

    def __init__(self, reader: Reader, world: str, full: bool, remembered: int) -> None:
        self.reader = reader
        self.world = world
        self.full = full
        self.begun = time.monotonic()
        self.line = reader.lineage(world)
        self.head = self.line[0].head
        self.floor = floor_of(self.line)
        self.findings: list[Finding] = []
        self.blobs = {"checked": 0, "missing": 0, "bad": 0}
        self.bad: list[tuple[str, bytes]] = []  # blobs, and the worlds that own them
        self.snapshots: list[SnapshotRow] = []
        self.present = Present(reader, reaches(self.line), remembered)

    def run(self, copies: list[CheckpointRow], keys: dict[str, bytes]) -> Verdict:
        """Everything in turn; each part adds what it finds."""
        self.findings += [Finding(0, "store", fault) for fault in self.reader.faults()]
        for row in self.line if self.full else ():
            self._guarded(0, "store", partial(self._check_blobs, row.world))
        # Listed before the frames are read: what a writer adds meanwhile is not asked for.
        kept = self.reader.checkpoints(self.world) + copies
        self.snapshots = self.reader.snapshots(self.world)
        chain = self._check_chain()
        self._check_checkpoints(kept, {**chain.keys, **keys})
        if self.full:
            seen: dict[bytes, None] = {}
            for each in self.snapshots:
                part = partial(self._snapshot, each, chain, seen)
                self._guarded(each.seq, f"snapshot {each.seq}", part)
            for digest, seq in chain.manifests.items():
                self._guarded(seq, "manifest", partial(self._manifest, seq, digest))
        return self._verdict(chain, len(self.snapshots), len(kept))

    def is_overtaken(self) -> bool:
        """True when a trim or a collection took away what this was looking at."""
        reader = self.reader
        gone = {row.seq for row in self.snapshots} - {r.seq for r in reader.snapshots(self.world)}
        cut = floor_of(reader.lineage(self.world)) != self.floor
        return cut or bool(gone) or any(reader.added(*blob) < 0 for blob in self.bad)

    def _guarded(self, seq: int, where: str, part: Callable[[], None]) -> None:
        """Run a part; what it cannot read is a finding."""
        try:
            part()
        except TallyError as why:
            self.findings.append(Finding(seq, where, why.message))

    def _verdict(self, chain: Chain, snapshots: int, checkpoints: int) -> Verdict:
        # What the store says of its pages has no sequence; a record that it touches has one.
        first = min(self.findings, key=lambda found: (found.seq == 0, found), default=None)
        whole: bytes | None = None
        if first is None:
            try:
                whole = root(folded(self.reader, self.world, self.head.seq))
            except TallyError as why:
                first = Finding(self.head.seq, "root", why.message)
        return Verdict(
            self.world,
            "full" if self.full else "quick",
            chain.frames,
            chain.records,
            {"sealed": chain.sealed, "bad": chain.bad_seals},
            self.blobs,
            snapshots,
            checkpoints,
            self.head.hash,
            whole,
            first,
            round(time.monotonic() - self.begun, 3),
            tuple(self.findings),
        )

    # ---- parts --------------------------------------------------------------------------------

    def _check_blobs(self, world: str) -> None:
        for name, data in self.reader.contents(world):
            if world == self.world:
                self.present.note(name)
            self.blobs["checked"] += 1
            if data is None:
                self.blobs["bad"] += 1
                self.bad.append((world, name))
                seq, what = self.reader.added(world, name), "its bytes do not match its name"
                self.findings.append(Finding(seq, f"blob {shown(name)}", what))

    def _check_chain(self) -> Chain:
        base = self.floor
        after = base.seq if self.full else max(base.seq, self.head.seq - QUICK_SEQS)
        prev = base.hash
        if after > base.seq:
            begin = next(iter(self.reader.headers(self.world, after)), None)
            after, prev = (after, prev) if begin is None else (begin.first_seq - 1, begin.prev_hash)
        chain = Chain(self.line, (after, prev), self.present.__contains__)
        self._tell(chain, after)
        self._walk(chain, after)
        self.findings += chain.findings
        for digest, seq in chain.missing.items():
            self._missing(seq, digest)
        return chain

    def _walk(self, chain: Chain, after: int) -> None:
        """Take every frame; a writer that goes on meanwhile is followed to where it stands."""
        begin = -1
        while begin < chain.seq:
            begin = chain.seq
            try:
                for frame in self.reader.read(self.world, max(after, begin)):
                    if not chain.take(frame):
                        return
            except TallyError as why:
                self.findings.append(Finding(chain.seq + 1, "frame", why.message))
                return
            self.head = self.reader.head(self.world)
            if chain.seq >= self.head.seq:
                break
        if (chain.seq, chain.prev) != (self.head.seq, self.head.hash):
            what = f"the journal ends at {chain.seq}, its head says {self.head.seq}"
            self.findings.append(Finding(min(chain.seq, self.head.seq) + 1, "head", what))

    def _tell(self, chain: Chain, after: int) -> None:
        """What held before the first frame, from the newest snapshot up to there."""
        rows = [row for row in self.reader.snapshots(self.world) if row.seq <= after]
        if not rows:
            return
        try:
            blobs = StagedBlobs(self.reader, self.world)
            world = snapshot.load(rows[-1].document, blobs, _nobody())
            keys = {key: trust.public_key for key, trust in world.keys.items()}
            chain.know(keys, {path: open_.record.effect for path, open_ in world.intents.entries()})
        except TallyError as why:
            self.findings.append(Finding(rows[-1].seq, f"snapshot {rows[-1].seq}", why.message))

    def _missing(self, seq: int, name: bytes) -> None:
        self.blobs["missing"] += 1
        self.findings.append(Finding(seq, f"blob {shown(name)}", "it is not there"))

    def _check_checkpoints(self, rows: list[CheckpointRow], keys: dict[str, bytes]) -> None:
        floor = self.floor.seq
        if floor:
            self._check_floor(keys)
        for row in rows:
            if row.seq < floor:
                continue  # what it speaks of is in the archive
            if row.seq > self.head.seq:
                what = f"the journal ends at {self.head.seq}, before the checkpoint"
                self.findings.append(Finding(self.head.seq + 1, f"checkpoint {row.seq}", what))
                continue
            fault = fault_of(self.reader, self.world, row, keys, self.floor)
            if fault is not None:
                self.findings.append(Finding(row.seq, f"checkpoint {row.seq}", fault))

    def _check_floor(self, keys: dict[str, bytes]) -> None:
        """Where a trimmed journal begins must be signed, in a fork by the parent that was."""
        owner = oldest(self.line).world
        fault: str | None = "nobody has signed where it begins"
        for row in self.reader.checkpoints(owner):
            if row.seq == self.floor.seq:
                fault = fault_of(self.reader, owner, row, keys, self.floor)
        if fault is not None:
            self.findings.append(Finding(self.floor.seq, "floor", fault))

    def _snapshot(self, row: SnapshotRow, chain: Chain, seen: dict[bytes, None]) -> None:
        where = f"snapshot {row.seq}"
        if chain.taken.get(row.seq, row.root) != row.root:
            self.findings.append(Finding(row.seq, where, "its root is not the one on record"))
            return
        blobs = StagedBlobs(self.reader, self.world)
        world = snapshot.load(row.document, blobs, _nobody())
        if world.seq != row.seq or root(world) != row.root:
            self.findings.append(Finding(row.seq, where, "it has another root than it says"))
            return
        for name in missing_below(row.document, blobs, self.present, seen):
            self._missing(row.seq, name)

    def _manifest(self, seq: int, digest: bytes) -> None:
        try:
            Catalogues().load(digest, StagedBlobs(self.reader, self.world))
        except BlobLost as why:
            self._missing(seq, canon.raw_of(why.where["blob"]))  # a copy of it would mend the rest
            raise


def folded(reader: Reader, world: str, upto: int | None = None) -> World:
    """The world at its head or at the end of a frame, from the newest snapshot before it."""
    rows = [row for row in reader.snapshots(world) if upto is None or row.seq <= upto]
    pinned = rows[-1] if rows else None
    after = floor_of(reader.lineage(world)).seq if pinned is None else pinned.seq
    return open_world(
        world,
        reader.read(world, after, upto),
        StagedBlobs(reader, world),
        _nobody(),
        pinned=None if pinned is None else pinned.document,
    )


def _nobody() -> Runner:
    """Opening and folding run no module code, so nobody has to."""
    return _Nobody()  # type: ignore[return-value]  # whatever is asked of it is a mistake


class _Nobody:
    """A runner that is never asked."""
