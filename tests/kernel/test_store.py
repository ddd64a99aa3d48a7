"""Stores: delta over hot cache over index; what is dirty stays dirty until it is durable."""

# tidy: a calendar keeps what a store promises.
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel.index import EMPTY, Nodes
from tallystick.kernel.index_change import change
from tallystick.kernel.store import CHUNK, Calendar, Store
from tests.kernel.blobs import Shelf

PATHS = [bytes([i]) * 32 for i in range(6)]


def put(value: bytes, _beside: dict[bytes, bytes]) -> bytes:
    return value


def same(value: bytes) -> bytes:
    return value


class Pinned:
    """A store with its blob shelf; snapshots are taken and promoted by hand."""

    def __init__(self, cache: int = 4096) -> None:
        self.shelf = Shelf()
        self.store: Store[bytes] = Store(Nodes(self.shelf), put, same, cache=cache)
        self.seq = 0
        self.plans: list[tuple[bytes, list[bytes], int]] = []

    def take(self) -> None:
        made = self.store.written()
        self.shelf.add(made.nodes)
        self.seq += 1
        self.plans.append((made.top, list(self.store.delta), self.seq))
        self.store.mark(self.seq)

    def promote(self, *, clean: bool = True) -> None:
        self.store.promote(*self.plans.pop(0))
        while clean and self.store.clean(2):
            pass

    def root(self) -> bytes:
        return self.store.written().root


def root_of(model: dict[bytes, bytes]) -> bytes:
    """The root of the same entries, built at once."""
    return change(Nodes(Shelf()), EMPTY, dict(model)).root


@pytest.mark.clause("K-40")
def test_reads_go_delta_then_hot_then_index() -> None:
    """KN-11: a write is seen at once; a promoted entry is read from cache, then from the index."""
    pinned = Pinned(cache=1)
    for path in PATHS[:3]:
        pinned.store.put(path, path[:1])
    assert pinned.store.get(PATHS[0]) == PATHS[0][:1]
    pinned.take()
    pinned.promote()
    assert not pinned.store.delta
    reads = pinned.shelf.reads
    assert pinned.store.get(PATHS[2]) == PATHS[2][:1]
    assert pinned.shelf.reads == reads, "the last promoted entry is in the hot cache"
    assert pinned.store.get(PATHS[0]) == PATHS[0][:1]
    assert pinned.shelf.reads > reads, "a cache of one entry has to read the index"
    assert pinned.store.get(PATHS[5]) is None


@pytest.mark.invariant("I20")
@pytest.mark.clause("K-42")
def test_a_delta_stays_dirty_until_its_snapshot_is_durable() -> None:
    """I20: computing a snapshot clears nothing; promoting it clears what it covers."""
    pinned = Pinned()
    pinned.store.put(PATHS[0], b"a")
    pinned.take()
    assert pinned.store.delta == {PATHS[0]: b"a"}
    assert pinned.store.root == EMPTY
    pinned.promote()
    assert pinned.store.delta == {}


@pytest.mark.invariant("I20")
def test_entries_touched_between_plan_and_promote_stay_dirty() -> None:
    """I20: put, edit and remove after the plan survive its promotion."""
    pinned = Pinned()
    for path in PATHS[:4]:
        pinned.store.put(path, b"old")
    pinned.take()
    pinned.store.put(PATHS[0], b"new")
    assert pinned.store.edit(PATHS[1]) == b"old"
    pinned.store.remove(PATHS[2])
    pinned.promote()
    assert pinned.store.delta == {PATHS[0]: b"new", PATHS[1]: b"old", PATHS[2]: None}
    assert pinned.store.get(PATHS[2]) is None, "a delete is not undone by an older snapshot"
    model = {PATHS[0]: b"new", PATHS[1]: b"old", PATHS[3]: b"old"}
    assert pinned.root() == root_of(model)


