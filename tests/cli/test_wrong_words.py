"""Commands that cannot be done as they were said: each is refused with its code and a way on."""

# tidy: one list of wrong lines, and the files that they are about.
from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.problem import of_file
from tests.cli.runs import Ran, tally
from tests.cli.stand_in import Asked, Said, saying, stand_in
from tests.cli.test_bundle import SOURCES, written
from tests.governance.apps import PRINT, SOLD, TILL, source


class Folder:
    """A folder with a till that has one open effect, and commands about it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.app = base / "app.py"
        self.app.write_bytes(source(1))
        self.value("world", "create", "main", "--bundle", str(self.app))
        self.value("send", SOLD, '{"till": "a", "cents": 500}')

    def run(self, *words: str) -> Ran:
        return tally(*words, "--data", str(self.base / ".tally"))

    def value(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.code == 0, (words, done)
        return done.value


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("till"))


# What is said, with the code and the exit code that it ends with.
WRONG: list[tuple[str, str, int]] = [
    ("replay --from soon", "request.usage", 2),
    ("verify --replay --checkpoints copies", "request.usage", 2),
    ("world export --jsonl --url http://127.0.0.1:9", "request.usage", 2),
    ("world import app.py there --url http://127.0.0.1:9", "request.usage", 2),
    ("world export --site", "request.usage", 2),
    ("world import nowhere.tally there", "export.not_found", 2),
    ("world fork --as x --pending-for odd", "request.usage", 2),
    ("explain policy --workflow till/till@1", "request.usage", 2),
    ("lint nowhere.py", "request.bad_file", 2),
    ("send shop/Sold@1 {} --wait nan", "request.usage", 2),
    ("workspace scan docs --wait inf", "request.usage", 2),
    ("lint app.py nowhere --strict --fix", "request.bad_file", 2),
    ("check nobody", "check.not_found", 2),
    ("check none.py:till", "check.not_found", 2),
    ("bundle build yaml -o x.zip --vendor app.py", "request.usage", 2),
    ("bundle build broken -o x.zip", "def.unknown_field", 2),
    ("bundle check lost", "bundle.not_found", 2),
    ("bundle build app.py -o x.zip --vendor empty", "bundle.not_found", 2),
    (
        "bundle build app.py -o x.zip --vendor p-1-cp311-cp311-linux_x86_64.whl",
        "bundle.not_pure",
        2,
    ),
    ("bundle build app.py -o x.zip --vendor p-1-py3-none-any.whl", "bundle.not_found", 2),
    ("bundle build app.py -o x.zip --vendor p.whl", "bundle.not_pure", 2),
    ("bundle check latin.yaml", "def.bad_value", 2),
    ("bundle check latin", "def.bad_value", 2),
    ("world create x --bundle latin.yaml", "def.bad_value", 2),
    ("world create x --bundle app.py --authority structral", "request.usage", 2),
    ("gov propose --bundle app.py --authority none", "request.usage", 2),
    ("lint marked/app.py --check", "request.bad_file", 2),
    ("lint listed/app.py --check", "request.bad_file", 2),
    ("bench disk --quick --floors floors.json", "bench.no_floors", 2),
    ("bench disk --quick --floors list.json", "bench.no_floors", 2),
    ("gov shadow p-1 --seed latin.jsonl", "request.bad_file", 2),
    ("send till/Sold@1 @nowhere.json", "request.bad_file", 2),
    ("send till/Sold@1 @empty", "request.bad_file", 2),
    ("send till/Sold@1 @latin.jsonl", "request.bad_file", 2),
    ('send till/Sold@1 {"till":"a","cents":5,"cents":6}', "value.duplicate_key", 2),
    ('send till/Sold@1 {"till":"\\ud800","cents":5}', "value.mismatch", 2),
    ("ask answer 00000000 --answer {bad", "request.bad_json", 2),
    ("explain policy --effect e@1 --workflow w@1 --params {bad", "request.bad_json", 2),
    ("explain policy --effect e@1 --workflow w@1 --params @nowhere.json", "request.bad_file", 2),
    ("playbook run net.yaml --workload nowhere.json", "request.bad_file", 2),
    ("playbook run net.yaml --workload list.json", "request.bad_file", 2),
    ("playbook patch e-1 --signal go --value {bad", "request.bad_json", 2),
    ("playbook check nowhere.yaml", "request.bad_file", 2),
    ("playbook check latin.jsonl", "request.bad_file", 2),
    ("world export --bundle -o nowhere/x.zip", "request.bad_file", 2),
    ("world export --jsonl -o nowhere/x.zip", "request.bad_file", 2),
    ("verify --checkpoints nowhere.jsonl", "request.bad_file", 2),
    ("cell show till/till@1 \udcff", "request.no_route", 2),
    ("send till/Sold@1 {} --idempotency-key=", "ingress.bad_key", 2),
    ("send till/Sold@1 - --idempotency-key=", "ingress.bad_key", 2),
    ("send till/Sold@1 {} --idempotency-key=\u65e5", "ingress.bad_key", 2),
    ('send till/Sold@1 {"till":"a","cents":5} --wait -1', "request.usage", 2),
    ("world ls --url http://127.0.0.1:x", "request.bad_url", 2),
    ("world ls --url http://127.0.0.1:99999", "request.bad_url", 2),
    ("world ls --url http://[::1", "request.bad_url", 2),
    ("world ls --url http://127.0.0.1:9 --token \u65e5", "request.bad_header", 2),
    ("worker --executor e:E --slots 0 --url http://127.0.0.1:9", "request.usage", 2),
    ("worker --executor e:E --slots -1 --url http://127.0.0.1:9", "request.usage", 2),
    ("worker --executor e:E --lease 0 --url http://127.0.0.1:9", "request.usage", 2),
    ("worker --executor e:E --url nonsense", "request.bad_url", 2),
    ("worker --executor e:E --url http://127.0.0.1:9 --token \u65e5", "request.bad_header", 2),
    ("journal tail --from 0", "request.usage", 2),
    ("journal tail --from -3", "request.usage", 2),
    ("journal tail --limit 0", "request.usage", 2),
    ("cell ls --limit 0", "request.usage", 2),
    ("cell ls --at 0", "journal.no_seq", 2),
    ("world root --at 0", "journal.no_seq", 2),
]


def _sources(base: Path) -> None:
    """Files that are what the lines say."""
    written(base / "yaml")
    written(base / "broken", [*SOURCES[:-1], {**SOURCES[-1], "colour": "red"}])
    lost = json.loads(json.dumps(SOURCES).replace('"path": "code"', '"path": "nowhere"'))
    written(base / "lost", lost)
    (base / "empty").mkdir()
    (base / "empty" / "notes.txt").write_text("no Python")
    with zipfile.ZipFile(base / "p-1-cp311-cp311-linux_x86_64.whl", "w") as wheel:
        wheel.writestr("p.py", "x = 1\n")
    for broken in ("p-1-py3-none-any.whl", "p.whl"):
        (base / broken).write_text("no archive")
    (base / "latin").mkdir()
    for name in ("latin.jsonl", "latin.yaml", "latin/defs.json"):
        (base / name).write_bytes(b"\xe4\xf6\n")
    for name, text in (("marked", "<<<<<<< ours"), ("listed", "[]")):
        (base / name).mkdir()
        (base / name / "app.py").write_bytes(source(1))
        (base / name / "tally.fingerprint.json").write_text(text)
    (base / "floors.json").write_text('{"bench": {"disk": "many"}}')
    (base / "net.yaml").write_text("kind: Playbook\n")
    (base / "list.json").write_text("[]")


@pytest.mark.clause("K-24")
def test_each_wrong_line_has_its_code_and_a_hint(
    here: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ND-28: nothing is written, no trace of Python is shown."""
    monkeypatch.chdir(here.base)
    _sources(here.base)
    head = here.value("journal", "head")["seq"]
    for line, code, exit_code in WRONG:
        done = here.run(*line.split(), "--json")
        assert (done.problem["code"], done.code) == (code, exit_code), line
        assert done.problem["hint"], line
    assert not Path("x.zip").exists()
    assert here.value("journal", "head")["seq"] == head


