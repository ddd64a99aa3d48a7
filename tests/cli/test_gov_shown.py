"""`tally gov` in words: what a change does, what stands in its way, and which verb comes next."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tallystick.cli import gov_show
from tallystick.values import canon
from tests.cli.runs import Ran, tally
from tests.governance.apps import SOLD, TILL, app, source

SCOPES = ["read", "propose", "approve", "apply", "revoke"]


class Shop:
    """A folder with a till, and commands about it as people read them."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def run(self, *words: str, code: int = 0) -> Ran:
        done = tally(*words, "--data", str(self.base / ".tally"))
        assert done.code == code, (words, done)
        return done

    def lines(self, *words: str, code: int = 0) -> list[str]:
        return self.run(*words, code=code).out.splitlines()

    def json(self, *words: str, code: int = 0) -> Any:
        return self.run(*words, "--json", code=code).value

    def file(self, name: str, text: bytes) -> str:
        path = self.base / name
        path.write_bytes(text)
        return str(path)

    def create(self, text: bytes) -> None:
        self.run("world", "create", "main", "--bundle", self.file("first.py", text))

    def sell(self, till: str, cents: int) -> None:
        self.run("send", SOLD, f'{{"till": "{till}", "cents": {cents}}}')

    def proposed(self, text: bytes) -> str:
        found = self.json("gov", "propose", "--bundle", self.file("next.py", text))["proposal"]
        return str(found)

    def approved(self, text: bytes) -> str:
        ident = self.proposed(text)
        self.run("gov", "shadow", ident)
        self.run("gov", "approve", ident)
        return ident

    def governed(self, rules: dict[str, Any]) -> str:
        """A world whose manifest names its people, and a proposal; answers the key's id."""
        key = self.json("key", "new")
        people = [
            {"id": name, "kind": "human", "scopes": SCOPES, "key": f"ed25519:{key['public_key']}"}
            for name in ("local", "bob")
        ]
        for step in (1, 2):
            made = app(step, governance={"principals": people, "rules": rules})
            self.file(f"v{step}.tally.zip", made.to_zip())
        self.run("world", "create", "main", "--bundle", str(self.base / "v1.tally.zip"))
        self.sell("a", 5)
        self.run("bundle", "seal", str(self.base / "v2.tally.zip"), "--key", key["key"])
        return str(key["key"])

    def second(self) -> str:
        found = self.json("gov", "propose", "--bundle", str(self.base / "v2.tally.zip"))
        return str(found["proposal"])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def printed(show: Any, value: Any) -> str:
    out = io.StringIO()
    show(Console(file=out, highlight=False, width=200), value)
    return out.getvalue()


# ---- what comes next --------------------------------------------------------------------------


@pytest.mark.clause("X-19", "K-21")
def test_each_look_at_a_proposal_names_the_verb_that_is_missing(shop: Shop) -> None:
    """06 section 6: shadow, prove, approve: one after the other, as the rules in force ask."""
    shop.governed({"require": ["shadow", "prove"], "approvals": 2, "author_may_approve": True})
    ident = shop.second()
    seen = [shop.lines("gov", "show", ident)]
    told = []
    for verb in ("shadow", "prove", "approve"):
        told.append(shop.lines("gov", verb, ident)[-1])
        seen.append(shop.lines("gov", "show", ident))
    wanted = ["shadow", "prove", "approve", "approve"]
    assert [lines[-1] for lines in seen] == [f"next: tally gov {w} {ident}" for w in wanted]
    # BUGS 88: a report leads on as the rules want it, too.
    assert told[:2] == [f"next: tally gov {w} {ident}" for w in ("prove", "approve")]
    assert all("  changed  module till/code@1" in lines for lines in seen)
    assert not any(line.startswith("patch ") for line in seen[0]), "it is told by its operations"


@pytest.mark.clause("X-19")
def test_a_missing_vote_and_a_no_are_told(shop: Shop) -> None:
    """06 section 3: one of two approvals is no approval; one no is final, and nothing is next."""
    shop.governed({"require": [], "approvals": 2, "author_may_approve": True})
    ident = shop.second()
    assert shop.lines("gov", "approve", ident) == [f"{ident} has 1 of 2 approvals"]
    again = shop.run("gov", "approve", ident, "--json", code=1)
    assert again.problem["code"] == "gov.voted_already"
    assert shop.lines("gov", "reject", ident, "--comment", "no") == [f"{ident} is rejected"]
    assert not any(line.startswith("next:") for line in shop.lines("gov", "show", ident))
    assert shop.run("gov", "apply", ident, "--json", code=1).problem["code"] == "gov.wrong_state"


