"""Pure modules compute and cannot ask for anything (K-02)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.errors import SchemaMismatch
from tallystick.model.abi import Halted
from tallystick.modules.python import PythonRunner
from tallystick.values import canon
from tests.rig import Rig
from tests.worlds import CREATED, FUNCTIONS, ORDER, created, module, order_documents

KEYS = "t/keys@1"
EFFECTS = [{"effect": "com.acme/charge@1", "params": b""}]


def key_of(answer: dict[str, Any]) -> Any:
    """A key function that also answers with what a test gives it."""
    return lambda given: {"output": given["input"]["order_id"], **answer}


def rig_with(answer: dict[str, Any]) -> Rig:
    """The order world, keyed by a pure function."""
    pure = {"of": {"input": CREATED, "output": "com.acme/OrderId@1"}}
    documents = [*order_documents()[:-1], module(KEYS, pure=pure)]
    manifest = order_documents()[-1]
    way = {"event": CREATED, "workflow": ORDER, "key_fn": {"module": KEYS, "entrypoint": "of"}}
    manifest["routing"] = {"subscriptions": [way]}
    return Rig([*documents, manifest], {**FUNCTIONS, (KEYS, "of"): key_of(answer)})


@pytest.mark.clause("K-02")
def test_a_pure_function_that_answers_with_effects_faults() -> None:
    """MO-09: output alone is taken; effects beside it refuse the event and change nothing."""
    good = rig_with({})
    good.send(CREATED, created("o-1"))
    assert good.state(ORDER, "o-1")["phase"] == "charging"
    bad = rig_with({"effects": EFFECTS})
    before = bad.root()
    with pytest.raises(SchemaMismatch) as caught:
        bad.send(CREATED, created("o-1"))
    assert "nothing else" in caught.value.errors[0]["got"] + caught.value.message
    assert bad.root() == before
    assert bad.jobs.all == []


@pytest.mark.clause("K-02")
@pytest.mark.parametrize("answer", [{"effects": EFFECTS}, {"domain_events": []}, {"state": None}])
def test_any_other_field_is_a_bad_output(answer: dict[str, Any]) -> None:
    """MO-09: whatever stands beside the output is a fault of the pure function."""
    runner = PythonRunner({("m", "f"): lambda _given: {"output": 1, **answer}})
    found = runner.pure(rig_with({}).world.active.catalogue, "m", "f", canon.encode(1), None)
    assert isinstance(found, Halted)
    assert found.code == "bad_output"
