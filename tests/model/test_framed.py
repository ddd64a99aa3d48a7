"""What goes without saying in a frame: left out, put back, and missed where it must be said."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import JournalCorrupt
from tallystick.model import hot_effects
from tallystick.model.frames import GENESIS, is_tick, open_frame, open_plainly, seal_frame
from tallystick.model.records import (
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    Noted,
    Origin,
    Record,
    Ticked,
    put_framed,
    put_record,
)
from tallystick.values import canon
from tests.model.test_records import SAMPLES
from tests.rig import WORLD, Rig
from tests.worlds import CREATED, FUNCTIONS, created, order_documents


@pytest.fixture(scope="module")
def journal() -> list[Record]:
    """The records of two orders."""
    rig = Rig(order_documents(), FUNCTIONS)
    for name in ("o-1", "o-2"):
        rig.send(CREATED, created(name))
    for job in rig.jobs.all:
        rig.settle(job, {"ref": "r"})
    return list(rig.records())


def whole(record: Record, seq: int) -> bytes:
    """A frame of one record as it was written before anything went without saying."""
    body = {"v": 1, "world": WORLD, "seq": seq, "prev": GENESIS}
    return canon.encode({**body, "records": [canon.decode(canon.PREFIX + put_record(record))]})


@pytest.mark.clause("K-19")
def test_what_goes_without_saying_is_read_where_it_is_said(journal: list[Record]) -> None:
    """MO-23, PB-27: older frames say every field; both readers read them as the same records."""
    shorter = 0
    for seq, record in enumerate(journal, 1):
        said = whole(record, seq)
        assert open_frame(said) == open_plainly(said) == (WORLD, seq, GENESIS, [record])
        short = seal_frame(WORLD, seq, GENESIS, [record]).body
        assert open_frame(short) == open_plainly(short) == (WORLD, seq, GENESIS, [record])
        shorter += len(short) < len(said)
    assert shorter > len(journal) / 2


@pytest.mark.clause("K-14")
def test_an_intent_behind_its_tick_does_not_say_who_asked(journal: list[Record]) -> None:
    """PB-27, K-14: the origin is the tick of the frame and its place; any other is written."""
    ticked = next(each for each in journal if isinstance(each, Ticked))
    opened_ = next(each for each in journal if isinstance(each, IntentOpened))
    cell = (ticked.workflow, ticked.workflow_hash, ticked.key)
    mine = Origin("workflow", *cell, 9, 0)
    denied = next(each for each in SAMPLES if isinstance(each, IntentDenied))
    first = opened_._replace(origin=mine)
    third = opened_._replace(origin=mine._replace(index=2))
    body = seal_frame(WORLD, 9, GENESIS, [ticked, first, denied, third]).body
    assert body.count(b"origin") == 1, "only the denial says it"
    found = (WORLD, 9, GENESIS, [ticked, first, denied, third])
    assert open_frame(body) == open_plainly(body) == found
    changes: tuple[Any, ...] = ("system", "o@1", bytes(32), b"k", 8, 1)
    for name, value in zip(Origin._fields, changes, strict=True):
        other = opened_._replace(origin=mine._replace(**{name: value}))
        body = seal_frame(WORLD, 9, GENESIS, [ticked, other]).body
        assert body.count(b"origin") == 1, name
        assert open_frame(body)[3] == open_plainly(body)[3] == [ticked, other]
    held = opened_._replace(origin=mine, hold={"kind": "rate"}, params=None, params_hash=bytes(32))
    body = seal_frame(WORLD, 9, GENESIS, [ticked, held]).body
    assert b"origin" not in body
    assert open_frame(body)[3] == open_plainly(body)[3] == [ticked, held]


@pytest.mark.parametrize("before", [0, 1])
def test_an_intent_without_an_origin_stops_reading(journal: list[Record], before: int) -> None:
    """MO-18: control: where no tick stands in front, an origin that is not said is missed."""
    opened_ = next(each for each in journal if isinstance(each, IntentOpened))
    event = next(each for each in journal if isinstance(each, EventAdmitted))
    records = [put_framed(event)] * before + [hot_effects.put_opened(opened_, own=True)]
    raw = [canon.decode(canon.PREFIX + each) for each in records]
    body = canon.encode({"v": 1, "world": WORLD, "seq": 9, "prev": GENESIS, "records": raw})
    for read in (open_frame, open_plainly):
        with pytest.raises(JournalCorrupt) as caught:
            read(body)
        assert caught.value.code == "record.malformed"
        assert caught.value.where == {"field": "origin"}


def test_a_tick_is_known_by_its_first_bytes_and_nothing_else_is_taken_for_one() -> None:
    """KN-03: of all record types a tick alone; not where the frame says otherwise than its body."""
    for record in SAMPLES:
        if type(record) is Ticked:  # the rest of its fields is rare, and left to the general way
            record = record._replace(ann=None, logs=None, metrics=None)  # noqa: PLW2901
        for more in (0, 30):
            frame = seal_frame(WORLD, 7, GENESIS, [record, *[Noted("n", {})] * more])
            assert is_tick(frame) is (type(record) is Ticked)
            assert not is_tick(frame._replace(seq=8))
            assert not is_tick(frame._replace(world="w-other"))
