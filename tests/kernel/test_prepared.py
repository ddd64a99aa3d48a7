"""Preparing a snapshot in parts: the same roots as at once, and nothing is clean too early."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel.index import EMPTY
from tests.kernel.test_store import PATHS, Pinned, root_of

DONE = st.sampled_from(("put", "remove", "strike", "prepare", "take", "promote"))
STEPS = st.lists(st.tuples(DONE, st.sampled_from(PATHS), st.binary(max_size=2)), max_size=40)


def prepare(pinned: Pinned, most: int) -> bool:
    made = pinned.store.prepare(most)
    if made is not None:
        pinned.shelf.add(made.nodes)
    return made is not None


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(1, 4))
def test_any_order_of_parts_ends_at_the_same_root(
    steps: list[tuple[str, bytes, bytes]], most: int
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
            prepare(pinned, most)
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
    assert pinned.store.ahead == pinned.root() != EMPTY
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
