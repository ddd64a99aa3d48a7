"""Verify finds what was changed, and names the first bad sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tallystick.journal.chain import Chain, header_of, named_by
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.sqlite_read import SqliteReader
from tallystick.journal.verify import verify
from tallystick.model.frames import open_frame
from tallystick.values import canon
from tests import worlds
from tests.journal.damage import DAMAGES, Case, Damage, blob_deleted, grown
from tests.kernel import mixed
from tests.kernel.test_fork import child_id, child_rig
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, created

# 16 kinds of damage: 304 in all, beside those of files.
EACH = int(os.environ.get("TALLY_DAMAGES", "19"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = grown(tmp_path_factory.mktemp("data"))
    yield made
    made.journal.close()


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I10")
def test_an_untouched_journal_is_sound(rig: Rig) -> None:
    """ND-23, control: nothing is found where nothing was changed; the root is the live one."""
    for level in ("quick", "full"):
        verdict = verify(rig.journal, WORLD, level)
        assert verdict.ok, verdict.first_bad
        assert verdict.root == rig.root()
        assert verdict.records == rig.world.seq
        assert (verdict.snapshots, verdict.checkpoints) == (2, 3)
        assert verdict.receipts == {"sealed": 6, "bad": 0}
    assert verdict.blobs["checked"] == len(list(rig.journal.blobs(WORLD)))
    shape = verdict.shape()
    assert list(shape) == [
        "world", "level", "frames", "records", "receipts", "blobs", "snapshots", "checkpoints",
        "head", "root", "first_bad", "seconds", "ok",
    ]  # fmt: skip


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I10")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found(rig: Rig, damage: Damage) -> None:
    """ND-23, AT-17: changed, deleted, swapped, cut, rolled back, forged: found, and named."""
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    for turn in range(EACH):
        journal._db.execute("BEGIN")
        try:
            bad = damage(Case(journal, Random(f"{damage.__name__}/{turn}")))
            verdict = verify(journal, WORLD)
        finally:
            journal._db.execute("ROLLBACK")
        assert verdict.first_bad is not None, f"turn {turn} was not found"
        if bad is not None:
            assert verdict.first_bad.seq == bad, verdict.first_bad
    assert verify(journal, WORLD).ok, "the damage was undone"


@pytest.mark.clause("K-12")
@pytest.mark.invariant("I42")
@pytest.mark.parametrize("most", [0, 3])
def test_what_memory_does_not_hold_is_looked_up(rig: Rig, most: int) -> None:
    """I42: a journal of many blobs is judged as well with few of their names in memory."""
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    assert verify(journal, WORLD, remembered=most).ok
    journal._db.execute("BEGIN")
    try:
        blob_deleted(Case(journal, Random(1)))
        assert not verify(journal, WORLD, remembered=most).ok
    finally:
        journal._db.execute("ROLLBACK")


def test_a_chain_that_does_not_hash_finds_nothing(rig: Rig) -> None:
    """ND-23, control: without the check of hash and place the same change passes for the truth."""

    class Blind(Chain):
        def take(self, frame):
            return True

    frames = list(rig.journal.read(WORLD))
    body = bytearray(frames[3].body)
    body[-1] ^= 1
    frames[3] = frames[3]._replace(body=bytes(body))
    for kind, found in ((Chain, [frames[3].seq]), (Blind, [])):
        chain = kind(rig.journal.lineage(WORLD), (0, bytes(32)), lambda _digest: True)
        for frame in frames[:4]:
            chain.take(frame)
        assert [finding.seq for finding in chain.findings] == found


def test_the_header_is_read_as_the_whole_is(rig: Rig) -> None:
    """D9: the place that a body claims is the same with and without reading its records."""
    for frame in rig.journal.read(WORLD):
        world, seq, prev, records = open_frame(frame.body)
        assert header_of(frame.body) == (world, seq, prev, len(records))
        assert header_of(frame.body[:40]) is None
    assert header_of(b"") is None


@pytest.mark.clause("K-12")
def test_damaged_files_are_found(tmp_path: Path) -> None:
    """ND-23, AT-17: a blob file changed, cut or deleted, and bytes of the database itself."""
    rig = grown(tmp_path)
    wanted = rig.root()
    rig.journal.close()
    files = sorted(path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    assert len(files) > 3
    reader = SqliteReader(tmp_path)
    for path in files:
        whole = path.read_bytes()
        for changed in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], None):
            path.unlink()
            if changed is not None:
                path.write_bytes(changed)
            verdict = verify(reader, WORLD)
            assert verdict.first_bad is not None
            assert verdict.blobs["bad"] == 1
            path.write_bytes(whole)
    assert verify(reader, WORLD).ok
    reader.close()
    chance = Random("pages")
    database = tmp_path / "tally.db"
    whole = database.read_bytes()
    for _ in range(20):
        at = chance.randrange(100, len(whole))
        database.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        assert found_or_equal(tmp_path, wanted), f"byte {at} was changed and nobody noticed"


def found_or_equal(folder: Path, wanted: bytes) -> bool:
    """A byte that nothing stands in may change; then everything reads as before."""
    try:
        reader = SqliteReader(folder)
        try:
            verdict = verify(reader, WORLD)
        finally:
            reader.close()
    except Exception as why:  # noqa: BLE001 - what it is called is asserted
        return getattr(why, "code", "") in ("journal.corrupt", "world.unknown", "journal.format")
    return not verdict.ok or verdict.root == wanted


@pytest.mark.clause("X-08")
def test_a_fork_is_verified_with_its_prefix(tmp_path: Path) -> None:
    """D9: a fork's verdict covers its parent's frames too; damage there is damage here."""
    rig = grown(tmp_path)
    child = child_rig(rig, 1, 20)
    child.send(CREATED, created("only-here"))
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    verdict = verify(journal, child_id(1))
    assert verdict.ok, verdict.first_bad
    assert verdict.root == child.root()
    assert verdict.records == child.world.seq
    journal._db.execute("UPDATE frame SET body=zeroblob(9) WHERE seq=5")
    found = verify(journal, child_id(1)).first_bad
    assert found is not None
    assert found.seq == 5
    journal.close()


@pytest.mark.clause("K-12")
def test_a_world_is_verified_while_it_is_written(tmp_path: Path) -> None:
    """04 section 13: a verdict over a journal that grows meanwhile is sound, at a sequence that it
    had, with the root of that sequence.
    """
    rig = grown(tmp_path)
    roots = {rig.driver.head.hash: rig.root()}
    verdicts = []

    def judge() -> None:
        reader = SqliteReader(tmp_path)
        verdicts.extend(verify(reader, WORLD, level) for level in ("full", "quick") * 3)
        reader.close()

    thread = Thread(target=judge)
    thread.start()
    number = 0
    while thread.is_alive():
        rig.send(CREATED, created(f"load-{number}"))
        roots[rig.driver.head.hash] = rig.root()
        if number % 10 == 9:
            rig.driver.snapshot()
            roots[rig.driver.head.hash] = rig.root()
        number += 1
    thread.join()
    assert len(verdicts) == 6
    for verdict in verdicts:
        assert verdict.ok, verdict.first_bad
        assert verdict.root == roots.get(verdict.head, verdict.root)
    rig.journal.close()


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A world with nearly every type of record, large values among them."""
    folder = tmp_path_factory.mktemp("varied")
    made = Rig(mixed.documents(), mixed.FUNCTIONS, journal=SqliteJournal(folder))  # type: ignore[arg-type]
    mixed.play(made)
    made.send(worlds.GO, worlds.go("asks for much", "ask", 1))
    made.settle(made.jobs.of(worlds.ASK)[-1], {"a": "much" * 20_000})
    yield made
    made.journal.close()