@pytest.mark.invariant("I20")
def test_what_is_clean_leaves_memory_little_by_little() -> None:
    """AT-32: a snapshot that became durable holds nobody up, and what is touched stays dirty."""
    pinned = Pinned()
    for path in PATHS:
        pinned.store.put(path, path[:1])
    pinned.take()
    pinned.promote(clean=False)
    assert len(pinned.store.delta) == 6
    assert pinned.store.clean(2)
    assert set(pinned.store.delta) == set(PATHS[2:])
    pinned.store.put(PATHS[3], b"new")
    pinned.store.remove(PATHS[4])
    assert pinned.store.edit(PATHS[5]) == PATHS[5][:1]
    assert not pinned.store.clean(9)
    assert pinned.store.delta == {PATHS[3]: b"new", PATHS[4]: None, PATHS[5]: PATHS[5][:1]}
    model = {path: path[:1] for path in PATHS} | {PATHS[3]: b"new"}
    del model[PATHS[4]]
    assert pinned.root() == root_of(model)
    pinned.take()
    pinned.promote()
    assert not pinned.store.delta


@pytest.mark.invariant("I20")
def test_two_snapshots_on_their_way() -> None:
    """I20: what is touched between or after two plans survives both promotions."""
    pinned = Pinned()
    pinned.store.put(PATHS[0], b"0")
    pinned.take()
    pinned.store.put(PATHS[1], b"1")
    pinned.take()
    pinned.store.put(PATHS[2], b"2")
    pinned.store.put(PATHS[0], b"later")
    pinned.promote()
    assert set(pinned.store.delta) == {PATHS[0], PATHS[1], PATHS[2]}
    pinned.promote()
    assert pinned.store.delta == {PATHS[2]: b"2", PATHS[0]: b"later"}
    assert pinned.root() == root_of({PATHS[0]: b"later", PATHS[1]: b"1", PATHS[2]: b"2"})


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(PATHS), st.binary(min_size=1, max_size=2)),
        st.tuples(st.sampled_from(["remove", "edit", "get"]), st.sampled_from(PATHS)),
        st.tuples(st.sampled_from(["take", "promote", "clean"])),
    ),
    max_size=40,
)


def step(pinned: Pinned, model: dict[bytes, bytes], each: tuple[Any, ...]) -> None:
    match each:
        case ("put", path, value):
            pinned.store.put(path, value)
            model[path] = value
        case ("remove", path):
            pinned.store.remove(path)
            model.pop(path, None)
        case ("edit", path):
            assert pinned.store.edit(path) == model.get(path)
        case ("get", path):
            assert pinned.store.get(path) == model.get(path)
        case ("take",):
            pinned.take()
        case ("promote",) if pinned.plans:
            pinned.promote(clean=False)
        case ("clean",):
            pinned.store.clean(1)


@pytest.mark.invariant("I20")
@pytest.mark.clause("K-40", "K-41")
@settings(max_examples=300)
@given(STEPS, st.sampled_from([1, 2, 4096]))
def test_a_store_is_a_dictionary_whatever_is_cached(steps: list[Any], cache: int) -> None:
    """KN-11, I20: any order of writes, reads, plans and promotions gives the dictionary's root."""
    pinned = Pinned(cache)
    model: dict[bytes, bytes] = {}
    for each in steps:
        step(pinned, model, each)
        assert pinned.root() == root_of(model)
    assert dict(pinned.store.entries()) == model
    assert [path for path, _ in pinned.store.entries()] == sorted(model)


def test_the_hot_cache_is_bounded() -> None:
    """K-41: reading many clean entries keeps at most the configured number in memory."""
    pinned = Pinned(cache=8)
    paths = [i.to_bytes(2, "big") * 16 for i in range(64)]
    for path in paths:
        pinned.store.put(path, b"v")
    pinned.take()
    pinned.promote()
    assert all(pinned.store.get(path) == b"v" for path in paths)
    assert len(pinned.store._hot) == 8


# ---- the calendar ---------------------------------------------------------------------------


