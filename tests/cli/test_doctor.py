"""`tally doctor` and `tally secret`: facts of the folder, and values that never come out."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.bench import NAMES
from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tallystick.journal.base import UNFINISHED, Head
from tallystick.journal.sqlite import SqliteJournal
from tallystick.node import doctor
from tallystick.node.config import config_of
from tallystick.node.keys import node_key
from tests.cli.runs import tally
from tests.cli.stand_in import Asked, Said, saying, stand_in

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {verb.words: verb.shape for verb in VERBS}


def checks(data: Path, **sections: Any) -> dict[str, doctor.Check]:
    config = config_of(data.parent, {"node": {"data": data.name}, **sections}, {})
    return {check.id: check for check in doctor.examine(config)}


def test_an_empty_folder_is_healthy(tmp_path: Path):
    """ND-28: nothing is red where nothing is yet, and nothing is made by looking."""
    done = tally("doctor", "--data", str(tmp_path / ".tally"), "--json")
    assert done.code == 0
    assert misfit(SHAPES["doctor"], done.value) is None
    assert done.value["ok"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_wide_key_is_red_and_can_be_mended(tmp_path: Path):
    """VA-18: red ends with 1 and says what to type; `--fix` narrows the mode, nothing else."""
    data = tmp_path / ".tally"
    path = node_key(data / "keys").path
    path.chmod(0o644)
    words = ("doctor", "--data", str(data))
    done = tally(*words, "--json")
    assert done.code == 1
    red = {check["id"]: check for check in done.value["checks"] if check["level"] == "red"}
    assert set(red) == {"keys", "modes"}
    assert f"chmod 600 {path}" in red["keys"]["fix"]
    said = tally(*words)
    assert (said.code, "chmod 600" in said.out) == (1, True)
    assert tally(*words, "--fix", "--json").code == 0
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.invariant("I1")
def test_a_world_whose_import_was_cut_off_is_no_damage(tmp_path: Path):
    """04 section 13: behind a killed import of a trimmed world the journal was called damaged, and
    the owner was sent to a backup, though the next start drops what is left of it.
    """
    data = tmp_path / ".tally"
    journal = SqliteJournal(data)
    world = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    journal.begin(world, Head(40, bytes(32), 0))
    journal.set_state(world, UNFINISHED)
    journal.close()
    assert checks(data)["journal"].level == doctor.OK


def test_an_open_address_without_tls_is_red(tmp_path: Path):
    """04 section 13: the listen address is judged; TLS makes another address fine."""
    data = tmp_path / ".tally"
    assert checks(data, http={"listen": "0.0.0.0:80"})["listen"].level == doctor.RED
    assert checks(data, http={"listen": "0.0.0.0:80", "tls_cert": "x"})["listen"].level == doctor.OK
    assert checks(data, http={"listen": "[::1]:80"})["listen"].level == doctor.OK


def test_a_held_lock_names_its_owner(tmp_path: Path):
    """04 section 13: the lock owner is the pid of run/node.json, or just somebody."""
    data = tmp_path / ".tally"
    (data / "run").mkdir(parents=True)
    lock = data / "run" / "node.lock"
    lock.touch()
    assert doctor.lock_owner(data) is None
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert doctor.lock_owner(data) == "another process"
        (data / "run" / "node.json").write_text(json.dumps({"pid": 42}))
        assert checks(data)["lock"].found == "held by pid 42"


def test_a_journal_is_looked_at_and_a_broken_one_is_red(tmp_path: Path):
    """04 section 13: mode, clock, ages and WAL of a journal; bytes that are none are red."""
    data = tmp_path / ".tally"
    SqliteJournal(data).close()
    found = checks(data)
    assert found["journal"].found == {"worlds": 0, "mode": "wal"}
    assert (found["clock"].level, found["wal"].level) == (doctor.OK, doctor.OK)
    assert (found["backup"].found, found["verify"].found) == ("never", "never")
    assert found["fsync"].found.endswith(" us")
    (data / "tally.db").write_bytes(b"no database at all" * 100)
    assert checks(data)["journal"].level == doctor.RED


def test_every_effect_of_a_world_is_counted(tmp_path: Path):
    """04 section 13: held and open effects are counted on all pages, not on the first."""
    data = tmp_path / ".tally"
    SqliteJournal(data).close()
    row = {"hold": {"kind": "restore"}, "opened_seq": 9, "why": "held", "effect": "a@1"}
    alone = {"hold": None, "opened_seq": 4, "why": "no_executor", "effect": "b@1"}

    def speak(asked: Asked) -> Said:
        if asked.path == "/v1/worlds":
            return saying({"items": [{"world": "w-1"}], "next": None})
        if "after" in asked.query:
            return saying({"items": [row, alone], "next": None})
        return saying({"items": [row] * 3, "next": "c"})

    with stand_in(speak) as url:
        done = tally("doctor", "--data", str(data), "--url", url, "--json")
    found = {check["id"]: check["found"] for check in done.value["checks"]}
    assert (found["held"], found["executors"]) == (4, ["b@1"])
    assert found["open"] == {"open": 5, "oldest_seq": 4}


@pytest.mark.parametrize("page", range(1, 9))
def test_no_page_of_a_damaged_journal_ends_the_examination(tmp_path: Path, page: int):
    """F4: wherever the damage is, the doctor says all it knows, and that the journal is red when it
    has met the damage.
    """
    SqliteJournal(tmp_path / ".tally").close()
    path = tmp_path / ".tally" / "tally.db"
    whole = path.read_bytes()
    begin = page * 4096
    path.write_bytes(whole[:begin] + b"\xff" * 4096 + whole[begin + 4096 :])
    found = checks(tmp_path / ".tally")
    assert {"journal", "wal", "keys", "lock"} <= set(found)
    assert found["journal"].level in (doctor.OK, doctor.RED)


def test_file_systems_are_told_apart(tmp_path: Path):
    """04 section 13: a known kind for a path that is there, and for one that is not yet."""
    assert doctor.file_system_of(Path("/proc/self")) == "proc"
    kind = doctor.file_system_of(tmp_path)
    assert doctor.file_system_of(tmp_path / "a" / "b") == kind != "unknown"


def test_a_bench_gives_figures_and_leaves_nothing(tmp_path: Path):
    """ND-28: one row per figure, above zero; the folder is as empty as before."""
    done = tally("bench", "--quick", "--data", str(tmp_path / ".tally"), "--json")
    assert done.code == 0, done.err
    assert misfit(SHAPES["bench"], done.value) is None
    assert [row["name"] for row in done.value["items"]] == [
        "disk",
        "lone",
        "batch",
        "ticks",
        "admit",
    ]
    assert all(row["value"] > 0 for row in done.value["items"])
    assert list(tmp_path.iterdir()) == []
    one = tally("bench", "disk", "--quick", "--data", str(tmp_path / ".tally"))
    assert (one.code, "commits/s" in one.out) == (0, True)


def test_a_bench_is_held_against_floors(tmp_path: Path):
    """RL-20: below a floor the answer is no and says which; above it, yes; a file of none is bad.

    `tally bench --json --floors bench/floors.json` is the whole of it, for a quiet machine.
    """
    asked = ("bench", "disk", "--quick", "--data", str(tmp_path / ".tally"), "--json", "--floors")
    floors = tmp_path / "floors.json"
    for least, code in ((1, 0), (10**9, 1)):
        floors.write_text(json.dumps({"bench": {"disk": least}}), "utf-8")
        done = tally(*asked, str(floors))
        assert (done.code, len(done.value["below"])) == (code, code), done
    floors.write_text("{}", "utf-8")
    assert tally(*asked, str(floors)).problem["code"] == "bench.no_floors"
    kept = json.loads((ROOT / "bench" / "floors.json").read_text("utf-8"))
    assert kept["bench"].keys() < set(NAMES), "the project's own floors are of figures that exist"


# ---- secrets --------------------------------------------------------------------------------


@pytest.mark.clause("K-04")
def test_a_secret_is_kept_and_never_shown(tmp_path: Path):
    """ND-19, ND-28: set from the input, listed by name, removed; the value is in no output."""
    data = str(tmp_path / ".tally")
    canary = "canary-7f3a91"
    done = tally("secret", "set", "api", "--data", data, "--json", stdin=canary + "\n")
    assert (done.code, done.value) == (0, {"name": "api", "set": True})
    listed = tally("secret", "ls", "--data", data, "--json")
    assert misfit(SHAPES["secret ls"], listed.value) is None
    assert listed.value["items"] == [{"name": "api"}]
    assert canary not in done.out + done.err + listed.out + listed.err
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert canary.encode() not in kept
    gone = tally("secret", "rm", "api", "--data", data, "--json")
    assert gone.value == {"name": "api", "removed": True}
    again = tally("secret", "rm", "api", "--data", data, "--json")
    assert (again.code, again.problem["code"]) == (2, "secret.unbound")


def test_a_short_secret_is_refused(tmp_path: Path):
    """06 section 5: under 6 bytes it could not be scrubbed; exit 2, nothing kept."""
    data = str(tmp_path / ".tally")
    done = tally("secret", "set", "api", "--data", data, "--json", stdin="12345\n")
    assert done.code == 2
    assert tally("secret", "ls", "--data", data, "--json").value["items"] == []