@pytest.mark.clause("K-12", "K-38")
def test_every_blob_that_a_record_names_is_missed(varied: Rig) -> None:
    """ND-23: without a value that a record names by its hash the journal is not whole; the first
    record that names it is the bad one.
    """
    journal = varied.journal
    assert isinstance(journal, SqliteJournal)
    verdict = verify(journal, WORLD)
    assert verdict.ok, verdict.first_bad
    assert verdict.root == varied.root()
    assert verdict.receipts == {"sealed": 3, "bad": 0}
    named: dict[bytes, int] = {}
    for frame in journal.read(WORLD):
        for seq, record in enumerate(open_frame(frame.body)[3], frame.seq):
            for digest in named_by(record):
                named.setdefault(digest, seq)
    assert len(named) >= 3
    for digest, seq in named.items():
        journal._db.execute("BEGIN")
        journal._db.execute("DELETE FROM blob WHERE hash=?", (digest,))
        found = verify(journal, WORLD)
        journal._db.execute("ROLLBACK")
        assert found.blobs["missing"] >= 1
        assert found.first_bad is not None
        assert found.first_bad.seq == seq


def test_records_that_nobody_knows_are_found(varied: Rig) -> None:
    """ND-23: a frame whose hash is right and whose records this release cannot read is damage."""
    frame = next(f for f in varied.journal.read(WORLD) if b"ReceiptSettled" in f.body)
    body = frame.body.replace(b"ReceiptSettled", b"ReceiptSettlex")
    line = varied.journal.lineage(WORLD)
    for changed in (body, b"", body.replace(b"world", b"globe")):
        forged = frame._replace(body=changed, hash=canon.digest_of(changed))
        chain = Chain(line, (frame.seq - 1, frame.prev), lambda _digest: True)
        assert not chain.take(forged)
        assert [found.seq for found in chain.findings] == [frame.seq]
    other = frame._replace(world=child_id(3))
    chain = Chain(line, (frame.seq - 1, frame.prev), lambda _digest: True)
    assert not chain.take(other)
