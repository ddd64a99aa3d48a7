"""Carrying worlds: export, import, verify alone, back up, restore (ND-25, ND-28)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tallystick.journal.base import Append
from tallystick.journal.sqlite import SqliteJournal
from tests.cli.runs import Live, Ran, hello, tally

GREETER = "demo/greeter@1"
SHAPES = {verb.words: verb.shape for verb in VERBS}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    node = Live(hello(tmp_path_factory.mktemp("live")), "--bundle", "app.py")
    try:
        for name in ("Ada", "Ada", "Bob"):
            node.json("send", "demo/Greet@1", json.dumps({"name": name}))
        yield node
    finally:
        node.close()


def fits(words: str, done: Ran) -> Any:
    assert done.code == 0, done.err
    assert misfit(SHAPES[words], done.value) is None
    return done.value


@pytest.mark.clause("K-12", "X-22")
def test_an_export_verifies_alone_and_can_be_imported(live: Live, tmp_path: Path):
    """ND-23, ND-28: one file; it verifies without its node, and its world lives on elsewhere."""
    path = tmp_path / "main.tally"
    live.json("world", "export", "--bundle", "-o", str(path))
    alone = fits("verify", tally("verify", "--bundle", str(path), "--json"))
    assert alone["ok"] is True
    assert alone["frames"] > 3
    there = ("--data", str(tmp_path / "there" / ".tally"), "--json")
    fits("world import", tally("world", "import", str(path), "main", *there))
    cell = tally("cell", "show", GREETER, "Ada", *there)
    assert cell.value["state"] == {"visits": 2}
    again = tally("world", "import", str(path), "other", *there)
    assert again.code == 1, "the world is here already"
    live.json("world", "fork", "--as", "beside")
    live.json("world", "export", "--bundle", "-o", str(path), "-w", "beside")
    taken = tally("world", "import", str(path), "main", *there)
    assert (taken.code, taken.problem["code"]) == (1, "world.exists")
    wrong = tally("world", "import", str(path), "a/b", *there)
    assert (wrong.code, wrong.problem["code"]) == (2, "world.bad_name")
    cell = tally("cell", "show", GREETER, "Ada", *there)
    assert cell.value["state"] == {"visits": 2}, "the name means what it meant"


@pytest.mark.clause("K-12")
def test_a_damaged_export_is_found(live: Live, tmp_path: Path):
    """ND-23 control: one flipped byte, a cut or another file: verify says no, import nothing."""
    path = tmp_path / "main.tally"
    live.json("world", "export", "--bundle", "-o", str(path))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(flipped) // 2] ^= 1
    for data in (b"x" + whole[1:], whole[: len(whole) // 2], whole + b"x", flipped):
        path.write_bytes(data)
        found = tally("verify", "--bundle", str(path), "--json")
        assert (found.code, found.value["ok"]) == (1, False)
        assert found.value["first_bad"]["what"]
        assert misfit(SHAPES["verify"], found.value) is None
    assert tally("verify", "--bundle", str(tmp_path / "none"), "--json").code == 2
    there = ("--data", str(tmp_path / "there" / ".tally"), "--json")
    assert tally("world", "import", str(path), "main", *there).code in (2, 4)
    assert tally("world", "ls", *there).value["items"] == []


@pytest.mark.clause("K-45")
def test_lines_of_json_hold_every_record(live: Live, tmp_path: Path):
    """ND-28: head, rows, end; to a file or to the output, whole or a part."""
    done = live.run("world", "export", "--jsonl")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert (rows[0]["tally"], rows[-1]["end"]) == ("export", True)
    assert [row["seq"] for row in rows[1:-1]] == list(range(1, rows[0]["to"] + 1))
    live.json("world", "export", "--jsonl", "-o", str(tmp_path / "a"), "--from", "2", "--to", "3")
    assert len((tmp_path / "a").read_text().splitlines()) == 4
    for words in (["--bundle"], ["--bundle", "--jsonl"], ["--bundle", "-o", "x", "--from", "2"]):
        assert live.run("world", "export", *words, "--json").code == 2


@pytest.mark.clause("K-45")
def test_an_export_that_is_refused_leaves_the_file_that_was_there(tmp_path: Path):
    """ND-28: a refused export of lines had cut the file; one of no lines was told as a success."""
    base, kept = hello(tmp_path), tmp_path / "kept.jsonl"
    here = ("--data", str(base / ".tally"), "--json")
    assert tally("world", "create", "main", "--bundle", str(base / "app.py"), *here).code == 0
    assert tally("world", "snapshot", *here).code == 0
    trim = ("gc", "--trim-before", "99", "--archive", str(tmp_path / "archive"))
    assert tally(*trim, *here).code == 0
    kept.write_text("of before", "utf-8")
    for span, code in (
        (("--from", "1"), "journal.trimmed"),
        (("--from", "0"), "export.bad_range"),
        (("--from", "5", "--to", "4"), "export.bad_range"),
        (("--from", "9999"), "export.bad_range"),
    ):
        done = tally("world", "export", "--jsonl", "-o", str(kept), *span, *here)
        assert (done.code, done.problem["code"]) == (2, code), span
        assert kept.read_text("utf-8") == "of before"
    bundle = ("world", "export", "--bundle", "-o", str(kept), "-w", "none")
    assert tally(*bundle, *here).code == 2
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.clause("K-19", "X-02")
def test_replay_and_verify_say_yes(live: Live):
    """ND-28: every tick again with equal roots; hashes, seals, snapshots and checkpoints hold."""
    again = fits("replay", live.run("replay", "--verify", "--json"))
    assert again["ok"] is True
    assert again["ticks"] >= 3
    assert again["root"] == again["expected_root"]
    said = live.run("replay", "--verify")
    assert (said.code, said.out.splitlines()[-1]) == (0, "equal")
    for level in ("--quick", "--full", "--replay"):
        found = fits("verify", live.run("verify", level, "--json"))
        assert found["ok"] is True
    assert live.run("verify", "--quick", "--full", "--json").code == 2
    assert live.run("replay", "--from", "x", "--json").code == 2


def test_kept_checkpoints_are_compared(live: Live, tmp_path: Path):
    """04 section 4: a copy kept elsewhere agrees with its journal; a forged line does not."""
    live.json("world", "snapshot")
    kept = live.data / "checkpoints.jsonl"
    live.wait(lambda: kept.exists() and kept.read_text().endswith("\n"))
    copy = tmp_path / "checkpoints.jsonl"
    copy.write_text(kept.read_text())
    words = ("verify", "--checkpoints", str(copy), "--json")
    assert fits("verify", live.run(*words))["ok"] is True
    forged = json.loads(copy.read_text().splitlines()[0])
    forged["head"] = "sha256:" + "0" * 64
    copy.write_text(json.dumps(forged) + "\n")
    assert live.run(*words).code == 1


@pytest.mark.clause("X-07")
def test_a_backup_is_restored_elsewhere(live: Live, tmp_path: Path):
    """ND-25, in small: a copy while the node runs; the restored world has the same cells."""
    fits("backup", live.run("backup", str(tmp_path / "copy"), "--json"))
    assert live.json("verify", "--full")["ok"] is True
    ages = {check["id"]: check["found"] for check in live.json("doctor")["checks"]}
    assert (ages["backup"], ages["verify"]) == ("0 h ago", "0 h ago")
    root = live.json("world", "root")
    into = tmp_path / "again" / ".tally"
    told = fits("restore", tally("restore", str(tmp_path / "copy"), "--into", str(into), "--json"))
    assert told["held"] == 0
    assert told["worlds"][0]["root"] == root["root"]
    there = ("--data", str(into), "--json")
    assert tally("cell", "show", GREETER, "Ada", *there).value["state"] == {"visits": 2}
    full = tally("restore", str(tmp_path / "copy"), "--into", str(into), "--json")
    assert (full.code, full.problem["code"]) == (1, "restore.not_empty")
    (tmp_path / "copy" / "tally.db").write_bytes(b"torn")
    torn = tally("restore", str(tmp_path / "copy"), "--into", str(tmp_path / "new"), "--json")
    assert torn.code == 4
    assert not (tmp_path / "new").exists()


def collectable(folder: Path) -> tuple[str, ...]:
    """A stopped folder with a world, a snapshot, one orphan and no grace; the words about it."""
    (hello(folder) / "tally.toml").write_text('[retention]\nblob_grace = "0s"\n')
    node = Live(folder, "--bundle", "app.py")
    words = ("--data", str(node.data), "--json")
    try:
        node.json("send", "demo/Greet@1", '{"name": "Ada"}')
        world = node.json("world", "show", "main")["world"]
        assert fits("gc", tally("gc", *words))["worlds"][0]["removed"] == 0
        assert node.end() == 0
    finally:
        node.close()
    journal = SqliteJournal(node.data)
    orphan = {sha256(b"orphan").digest(): b"orphan"}
    journal.append(Append(world, [], journal.head(world), orphan))
    journal.close()
    assert tally("send", "demo/Greet@1", '{"name": "Bob"}', *words).code == 0
    return words


@pytest.mark.clause("K-44")
def test_gc_takes_orphans_and_nothing_else(tmp_path: Path):
    """ND-26, in small: an orphan goes once it is old, all else stays; a trim is archived first."""
    words = collectable(tmp_path / "app")
    looked = fits("gc", tally("gc", *words, "--dry-run"))["worlds"][0]
    assert (looked["orphans"], looked["removed"]) == (1, 0)
    root = tally("world", "root", *words).value["root"]
    assert fits("gc", tally("gc", *words))["worlds"][0]["removed"] == 1
    assert fits("gc", tally("gc", *words))["worlds"][0]["orphans"] == 0
    assert tally("world", "root", *words).value["root"] == root
    assert tally("verify", "--full", *words).value["ok"] is True
    assert tally("gc", "--trim-before", "5", *words).code == 2, "an archive is needed"
    archive = tmp_path / "old.tally"
    told = fits("gc", tally("gc", "--trim-before", "999", "--archive", str(archive), *words))
    assert told["base_seq"] > 1
    assert tally("verify", "--bundle", str(archive), "--json").value["ok"] is True
    assert tally("verify", "--full", *words).value["ok"] is True
    assert tally("world", "root", *words).value["root"] == root


def test_a_tick_that_keeps_the_state_is_no_damage(tmp_path: Path):
    """ND-23, ND-25: the second tick names a state whose bytes stand in the first one's record."""
    folder = hello(tmp_path / "app")
    app = folder / "app.py"
    app.write_text(app.read_text().replace("guest.replace(visits=guest.visits + 1)", "guest"))
    data = ("--data", str(folder / ".tally"), "--json")
    assert tally("world", "create", "main", "--bundle", str(app), *data).code == 0
    for _ in range(2):
        assert tally("send", "demo/Greet@1", '{"name": "Ada"}', *data).code == 0
    assert tally("cell", "show", GREETER, "Ada", *data).value["state"] == {"visits": 0}
    found = tally("verify", *data)
    assert (found.code, found.value["first_bad"]) == (0, None)
    copy = str(tmp_path / "copy")
    assert tally("backup", copy, *data).code == 0
    back = tally("restore", copy, "--into", str(tmp_path / "back"), "--json")
    assert back.code == 0, back.err


