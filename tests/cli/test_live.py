"""Every command against a node: its JSON fits its shape, its exit code is the stated one (ND-28).

One node serves the whole file; each test uses names of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.shape import misfit
from tallystick.cli.table import VERBS
from tests.cli.runs import Live, Ran, hello, tally

GREETER = "demo/greeter@1"
GREET = "demo/Greet@1"
SHAPES = {verb.words: verb.shape for verb in VERBS}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    node = Live(hello(tmp_path_factory.mktemp("live")), "--bundle", "app.py")
    try:
        yield node
    finally:
        node.close()


def fits(live: Live, words: str, *rest: str, stdin: str = "") -> Any:
    """The answer of a command, held against the shape of its row."""
    value = live.json(*words.split(), *rest, stdin=stdin)
    assert misfit(SHAPES[words], value) is None
    return value


def greet(live: Live, name: str, *more: str) -> Any:
    return live.json("send", GREET, json.dumps({"name": name}), *more)


def visits(live: Live, name: str) -> int:
    found: int = live.json("cell", "show", GREETER, name)["state"]["visits"]
    return found


@pytest.mark.clause("K-45")
@pytest.mark.parametrize(
    "words",
    [
        "world ls",
        "world show main",
        "world root",
        "world root --at 3",
        "cell ls",
        "cell ls --workflow demo/greeter@1 --status resting --limit 1",
        "cell show demo/greeter@1 Ada",
        "cell trace demo/greeter@1 Ada",
        "effect ls",
        "effect ls --held",
        "journal head",
        "journal tail --limit 5",
        "journal tail --from 1 --kind event",
        "journal show 1",
        "ask ls",
        "key ls",
        "token ls",
        "doctor",
        "secret ls",
    ],
)
def test_a_reading_command_fits_its_shape(live: Live, words: str):
    """ND-28: `--json` matches the shape; for people the same command ends alike, with words."""
    greet(live, "Ada")
    verb = next(v for v in VERBS if words == v.words or words.startswith(v.words + " "))
    rest = words.removeprefix(verb.words).split()
    done = live.run(*verb.words.split(), *rest, "--json")
    assert done.code == 0, done.err
    assert misfit(verb.shape, done.value) is None
    assert done.out.count("\n") == 1, "one object on one line"
    said = live.run(*verb.words.split(), *rest)
    assert said.code == 0
    assert said.out.strip()
    assert live.run(*verb.words.split(), *rest, "--quiet").out == ""


@pytest.mark.clause("K-45", "K-19")
def test_events_reach_cells(live: Live):
    """ND-28: what was sent is in the cell, in the journal, and in its trace."""
    sent = [greet(live, "Bea") for _ in range(3)]
    cell = fits(live, "cell show", GREETER, "Bea")
    assert cell["state"] == {"visits": 3}
    rows = fits(live, "cell trace", GREETER, "Bea")["items"]
    assert [row["seq"] for row in rows if row["kind"] == "event"] == [s["seq"] for s in sent]
    past = live.json("cell", "show", GREETER, "Bea", "--at", str(sent[1]["seq"] - 1))
    assert past["state"] == {"visits": 1}


@pytest.mark.clause("K-09")
def test_an_idempotency_key_sends_once(live: Live):
    """ND-11, ND-28: the same key gives the same answer; another body under it is "no" (1)."""
    one, two = (greet(live, "Cy", "--idempotency-key", "k-1") for _ in range(2))
    assert one == two
    assert live.json("cell", "show", GREETER, "Cy")["state"] == {"visits": 1}
    other = ("send", GREET, '{"name": "Dan"}', "--idempotency-key", "k-1", "--json")
    done = live.run(*other)
    assert (done.code, done.problem["code"]) == (1, "ingress.idempotency_conflict")


def test_a_stream_of_lines_is_sent_in_batches(live: Live):
    """ND-28: 1,201 lines in commits of many; refused ones are counted, the first is named."""
    good = [json.dumps({"name": f"guest-{i % 3}"}) for i in range(1200)]
    lines = "\n".join([*good[:700], '{"nobody": 1}', "", *good[700:]])
    done = live.run("send", GREET, "-", "--json", stdin=lines)
    assert done.code == 1
    assert (done.value["sent"], done.value["refused"]) == (1200, 1)
    assert done.value["first_refused"]["line"] == 701
    for i in range(3):
        live.wait(lambda i=i: visits(live, f"guest-{i}") == 400)  # type: ignore[misc]
    named = ("send", GREET, "-", "--idempotency-key", "file-1", "--json")
    for _ in range(2):
        assert live.run(*named, stdin='{"name": "Line"}\n{"name": "Line"}').code == 0
    live.wait(lambda: visits(live, "Line") == 2)
    torn = live.run("send", GREET, "-", "--json", stdin='{"name": ')
    assert (torn.code, torn.problem["code"]) == (2, "request.bad_json")


def test_a_value_comes_from_a_file_too(live: Live, tmp_path: Path):
    """ND-28: @file; bad JSON and a value that does not fit are bad input (2)."""
    (tmp_path / "v.json").write_text('{"name": "Fay"}')
    assert live.run("send", GREET, f"@{tmp_path / 'v.json'}").code == 0
    for bad, code in (("{", "request.bad_json"), ('{"name": 1}', "value.mismatch")):
        done = live.run("send", GREET, bad, "--json")
        assert (done.code, done.out) == (2, "")
        assert done.problem["code"] == code
    unknown = live.run("send", "demo/Nothing@1", "{}", "--json")
    assert unknown.code == 2


@pytest.mark.clause("X-26")
def test_a_cell_is_suspended_and_resumed(live: Live):
    """ND-28: mail waits while a cell is suspended; a second suspend is "no" (1)."""
    greet(live, "Gil")
    named = (GREETER, "Gil", "--reason", "test")
    assert live.run("cell", "suspend", *named).code == 0
    greet(live, "Gil")
    held = live.json("cell", "show", GREETER, "Gil")
    assert (held["status"], held["mailbox"]) == ("suspended", 1)
    again = live.run("cell", "suspend", *named, "--json")
    assert (again.code, again.problem["code"]) == (1, "cell.wrong_status")
    assert live.run("cell", "resume", *named).code == 0
    assert live.wait(lambda: live.json("cell", "show", GREETER, "Gil")["state"] == {"visits": 2})


@pytest.mark.clause("X-26")
def test_a_cell_is_ended_by_force(live: Live):
    """05 section 2: `cell cancel --force` runs no code of the workflow and ends the cell."""
    greet(live, "Kim")
    assert live.run("cell", "suspend", GREETER, "Kim").code == 0
    skipped = live.run("cell", "skip", GREETER, "Kim", "--json")
    assert skipped.code == 1, "there is no entry to skip"
    assert live.run("cell", "cancel", GREETER, "Kim", "--force", "--reason", "test").code == 0
    live.wait(lambda: live.json("cell", "show", GREETER, "Kim")["status"] == "failed")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("cell show demo/greeter@1 nobody", 2),
        ("cell show demo/none@1 x", 2),
        ("journal show 999999", 2),
        ("world root --at 999999", 2),
        ("world show elsewhere", 2),
        ("world root -w elsewhere", 2),
        ("world create main", 1),
        ("effect show sha256:" + "0" * 64, 2),
        ("token revoke nobody", 2),
        ("key trust abc", 2),
        ("world rm main", 2),
        ("cell skip demo/greeter@1 nobody", 2),
        ("effect approve x", 2),
        ("effect reject x", 2),
    ],
)
def test_a_refusal_is_a_problem_object(live: Live, words: str, code: int):
    """ND-28: what is not there or not allowed ends with its code, and the reason is an object."""
    done = live.run(*words.split(), "--json")
    assert (done.code, done.out) == (code, "")
    assert set(done.problem) >= {"type", "title", "status", "detail", "code"}
    said = live.run(*words.split())
    assert said.code == code
    assert said.err.startswith(done.problem["code"] + ": ")


def test_worlds_are_made_forked_named_and_removed(live: Live):
    """ND-28: the whole life of a world by commands."""
    fits(live, "world create", "other", "--bundle", str(live.folder / "app.py"))
    live.json("send", GREET, '{"name": "Hal"}', "-w", "other")
    fits(live, "world snapshot", "-w", "other")
    fork = fits(live, "world fork", "-w", "other", "--as", "branch")
    assert fork["parent"] == live.json("world", "show", "other")["world"]
    assert live.json("cell", "show", GREETER, "Hal", "-w", "branch")["state"] == {"visits": 1}
    fits(live, "world alias", "prod", "branch")
    assert live.json("world", "show", "prod")["world"] == fork["world"]
    refused = live.run("world", "rm", "other", "--yes", "--json")
    assert refused.code == 1, "a parent is kept while its fork needs it"
    fits(live, "world rm", "branch", "--yes")
    fits(live, "world rm", "other", "--yes")
    assert [row["name"] for row in live.json("world", "ls")["items"]] == ["main"]


def test_tokens_open_the_door_and_no_more(live: Live):
    """ND-20, ND-28: a token does what its scopes say; revoked or none, the door is shut (1)."""
    made = fits(live, "token create", "bob", "--scopes", "read", "--expires", "1h")
    found = live.wait(lambda: json.loads((live.data / "run" / "node.json").read_text()))

    def asks(*words: str) -> Ran:
        return tally(*words, "--url", found["url"], "--token", made["token"], "--json")

    assert asks("world", "root").code == 0
    refused = asks("send", GREET, '{"name": "Ida"}')
    assert (refused.code, refused.problem["code"]) == (1, "auth.missing_scope")
    fits(live, "token revoke", made["id"])
    assert asks("world", "root").problem["code"] == "auth.unknown_token"
    nobody = tally("world", "root", "--url", found["url"], "--json")
    assert (nobody.code, nobody.problem["code"]) == (1, "auth.required")


def test_keys_are_made_trusted_and_revoked(live: Live):
    """ND-28: a worker's key is made here, trusted by the world, and revoked."""
    made = fits(live, "key new")
    assert live.run("key", "trust", made["key"], "--executors", "payments").code == 0
    trusted = live.json("key", "ls")["trusted"]
    row = next(row for row in trusted if row["key"] == made["key"])
    assert (row["executors"], row["revoked"]) == (["payments"], False)
    assert live.run("key", "revoke", made["key"]).code == 0
    again = live.run("key", "trust", made["key"], "--json")
    assert (again.code, again.problem["code"]) == (1, "key.revoked")


