"""What an executor of a remote worker may answer, and how it may end: each is one receipt.

In a node each of these settles the intent.
A worker that falls silent instead keeps the job until its lease runs out, and then the work is done
again, by the next one alike, until the intent's timeout.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.executors.base import Failed, Job, Ok, Outcome, Report
from tallystick.executors.secrets import Bindings
from tallystick.node.attempt import LATE_NS
from tallystick.values import canon
from tests.cli.board import Act, Board, Shift, job
from tests.cli.stand_in import refusing, saying

WHOLE = canon.SIZE_MAX - 100  # what is a document by itself, but not in the body of a request
TOO_LARGE = refusing("request.too_large", 413, "TooLarge")
CANCEL = saying({"cancel": True})


class Mute(Exception):  # noqa: N818 - as somebody else names his own
    """An exception whose text cannot be shown."""

    def __str__(self) -> str:
        raise ValueError


def raising(why: BaseException) -> Act:
    async def act(_job: Job, _report: Report) -> Outcome:
        raise why

    return act


def answering(what: Any) -> Act:
    async def act(_job: Job, _report: Report) -> Outcome:
        found: Outcome = what
        return found

    return act


ENDS: dict[str, tuple[Act, str]] = {
    "exit": (raising(SystemExit(3)), "effect.crash"),
    "mute": (raising(Mute()), "effect.crash"),
    "cancelled by itself": (raising(asyncio.CancelledError()), "effect.crash"),
    "a map": (answering({"ref": "r"}), "effect.no_outcome"),
    "nothing": (answering(None), "effect.no_outcome"),
    "uncountable": (answering(Ok({"ref": "r"}, {"calls": -1})), "effect.bad_receipt"),
    "half a letter": (answering(Failed("crash", "\ud800", "no")), "effect.bad_receipt"),
}


def told(board: Board) -> list[Any]:
    """The receipts that were brought, as values."""
    return [{**body, "payload": canon.decode(body["payload"])} for body in board.told("receipt")]


@pytest.mark.clause("K-27")
@pytest.mark.parametrize("name", ENDS)
def test_whatever_an_executor_does_is_one_receipt(tmp_path: Path, name: str) -> None:
    """04 section 5: it ended in silence, and the job was done again when its lease ran out."""
    act, code = ENDS[name]
    shift = Shift(Board(job()), act, tmp_path)
    shift.until(lambda each: each.settled or each.board.told("release"))
    (found,) = told(shift.board)
    assert (found["status"], found["payload"]["code"]) == ("error", code)
    assert shift.board.told("release") == [], "what is settled is not given back"


@pytest.mark.clause("K-27")
def test_an_outcome_that_the_node_finds_too_large_is_told_as_that(tmp_path: Path) -> None:
    """04 section 5: it was refused with 413 and forgotten; the work was done again and again."""
    shift = Shift(Board(job()), answering(Ok({"ref": "r" * 100})), tmp_path)
    shift.board.script("receipt", TOO_LARGE)
    worker = shift.until(lambda each: each.settled)
    first, last = told(shift.board)
    assert (first["status"], last["status"], worker.settled) == ("ok", "error", 1)
    assert (last["payload"]["kind"], last["payload"]["code"]) == ("limit", "effect.too_large")


def test_an_outcome_that_no_request_can_hold_is_told_as_that(tmp_path: Path) -> None:
    """04 section 5: the same, where it is the worker who finds that it cannot be sent."""
    shift = Shift(Board(job()), answering(Ok(b"r" * WHOLE)), tmp_path)
    shift.until(lambda each: each.settled)
    (found,) = told(shift.board)
    assert (found["status"], found["payload"]["code"]) == ("error", "effect.too_large")


@pytest.mark.clause("K-27")
def test_what_the_work_made_and_may_not_be_kept_is_told(tmp_path: Path) -> None:
    """04 section 10: a token without `send` could bring no blob; the work was done for ever."""

    async def act(job: Job, _report: Report) -> Outcome:
        return Ok({"ref": job.blobs.put(b"made")})

    shift = Shift(Board(job()), act, tmp_path)
    shift.board.script("blobs", refusing("auth.missing_scope", 403, "Forbidden"))
    shift.until(lambda each: each.settled)
    (found,) = told(shift.board)
    assert (found["status"], found["payload"]["kind"]) == ("error", "auth")
    assert found["payload"]["code"] == "effect.undelivered"


def test_an_executor_that_cannot_cancel_is_stopped_all_the_same(tmp_path: Path) -> None:
    """04 section 10: a raise of `cancel` left the work going on, unwanted and unrenewed."""
    ended: list[str] = []

    async def act(_job: Job, _report: Report) -> Outcome:
        shift.board.script("extend", CANCEL)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("one")
        raise AssertionError

    async def cannot(_job: Job) -> None:
        raise RuntimeError("no")

    shift = Shift(Board(job()), act, tmp_path)
    shift.hands.cancel = cannot  # type: ignore[method-assign, assignment]  # an executor of somebody else
    shift.until(lambda _each: ended, lease_ms=90)
    assert told(shift.board) == []


def test_news_that_no_document_can_hold_is_dropped(tmp_path: Path) -> None:
    """04 section 5: it ended the work as a crash, or in silence where it came last."""

    async def act(_job: Job, report: Report) -> Outcome:
        await report("odd", {"n": 10**30})
        return Ok({"ref": "r"})

    shift = Shift(Board(job()), act, tmp_path)
    shift.until(lambda each: each.settled)
    assert [found["status"] for found in told(shift.board)] == ["ok"]
    assert shift.board.told("progress") == []


@pytest.mark.clause("X-10")
def test_the_owner_of_a_deadline_speaks_first(tmp_path: Path) -> None:
    """X-10: a worker whose clock goes a moment ahead settled an intent before its deadline."""
    seen: list[int | None] = []

    async def act(job: Job, _report: Report) -> Outcome:
        seen.append(job.deadline_ns)
        return Ok({"ref": "r"})

    shift = Shift(Board(job(deadline_ns=10**18), job("two")), act, tmp_path)
    shift.until(lambda each: each.settled == 2)
    assert sorted(seen, key=str) == sorted([10**18 + LATE_NS, None], key=str)


def test_secrets_that_cannot_be_looked_up_are_one_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """04 section 5: a disk that fails over them left the job to its lease, again and again."""

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Bindings, "resolve", fails)
    asked = {"references": [["/key", "k@1"]], "definitions": {}, "grant": None}
    shift = Shift(Board(job(secrets=asked)), answering(Ok({"ref": "r"})), tmp_path)
    shift.until(lambda each: each.settled)
    (found,) = told(shift.board)
    assert found["payload"]["code"] == "effect.crash"
