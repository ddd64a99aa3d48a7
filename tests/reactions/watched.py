"""A workspace on a real disk, watched on a clock that tests move."""

from __future__ import annotations

import time
from pathlib import Path

from tallystick.node.watch_disk import Disk
from tallystick.reactions.document import load
from tallystick.reactions.keys import fingerprint
from tallystick.reactions.observation import Observation
from tallystick.reactions.scan import Entry
from tallystick.reactions.settle import Patience
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import Change, Tree, compare
from tallystick.reactions.triggers import derive
from tallystick.reactions.watch import Difference, Settings, Watcher

SECOND = 1_000_000_000


class HandClock:
    """Steady time is moved by hand; wall time is real, because files are stamped with it."""

    def __init__(self) -> None:
        self.steady = 1000 * SECOND

    def wall_ns(self) -> int:
        return time.time_ns()

    def steady_ns(self) -> int:
        return self.steady

    def pass_ns(self, ns: int) -> None:
        self.steady += ns


class Trouble(Disk):
    """A disk on which single paths misbehave: `closed` cannot be read, `moving` never stands still.

    `reads` counts what was hashed.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.closed: set[bytes] = set()
        self.moving: dict[bytes, int] = {}
        self.reads: list[bytes] = []
        self.before_read = lambda _path: None

    def entries(self, path: bytes) -> list[Entry] | None:
        if path in self.closed:
            raise PermissionError(13, "closed")
        return super().entries(path)

    def content(self, path: bytes, entry: Entry) -> bytes | None:
        self.reads.append(path)
        self.before_read(path)
        if path in self.closed:
            raise PermissionError(13, "closed")
        if self.moving.get(path, 0) > 0:
            self.moving[path] -= 1
            return None
        return super().content(path, entry)


class Watched:
    """A folder, its disk, its clock and its watcher."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder
        self.clock = HandClock()
        self.disk = Trouble(str(folder))
        self.settings = settings or Settings()
        self.watcher = Watcher(self.disk, self.clock, self.settings)
        self.batches: list[Difference] = []

    def begin(self, journaled: Tree | None = None) -> list[Difference]:
        """Start, and take all that the first looks say."""
        self.watcher.start(journaled)
        return self.run()

    def run(self, for_ns: int = 0) -> list[Difference]:
        """Let time pass in small steps, looking whenever a look is due; each batch is taken."""
        found: list[Difference] = []
        end = self.clock.steady + for_ns
        while True:
            looks = 0
            while self.watcher.due_ns() <= self.clock.steady:
                looks += 1
                assert looks < 100, "a look that is due again and again"
                batch = self.watcher.look()
                if batch is not None:
                    found.append(batch)
                    self.watcher.accepted(batch)
            if self.clock.steady >= end:
                break
            self.clock.pass_ns(min(50_000_000, end - self.clock.steady))
        self.batches += found
        return found

    def write(self, path: str, text: str | bytes) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)

    def hint(self, *paths: str | bytes) -> None:
        for path in paths:
            self.watcher.hint(path.encode() if isinstance(path, str) else path)

    def settle(self) -> list[Difference]:
        return self.run(Patience().settle_ns + 50_000_000)

    @property
    def cold(self) -> Tree:
        """What a scan without memory says."""
        other = Watched(self.folder, self.settings)
        other.begin()
        return other.batches[-1].after if other.batches else {}


def changes(batch: Difference) -> list[Change]:
    return compare(batch.before, batch.after)


def words(batch: Difference) -> list[tuple[str, str]]:
    return [(change.path.decode("utf-8", "replace"), change.change) for change in changes(batch)]


def printed(batch: Difference) -> list[str]:
    """The fingerprints of the triggers that a batch leads to."""
    text = """
reaction: reads
on: [{files: ["*.txt"]}]
actions: [{name: t, telemetry.emit: {name: n}}]
"""
    definition = load(text, "reads")
    seen = Observation(
        world_id="w",
        workspace_id="ws",
        n=2,
        observed_at=0,
        before=batch.before,
        after=batch.after,
        definitions=[definition],
        stamps=Stamps(),
    )
    made = derive(seen).triggers
    assert made
    return [fingerprint("state", each) for each in made]
