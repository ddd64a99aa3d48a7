"""The grace of a blob: who brings one is about to name it, and has some time for that."""

from __future__ import annotations

from tallystick.journal.sqlite import SqliteJournal


def begun_anew(journal: SqliteJournal, world: str, digest: bytes) -> None:
    """Let the grace of a blob begin anew in a world that has it.

    A fork reads what was there when it was made, so one that reads it here gets its own (I7).
    """
    added = journal.added(world, digest)
    for name in journal.forks(world):
        reads = added <= (journal.lineage(name)[0].fork_seq or 0)
        if reads and journal.added(name, digest) < 0:
            data = journal.blob(world, digest)
            assert data is not None, "who begins a grace has brought the blob"
            journal.mend_blob(name, digest, data)
    journal.freshen(world, digest)
