"""The page about approvals is true: its workflow, its sessions and the commands of its table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runs import Live, Ran, tally
from tests.cli.sessions import Said, bare, sessions

PAGE = Path(__file__).parents[2] / "docs/how-to/approve.md"
BILLED = "pay/Billed@1"
# The commands of the table, and of the session only those that are typed by one person.
TABLE = {
    "tally effect ls --held",
    "tally effect why INTENT",
    "tally effect approve INTENT --comment C",
    "tally effect reject INTENT --comment C",
    "tally explain policy --effect E --workflow W --params P",
}
_TOKEN = re.compile(r"tly_\w+(\.\.\.)?[\w-]*")
_IDENT = re.compile(r"\b[0-9a-f]{12}\b")


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    Path("pay.py").write_text(code, "utf-8")
    assert tally("lint", "pay.py", "--strict").code == 0
    node = Live(tmp_path, "--bundle", "pay.py")
    yield node
    node.close()


class Desk:
    """The people of the page: their tokens, and the intent that they talk about."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.tokens: dict[str, str] = {}

    @property
    def held(self) -> str:
        """The one intent that waits."""
        found = self.live.wait(lambda: self.live.json("effect", "ls", "--held")["items"])
        assert len(found) == 1, found
        return str(found[0]["intent"])

    def bill(self, invoice: str) -> str:
        """A large invoice; its transfer, which is held."""
        body = f'{{"invoice": "{invoice}", "cents": 300000}}'
        assert self.live.run("send", BILLED, body).code == 0
        return self.held

    def type(self, command: str) -> Ran:
        """A command of the page, with the token and the intent of this run in it."""
        words = []
        for word in shlex.split(command)[1:]:
            if word.startswith("tly_"):
                words.append(self.tokens["ann"])
            else:
                words.append(self.held if _IDENT.fullmatch(word) else word)
        done = self.live.run(*words)
        for token in re.findall(r"tly_\S+", done.out):
            self.tokens[words[2]] = token
        return done

    def decides(self, who: str, verb: str, intent: str) -> Ran:
        """One decision of a person, with a token of their own."""
        if who not in self.tokens:
            made = self.live.json("token", "create", who, "--scopes", "read,decide")
            self.tokens[who] = made["token"]
        words = ("effect", verb, intent, "--comment", "C", "--json")
        return self.live.run("--token", self.tokens[who], *words)

    def outcome(self, invoice: str) -> str:
        """How an invoice ended, when it has."""

        def ended() -> str | None:
            shown = self.live.json("cell", "show", "pay/invoices@1", invoice)
            return str(shown["state"]["outcome"]) if shown["status"] == "failed" else None

        return str(self.live.wait(ended))


def same(lines: list[str]) -> list[str]:
    """Lines without what differs from run to run."""
    return [_IDENT.sub("IDENT", _TOKEN.sub("TOKEN", bare(line))) for line in lines]


@pytest.mark.clause("X-06", "K-46")
def test_the_page_can_be_followed(live: Live) -> None:
    """AG-09: a large transfer is held, a stranger and a second yes of one person are refused, two
    people let it go, and what a command prints is what the page says.
    """
    desk = Desk(live)
    blocks = sessions(PAGE)
    assert [len(block) for block in blocks] == [6, 1, 1]
    for command, lines in [*blocks[0], *blocks[1]]:
        done = desk.type(command)
        assert same((done.out + done.err).splitlines()) == same(lines), command
        assert desk.held, "an answer says that it is taken; the tick may come a moment later"
    intent = desk.held
    seen = live.json("effect", "why", intent)
    assert seen["hold"]["detail"]["votes"] == ["ann"]
    assert desk.decides("bob", "approve", intent).code == 0
    live.wait(lambda: live.json("effect", "why", intent)["why"] == "no_executor")
    _revoke(desk, blocks[2][0])


def _revoke(desk: Desk, said: Said) -> None:
    """The end of the page: what is held under a lost key is denied."""
    desk.bill("i-9")
    assert desk.type(said.command).code == 0
    assert desk.outcome("i-9") == "cap.revoked"


@pytest.mark.clause("X-06")
def test_one_no_ends_it(live: Live) -> None:
    """AG-09: the table of the page is whole, and a reject reaches the workflow by its code."""
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `(tally [^`]+)`", text, re.MULTILINE)
    assert set(rows) == TABLE
    desk = Desk(live)
    done = desk.decides("bob", "reject", desk.bill("i-8"))
    assert done.code == 0, done.err
    assert desk.outcome("i-8") == "policy.approval_rejected"
    small = live.json(
        *("explain", "policy", "--effect", "pay/Transfer@1", "--workflow", "pay/invoices@1"),
        *("--params", '{"cents": 5}'),
    )
    assert small["decision"] == "allow"


def test_a_restore_leaves_what_waits_for_people(live: Live, tmp_path: Path) -> None:
    """04 section 13: --effects republish releases what the restore holds, and no approval."""
    intent = Desk(live).bill("i-1")
    copy, into = str(tmp_path / "copy"), str(tmp_path / "there" / ".tally")
    assert live.run("backup", copy).code == 0
    done = tally("restore", copy, "--into", into, "--effects", "republish", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.value["held"] == 1
    (row,) = tally("effect", "ls", "--held", "--data", into, "--json").value["items"]
    assert (row["intent"], row["hold"]["kind"]) == (intent, "approval")