def test_a_node_that_is_not_there_is_unavailable(tmp_path: Path):
    """ND-28: 3 when nobody answers at --url; 2 for an address that is none."""
    done = tally("world", "ls", "--url", "http://127.0.0.1:9", "--json")
    assert (done.code, done.problem["code"]) == (3, "node.unreachable")
    assert tally("world", "ls", "--url", "nonsense", "--json").code == 2
    note = tmp_path / ".tally" / "run"
    note.mkdir(parents=True)
    (note / "node.json").write_text("{}")
    (note / "token").write_text("x")
    bad = tally("world", "ls", "--data", str(tmp_path / ".tally"), "--json")
    assert (bad.code, bad.problem["code"]) == (2, "node.bad_note")


def test_a_link_lets_a_browser_in(live: Live):
    """09 section 2: `token create --ui` tells a link of this node; without one there is none."""
    made = live.json("token", "create", "ada", "--ui")
    url = json.loads((live.data / "run" / "node.json").read_text())["url"]
    assert made["login"]["url"] == f"{url}/login#{made['login']['code']}"
    nobody = tally("token", "create", "ada", "--ui", "--data", "/nonexistent/.tally", "--json")
    assert (nobody.code, nobody.problem["code"]) == (3, "node.not_running")


def test_replay_of_one_workflow(live: Live):
    """ND-28: `--workflow` runs its ticks only; one that is not there is refused."""
    greet(live, "Eve")
    assert fits(live, "replay", "--workflow", GREETER)["ok"] is True
    assert live.run("replay", "--workflow", "demo/none@1", "--json").code == 2
