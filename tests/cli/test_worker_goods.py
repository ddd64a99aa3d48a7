"""What a remote worker reads and brings: blobs, usage, secrets of its own, answers that fit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.problem import Refused
from tallystick.cli.work_line import Line, Place
from tallystick.executors.base import Failed, Job, Ok, Outcome, Report
from tallystick.values import canon
from tests.cli.board import Board, Shift, job
from tests.cli.stand_in import SILENCE, Said, refusing, stand_in

CANARY = "canary-5e1c7a90"
KEY = {"$tag": "secret", "$value": {"alias": "shop/api", "version": 1}}


def settled(shift: Shift) -> int:
    return shift.settled


def receipt(shift: Shift) -> Any:
    """The one receipt, its payload opened."""
    (found,) = shift.board.told("receipt")
    return {**found, "payload": canon.decode(found["payload"])}


# ---- blobs and figures ------------------------------------------------------------------------


@pytest.mark.clause("K-27")
def test_blobs_go_both_ways(tmp_path: Path) -> None:
    """04 section 10: what the params name is there before the work begins, wherever it stands in
    them; what the work makes is kept before the receipt that names it is sent.
    """
    held, lacking = canon.hash_of(b"invoice"), canon.hash_of(b"nowhere")
    board = Board(job(params={"rows": [{"file": held}, lacking, 7, "sha256:short"]}))
    board.blobs[held] = b"invoice"
    read: list[bytes | None] = []

    async def act(given: Job, _report: Report) -> Outcome:
        read.extend(given.blobs.get(text) for text in (held, lacking))
        assert given.grant == {"max": 3}
        return Ok({"page": given.blobs.put(b"made here")}, usage={"tokens": 12})

    shift = Shift(board, act, tmp_path)
    shift.until(settled)
    told = receipt(shift)
    assert read == [b"invoice", None]
    assert told["payload"] == {"page": canon.hash_of(b"made here")}
    assert told["usage"] == {"tokens": 12}
    order = [verb for verb, _ in board.brought if verb in ("blobs", "receipt")]
    assert (order, board.told("blobs")) == (["blobs", "receipt"], [b"made here"])


@pytest.mark.clause("K-27")
@pytest.mark.parametrize("away", [SILENCE, refusing("node.busy", 503, "Busy")])
def test_work_is_not_lost_by_a_node_that_is_away_when_it_is_done(
    tmp_path: Path, away: Said
) -> None:
    """04 section 10: what the work made is brought again until it is taken, then its receipt."""
    board = Board(job())
    board.script("blobs", away, away)

    async def act(given: Job, _report: Report) -> Outcome:
        return Ok({"page": given.blobs.put(b"made here")})

    shift = Shift(board, act, tmp_path)
    shift.until(settled)
    assert receipt(shift)["payload"] == {"page": canon.hash_of(b"made here")}
    assert board.told("blobs") == [b"made here"] * 3
    assert len(shift.hands.begun) == 1


def test_work_that_cannot_be_read_is_not_begun_and_said(tmp_path: Path) -> None:
    """A node that refuses what the params name: nothing outside is touched, the next job is."""
    held = canon.hash_of(b"invoice")
    board = Board(job("one", params={"file": held}), job("two"))
    board.blobs[held] = b""
    speak = board.speak
    board.speak = lambda asked: (  # type: ignore[method-assign]  # this node guards its blobs
        refusing("auth.scope", 403) if asked.method == "GET" else speak(asked)
    )

    async def act(_given: Job, _report: Report) -> Outcome:
        return Ok({})

    shift = Shift(board, act, tmp_path)
    shift.until(lambda shift: shift.settled and len(shift.said) > 1)
    assert shift.hands.begun == ["two"]
    assert "not begun: auth.scope: no" in shift.said


def test_a_blob_that_may_not_be_read_is_a_refusal() -> None:
    """ST-06: only 404 means that there is none; any other answer is the node's refusal."""

    async def main(url: str) -> None:
        line = Line(Place(url, "token", "ann", (), 1, 1000))
        try:
            await line.blob("w-1", canon.hash_of(b"x"))
        finally:
            await line.close()

    no = refusing("auth.scope", 403)
    with stand_in(lambda _asked: no) as url, pytest.raises(Refused) as caught:
        asyncio.run(main(url))
    assert caught.value.code == "auth.scope"


def test_an_answer_without_a_canonical_form_is_the_executors_error(tmp_path: Path) -> None:
    """ND-16: what cannot be written down is sent as a failure with its code, not as a value."""

    async def act(_job: Job, _report: Report) -> Outcome:
        return Ok({"at": object()})

    shift = Shift(Board(job()), act, tmp_path)
    shift.until(settled)
    told = receipt(shift)
    assert (told["status"], told["payload"]["code"]) == ("error", "effect.bad_receipt")
    assert "usage" not in told


# ---- secrets ----------------------------------------------------------------------------------


def asking() -> dict[str, Any]:
    """A job that asks for a secret which the environment binds."""
    definition = {"binding_id": "env:SHOP_API", "allowed_caps": ["http.out"]}
    wanted = {
        "references": [["/key", "shop/api@1"]],
        "definitions": {"shop/api@1": definition},
        "grant": "http.out",
    }
    return job(params={"key": KEY}, secrets=wanted)


@pytest.mark.clause("K-04")
def test_a_secret_is_given_to_the_work_and_taken_out_of_what_it_says(tmp_path: Path) -> None:
    """ND-19: neither answer nor news nor blob holds it, also when the news cuts it in two."""

    async def act(given: Job, report: Report) -> Outcome:
        (value,) = given.secrets.values()
        assert value == CANARY
        await report("heard", {"text": value[:6]})
        await report("heard", {"text": value[6:]})
        await report("heard", {"text": "and " + value[:6]})
        return Ok({"said": value, "page": given.blobs.put(value.encode())})

    shift = Shift(Board(asking()), act, tmp_path, SHOP_API=CANARY)
    shift.until(settled)
    told = receipt(shift)
    assert told["payload"]["said"] == "«secret:shop/api@1»"
    news = "".join(canon.decode(each["payload"])["text"] for each in shift.board.told("progress"))
    assert news == "«secret:shop/api@1»and " + CANARY[:6]
    assert all(CANARY.encode() not in body for body in shift.board.told("blobs"))


@pytest.mark.clause("K-04")
def test_a_secret_that_is_not_bound_here_settles_the_job(tmp_path: Path) -> None:
    """ND-19: nothing outside is touched; the receipt says which refusal it was."""

    async def act(_job: Job, _report: Report) -> Outcome:
        return Failed("auth", "t.never", "this is not begun")

    shift = Shift(Board(asking()), act, tmp_path)
    shift.until(settled)
    told = receipt(shift)
    assert (told["status"], told["payload"]["kind"]) == ("error", "auth")
    assert told["payload"]["code"].startswith("secret.")
    assert shift.hands.begun == []
