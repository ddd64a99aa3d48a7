"""Approval and settlement, killed at every place on the way: one release, one settlement."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import TallyError
from tallystick.kernel.inputs import Decide
from tallystick.model.records import IntentApproval, IntentReleased, ReceiptSettled
from tallystick.node.jobs import Published
from tests.kernel.test_approvals import asker, held
from tests.rig import Rig, check

# The caller's second try meets the outcome of the first: it was counted.
COUNTED = ("policy.voted_already", "effect.not_held", "effect.not_open")


class KilledError(Exception):
    """The process died here."""


class Story:
    """A vote, then an outcome; the process dies at one place, and callers try again."""

    def __init__(self, number: int | None, *, again: bool = True) -> None:
        self.number = number
        self.again = again
        self.passed: list[str] = []
        self.jobs: list[Published] = []
        self.rig = asker({"by": ["bob"]})
        self.intent = held(self.rig)
        self.rig.driver.points.listener = self._at

    def _at(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) - 1 == self.number:
            raise KilledError(name)

    def tell(self) -> Rig:
        """The whole story; gives the world behind it."""
        self._surely(self._vote)
        self.jobs += self.rig.jobs.all
        if self.jobs:
            self._surely(self._settle)
        self.rig.driver.points.listener = None
        self.rig.run()
        return self.rig

    def _surely(self, act: Any) -> None:
        try:
            act()
        except KilledError:
            self.jobs += self.rig.jobs.all
            self.rig = self.rig.reopened()
            self.rig.driver.resume()
            if self.again:
                act()

    def _vote(self) -> None:
        given = Decide(self.rig.clock.sample(), self.intent, "bob", "approve")
        try:
            self.rig.do(given)
        except TallyError as why:
            if why.code not in COUNTED:
                raise

    def _settle(self) -> None:
        self.jobs += self.rig.jobs.all
        self.rig.settle(self.jobs[-1], {"a": "yes"})


PLACES = Story(None)
PLACES.tell()


@pytest.mark.clause("K-26")
@pytest.mark.invariant("I3", "I5")
@pytest.mark.parametrize("number", range(len(PLACES.passed)), ids=str)
def test_killed_anywhere(number: int) -> None:
    """AG-10: whatever the place, there is one release, one settlement and one dispatch key."""
    story = Story(number)
    rig = story.tell()
    assert len(story.passed) > number, "the place was not reached"
    assert len(rig.records(IntentApproval)) == 1
    assert len(rig.records(IntentReleased)) == 1
    assert [receipt.status for receipt in rig.records(ReceiptSettled)] == ["ok"]
    assert len({job.dispatch_key for job in story.jobs}) == 1
    check(rig)


def test_the_enumeration_bites() -> None:
    """AG-10: control: the story passes the commits and the way out, and a caller who does not
    try again leaves the vote uncounted when the process died before it was durable.
    """
    assert {"frame.folded", "journal.appended", "intent.dispatched"} <= set(PLACES.passed)
    first = PLACES.passed.index("frame.built")
    rig = Story(first, again=False).tell()
    assert not rig.records(IntentApproval)
    assert not rig.jobs.all