def test_a_line_of_many_is_read_as_strictly_as_one_alone(here: Folder) -> None:
    """04 section 10: of a key that stands twice no value is chosen, and the line is named."""
    lines = '{"till": "z", "cents": 1, "cents": 2}\n'
    where = ("--data", str(here.base / ".tally"), "--json")
    done = tally("send", SOLD, "-", *where, stdin=lines)
    assert (done.code, done.problem["code"]) == (2, "value.duplicate_key")
    assert done.problem["where"] == {"line": 1}


def test_a_secret_that_is_no_text_is_refused(here: Folder) -> None:
    """ST-06: a value in another encoding ends in no trace of Python, and is not kept."""
    where = ("--data", str(here.base / ".tally"), "--json")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "tallystick", "secret", "set", "bank", *where],
        input=b"geheim-\xe4\xf6\xfc\n",
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        check=False,
    )
    told = json.loads(done.stderr)
    assert (done.returncode, told["code"]) == (2, "secret.file")
    assert told["hint"]
    assert here.value("secret", "ls")["items"] == []


def test_an_input_that_is_no_text_is_refused(here: Folder) -> None:
    """ST-06: bytes of another encoding do not end in a trace of Python."""
    words = ("send", SOLD, "-", "--data", str(here.base / ".tally"), "--json")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "tallystick", *words],
        input=b'{"till": "\xe4"}\n',
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stderr)["code"]) == (2, "request.bad_json")


