"""The audit: the ledger of answers and the log of the sink held against the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tests.acceptance.kit.load import Ack
from tests.acceptance.kit.place import Place
from tests.acceptance.kit.sink import Call


def events(place: Place) -> Counter[str]:
    """How often each order stands in the journal."""
    return Counter(order["id"] for order in _orders(place))


def _orders(place: Place) -> Iterator[dict[str, Any]]:
    """The orders of the journal, one for each time they stand there."""
    for row in place.rows("event"):
        if row["record"]["schema"] == "kit/Order@1":
            yield row["record"]["value"]


def accepted(acks: Iterable[Ack]) -> list[str]:
    """The orders that were answered with "accepted"."""
    return sorted({ack.order for ack in acks if ack.status in (200, 202)})


def audit(place: Place, acks: list[Ack], calls: list[Call]) -> dict[str, Any]:
    """What an outside ledger and the journal say of each other.

    `lost` were acknowledged and are not there, `doubled` are there more than once; every intent
    has one receipt, and the outside was called under one key for each order.
    """
    orders = [(order["id"], _is_called(order)) for order in _orders(place)]
    there = Counter(name for name, _ in orders)
    known = accepted(acks)
    told = [(r["record"]["record"], r["intent"]) for r in place.rows("intent")]
    intents = [intent for kind, intent in told if kind == "IntentOpened"]
    receipts = Counter(row["intent"] for row in place.rows("receipt"))
    keys: dict[str, set[str]] = {}
    for call in calls:
        keys.setdefault(call.order, set()).add(call.key)
    odd = [row for row in intents if receipts[row] != 1]
    return {
        "acked": len(known),
        "recorded": sum(there.values()),
        "lost": [order for order in known if not there[order]],
        "doubled": [order for order, times in there.items() if times > 1],
        "intents": len(intents),
        "not_settled_once": len(odd),
        "attempts_again": sum(kind == "EffectAttempted" for kind, _ in told),
        "calls": len(calls),
        "called_without_record": sorted(order for order in keys if not there[order]),
        "more_than_one_key": sorted(order for order, seen in keys.items() if len(seen) > 1),
        "not_called": sum(called and name not in keys for name, called in orders),
    }


def _is_called(order: dict[str, Any]) -> bool:
    """True for an order whose amount is odd and due now: the sink hears of it."""
    return order["cents"] % 2 == 1 and order["due_ns"] is None


def sound(found: dict[str, Any]) -> bool:
    """True when nothing was lost, doubled, called unasked, or settled other than once."""
    bad = ("lost", "doubled", "called_without_record", "more_than_one_key")
    return not any(found[name] for name in bad) and not (
        found["not_settled_once"] or found["not_called"]
    )
