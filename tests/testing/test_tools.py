"""The rest of the kit: upgrades, golden journals, strategies; each finds its planted defect."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tallystick import Duration, Nat, Record, Where
from tallystick.errors import NotQuiescent, TallyError
from tallystick.model.records import Ticked
from tallystick.testing import TestWorld, cancelled, denied, golden, ok, timeout
from tallystick.testing.sources import built
from tallystick.testing.strategies import histories, receipts, strategy
from tallystick.values.schema.smallest import smallest
from tests.values.strategies import schema_of, types
from tests.workflow.apps import HELLO, ORDER
from tests.workflow.names import loaded, names_of

NEWER = ORDER.replace("attempts=4", "attempts=5")


@pytest.mark.clause("K-48", "K-20")
@pytest.mark.kit("apply")
def test_an_upgrade_waits_for_what_is_open() -> None:
    """AU-24: apply names each blocker while work is open; after the drain it works."""
    world, app = loaded(ORDER)
    world.send(app.Placed(order_id="o1", cents=5))
    with pytest.raises(NotQuiescent) as caught:
        world.apply(NEWER)
    kinds = {kind for kind, _ in caught.value.where["blockers"]}
    assert kinds == {"cell_open", "intent_open"}
    world.script(app.Charge, [timeout(), ok({"ref": "r"})])
    world.drain().apply(NEWER)
    assert world.cell("shop/orders@1", "o1").status == "completed"
    world.assert_replays()


@pytest.mark.kit("apply", finds=True)
def test_a_drain_names_what_nobody_answers() -> None:
    """AU-24 control: without a script the drain of a request without a timeout ends nowhere."""
    world, app = loaded(ORDER.replace(', timeout="30s"', ""))
    world.send(app.Placed(order_id="o1", cents=5))
    with pytest.raises(AssertionError, match="shop/Charge@1"):
        world.drain()


@pytest.mark.parametrize(
    ("said", "outcome"), [(denied("mine"), "refused"), (cancelled(), "charging")]
)
def test_what_only_kernel_and_operators_say(said, outcome: str) -> None:
    """AU-24: a request that was held is denied, or withdrawn by an operator."""
    world, app = loaded(ORDER)
    world.send(app.Placed(order_id="o1", cents=5)).settle(app.Charge, said)
    assert world.cell(app.orders, "o1").state.phase == outcome
    assert world.open(app.Charge) == []
    world.assert_replays()


# ---- golden journals ------------------------------------------------------------------------


def paid(source: str) -> TestWorld:
    world, app = loaded(source)
    return world.send(app.Placed(order_id="o1", cents=5)).settle(app.Charge, ok({"ref": "r"}))


@pytest.mark.clause("K-48", "K-19")
@pytest.mark.kit("golden")
def test_a_golden_journal_is_kept_and_compared(tmp_path: Path) -> None:
    """AU-24: equal record by record; layout of the code changes nothing, behaviour does."""
    with pytest.raises(AssertionError, match="--tally-golden=update"):
        golden(paid(ORDER), "paid", tmp_path)
    golden(paid(ORDER), "paid", tmp_path, update=True)
    golden(paid(ORDER), "paid", tmp_path)
    golden(
        paid(ORDER.replace("    return state\n", "    return state  # late\n")), "paid", tmp_path
    )
    with pytest.raises(AssertionError, match="another journal") as caught:
        golden(paid(ORDER.replace("ctx.complete(ref)", "ctx.complete()")), "paid", tmp_path)
    assert '"result": "r"' in str(caught.value)


@pytest.mark.kit("golden", finds=True)
def test_a_golden_journal_that_does_not_replay_is_found(tmp_path: Path) -> None:
    """AU-24 control: one bit of the kept journal is enough."""
    golden(paid(ORDER), "paid", tmp_path, update=True)
    whole = tmp_path / "paid.tally"
    data = bytearray(whole.read_bytes())
    data[-200] ^= 1
    whole.write_bytes(data)
    with pytest.raises(TallyError):
        golden(paid(ORDER), "paid", tmp_path)


# ---- strategies -----------------------------------------------------------------------------


class Colour(Enum):
    RED = 1
    BLUE = 2


class Inner(Record):
    n: Nat = 0
    colour: Colour = Colour.RED


class Wide(Record):
    name: Annotated[str, Where(min_len=2, max_len=5)]
    code: Annotated[str, Where(pattern="[A-Z]{3}-[0-9]+")]
    small: Annotated[int, Where(min=-3, max=9)]
    price: Decimal
    kind: Literal["a", "b"]
    wait: Duration
    inner: Inner | None
    many: list[Inner]
    table: dict[str, int]
    marks: frozenset[int]


@settings(max_examples=12)
@given(strategy(Wide))
def test_drawn_values_fit_their_schema(value: Wide) -> None:
    """AU-24: values of a record come as the class, within its bounds."""
    assert isinstance(value, Wide)
    assert 2 <= len(value.name) <= 5
    assert -3 <= value.small <= 9
    assert value.code[3] == "-"
    assert isinstance(value.price, Decimal)
    assert value.inner is None or isinstance(value.inner.colour, Colour)


@settings(max_examples=60)
@given(types())
def test_the_smallest_value_fits(type_: dict) -> None:
    """AU-28: whatever the type, the smallest value is one of it."""
    schema = schema_of(type_)
    schema.admit(smallest(schema.node))


@settings(max_examples=8)
@given(st.data())
@pytest.mark.kit("strategies")
def test_histories_of_an_order_keep_its_promise(data) -> None:
    """AU-24: random histories break nothing, and every journal of theirs replays."""
    world = TestWorld(READY, twice=False)
    app = names_of(world)
    history = data.draw(histories(app.orders, 8))
    history.play(world)
    assert len(world.events(app.Paid)) <= len(world.events(app.Placed))
    world.assert_replays()


READY = built(ORDER)
AGAIN = built(ORDER.replace("case None, Placed", "case _, Placed"))


@pytest.mark.kit("strategies", finds=True)
def test_a_planted_bug_is_found_by_a_short_history() -> None:
    """AU-24 control: an order that starts again on a repeated event is found in two steps.

    Making it smaller is the business of Hypothesis and takes seconds, so it is left out here.
    """
    app = names_of(TestWorld(AGAIN, twice=False))

    def restarts(history) -> bool:
        keys = [step.what.order_id for step in history.steps if step.act == "send"]
        if len(keys) == len(set(keys)):
            return False
        world = history.play(TestWorld(AGAIN, twice=False))
        asked = [record.key for record in world.records(Ticked) if record.effects]
        return len(asked) > len(set(asked))

    limits = settings(max_examples=400, database=None, derandomize=True, phases=(Phase.generate,))
    history = find(histories(app.orders, 2), restarts, settings=limits)
    assert len(history.steps) == 2


def test_receipts_are_of_every_kind() -> None:
    """AU-24: good, failed, unreadable, doubled, denied and late answers are all drawn."""
    _, app = loaded(ORDER)
    seen: set[str] = set()

    @settings(max_examples=80, database=None)
    @given(receipts(app.Charge))
    def collect(said) -> None:
        seen.add(type(said).__name__ + getattr(said, "status", ""))

    collect()
    assert {"Payloadok", "Payloaderror", "Malformed", "DuplicateAnswer", "Refused"} <= seen
    with pytest.raises(TallyError) as caught:
        receipts(app.Placed)
    assert caught.value.code == "ref.effect"


def test_a_hello_world_is_quick_to_draw() -> None:
    """AU-24: a workflow without effects has histories of events and time alone."""
    _, app = loaded(HELLO)
    limits = settings(max_examples=100, database=None)
    history = find(histories(app.greeter, 3), lambda each: len(each.steps) == 2, settings=limits)
    assert {step.act for step in history.steps} <= {"send", "pass"}