def test_a_full_disk_is_not_the_fault_of_who_asks() -> None:
    """12 section 4: 3 for the outside, and what names no file stays the error it was."""
    full = of_file(OSError(errno.ENOSPC, "No space left on device", "x.zip"))
    assert (full and full.code, full and full.exit_code) == ("node.disk_full", 3)
    assert of_file(ConnectionResetError(errno.ECONNRESET, "reset")) is None


@pytest.mark.clause("K-24")
def test_a_folder_without_a_journal_has_nothing_to_export(tmp_path: Path) -> None:
    """ND-28: 3, because the files may be elsewhere; nothing is made."""
    done = tally("world", "export", "--jsonl", "--data", str(tmp_path / ".tally"), "--json")
    assert (done.code, done.problem["code"]) == (3, "node.no_data")
    assert list(tmp_path.iterdir()) == []


# ---- what a node says -------------------------------------------------------------------------


@pytest.mark.clause("K-24")
@pytest.mark.parametrize(("status", "exit_code"), [(429, 3), (403, 1), (418, 2), (599, 3)])
def test_an_error_of_a_later_release_ends_by_its_status(status: int, exit_code: int) -> None:
    """ND-28: a class that is not known here; and without a hint none is printed."""
    problem = {"title": "Novel", "detail": "something new", "code": "novel.thing", "hint": ""}
    with stand_in(lambda _asked: saying(problem, status)) as url:
        done = tally("world", "root", "--url", url)
    assert (done.code, done.err) == (exit_code, "novel.thing: something new\n")


def test_an_answer_without_a_problem_is_told_as_it_is() -> None:
    """ST-06: a proxy in between that answers in HTML does not end in a trace of Python."""
    page = Said(502, b"<html>bad gateway</html>", "text/html")
    with stand_in(lambda _asked: page) as url:
        done = tally("world", "root", "--url", url, "--json")
    assert (done.code, done.problem["code"]) == (3, "node.unexplained")
    assert "502" in done.problem["detail"]


