"""Preparing a snapshot in parts: the same roots as at once, and nothing is clean too early."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel import snapshot
from tallystick.kernel.index import EMPTY
from tests.kernel import mixed
from tests.kernel.test_store import PATHS, Pinned, root_of

DONE = st.sampled_from(("put", "remove", "strike", "prepare", "unprepare", "take", "promote"))
STEPS = st.lists(st.tuples(DONE, st.sampled_from(PATHS), st.binary(max_size=2)), max_size=40)


def prepare(pinned: Pinned, most: int, least: int = 1, *, hurry: bool = False) -> bool:
    made = pinned.store.prepare(most, least, hurry=hurry)
    if made is not None:
        pinned.shelf.add(made.nodes)
    return made is not None


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_any_order_of_parts_ends_at_the_same_root(
    steps: list[tuple[str, bytes, bytes]], most: int, least: int, hurry: bool
) -> None:
    """K-43, I20: whatever is written, struck out, prepared, taken and promoted in between."""
    pinned = Pinned()
    model: dict[bytes, bytes] = {}
    for done, path, value in steps:
        if done == "put":
            pinned.store.put(path, value)
            model[path] = value
        elif done == "remove":
            pinned.store.remove(path)
            model.pop(path, None)
        elif done == "strike":
            assert pinned.store.take(path) == model.pop(path, None)
        elif done == "prepare":
            prepare(pinned, most, least, hurry=hurry)
        elif done == "unprepare":
            pinned.store.unprepare()
        elif done == "take":
            pinned.take()
        elif pinned.plans:
            pinned.promote()
        assert pinned.root() == root_of(model)
        assert dict(pinned.store.entries()) == model


def test_what_is_prepared_is_not_written_again() -> None:
    """11 section 4: the snapshot itself writes what is left; a touched entry is left again."""
    pinned = Pinned()
    for path in PATHS:
        pinned.store.put(path, b"old")
    while prepare(pinned, 2):
        pass
    assert pinned.store.ahead is not None
    assert pinned.store.ahead[:32] == pinned.root() != EMPTY
    assert not pinned.store.written().nodes
    pinned.store.edit(PATHS[0])
    pinned.store.put(PATHS[0], b"new")
    assert pinned.store.written().nodes
    assert pinned.root() == root_of(dict.fromkeys(PATHS, b"old") | {PATHS[0]: b"new"})


def test_an_entry_that_goes_after_it_was_prepared_is_gone() -> None:
    """I20: in a store without a snapshot too, where a strike-out is otherwise forgotten."""
    pinned = Pinned()
    for path in PATHS:
        pinned.store.put(path, b"old")
    while prepare(pinned, 2):
        pass
    for path in PATHS:
        pinned.store.remove(path)
    assert pinned.root() == EMPTY
    pinned.take()
    pinned.promote()
    assert not list(pinned.store.entries())


def rounds(pinned: Pinned, *, hurry: bool) -> int:
    """How often all entries are prepared when each is touched again after every part."""
    count = 0
    while count < 20 and prepare(pinned, len(PATHS), hurry=hurry):
        count += 1
        for path in PATHS:
            pinned.store.put(path, bytes([count]))
    return count


def test_in_a_hurry_rounds_that_do_not_shrink_end() -> None:
    """W10: what is touched all the time does not put off a snapshot that is overdue for ever."""
    pinned = Pinned()
    for path in PATHS:
        pinned.store.put(path, b"old")
    assert rounds(pinned, hurry=False) == 20
    assert rounds(pinned, hurry=True) == 2
    pinned.take()
    pinned.promote()
    pinned.store.put(PATHS[0], b"new")
    assert rounds(pinned, hurry=True) == 2


def test_few_entries_wait_for_the_snapshot() -> None:
    """A part is not worth its branches when less than `least` is left."""
    pinned = Pinned()
    for path in PATHS[:3]:
        pinned.store.put(path, b"old")
    assert not prepare(pinned, 4, 4)
    assert prepare(pinned, 4, 3)


def test_a_round_goes_before_what_gathers_meanwhile() -> None:
    """11 section 4: the store that comes first had a small round after every part of a large one
    in another store; small rounds share hardly a branch, and wrote half as many nodes again.
    """
    rig = mixed.mixed_rig()
    mixed.play(rig)
    stores = rig.world.stores()
    most = max(stores, key=lambda name: len(stores[name].delta))
    earlier = list(stores)[: list(stores).index(most)]
    assert any(stores[name].delta for name in earlier), "others would be first by their place"
    for count in range(1, len(stores[most].delta) + 1):
        assert snapshot.prepare(rig.world, 1, 1, rig.driver.blobs.put)
        assert len(stores[most]._merged) == count, "its round goes on to the end"
    assert not any(stores[name]._merged for name in earlier)
    assert snapshot.prepare(rig.world, 1, 1, rig.driver.blobs.put), "then come the others"
