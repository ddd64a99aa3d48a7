"""`tally gov` as an operator walks it: the pages are true, and every wrong step says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runs import Live, environment
from tests.cli.sessions import sessions, told

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "11-upgrade"
SALE = '{"till": "a", "cents": 500}'


def shop(folder: Path) -> Path:
    """The example in a folder of its own; a slow machine must not let its effects time out."""
    for name in ("v1.py", "app.py"):
        text = (EXAMPLE / name).read_text("utf-8").replace('timeout="1m"', 'timeout="10h"')
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    folder = shop(tmp_path)
    monkeypatch.chdir(folder)
    node = Live(folder, "--bundle", "v1.py")
    yield node
    node.close()


@pytest.mark.clause("X-19", "X-21", "K-46")
def test_the_pages_are_true(live: Live) -> None:
    """06 sections 6 to 11: the sessions of the pages about changes and about rollbacks print what
    the commands print, from the first proposal to the name that goes back.
    """
    for name in ("change-a-world", "roll-back"):
        (session, *_) = sessions(ROOT / "docs" / "how-to" / f"{name}.md")
        assert len(session) >= 4
        for command, wanted, printed in told(live, session):
            assert printed == wanted, command
    assert live.json("replay", "--verify")["ok"]


@pytest.mark.clause("X-08", "K-46")
def test_the_page_about_what_ifs_is_true(live: Live) -> None:
    """AG-31: the session of the page about what-ifs prints what the commands print."""
    assert live.run("send", "till/Sold@1", SALE).code == 0
    while live.json("cell", "show", "till/till@1", "a")["status"] != "waiting":
        time.sleep(0.05)
    page = (ROOT / "docs" / "how-to" / "ask-what-if.md").read_text("utf-8")
    (edits,) = [line for line in page.splitlines() if line.startswith("    [{")]
    (live.folder / "edits.yaml").write_text(edits, encoding="utf-8")
    (session,) = sessions(ROOT / "docs" / "how-to" / "ask-what-if.md")
    assert len(session) == 3
    for command, wanted, printed in told(live, session):
        assert printed == wanted, command
    assert live.json("gov", "running")["items"] == []


@pytest.mark.clause("X-21", "K-46")
def test_the_example_is_true(live: Live) -> None:
    """AU-29: the session of example 11 prints what the commands print; the pinned cell finishes on
    the old code.
    """
    assert live.run("send", "till/Sold@1", SALE).code == 0
    (session,) = sessions(EXAMPLE / "README.md")
    for command, wanted, printed in told(live, session):
        assert printed == wanted, command
    assert live.run("send", "till/Sold@1", '{"till": "b", "cents": 1}').code == 0
    states = [live.json("cell", "show", "till/till@1", key)["state"] for key in ("a", "b")]
    assert states == [{"cents": 500, "receipts": 0}, {"cents": 1, "receipts": 0, "foreign": 0}]


# ---- wrong steps ------------------------------------------------------------------------------

# What is said, with the code and the exit code that it ends with; P is the proposal.
WRONG: list[tuple[str, str, int]] = [
    ("gov propose", "request.usage", 2),
    ("gov propose none.json", "request.bad_file", 2),
    ("gov propose bad.json", "request.bad_file", 2),
    ("gov propose thin.json", "gov.bad_patch", 2),
    ("gov propose --bundle none.py", "bundle.not_found", 2),
    ("gov propose --bundle v1.py", "gov.no_change", 1),
    ("gov propose --rebase p-99", "gov.unknown_proposal", 2),
    ("gov show p-99", "gov.unknown_proposal", 2),
    ("gov ls --state odd", "request.usage", 2),
    ("gov shadow p-99", "gov.unknown_proposal", 2),
    ("gov shadow P --tail x", "request.usage", 2),
    ("gov shadow P --seed none.jsonl", "request.bad_file", 2),
    ("gov shadow P --seed bad.json", "request.bad_file", 2),
    ("gov shadow P --receipts bad.yaml", "request.bad_file", 2),
    ("gov shadow P --synthetic odd", "request.usage", 2),
    ("gov prove P --tail 0", "request.usage", 2),
    ("gov approve P", "gov.needs_shadow", 1),
    ("gov approve P --sign key", "request.usage", 2),
    ("gov approve P --sign key --as bob", "key.unknown", 2),
    ("gov apply P", "gov.not_approved", 1),
    ("gov apply P --wait soon", "request.usage", 2),
    ("gov apply P --on odd", "request.usage", 2),
    ("gov revoke none", "grant.unknown", 2),
    ("world fork --as x --at 9999", "journal.no_seq", 2),
    ("world fork --as main", "world.exists", 1),
    ("world fork --as x --edit none.yaml", "request.bad_file", 2),
    ("world fork --as x --edit odd.yaml", "whatif.bad_edit", 2),
    ("world alias prod none", "world.unknown", 2),
]


@pytest.mark.clause("K-45", "D13")
def test_wrong_steps_say_what_to_do(live: Live) -> None:
    """ND-28: each wrong word of the walk ends with its code and a hint of its own, in words and as
    an object; none in a traceback, and nothing of it is in the journal.
    """
    files = {"bad.json": "{oops", "bad.yaml": "a: [", "thin.json": '{"a": 1}', "odd.yaml": "[1]"}
    for name, text in files.items():
        (live.folder / name).write_text(text, encoding="utf-8")
    ident = live.json("gov", "propose", "--bundle", "app.py")["proposal"]
    head = live.json("journal", "head")["seq"]
    for line, code, exit_code in WRONG:
        words = [ident if word == "P" else word for word in line.split()]
        done = live.run(*words, "--json")
        assert (done.problem["code"], done.code) == (code, exit_code), line
        hint = done.problem["hint"]
        assert hint, line
        assert hint not in ("correct the request and send it again", "use a new key"), line
        said = live.run(*words)
        assert "Traceback" not in said.err, line
        assert said.code == exit_code, line
    assert live.json("journal", "head")["seq"] == head


def _taken(live: Live) -> int:
    """What is in all tills together."""
    cells = live.json("cell", "ls", "--limit", "100")["items"]
    shown = (live.json("cell", "show", "till/till@1", cell["key"]) for cell in cells)
    return sum(cell["state"]["cents"] for cell in shown)


# ---- under load -------------------------------------------------------------------------------


# tidy: one walk, told in order.
@pytest.mark.clause("X-19", "X-21")
def test_a_walk_under_load(live: Live) -> None:
    """06 sections 6 to 11: while sales come in, a change is proposed, tried, proved, approved and
    applied, and the name is rolled back; every sale that was taken is in a till.
    """
    sales = "".join(f'{{"till": "t{n % 30}", "cents": 1}}\n' for n in range(3000))
    (live.folder / "sales").write_text(sales, encoding="utf-8")
    words = [sys.executable, "-m", "tallystick", "send", "till/Sold@1", "-"]
    with (live.folder / "sales").open("rb") as stdin:
        load = subprocess.Popen(
            [*words, "--data", str(live.data), "--json"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
    ident = live.json("gov", "propose", "--bundle", "app.py")["proposal"]
    assert live.json("gov", "shadow", ident)["complete"]
    live.json("gov", "prove", ident)
    live.json("gov", "approve", ident)
    before = live.json("journal", "head")["seq"]
    assert live.json("gov", "apply", ident, "--prove")["status"] == "applied"
    out, err = load.communicate(timeout=120)
    assert load.returncode == 0, err
    sent = json.loads(out)
    assert sent["sent"] == 3000
    live.wait(lambda: _taken(live) == 3000)
    live.json("world", "alias", "prod", "main")
    live.json("world", "fork", "--at", str(before), "--as", "back")
    moved = live.json("world", "alias", "prod", "back")
    assert moved["moved"]
    assert live.run("send", "till/Sold@1", SALE).code == 3
    assert live.run("-w", "prod", "send", "till/Sold@1", SALE).code == 0
    assert live.json("replay", "--verify")["ok"]