def test_what_does_not_come_to_rest_in_time_is_a_no() -> None:
    """04 section 9: `send --wait` asks in parts of half a minute; not quiet is exit 1."""
    waits: list[str] = []

    def speak(asked: Asked) -> Said:
        if asked.path.endswith("/stats"):
            waits.append(asked.query["wait_ms"])
            return saying({"ready": 1, "quiet": False})
        return saying({"world": "w", "seq": 4, "event": "sha256:0"}, 202)

    with stand_in(speak) as url:
        done = tally("send", SOLD, "{}", "--wait", "31", "--url", url, "--json")
    assert (done.code, done.value["quiet"], waits) == (1, False, ["30000", "1000"])


def test_what_is_refused_does_not_hold_up_the_others() -> None:
    """06 section 11: `effect release --all` takes every page, and names what was refused."""
    ids = {"": ["a", "b"], "two": ["c"]}

    def speak(asked: Asked) -> Said:
        if asked.method == "GET":
            after = asked.query.get("after", "")
            rows = [{"intent": each} for each in ids[after]]
            return saying({"items": rows, "next": None if after else "two"})
        gone = {"title": "Conflict", "detail": "over", "code": "intent.settled", "hint": "look"}
        return saying(gone, 409) if "/b/" in asked.path else saying({"seq": 1})

    with stand_in(speak) as url:
        done = tally("effect", "release", "--all", "--url", url, "--json")
    refused = [{"intent": "b", "code": "intent.settled"}]
    assert (done.code, done.value) == (1, {"done": ["a", "c"], "refused": refused})


# ---- the same words, said well ----------------------------------------------------------------


@pytest.mark.clause("K-29")
def test_a_made_up_request_is_judged_from_a_file(here: Folder) -> None:
    """AG-05: params from a file, and by the slot of a grant that is not there: a denial."""
    path = here.base / "params.json"
    path.write_text('{"cents": 5}')
    words = ("explain", "policy", "--effect", PRINT, "--workflow", TILL, "--key", "a")
    assert here.value(*words, "--params", f"@{path}")["decision"] == "allow"
    denied = here.value(*words, "--params", f"@{path}", "--slot", "nobody")
    assert denied["decision"] == "deny"


@pytest.mark.clause("X-08")
def test_a_fork_treats_one_effect_otherwise(here: Folder) -> None:
    """06 section 11: all is held but the effect that is named, which is cancelled."""
    here.value("world", "fork", "--as", "calm", "--pending-for", f"{PRINT}=cancel")
    assert here.value("effect", "ls", "--held", "-w", "calm")["items"] == []
    here.value("world", "fork", "--as", "held")
    (row,) = here.value("effect", "ls", "--held", "-w", "held")["items"]
    assert row["effect"] == PRINT


def test_a_part_of_the_journal_is_run_again(here: Folder) -> None:
    """ND-28: from a sequence to a sequence; the root is that of then."""
    told = here.value("replay", "--from", "1", "--to", "4")
    assert (told["ok"], told["root"]) == (True, here.value("world", "root", "--at", "4")["root"])


def test_events_carry_the_key_and_the_tags_that_were_said(here: Folder) -> None:
    """04 section 9: an empty input sends nothing and is no error; a key that the event does not
    have is the node's refusal.
    """
    none = here.value("send", SOLD, "-")
    assert (none["sent"], none["refused"], none["seq"]) == (0, 0, None)
    sale = '{"till": "b", "cents": 1}'
    sent = here.value("send", SOLD, sale, "--key", "b", "--tags", "till")
    row = here.value("journal", "show", str(sent["seq"]))
    assert "till" in json.dumps(row["record"])
    assert here.run("send", SOLD, sale, "--key", "7", "--json").code != 0


def test_the_environment_names_the_folder(here: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """04 section 8: TALLY_NODE_DATA is the folder of the files, from wherever it is said."""
    monkeypatch.setenv("TALLY_NODE_DATA", str(here.base / ".tally"))
    monkeypatch.chdir("/")
    assert tally("cell", "show", TILL, "a", "--json").value["state"]["cents"] == 500
