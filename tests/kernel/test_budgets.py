"""Budgets as a second book of accounts: kept from the journal alone, record by record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel.inputs import Operate
from tallystick.kernel.replay import fold_frames, open_world
from tallystick.model.frames import open_frame
from tallystick.model.records import (
    IntentDenied,
    IntentOpened,
    IntentReleased,
    ReceiptSettled,
    Record,
)
from tests.kernel.test_flows import BUDGET, SECOND, flow, lab, wishes
from tests.rig import WORLD, Rig, check

LIMIT = 12
COST = 3


class Book:
    """What a budget must say by the words of 06 section 4; it knows the journal alone."""

    def __init__(self, refund: bool = True) -> None:
        self.spent = 0
        self.reserved = 0
        self.free = LIMIT
        self._refund = refund
        self._costs: dict[bytes, int] = {}
        self._out: dict[bytes, None] = {}

    def read(self, record: Record) -> None:
        """Take one record; the three parts are the limit behind each."""
        if isinstance(record, IntentOpened):
            assert self.free >= COST, "opened beyond the limit"
            self.reserved, self.free = self.reserved + COST, self.free - COST
            self._costs[record.intent] = COST
            if record.hold is None:
                self._out[record.intent] = None
        elif isinstance(record, IntentReleased):
            self._out[record.intent] = None
        elif isinstance(record, ReceiptSettled):
            cost = self._costs.pop(record.intent, 0)
            paid = self._paid(record, cost)
            self.spent, self.reserved = self.spent + paid, self.reserved - cost
            self.free += cost - paid
        elif isinstance(record, IntentDenied) and record.code == "flow.budget_exhausted":
            assert self.free < COST, "denied although there was room"
        assert self.spent + self.reserved + self.free == LIMIT

    def _paid(self, record: ReceiptSettled, cost: int) -> int:
        if record.intent not in self._out and self._refund:
            return 0
        used = (record.usage or {}).get("tokens")
        return cost if used is None else int(used)


def balanced(rig: Rig, book: Book) -> None:
    """Fold the journal frame by frame, and compare the world's budget with the book's."""
    world = open_world(WORLD, [], rig.driver.blobs, rig.runner)
    for frame in rig.journal.read(WORLD):
        fold_frames(world, [frame])
        for record in open_frame(frame.body)[3]:
            book.read(record)
        _, spent, reserved = world.levels.budgets.get("b", (0, 0, 0))
        assert (spent, reserved) == (book.spent, book.reserved), f"after seq {frame.seq}"


STEP = st.tuples(st.sampled_from(["ask", "end", "drop", "late", "open"]), st.integers(0, 7))


def played(steps: list[tuple[str, int]]) -> Rig:
    """A world with room for one effect at a time and for four in all, and what happens in it."""
    cost = {"name": "b", "cost": f"{{{{ {COST} }}}}"}
    rig = lab(flow(budget=cost, max_open={"world": 2}), budgets=[{**BUDGET, "limit": LIMIT}])
    for number, (word, n) in enumerate(steps):
        _do(rig, word, number, n)
    return rig


def _do(rig: Rig, word: str, number: int, n: int) -> None:
    out = sorted((i.seq, p) for p, i in rig.world.intents.entries() if i.hold is None)
    queue = rig.world.levels.queue
    if word == "ask":
        wishes(rig, n, cell=f"c{number}")
    elif word == "open":
        rig.driver.snapshot()
    elif word == "late":
        rig.pass_time(SECOND)
    elif word == "drop" and queue:
        intent = queue[n % len(queue)].intent
        rig.do(Operate(rig.clock.sample(), "cancel", "alice", "no", intent=intent))
        rig.run()
    elif word == "end" and out:
        intent = out[n % len(out)][1]
        job = next(job for job in rig.jobs.all if job.intent == intent)
        rig.settle(job, {"a": "ok"}, **_usage(n))


def _usage(n: int) -> dict[str, Any]:
    """Less than was set aside, more than that, as much, or no word about it."""
    if n % 4 == 3:
        return {}
    return {"usage": {"calls": 1, "tokens": (0, COST, 2 * COST)[n % 4], "cents": 0}}


@pytest.mark.clause("X-07")
@settings(max_examples=15, deadline=None)
@given(st.lists(STEP, min_size=4, max_size=24))
def test_the_books_agree_at_every_record(steps: list[tuple[str, int]]) -> None:
    """AG-13: at every record of any journal the limit is what is spent, reserved and free; what is
    left over comes back, what was used beyond it is recorded, what never left costs nothing, and
    one is denied only when the rest would not do.
    """
    rig = played(steps)
    balanced(rig, Book())
    check(rig)


def test_a_refund_that_is_missing_is_found() -> None:
    """AG-13, control: by a book that knows no refund of what never left, the journal is wrong."""
    steps = [("ask", 0), ("ask", 1), ("ask", 2), ("drop", 0), ("end", 2), ("ask", 3)]
    rig = played(steps)
    balanced(rig, Book())
    assert any(r.status == "cancelled" for r in rig.records(ReceiptSettled))
    with pytest.raises(AssertionError, match="after seq"):
        balanced(rig, Book(refund=False))


def test_overruns_and_denials_do_happen() -> None:
    """AG-13: the steps above reach an overrun, after which everything is denied."""
    rig = played([("ask", 0), ("end", 2)] * 3 + [("ask", 0)])
    assert rig.records(IntentDenied)[-1].code == "flow.budget_exhausted"
    book = Book()
    balanced(rig, book)
    assert (book.spent, book.free) == (12, 0)
