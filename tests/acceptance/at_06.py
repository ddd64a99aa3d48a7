"""AT-06 intent-settles-once (ND-12, I3): executors that repeat, lose and come late settle once."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import states
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import ROUTES, Job, Till, receipt

LEASE_MS = 300
MANNERS = ("good", "good", "good", "twice", "lost", "late")


def run(bench: Bench) -> dict[str, Any]:
    """Bills for a till that answers well, twice, never, or after another has answered."""
    with Place(bench.fresh("node"), ROUTES, planted=bench.planted) as place:
        place.start()
        till = Till(place)
        try:
            till.trust()
            names = [f"b{number}" for number in range(bench["intents"])]
            till.bill(*names)
            manners = _serve(bench, till, len(names))
        finally:
            till.close()
        settled = place.settled()
        receipts = Counter(row["intent"] for row in place.rows("receipt"))
        heard = Counter(len(state["heard"]) for state in states(place, "kit/bill@1").values())
    return {
        "intents": len(names),
        "settled": settled,
        "receipts": sum(receipts.values()),
        "settled_otherwise_than_once": sum(times != 1 for times in receipts.values()),
        "heard": dict(sorted(heard.items())),
        "manners": dict(sorted(manners.items())),
    }


def _serve(bench: Bench, till: Till, wanted: int) -> Counter[str]:
    """Serve until every bill has been answered once; the late answers come last."""
    manners: Counter[str] = Counter()
    late: list[tuple[Job, dict[str, Any]]] = []
    done: set[str] = set()
    until = time.monotonic() + bench["limit_s"]
    while len(done) < wanted and time.monotonic() < until:
        for job in till.lease(lease_ms=LEASE_MS):
            # The second try is answered, so that none is lost for ever.
            manner = bench.random.choice(MANNERS) if job["attempt"] == 1 else "again"
            manners[manner] += 1
            body = receipt(job, {"ref": f"{manner} {job['attempt']}"})
            if manner == "late":
                late.append((job, body))
            if manner in ("late", "lost"):
                continue
            if till.settle(job, body) == 202:
                done.add(job["intent"])
            if manner == "twice":
                till.bring(body)
    for _, body in late:
        manners[f"late answered {till.bring(body)[0]}"] += 1
    return manners


def faults(found: dict[str, Any]) -> list[str]:
    """An intent with no receipt or more than one, or a cell that heard otherwise than once."""
    wrong = []
    if not found["settled"] or found["receipts"] != found["intents"]:
        wrong.append(f"{found['receipts']} receipts for {found['intents']} intents")
    if found["settled_otherwise_than_once"]:
        wrong.append(f"{found['settled_otherwise_than_once']} settled otherwise than once")
    if found["heard"] != {1: found["intents"]}:
        wrong.append(f"cells heard {found['heard']}")
    if not {"twice", "lost", "late", "again"} <= set(found["manners"]):
        wrong.append("the till was too good to show anything")
    return wrong


CASE = Case(
    number="at-06",
    name="intent-settles-once",
    rows="ND-12 I3 I24",
    run=run,
    faults=faults,
    planted="duplicate_receipt_settles_twice",
    small={"intents": 80, "limit_s": 60},
    full={"intents": 10_000, "limit_s": 900},
)
