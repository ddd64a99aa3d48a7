"""Pure functions and reducers: what asks for nothing cannot be made to ask (AU-06)."""

from __future__ import annotations

import pytest

from tallystick.model.abi import Halted
from tallystick.model.records import IntentDenied
from tallystick.modules.lint import lint
from tallystick.modules.runners import Runners
from tallystick.values import canon
from tests.workflow.names import loaded

REDUCER = """
from tallystick import Bundle, Ctx, Effect, Record
app = Bundle("t")
class Go(Record): key: str
class Got(Record): n: int
class Work(Effect[Got], executor="work"): n: int
class State(Record): n: int
class Old(Record): count: int
@app.workflow(key="key", effects=[])
def flow(state: State | None, event: Go, ctx: Ctx) -> State:
    ctx.effect(Work(n=1), key="k")
    return State(n=1)
@app.workflow(key="key", effects=[Work], name="other")
def other(state: State | None, event: Go, ctx: Ctx) -> State:
    return State(n=2)
@app.migrate(flow, 1, 2)
def older(old: Old) -> State:
    return State(n=old.count // {by})
@app.pure
def double(state: State) -> State:
    return State(n=state.n * 2)
"""
SOURCE = REDUCER.replace("{by}", "1")


@pytest.mark.clause("K-02", "X-13")
def test_a_reducer_that_asks_is_refused_and_denied() -> None:
    """AU-06: lint says TL201; at run the request is denied, and the tick stands."""
    assert "TL201" in [finding.code for finding in lint({"app.py": SOURCE.encode()})]
    world, app = loaded(SOURCE)
    world.send(app.Go(key="a"))
    (denied,) = world.records(IntentDenied)
    assert denied.stage == "declared"
    assert world.cell(app.flow, "a").state == app.State(n=1)
    world.assert_replays()


@pytest.mark.clause("K-02", "X-21")
def test_pure_functions_answer_with_a_document() -> None:
    """AU-06: a pure function and a migration take and give canonical documents, or fault."""
    world, _app = loaded(SOURCE)
    runner, catalogue = Runners(world.driver.blobs), world.driver.world.active.catalogue
    said = runner.pure(catalogue, "t/pure@1", "app:double", canon.encode({"n": 21}), None)
    assert said == canon.encode({"n": 42})
    asked = {"workflow": "t/flow@1", "key": None, "from": 1, "to": 2}
    old = canon.encode({**asked, "state": canon.encode({"count": 5})})
    answer = runner.pure(catalogue, "t/pure@1", "app:older", old, None)
    assert not isinstance(answer, Halted)
    assert canon.decode(canon.decode(answer)["state"]) == {"n": 5}
    missing = runner.pure(catalogue, "t/pure@1", "app:nothing", old, None)
    assert isinstance(missing, Halted)


def test_a_fault_in_a_pure_function_says_where() -> None:
    """AU-06: an exception is a fault with the file and the line."""
    world, _app = loaded(REDUCER.replace("{by}", "0"))
    runner, catalogue = Runners(world.driver.blobs), world.driver.world.active.catalogue
    old = canon.encode({"state": canon.encode({"count": 5})})
    answer = runner.pure(catalogue, "t/pure@1", "app:older", old, None)
    assert isinstance(answer, Halted)
    assert answer.code == "exception"
    assert "app.py:" in answer.message


ASKING = (
    SOURCE.replace("return State(n=state.n * 2)", "return asking(state)")
    + """
def asking(state: State) -> State:
    ctx.effect(Work(n=1), key="k")
    return state
"""
)


@pytest.mark.clause("K-02")
def test_a_pure_function_cannot_ask() -> None:
    """AU-06: one that asks, itself or by a helper, is TL201; at run it is a fault, not an intent.

    Control: the function without that helper has no finding of its own.
    """
    asked = [f for f in lint({"app.py": ASKING.encode()}) if "is pure and asks" in f.message]
    assert [(f.code, f.error) for f in asked] == [("TL201", True)]
    assert not [f for f in lint({"app.py": SOURCE.encode()}) if "is pure" in f.message]
    world, _app = loaded(ASKING)
    runner, catalogue = Runners(world.driver.blobs), world.driver.world.active.catalogue
    halted = runner.pure(catalogue, "t/pure@1", "app:double", canon.encode({"n": 21}), None)
    assert isinstance(halted, Halted)
    assert halted.code == "exception"
    assert "ctx" in halted.message
