"""AT-14 bad-receipt-isolated (RL-04, I23): an unreadable receipt hurts its own cell only."""

from __future__ import annotations

from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import cell, cells, states
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.till import ROUTES, Till, receipt

BAD = ({"ref": 7}, {"other": "r"}, "text", [], {"ref": "r", "more": 1})


def run(bench: Bench) -> dict[str, Any]:  # tidy: one story
    """Seal what does not fit, for cells with and without a word for it, among neighbours."""
    neighbours = [f"n{number}" for number in range(bench["neighbours"])]
    with Place(bench.fresh("node"), ROUTES, planted=bench.planted) as place:
        place.start()
        till = Till(place)
        try:
            till.trust()
            till.bill(*neighbours)
            waiting = {job["intent"]: job for job in _all(till, len(neighbours))}
            before = states(place, "kit/bill@1")
            names = [f"bad{number}" for number in range(len(BAD))]
            statuses = []
            for kind in ("Bill", "Slip"):
                till.bill(*names, kind=kind)
                for job, value in zip(_all(till, len(BAD)), BAD, strict=True):
                    statuses.append(till.settle(job, receipt(job, value)))
            place.ran()
            with_word = [cell(place, "kit/bill@1", name) for name in names]
            without = [cell(place, "kit/slip@1", name) for name in names]
            after = {n: s for n, s in states(place, "kit/bill@1").items() if n in before}
            for job in waiting.values():
                assert till.settle(job, receipt(job)) == 202
        finally:
            till.close()
        settled = place.settled()
        heard = [
            state["heard"] for name, state in states(place, "kit/bill@1").items() if name in before
        ]
        failed = [row["key"] for row in cells(place, "kit/bill@1") if row["status"] == "failed"]
    return {
        "answers": statuses,
        "with_word": [shown["state"]["heard"] for shown in with_word],
        "without_word": sorted({shown["status"] for shown in without}),
        "neighbours": len(neighbours),
        "neighbours_same": before == after,
        "neighbours_heard": sum(said == ["r"] for said in heard),
        "settled": settled,
        "failed": failed,
    }


def _all(till: Till, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        came = till.lease(100, wait_ms=30_000)
        assert came, f"only {len(found)} of {count} jobs came"
        found += came
    return found


def faults(found: dict[str, Any]) -> list[str]:
    """A cell that did not hear, did not fail where it had no word, or a neighbour that noticed."""
    wrong = []
    if any(said != ["rejected"] for said in found["with_word"]):
        wrong.append(f"cells with a word heard {found['with_word']}")
    if found["without_word"] != ["failed"]:
        wrong.append(f"cells without a word are {found['without_word']}")
    if not found["neighbours_same"] or found["failed"]:
        wrong.append(f"neighbours noticed: {found['failed']}")
    if found["neighbours_heard"] != found["neighbours"] or not found["settled"]:
        wrong.append(f"{found['neighbours_heard']} of {found['neighbours']} neighbours went on")
    return wrong


CASE = Case(
    number="at-14",
    name="bad-receipt-isolated",
    rows="RL-04 I23",
    run=run,
    faults=faults,
    planted="payloads_not_read",
    suite="both",
    small={"neighbours": 100},
    full={"neighbours": 1000},
)
