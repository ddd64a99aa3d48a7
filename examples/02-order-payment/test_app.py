"""Every way a charge can end, and a crash at every place on the way."""

import pytest
from app import Charge, Charged, Paid, Placed, app, orders
from tallystick.testing import (
    TestWorld,
    crash_everywhere,
    duplicate,
    error,
    late,
    malformed,
    ok,
    tick,
    timeout,
)

PAID = ok(Charged(ref="r1"))
ENDS = [
    (PAID, "paid"),
    (duplicate(PAID), "paid"),
    (late(PAID), "backoff"),
    (timeout(), "backoff"),
    (malformed(), "backoff"),
    (error("bank.down", retryable=True), "backoff"),
    (error("card.declined"), "refused"),
]


@pytest.mark.parametrize(("answer", "phase"), ENDS)
def test_each_answer(answer, phase):
    world = TestWorld(app)
    world.send(Placed(order_id="o1", cents=500)).settle(Charge, answer)
    assert world.cell(orders, "o1").state.phase == phase
    world.assert_replays()


def test_policy_may_say_no():
    world = TestWorld(app, denied=[Charge])
    world.send(Placed(order_id="o1", cents=500))
    assert world.cell(orders, "o1").state.phase == "refused"


def test_card_times_out_then_pays():
    world = TestWorld(app, seed=1)
    world.send(Placed(order_id="o1", cents=500))
    world.settle(Charge, timeout())
    assert world.cell(orders, "o1").state.phase == "backoff"
    world.advance("2s").settle(Charge, PAID)
    assert world.events(Paid) == [Paid(order_id="o1", ref="r1")]
    world.assert_replays()


def test_four_failures_are_enough():
    world = TestWorld(app)
    world.script(Charge, [timeout()] * 4).send(Placed(order_id="o1", cents=500)).advance("10m")
    assert world.cell(orders, "o1").status == "failed"
    assert {params.token for params in world.params(Charge)} == {"o1"}


def test_one_transition_as_a_value():
    outcome = tick(orders, None, Placed(order_id="o1", cents=5))
    assert outcome.effects[0].params == Charge(token="o1", cents=5)


def test_a_crash_anywhere():
    def scenario(world):
        world.send(Placed(order_id="o1", cents=500)).settle(Charge, PAID)

    assert crash_everywhere(app, scenario).crashes > 10
