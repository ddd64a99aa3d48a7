"""Random answers, crashes and time: a good program survives, a planted bug shrinks (AU-26).

`TALLY_SEEDS=200` runs as many seeds as the design asks for.
"""

from __future__ import annotations

import os
import re

import pytest

from tallystick.testing import explore, ok
from tallystick.testing.explore import replayed
from tests.workflow.apps import ORDER
from tests.workflow.names import loaded, names_of

SEEDS = range(int(os.environ.get("TALLY_SEEDS", "12")))
ANSWERS = [ok({"ref": "r"})]


def places(world) -> None:
    app = names_of(world)
    world.send(app.Placed(order_id="o1", cents=5)).send(app.Placed(order_id="o2", cents=7))


def paid_at_most_once(world) -> None:
    """An order is paid at most once, and the token of every charge is its own."""
    app = names_of(world)
    paid = [event.order_id for event in world.events(app.Paid)]
    assert len(paid) == len(set(paid)), "paid twice"
    assert {params.token for params in world.params(app.Charge)} <= {"o1", "o2"}


def answers_of(source: str) -> dict:
    _, app = loaded(source)
    return {app.Charge: ANSWERS}


@pytest.mark.clause("K-48")
@pytest.mark.kit("explore")
def test_the_order_survives_every_seed() -> None:
    """AU-26: bad receipts of every kind, crashes and clock steps break nothing."""
    found = explore(ORDER, places, answers_of(ORDER), holds=paid_at_most_once, seeds=SEEDS)
    assert found == 30 * len(SEEDS)


# The planted bug: two intents for one order, and no fence before the second payment.
PLANTED = ORDER.replace(
    "            return ask(Order(order_id=oid, cents=cents), ctx)",
    """            ctx.effect(Charge(token=oid, cents=cents), key="again")
            return ask(Order(order_id=oid, cents=cents), ctx)""",
).replace(
    'ctx.complete(ref)\n            return state.replace(phase="paid")',
    'return state.replace(phase="charging")',
)


@pytest.mark.kit("explore", finds=True)
def test_a_planted_bug_is_found_and_shrinks() -> None:
    """AU-26 control: an order that is charged twice, in at most 15 decisions."""
    assert PLANTED != ORDER
    answers = answers_of(PLANTED)
    with pytest.raises(AssertionError, match="paid twice") as caught:
        explore(PLANTED, places, answers, holds=paid_at_most_once, seeds=range(40))
    listed = re.search(r"decisions \[(.*)\]", str(caught.value))
    assert listed is not None
    decisions = [int(number) for number in listed[1].split(",")]
    assert len(decisions) <= 15
    with pytest.raises(AssertionError, match="paid twice"):
        paid_at_most_once(replayed(PLANTED, places, answers, decisions))
