"""What only the SQLite journal can show: real syncs, real kills, real damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tallystick.errors import JournalCorrupt, Rejected, SyncFailed
from tallystick.journal.base import Append, Head
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.staged import StagedBlobs
from tallystick.kernel.replay import open_world
from tallystick.kernel.roots import root
from tallystick.model.frames import seal_frame, verify_chain
from tallystick.model.records import Noted
from tallystick.modules.python import PythonRunner
from tallystick.node.worlds import world_at
from tallystick.values import canon
from tests.journal.test_journal import lease_of
from tests.rig import WORLD, Rig
from tests.sweeps import keep_only
from tests.worlds import CREATED, FUNCTIONS, created, order_documents

ROOT = Path(__file__).resolve().parent.parent.parent


def played(folder: Path) -> Rig:
    rig = Rig(order_documents(), FUNCTIONS, journal=SqliteJournal(folder))  # type: ignore[arg-type]
    for i in range(10):
        rig.send(CREATED, created(f"o-{i}"))
    rig.driver.snapshot()
    for job in rig.jobs.all[:5]:
        rig.settle(job, {"ref": "r"})
    return rig


@pytest.mark.clause("X-07")
def test_commits_are_durable_by_setting(tmp_path: Path) -> None:
    """PF-04: the writer runs in WAL mode with synchronous=FULL and without memory maps."""
    journal = SqliteJournal(tmp_path)
    db = journal._db
    assert [next(db.execute(f"PRAGMA {name}"))[0] for name in ("journal_mode", "synchronous")] == [
        "wal",
        2,
    ]
    assert next(db.execute("PRAGMA mmap_size"))[0] == 0


@pytest.mark.clause("K-19", "K-43")
@pytest.mark.invariant("I2")
def test_a_world_opens_from_its_file(tmp_path: Path) -> None:
    """I2: live, reopened from the snapshot and folded from genesis are one root, from disk."""
    rig = played(tmp_path)
    wanted = rig.root()
    journal = SqliteJournal(tmp_path)
    runner = PythonRunner(FUNCTIONS)
    assert root(world_at(journal, WORLD, runner)) == wanted
    folded = open_world(WORLD, journal.read(WORLD), StagedBlobs(journal, WORLD), runner)
    assert root(folded) == wanted
    assert verify_chain(journal.read(WORLD), world=WORLD) is None


def killed(folder: Path, mode: str, after: int) -> tuple[int, SqliteJournal]:
    """Run the program, kill it behind so many acks; the last acked seq, and the file reopened."""
    command = [sys.executable, "-m", "tests.journal.kill_me", str(folder), mode]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        acked = 0
        for _ in range(after):
            acked = int(program.stdout.readline().split()[0])
        os.kill(program.pid, signal.SIGKILL)
        rest = program.stdout.read().splitlines()
        acked = max(
            [acked, *[int(line.split()[0]) for line in rest if line.endswith(tuple("0123456789"))]]
        )
        program.wait()
    return acked, SqliteJournal(folder)


@pytest.mark.clause("X-07", "K-26")
@pytest.mark.invariant("I1")
@pytest.mark.slow
def test_acknowledged_events_survive_a_kill(tmp_path: Path) -> None:
    """ND-01 in small: SIGKILL at several points; every acknowledged frame is in the file."""
    for n, after in enumerate((1, 7, 23, 60)):
        acked, journal = killed(tmp_path / str(n), "late", after)
        assert journal.head(WORLD).seq >= acked
        assert verify_chain(journal.read(WORLD), world=WORLD) is None
        world = world_at(journal, WORLD, PythonRunner(FUNCTIONS))
        assert world.seq == journal.head(WORLD).seq


@pytest.mark.invariant("I1")
@pytest.mark.slow
def test_the_kill_test_finds_an_early_ack(tmp_path: Path) -> None:
    """ND-01, control: a node that acknowledges before its commit is found out."""
    acked, journal = killed(tmp_path, "early", 5)
    assert journal.head(WORLD).seq < acked


@pytest.mark.invariant("I11")
def test_two_writers_on_one_file(tmp_path: Path) -> None:
    """I11: the first of two writers on one file is fenced by the second's epoch."""
    rig = played(tmp_path)
    other = SqliteJournal(tmp_path)
    other.acquire(WORLD)
    frame = seal_frame(WORLD, rig.driver.head.seq + 1, rig.driver.head.hash, [Noted("n", 1)])
    (outcome,) = rig.journal.append(Append(WORLD, [frame], rig.driver.head, {}))
    assert not isinstance(outcome, Head)
    assert other.head(WORLD).seq == rig.driver.head.seq


