"""Collection does not take a user's word: who names a part of the world hides nothing below it."""

from __future__ import annotations

import pytest

from tallystick.kernel.index import Branch, name_of, read_node
from tallystick.values import canon
from tests.kernel.test_reach import FILE, KEEP, check_whole, collect, filing_rig, held
from tests.rig import Rig

NOTHING = canon.hash_of(b"never stored")


def branches(rig: Rig, name: bytes) -> set[bytes]:
    """The branches right below a node of the index."""
    node = read_node(rig.driver.blobs, name)
    assert isinstance(node, Branch)
    kids = {name_of(kid) for way in range(16) if (kid := node.kid(way)) is not None}
    return {kid for kid in kids if isinstance(read_node(rig.driver.blobs, kid), Branch)}


def nodes(rig: Rig, name: bytes) -> set[bytes]:
    """All nodes from one on downwards."""
    node = read_node(rig.driver.blobs, name)
    found = {name}
    if isinstance(node, Branch):
        for way in range(16):
            if (kid := node.kid(way)) is not None:
                found |= nodes(rig, name_of(kid))
    return found


def filed(rig: Rig, name: str, content: str) -> bytes:
    """One more file, then a snapshot: the root of the index of all of them."""
    rig.send(FILE, {"id": name, "content": content, "ask": False})
    rig.driver.snapshot()
    return rig.world.cells[KEEP].top


@pytest.mark.clause("K-44")
@pytest.mark.invariant("I21")
def test_a_node_that_a_state_names_is_still_followed() -> None:
    """I21: a hash in a value may be that of a node of the index: it was marked as a name, so all
    that stands below it was swept, and the next start stopped at the first cell it asked for.
    """
    rig = filing_rig()
    for n in range(80):
        rig.send(FILE, {"id": f"f-{n}", "content": NOTHING, "ask": False})
    first = filed(rig, "z", NOTHING)
    second = filed(rig, "z", canon.hash_of(b"never stored either"))
    victim = min(branches(rig, first) & branches(rig, second))  # not on the way to z
    root = filed(rig, "z", canon.text_of(victim[:32]))
    assert victim in branches(rig, root)
    below = nodes(rig, root)
    assert collect(rig)[0] >= 1
    assert below <= held(rig).keys()
    check_whole(rig)
