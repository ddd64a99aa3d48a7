"""AT-07 no-cross-delivery (RL-03, I4): a receipt reaches the cell that asked, and no other."""

from __future__ import annotations

from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import states
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import ROUTES, Till, receipt


def run(bench: Bench) -> dict[str, Any]:
    """Many bills of one amount; receipts come in another order and name other bills."""
    names = [f"b{number}" for number in range(bench["bills"])]
    with Place(bench.fresh("node"), ROUTES, planted=bench.planted) as place:
        place.start()
        till = Till(place)
        try:
            till.trust()
            till.bill(*names)
            asked = _shuffled(bench, till, names)
        finally:
            till.close()
        settled = place.settled()
        owners = {
            row["intent"]: row["record"]["origin"]["key"]
            for row in place.rows("intent")
            if row["record"]["record"] == "IntentOpened"
        }
        heard = {key: state["heard"] for key, state in states(place, "kit/bill@1").items()}
    own = {owner: intent for intent, owner in owners.items()}
    foreign = [name for name in names if [said.split()[0] for said in heard[name]] != [own[name]]]
    return {
        "bills": len(names),
        "settled": settled,
        "asked": asked,
        "foreign": len(foreign),
        "first": foreign[:3],
    }


def _shuffled(bench: Bench, till: Till, names: list[str]) -> int:
    """Take every job first, then answer in another order, each body naming another bill."""
    jobs = []
    while len(jobs) < len(names):
        found = till.lease(100, lease_ms=900_000, wait_ms=30_000)
        assert found, f"only {len(jobs)} of {len(names)} jobs came"
        jobs += found
    bench.random.shuffle(jobs)
    for job in jobs:
        value = {"ref": f"{job['intent']} for {bench.random.choice(names)}"}
        assert till.settle(job, receipt(job, value)) == 202
    return len(jobs)


def faults(found: dict[str, Any]) -> list[str]:
    """A cell that heard of an intent that is not its own, or not once of its own."""
    wrong = []
    if found["foreign"]:
        wrong.append(f"{found['foreign']} cells heard otherwise: {found['first']}")
    if not found["settled"] or found["asked"] != found["bills"]:
        wrong.append("not every bill was answered")
    return wrong


CASE = Case(
    number="at-07",
    name="no-cross-delivery",
    rows="RL-03 I4 I12",
    run=run,
    faults=faults,
    planted="receipt_routed_by_table",
    suite="both",
    small={"bills": 60},
    full={"bills": 5000},
)