class Dated:
    """A calendar with its shelf."""

    def __init__(self, chunk: int = CHUNK) -> None:
        self.shelf = Shelf()
        self.calendar = Calendar(Nodes(self.shelf), chunk=chunk)
        self.seq = 0
        self.planned: list[tuple[bytes, list[bytes], int]] = []

    def plan(self) -> None:
        """A snapshot is recorded, and becomes durable later."""
        made = self.calendar.store.written()
        self.shelf.add(made.nodes)
        self.seq += 1
        self.calendar.store.mark(self.seq)
        self.planned.append((made.top, list(self.calendar.store.delta), self.seq))

    def land(self) -> None:
        """Every snapshot that was recorded is durable."""
        for each in self.planned:
            self.calendar.promote(*each)
        self.planned.clear()

    def clean(self) -> None:
        while self.calendar.clean(2):
            pass

    def snapshot(self) -> None:
        self.plan()
        self.land()
        self.clean()

    def reopened(self) -> Calendar:
        return Calendar(Nodes(self.shelf), self.calendar.store.top)


DATES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 50), st.sampled_from(PATHS)),
        st.tuples(st.sampled_from(["plan", "land", "clean"]), st.just(0), st.just(b"")),
        st.tuples(st.just("due"), st.integers(0, 60), st.just(b"")),
    ),
    max_size=60,
)


@pytest.mark.clause("X-14")
@settings(max_examples=300)
@given(DATES, st.sampled_from([1, 2, CHUNK]))
def test_a_calendar_is_a_sorted_list(steps: list[tuple[str, int, bytes]], chunk: int) -> None:
    """KN-15: what is due comes in order of time, also across snapshots and reopening."""
    dated = Dated(chunk)
    model: set[tuple[int, bytes]] = set()
    for verb, at, ident in steps:
        if verb == "add":
            dated.calendar.add(at, ident)
            model.add((at, ident))
        elif verb == "remove":
            dated.calendar.remove(at, ident)
            model.discard((at, ident))
        elif verb == "plan":
            dated.plan()
        elif verb == "land":
            dated.land()
        elif verb == "clean":
            dated.calendar.clean(1)
        due = sorted(each for each in model if each[0] <= at)
        assert dated.calendar.due(at, 100) == due
        assert dated.calendar.due(at, 2) == due[:2]
        assert dated.calendar.first() == (min(model) if model else None)
    dated.snapshot()
    assert dated.reopened().due(60, 100) == sorted(model)


def test_a_large_calendar_is_loaded_in_chunks() -> None:
    """K-43: opening a calendar of many parked entries loads only the nearest chunk."""
    dated = Dated()
    for at in range(3000):
        dated.calendar.add(at, PATHS[at % 6])
    dated.snapshot()
    opened = dated.reopened()
    assert opened.first() == (0, PATHS[0])
    assert len(opened._heap) <= 2 * CHUNK
    assert [at for at, _ in opened.due(5000, 5000)] == list(range(3000))


def test_a_snapshot_does_not_empty_a_calendar() -> None:
    """AT-32: what is near stays, so the next look reads nothing; what is far off leaves memory."""
    dated = Dated()
    for at in range(3000):
        dated.calendar.add(at, PATHS[at % 6])
    dated.snapshot()
    assert len(dated.calendar._heap) <= 5 * CHUNK
    reads = dated.shelf.reads
    for at in range(3 * CHUNK):
        assert dated.calendar.first() == (at, PATHS[at % 6])
        dated.calendar.remove(at, PATHS[at % 6])
    assert dated.shelf.reads == reads
    dated.calendar.add(4000, PATHS[0])
    dated.snapshot()
    reads = dated.shelf.reads
    assert dated.calendar.first() == (3 * CHUNK, PATHS[3 * CHUNK % 6])
    assert dated.shelf.reads == reads
    assert [at for at, _ in dated.calendar.due(5000, 5000)] == [*range(3 * CHUNK, 3000), 4000]