@pytest.mark.clause("X-19")
def test_an_approved_proposal_is_applied_and_its_rival_made_anew(shop: Shop) -> None:
    """06 section 8: approved leads to apply; what was made for the old manifest to a rebase."""
    shop.create(source(1))
    rival = shop.proposed(source(3))
    ident = shop.approved(source(2))
    assert shop.lines("gov", "show", ident)[-1] == f"next: tally gov apply {ident}"
    assert shop.json("gov", "apply", ident, "--wait", "5s")["status"] == "applied"
    assert shop.lines("gov", "show", rival)[-1] == f"next: tally gov propose --rebase {rival}"
    assert not any(line.startswith("next:") for line in shop.lines("gov", "show", ident))


def test_a_signed_vote_carries_the_seal_of_its_key(shop: Shop) -> None:
    """06 section 3: under `signed` a bare yes is refused; one sealed with the key counts."""
    rules = {"require": [], "approvals": 1, "author_may_approve": True, "signed": True}
    key = shop.governed(rules)
    ident = shop.second()
    bare = shop.run("gov", "approve", ident, "--json", code=1)
    assert bare.problem["code"] == "gov.unsigned"
    sealed = ("--sign", key, "--as", "local")
    assert shop.lines("gov", "approve", ident, *sealed)[0] == f"{ident} is approved"
    assert shop.json("gov", "show", ident)["state"] == "approved"


# ---- what a change does -----------------------------------------------------------------------


@pytest.mark.clause("K-21")
def test_a_long_report_is_cut_for_people_and_whole_for_programs(shop: Shop) -> None:
    """06 section 7: twenty rows, and how many there are besides; `--json` has them all."""
    shop.create(source(1))
    for number in range(23):
        shop.sell(f"t{number}", 5)
    ident = shop.proposed(source(2))
    lines = shop.lines("gov", "shadow", ident)
    rows = [line for line in lines if line.startswith("  state")]
    assert len(rows) == gov_show.ROWS_MAX
    assert "  ... and 3 more; --json has them" in lines
    assert len(shop.json("gov", "shadow", ident)["report"]["state_deltas"]) == 23


@pytest.mark.clause("K-21")
def test_effects_that_differ_are_told_apart_from_states(shop: Shop) -> None:
    """06 section 7: a cell that would ask for something else says so with its place; without
    synthetic answers what it asks for stays pending.
    """
    shop.create(source(1))
    shop.sell("a", 50)
    ident = shop.proposed(source(1).replace(b"cents > 100", b"cents > 10"))
    lines = shop.lines("gov", "shadow", ident, "--synthetic", "none")
    (told,) = [line for line in lines if f"{TILL}[a] at seq" in line]
    assert told.split()[0] not in ("state", "next:")
    assert "till/Print@1" in told
    more = ((), ("--synthetic", "none"))
    found = [shop.json("gov", "shadow", ident, *words)["report"]["pending"] for words in more]
    assert [len(pending) for pending in found] == [0, 1]


def test_a_report_that_was_stopped_says_so() -> None:
    """06 section 7: a shadow that ran out of time leads to no approval."""
    value = {"proposal": "p-7", "report_hash": "h", "report": {"totals": {}}, "complete": False}
    said = printed(gov_show.reported, value)
    assert "stopped before its end" in said
    assert "next:" not in said


# ---- what stands in its way -------------------------------------------------------------------


@pytest.mark.clause("K-20")
def test_what_blocks_an_apply_is_listed_with_the_keys_as_they_were_written(shop: Shop) -> None:
    """06 sections 8, 9: open cells and effects by name; after a proof the cells that diverge."""
    shop.create(source(1))
    shop.sell("b", 500)
    ident = shop.approved(source(2))
    done = shop.run("gov", "apply", ident, "--wait", "10ms", code=1)
    (cell, intent) = done.out.splitlines()
    assert cell.startswith(f"  cell_open    {TILL}[b]  ")
    assert intent.endswith(f"till/Print@1  of {TILL}[b]")
    done = shop.run("gov", "apply", ident, "--prove", code=1)
    assert done.out.startswith(f"  cell_open    diverges  {TILL}[b] at seq ")
    assert "--on diverges=pin" in done.err
    tails = [shop.json("gov", "prove", ident, "--tail", tail) for tail in ("all", "9")]
    assert [each["verdicts"]["diverges"] for each in tails] == [1, 1]


def test_events_that_wait_are_counted() -> None:
    """06 section 8: a mailbox that is not empty blocks, and says how many events it holds."""
    detail = {"workflow": TILL, "key": canon.encode("c").hex(), "events": 3}
    where = {"blockers": [["mailbox", detail]], "count": 2}
    said = printed(gov_show.blocked, where).splitlines()
    assert said == [f"  mailbox      {TILL}[c]  3 events", "  ... and 1 more; --json has them"]
