"""AT-09 undeclared-effect-denied (RL-12, I6): what is not allowed is a receipt, not a call."""

from __future__ import annotations

from typing import Any

from tests.acceptance.case import Bench, Case
from tests.acceptance.kit.cells import cell
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import start_sink

EXPECTED = {
    "undeclared": "effect.undeclared",
    "ungranted": "cap.unbound",
    "forbidden": "policy.denied",
    "misshapen": "effect.params_invalid",
}


def run(bench: Bench) -> dict[str, Any]:
    """Ask for what each stage refuses, many times, and once for what is allowed."""
    sink = start_sink(bench.fresh("sink"))
    with Place(bench.fresh("node"), planted=bench.planted) as place:
        try:
            place.start()
            wanted = {
                f"{what}-{number}": what for what in EXPECTED for number in range(bench["each"])
            }
            for name, what in {**wanted, "good": "good"}.items():
                body = {"schema": "kit/Try@1", "value": {"id": name, "what": what, "url": sink.url}}
                status, said = place.ask("POST", "/v1/worlds/main/events", body)
                assert status == 202, said
            settled = place.settled()
            codes = {name: cell(place, "kit/trier@1", name)["state"]["codes"] for name in wanted}
            trails = _trails(place)
            calls = [call.body for call in sink.calls()]
        finally:
            sink.close()
    return {
        "asked": len(wanted),
        "settled": settled,
        "otherwise": {n: c for n, c in codes.items() if c != [EXPECTED[wanted[n]]]},
        "without_trail": [trail for trail in trails if not trail["judged"]],
        "denied": len(trails),
        "sink": calls,
    }


def _trails(place: Place) -> list[dict[str, Any]]:
    """What the journal says of each denial."""
    rows = [row["record"] for row in place.rows("denied")]
    return [{"code": row["code"], "stage": row["stage"], "judged": row["judged"]} for row in rows]


def faults(found: dict[str, Any]) -> list[str]:
    """A request that was not refused with its code, or a call that should not have been."""
    wrong = []
    if found["otherwise"]:
        wrong.append(f"answered otherwise: {dict(list(found['otherwise'].items())[:3])}")
    if found["denied"] != found["asked"] or found["without_trail"]:
        wrong.append(f"{found['denied']} denials of {found['asked']} are in the journal")
    if found["sink"] != ["control"]:
        wrong.append(f"the sink heard {found['sink'][:5]}, not the one call that is allowed")
    return wrong


CASE = Case(
    number="at-09",
    name="undeclared-effect-denied",
    rows="RL-12 I6",
    run=run,
    faults=faults,
    planted="policy_always_allows",
    suite="both",
    small={"each": 3},
    full={"each": 250},
)
