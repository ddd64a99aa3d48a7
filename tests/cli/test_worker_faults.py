"""A remote worker when things go wrong: leases lost, a node that is away, jobs nobody wants."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.problem import Refused
from tallystick.executors.base import Job, Ok, Outcome, Report
from tallystick.values import canon
from tests.cli.board import Act, Board, Shift, job
from tests.cli.stand_in import SILENCE, Said, refusing, saying

LOST = refusing("work.lease_lost", 409, "Conflict")
BUSY = refusing("node.busy", 503, "Busy")


async def ends(_job: Job, _report: Report) -> Outcome:
    return Ok({"ref": "r"})


def lasting(board: Board, *extended: Said) -> Act:
    """Work that ends only when it is stopped; from its begin on leases are extended like this."""

    async def act(_job: Job, _report: Report) -> Outcome:
        board.script("extend", *extended)
        await asyncio.Event().wait()
        raise AssertionError

    return act


def settled(shift: Shift) -> int:
    return shift.settled


def receipts(shift: Shift) -> list[Any]:
    return shift.board.told("receipt")


# ---- leases -----------------------------------------------------------------------------------


@pytest.mark.clause("K-27")
def test_what_was_lost_before_it_began_is_not_begun(tmp_path: Path) -> None:
    """ND-16: a lease that may have run out is asked for again; refused, nothing is performed."""
    shift = Shift(Board(job()), ends, tmp_path)
    shift.board.script("extend", LOST)
    worker = shift.until(lambda each: each.said, lease_ms=0)
    assert (worker.lost, worker.settled, shift.hands.begun) == (1, 0, [])
    assert shift.said[0].startswith("not begun: work.lease_lost")


def test_an_old_lease_that_still_holds_is_worked_on(tmp_path: Path) -> None:
    """ND-16: a lease that the node extends is ours, however late its answer was read."""
    shift = Shift(Board(job()), ends, tmp_path)
    worker = shift.until(settled, lease_ms=1)
    assert shift.hands.begun == ["one"]
    assert (worker.settled, worker.lost) == (1, 0)


@pytest.mark.clause("N-23")
def test_a_job_that_is_lost_meanwhile_is_let_go(tmp_path: Path) -> None:
    """ND-16: a busy node is asked again at the next turn; a lost lease ends the work unsent."""
    board = Board(job())
    shift = Shift(board, lasting(board, BUSY, saying({"cancel": False}), LOST), tmp_path)
    worker = shift.until(lambda each: each.said, lease_ms=90)
    assert (worker.lost, receipts(shift)) == (1, [])
    assert "work.lease_lost" in shift.said[0]
    assert shift.board.told("release") == [], "it is no longer ours to give back"


def test_a_job_that_nobody_wants_is_cancelled(tmp_path: Path) -> None:
    """04 section 10: told to cancel, the executor is asked to stop and nothing is sent."""
    board = Board(job())
    shift = Shift(board, lasting(board, saying({"cancel": True})), tmp_path)
    worker = shift.until(lambda each: each.hands.cancelled, lease_ms=90)
    assert (shift.hands.cancelled, receipts(shift)) == (["one"], [])
    assert (worker.settled, worker.lost) == (0, 0)


@pytest.mark.parametrize("taken", [True, False])
def test_who_is_stopped_gives_back_what_is_not_done(tmp_path: Path, *, taken: bool) -> None:
    """04 section 10: a job in hand is released at the end; a refused release is only told."""
    board = Board(job())
    shift = Shift(board, lasting(board), tmp_path)
    if not taken:
        shift.board.script("release", LOST)
    shift.until(lambda each: each.hands.begun)
    assert len(shift.board.told("release")) == 1
    assert [("not given back" in text) for text in shift.said] == ([] if taken else [True])
    assert shift.hands.closed


def test_a_worker_takes_no_more_than_it_has_hands_for(tmp_path: Path) -> None:
    """04 section 10: with one slot a second job is asked for when the first is over."""
    at_once: list[int] = []

    async def act(_job: Job, _report: Report) -> Outcome:
        at_once.append(len(shift.hands.begun) - len(receipts(shift)))
        return Ok({"ref": "r"})

    shift = Shift(Board(job("one"), job("two")), act, tmp_path)
    worker = shift.until(lambda each: each.settled == 2, slots=1)
    assert (worker.settled, at_once) == (2, [1, 1])
    assert {body["max"] for body in shift.board.told("lease")} == {1}


# ---- a node that is away ----------------------------------------------------------------------


@pytest.mark.clause("N-23")
def test_a_node_that_is_away_or_busy_is_asked_for_work_again(tmp_path: Path) -> None:
    """04 section 10: neither a cut connection nor a 503 ends a worker; it tries again."""
    shift = Shift(Board(job()), ends, tmp_path)
    shift.board.script("lease", SILENCE, BUSY)
    worker = shift.until(settled)
    assert worker.settled == 1
    assert [text.split(":")[0] for text in shift.said[:2]] == ["node.unreachable", "node.busy"]


def test_no_proxy_of_the_environment_stands_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 9: with HTTP_PROXY set every command reached the node, and a worker never did."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("default login ann password other\n", "utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    shift = Shift(Board(job()), ends, tmp_path)
    worker = shift.until(lambda each: each.settled or each.said)
    assert (worker.settled, shift.said[0].endswith(" ok")) == (1, True)


def test_a_worker_that_may_not_work_ends(tmp_path: Path) -> None:
    """ST-06: a token without the scope is no matter of waiting."""
    shift = Shift(Board(), ends, tmp_path)
    shift.board.script("lease", refusing("auth.scope", 403, "Forbidden"))
    with pytest.raises(Refused) as caught:
        shift.until(lambda _each: False)
    assert (caught.value.code, shift.hands.closed) == ("auth.scope", True)


@pytest.mark.clause("N-23", "K-27")
def test_a_receipt_is_sent_until_somebody_answers(tmp_path: Path) -> None:
    """ND-16: the same bytes again after a cut and after a 503: done once, settled once."""
    shift = Shift(Board(job()), ends, tmp_path)
    shift.board.script("receipt", SILENCE, BUSY)
    worker = shift.until(settled)
    first, *again = receipts(shift)
    assert (worker.settled, shift.hands.begun) == (1, ["one"])
    assert again == [first, first]


@pytest.mark.parametrize(("code", "lost"), [("work.lease_lost", 1), ("seal.bad", 0)])
def test_a_receipt_that_is_refused_is_told(tmp_path: Path, code: str, lost: int) -> None:
    """ND-16: a late receipt counts as lost; any other refusal is told and not repeated."""
    shift = Shift(Board(job()), ends, tmp_path)
    shift.board.script("receipt", refusing(code, 409, "Conflict"))
    worker = shift.until(lambda each: each.said)
    assert (worker.lost, worker.settled, len(receipts(shift))) == (lost, 0, 1)
    assert f"refused: {code}" in shift.said[0]


def test_news_that_is_lost_does_not_hold_the_work_up(tmp_path: Path) -> None:
    """04 section 10: progress settles nothing, so its refusal is told and the work goes on."""

    async def act(_job: Job, report: Report) -> Outcome:
        await report("began", {"n": 1})
        return Ok({"ref": "r"})

    shift = Shift(Board(job()), act, tmp_path)
    shift.board.script("progress", LOST)
    worker = shift.until(settled)
    assert worker.settled == 1
    assert shift.said[0].endswith("news lost: work.lease_lost")
    assert canon.decode(shift.board.told("progress")[0]["payload"]) == {"n": 1}
