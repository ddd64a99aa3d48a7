"""A run through the pure rooms, for `tests/test_contracts.py` to repeat among traps (ST-03).

Everything is imported and prepared when the file is loaded; `roots` runs after clock, chance,
disk and wire are trapped, and yields lines that must be equal under every hash seed.
Each room adds one function to `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallystick.kernel.roots import root
from tallystick.model import sys_definitions
from tallystick.values import canon
from tallystick.values.expr import compile_expression
from tests import worlds
from tests.rig import Rig
from tests.workflow.apps import ORDER
from tests.workflow.names import loaded
from tests.workflow.test_flows import SAGA

PREPARED = [(*loaded(source), source) for source in (ORDER, SAGA)]


def canonical_bytes() -> Iterator[str]:
    """Values: one encoding, whatever the order of the keys."""
    yield canon.hash({"b": [1, None, True], "a": {"y": b"x", "x": "text"}})
    yield canon.hash({"a": {"x": "text", "y": b"x"}, "b": [1, None, True]})


def expressions() -> Iterator[str]:
    """Values: an expression over equal values gives an equal value and equal names."""
    expression = compile_expression("order.lines | length > limit")
    yield str(expression.evaluate({"order": {"lines": [1, 2]}, "limit": 1}))
    yield " ".join(sorted(expression.names))


def definitions() -> Iterator[str]:
    """Model: our own definitions hash alike."""
    for kind, name in sys_definitions.DEFINITIONS:
        yield f"{kind} {name} {sys_definitions.hash_of(kind, name)}"


def orders() -> Iterator[str]:
    """Kernel: a run with effects and receipts, live, folded again and run again."""
    rig = Rig(worlds.order_documents(), worlds.FUNCTIONS)
    for number in range(12):
        event = {"order_id": f"order-{number}", "amount_cents": number, "note": None}
        rig.send(worlds.CREATED, event)
        yield f"{number} {rig.root().hex()}"
    for job in reversed(rig.jobs.of(worlds.CHARGE)):
        rig.settle(job, {"ref": "paid"})
        yield rig.state_root().hex()
    folded = root(rig.folded())
    assert folded == rig.root(), "the fold and the live world are one"
    assert rig.verify().first is None, "run again, every tick gives the same bytes"
    yield folded.hex()


def lane() -> Iterator[str]:
    """Modules and workflow: source in the lane, a reducer and an async flow, built beforehand."""
    for world, app, source in PREPARED:
        for number in range(6):
            if source is ORDER:
                world.send(app.Placed(order_id=f"o{number}", cents=number))
            else:
                world.send(app.Go(key=f"a{number}")).send(app.Note(key=f"a{number}", n=number))
            yield world.root().hex()
        world.advance("3d")
        yield world.root().hex()


PARTS: tuple[Callable[[], Iterator[str]], ...] = (
    canonical_bytes,
    expressions,
    definitions,
    orders,
    lane,
)


def roots() -> Iterator[str]:
    """The lines of all parts."""
    for part in PARTS:
        yield from part()
