"""Crash at every write of a run over the real SQLite journal (L2; ND-04, AT-03).

    python -m tests.journal.crash [--events 200] [--every 1] [--weak] [--report FILE]

Each prefix of the writes, in four modes, becomes a data folder; it must open, hold every frame that
was acknowledged by then, and be one sound chain.
`--weak` is the control: with synchronous=NORMAL the same program must find lost frames.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tallystick.errors import TallyError
from tallystick.journal.sqlite import SqliteJournal
from tallystick.model.frames import verify_chain
from tests.journal.watched import Deed, images, watched
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


class Run:
    """A recorded run: its deeds with acks between them, and the frame hashes that were acked."""

    def __init__(self, events: int, *, weak: bool = False) -> None:
        self.acked: list[bytes] = []
        with tempfile.TemporaryDirectory() as folder, watched() as vfs:
            journal = SqliteJournal(Path(folder), vfs=vfs.name)
            if weak:
                journal._db.pragma("synchronous", "NORMAL")
            rig = Rig(order_documents(), FUNCTIONS, journal=journal)  # type: ignore[arg-type]
            self._ack(vfs.log, rig)
            for number in range(events):
                rig.send(CREATED, created(f"o-{number}"))
                self._ack(vfs.log, rig)
                if number % 3 == 0:
                    rig.settle(rig.jobs.all[-1], {"ref": "r"})
                    self._ack(vfs.log, rig)
                if number % 20 == 19:
                    rig.driver.snapshot()
                    self._ack(vfs.log, rig)
                    journal.wal_checkpoint(idle=True)
            self.log = list(vfs.log)
            self.frames = [frame.hash for frame in journal.read(WORLD)]
            journal.close()

    def _ack(self, log: list[Deed], rig: Rig) -> None:
        """From here on a caller knows of the head."""
        self.acked.append(rig.driver.head.hash)
        log.append(Deed("ack", ""))

    def fault(self, files: dict[str, bytes], acks: int, folder: Path) -> str | None:
        """What is wrong with a data folder after so many acks; None when it keeps the promise."""
        for name, data in files.items():
            (folder / name).write_bytes(data)
        try:
            journal = SqliteJournal(folder)
        except TallyError as why:
            return f"does not open: {why.message}"
        try:
            return self._judge(journal, acks)
        finally:
            journal.close()

    def _judge(self, journal: SqliteJournal, acks: int) -> str | None:
        if not journal.worlds():
            return "lost everything" if acks else None
        found = list(journal.read(WORLD))
        hashes = [frame.hash for frame in found]
        if hashes != self.frames[: len(hashes)]:
            return "frames are no prefix of what was written"
        if acks and self.acked[acks - 1] not in hashes:
            return "an acknowledged frame is lost"
        damage = verify_chain(found, world=WORLD)
        if damage is not None:
            return f"seq {damage.seq}: {damage.what}"
        head = journal.head(WORLD)
        if found and (head.seq, head.hash) != (found[-1].last, found[-1].hash):
            return "the head is not the last frame"
        for digest, _ in journal.blobs(WORLD):
            journal.blob(WORLD, digest)
        return None


def crash_everywhere(run: Run, every: int) -> dict[str, Any]:
    """Judge images of a run; figures and the first violations."""
    counts: dict[str, int] = {}
    violations: list[dict[str, Any]] = []
    begun = time.monotonic()
    for mode, acks, files in images(run.log, "crash", every):
        counts[mode] = counts.get(mode, 0) + 1
        with tempfile.TemporaryDirectory(prefix="tally-image-") as folder:
            fault = run.fault(files, acks, Path(folder))
        if fault is not None:
            violations.append({"mode": mode, "acks": acks, "fault": fault})
    return {
        "deeds": len(run.log),
        "acks": len(run.acked),
        "images": sum(counts.values()),
        "modes": counts,
        "violations": len(violations),
        "first": violations[:3],
        "seconds": round(time.monotonic() - begun, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--weak", action="store_true")
    parser.add_argument("--report", type=Path)
    asked = parser.parse_args()
    report = crash_everywhere(Run(asked.events, weak=asked.weak), asked.every)
    text = json.dumps(report)
    print(text)
    if asked.report is not None:
        asked.report.write_text(text + "\n", "utf-8")
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