def test_a_newer_format_is_left_untouched(tmp_path: Path) -> None:
    """F7: a file of a newer release is refused with its format, and not changed."""
    journal = SqliteJournal(tmp_path)
    journal._db.execute("UPDATE meta SET value=value + 1 WHERE key='format'")
    journal.close()
    before = (tmp_path / "tally.db").read_bytes()
    with pytest.raises(Rejected) as caught:
        SqliteJournal(tmp_path)
    assert caught.value.code == "journal.format"
    assert caught.value.exit_code == 2
    assert (tmp_path / "tally.db").read_bytes() == before


def test_large_blobs_are_files(tmp_path: Path) -> None:
    """K-38: a blob over the spill size is a file of its own; damage is found before use."""
    journal = SqliteJournal(tmp_path, spill_bytes=100)
    epoch = lease_of(journal, WORLD).epoch
    head = journal.head(WORLD)._replace(epoch=epoch)
    small, large = canon.encode("s"), canon.encode("l" * 1000)
    blobs = {canon.digest_of(small): small, canon.digest_of(large): large}
    frame = seal_frame(WORLD, 1, head.hash, [Noted("n", 1)])
    assert isinstance(journal.append(Append(WORLD, [frame], head, blobs))[0], Head)
    files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in files] == [large]
    assert journal.blob(WORLD, canon.digest_of(large)) == large
    files[0].write_bytes(large[:-1] + b"x")
    with pytest.raises(JournalCorrupt):
        journal.blob(WORLD, canon.digest_of(large))
    files[0].unlink()
    with pytest.raises(JournalCorrupt):
        journal.blob(WORLD, canon.digest_of(large))
    assert keep_only(journal, WORLD, frozenset({canon.digest_of(small)})) == (1, len(large))


class FailingSync(apsw.VFS):
    """A file system whose sync fails once it is told to."""

    broken = False

    def __init__(self) -> None:
        super().__init__("failing", base="")

    def xOpen(self, name, flags):
        return FailingFile(name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, name, flags) -> None:
        super().__init__("", name, flags)

    def xSync(self, flags):
        if FailingSync.broken:
            raise apsw.IOError
        return super().xSync(flags)


@pytest.mark.invariant("I5")
def test_a_failed_sync_ends_the_journal(tmp_path: Path) -> None:
    """D15: after one failed sync nothing is tried again, and a new start finds a sound file."""
    vfs = FailingSync()
    journal = SqliteJournal(tmp_path, vfs="failing")
    epoch = lease_of(journal, WORLD).epoch
    head = journal.head(WORLD)._replace(epoch=epoch)
    frame = seal_frame(WORLD, 1, head.hash, [Noted("n", 1)])
    FailingSync.broken = True
    try:
        with pytest.raises(SyncFailed) as caught:
            journal.append(Append(WORLD, [frame], head, {}))
        assert caught.value.exit_code == 3
    finally:
        FailingSync.broken = False
    with pytest.raises(SyncFailed):
        journal.append(Append(WORLD, [frame], head, {}))
    with pytest.raises(SyncFailed):
        journal.acquire(WORLD)
    journal.close()
    again = SqliteJournal(tmp_path)
    assert verify_chain(again.read(WORLD), world=WORLD) is None
    vfs.unregister()