@pytest.mark.clause("K-45")
def test_one_cell_is_exported_alone(live: Live):
    """04 section 9: `--cell WF KEY` gives the lines of its history and no others."""
    live.json("send", "demo/Greet@1", '{"name": "Zoe"}')
    done = live.run("world", "export", "--jsonl", "--cell", GREETER, "Zoe")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["kind"] for row in rows[1:-1]] == ["event", "tick"]
    assert rows[-1]["records"] == 2
    whole = [json.loads(line) for line in live.run("world", "export", "--jsonl").out.splitlines()]
    assert [row for row in whole[1:-1] if row["key"] == "Zoe"] == rows[1:-1]
    bad = live.run("world", "export", "--bundle", "-o", "x", "--cell", GREETER, "Zoe", "--json")
    assert bad.code == 2


@pytest.mark.clause("K-45")
def test_a_site_is_the_answers_as_files(live: Live, tmp_path: Path, monkeypatch: Any):
    """UI-25: every file is the answer of the request that the index names; too much is refused."""
    site = tmp_path / "site"
    made = fits("world export", live.run("world", "export", "--site", "-o", str(site), "--json"))
    index = json.loads((site / "data" / "index.json").read_text())
    assert (index["tally"], index["seq"]) == ("site", live.json("journal", "head")["seq"])
    assert len(index["files"]) == made["files"]
    base = "/v1/worlds/main"
    cell = json.loads((site / index["files"][f"{base}/cells/demo%2Fgreeter%401/Ada"]).read_text())
    assert cell["state"] == live.json("cell", "show", GREETER, "Ada")["state"]
    rows = [
        row
        for path, name in index["files"].items()
        if path.startswith(f"{base}/journal?")
        for row in json.loads((site / name).read_text())["items"]
    ]
    assert [row["seq"] for row in rows] == list(range(1, index["seq"] + 1))
    again = live.run("world", "export", "--site", "-o", str(site), "--json")
    assert (again.code, again.problem["code"]) == (1, "export.exists")
    monkeypatch.setattr("tallystick.cli.site.RECORDS_MAX", 3)
    words = ("world", "export", "--site", "-o", str(tmp_path / "small"), "--json")
    large = live.run(*words)
    assert (large.code, large.problem["code"]) == (2, "export.too_large")
    assert not (tmp_path / "small").exists()
    part = fits("world export", live.run(*words, "--cell", GREETER, "Ada"))
    assert part["cells"] == 1
