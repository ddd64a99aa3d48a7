"""What a tick is told: the short ways say the same as the documents (ADR 0021)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.model.abi import Content, Halted, Ran, TickInput
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.modules.python import PythonRunner
from tallystick.values import canon
from tests import worlds
from tests.rig import Rig

CONTEXT = {"context": "sys/WorkflowContext@1"}


class Noting:
    """A runner that looks at each delivery by every way before it runs it."""

    def __init__(self, functions: Any) -> None:
        self._plain = PythonRunner(functions)
        self.init = self._plain.init
        self.seen: list[tuple[dict[str, Any], Any, Any]] = []

    def tick(
        self, catalogue: Catalogue, workflow: Workflow, tick: TickInput, content: Content | None
    ) -> Ran | Halted:
        assert tick.ctx is not None
        whole = canon.decode(tick.ctx.document())
        short = (tick.ctx.now_ns, tick.ctx.world, tick.ctx.entropy(), tick.ctx.lot())
        self.seen.append((whole, short, (tick.event.plain(), tick.event.receipt())))
        return self._plain.tick(catalogue, workflow, tick, content)


def noted(orders: int) -> Noting:
    """Orders from their event to their end, each delivery noted."""
    documents = worlds.order_documents()
    for document in documents:
        if document.get("$kind") == "defworkflow":
            document.update(CONTEXT)
    rig = Rig(documents, worlds.FUNCTIONS)
    runner = rig.world.runner = Noting(worlds.FUNCTIONS)
    for number in range(orders):
        rig.send(worlds.CREATED, worlds.created(f"o-{number}"))
    for job in rig.jobs.of(worlds.CHARGE):
        rig.settle(job, {"ref": "paid"})
        rig.run()
    return runner


@pytest.mark.clause("K-28")
def test_the_short_ways_say_what_the_documents_say() -> None:
    """KN-23: time, world and chance by themselves are those of the whole context."""
    seen = noted(3).seen
    assert len(seen) == 6
    for whole, (now_ns, world, entropy, lot), _ in seen:
        assert whole["logical_now_ns"] == now_ns
        assert whole["world"] == world
        assert whole["entropy"] == entropy
        assert 0 <= lot < 256
    assert len({short for _, short, _ in seen}) == 6


@pytest.mark.clause("K-28", "K-13")
def test_a_receipt_without_its_envelope_is_the_same_receipt() -> None:
    """KN-23: what a reducer sees of a receipt stands in its envelope, and only receipts have it."""
    events = [told for _, _, told in noted(2).seen]
    for plain, came in events[:2]:
        assert came is None, plain
    for plain, came in events[2:]:
        value = plain["$value"]
        assert came.effect == value["effect"]
        assert came.status == value["status"]["$tag"]
        assert came.payload == value["receipt_payload"]
        assert came.issuer_ref == value["issuer_ref"]
        assert canon.text_of(came.intent) == value["intent_hash"]


def test_the_sample_is_the_same_for_the_same_history() -> None:
    """AU-14: which ticks run twice is a function of the journal, and spread over its places."""
    lots = [short[3] for _, short, _ in noted(40).seen]
    assert lots == [short[3] for _, short, _ in noted(40).seen]
    assert len(set(lots)) > 40
