"""A twin goes on by itself: neither world sees what the other folds (AU-28)."""

from __future__ import annotations

from collections import deque
from types import NoneType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.kernel.parts import Cell, Intent, Keyed
from tallystick.kernel.roots import root
from tallystick.kernel.twin import twin
from tallystick.kernel.world import World
from tallystick.modules.python import Outcome
from tallystick.testing import TestWorld, error, ok, timeout
from tallystick.testing.sources import built
from tests.kernel.test_internal import CODE, KID, child, doing
from tests.rig import Rig
from tests.workflow.apps import ORDER
from tests.workflow.names import names_of
from tests.worlds import (
    CALL,
    GO,
    LAB,
    ask,
    go,
    lab_authority,
    lab_documents,
    lab_function,
    lab_workflow,
)

READY = built(ORDER)
ANSWERS = [ok({"ref": "r"}), error("down", retryable=True), error("no"), timeout()]


def act(world: TestWorld, number: int) -> None:
    """One thing that may happen to an order."""
    app = names_of(world)
    kind, number = number % 3, number // 3
    if kind == 0:
        world.send(app.Placed(order_id=f"o{number % 3}", cents=number))
    elif kind == 1:
        world.advance("2s")
    elif world.open(app.Charge):
        world.settle(app.Charge, ANSWERS[number % len(ANSWERS)])  # type: ignore[arg-type]


def everything(world) -> str:
    """All that a world holds, in words."""
    stores = [*world.stores().values()]
    entries = [
        (
            name,
            [
                (
                    key,
                    entry
                    if not isinstance(entry, Cell | Intent | Keyed)
                    else [(slot, getattr(entry, slot)) for slot in entry.__slots__],
                )
                for key, entry in sorted(store.delta.items())
            ],
        )
        for name, store in enumerate(stores)
    ]
    plain = (world.seq, world.keys, world.revoked, world.ring, world.drops, world.recent)
    return repr((entries, plain, world.suppressed, world.resident, world.levels.value(0)))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 200), max_size=8), st.lists(st.integers(0, 200), max_size=6))
def test_what_a_twin_does_leaves_the_world_alone(before: list[int], after: list[int]) -> None:
    """AU-28: equal at the start; whatever one of them does, the other stays as it was."""
    world = TestWorld(READY, twice=False)
    for number in before:
        act(world, number)
    mine = world.driver.world
    other = twin(mine)
    was = everything(mine)
    assert everything(other) == was
    assert root(other) == root(mine)
    for number in after:
        act(world, number)
    assert everything(other) == was


def test_nothing_that_fold_changes_is_shared() -> None:
    """AU-28: a field that a world gets one day and a twin forgets is found here."""
    world = TestWorld(READY, twice=False)
    act(world, 0)
    mine = world.driver.world
    other = twin(mine)
    plain = (str, int, bytes, NoneType, tuple)
    shared = [
        name
        for name in World.__slots__
        if not isinstance(value := getattr(mine, name), plain) and getattr(other, name) is value
    ]
    # What is written once and read by all: none of it is part of a state.
    assert shared == ["_catalogues", "active", "blobs", "nodes", "runner"]
    (cell,) = mine.cells["shop/orders@1"].delta.values()
    (again,) = other.cells["shop/orders@1"].delta.values()
    assert cell is not None
    same = [
        slot
        for slot in Cell.__slots__
        if isinstance(getattr(cell, slot), dict | deque)
        and getattr(cell, slot) is getattr(again, slot)
    ]
    assert same == []


def test_the_bonds_of_a_cell_are_its_own() -> None:
    """AU-28: open intents, keys and callers of a cell, from the second on, are changed in place."""

    def asks(following: Any, value: Any, _ctx: Any) -> Outcome:
        key = b"key %d" % value["n"]
        return Outcome(following, effects=[ask(str(value["n"]), idempotency_key=key)])

    calls = doing(CALL, child("k", "ask"), cap_slot="flow")
    deeds = lab_function(ask=asks, call=calls)
    documents = lab_documents(lab_workflow(KID), **lab_authority(KID))
    rig = Rig(documents, {CODE: deeds, ("t/code@1", "kid"): deeds})
    for name in "ab":
        rig.send(GO, go(name, "call"))
    for number in (1, 2):
        rig.send(GO, go("c", "ask", number))
    cell = rig.cell(LAB, "c")
    bonds = (cell.inflight, cell.keyed, rig.cell(KID, "k").callers)
    assert [len(each) for each in bonds] == [2, 2, 2]
    other = twin(rig.world)
    was = everything(other)
    rig.send(GO, go("d", "call"))
    rig.send(GO, go("c", "ask", 3))
    assert [len(each) for each in bonds] == [3, 3, 3]
    assert everything(other) == was
