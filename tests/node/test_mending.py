"""`tally doctor --fix`: what a stopped folder has lost comes back from a backup (04 section 13)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tallystick.errors import TallyError
from tallystick.journal.backup import backup
from tallystick.journal.sqlite import SqliteJournal
from tallystick.journal.verify import verify
from tallystick.node.config import Config, config_of
from tallystick.node.doctor import OK, RED, WARN, Check
from tallystick.node.files import Files, Lock
from tallystick.node.mending import mend_journal
from tests.cli.runs import tally
from tests.journal.damage import Case, blob_changed, body_changed, grown
from tests.rig import WORLD


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    """A folder with a journal, and a backup of it beside."""
    rig = grown(tmp_path / ".tally")
    journal = rig.journal
    assert isinstance(journal, SqliteJournal)
    backup(journal.reader(), tmp_path / "kept")
    journal.close()
    return config_of(tmp_path, {}, {})


def damaged(config: Config, damage: object) -> None:
    journal = SqliteJournal(config.data)
    damage(Case(journal, Random(1)))  # type: ignore[operator]
    journal.close()


def judged(config: Config, kept: Path | None = None) -> Check:
    (check,) = mend_journal(config, kept)
    return check


def sound(config: Config) -> bool:
    journal = SqliteJournal(config.data)
    try:
        return verify(journal, WORLD).ok
    finally:
        journal.close()


def test_a_lost_blob_comes_back_from_a_backup(settings: Config, tmp_path: Path) -> None:
    """F4: without a backup it is named, with what to type; with one it is whole again."""
    assert judged(settings) == Check("mended", OK, "nothing was damaged", "sound")
    damaged(settings, blob_changed)
    alone = judged(settings)
    assert (alone.level, alone.fix) == (RED, "tally doctor --fix --from BACKUP")
    assert "no sound copy" in alone.found[0]
    assert not sound(settings)
    done = judged(settings, tmp_path / "kept")
    assert done.level == OK
    assert "was restored by its hash" in done.found[0]
    assert sound(settings)


def test_a_damaged_middle_is_left_to_a_restore(settings: Config, tmp_path: Path) -> None:
    """F4: no frame is made again or cut off; the way on is a backup as a whole."""
    damaged(settings, body_changed)
    done = judged(settings, tmp_path / "kept")
    assert (done.level, done.fix) == (RED, "tally restore BACKUP --into DIR")
    assert not sound(settings)


def test_a_folder_in_use_is_left_alone(settings: Config) -> None:
    """F7: a node that runs has the folder; nothing is mended under it."""
    files = Files(settings.data)
    files.make()
    lock = Lock(files)
    try:
        assert (judged(settings).level, judged(settings).fix) == (WARN, "stop it, then mend again")
    finally:
        lock.release()


def test_what_is_no_backup_is_refused(settings: Config, tmp_path: Path) -> None:
    """04 section 13: a wrong folder is told before anything is looked at; so is `--from` alone."""
    with pytest.raises(TallyError) as caught:
        mend_journal(settings, tmp_path)
    assert caught.value.code == "backup.none"
    done = tally("doctor", "--data", str(settings.data), "--from", str(tmp_path / "kept"))
    assert (done.code, "add --fix" in done.err) == (2, True)
