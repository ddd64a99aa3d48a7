"""Levels: how full each flow is, and who waits for room (06 section 4).

One object is part of the world and changed by `fold` alone; a decision works on an overlay of it,
so that later effects of one frame see earlier ones.
A world without flows has empty levels, which cost nothing and leave its root as it was.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.authority.flow import Flow
from tallystick.model.records import Origin

Claims = Sequence[Mapping[str, Any]]
# No limit is higher, so what is counted beyond makes no difference; and a root can say it.
_SPENT_MAX: Final = 2**63 - 1


class Waiting(NamedTuple):
    """A held intent in its place: the order of asking."""

    tick_seq: int
    index: int  # type: ignore[assignment]  # the ABI's word; tuple.index is not used
    intent: bytes


class Levels:
    """Open and queued counts and arrival times by place, budgets, and who waits in which order."""

    __slots__ = ("base", "budgets", "open", "queue", "queued", "tats")

    def __init__(self, base: Levels | None = None) -> None:
        self.base: Levels | None = base
        assert base is None or base.base is None, "a decision stands over the world, not another"
        self.open: dict[str, int] = {}
        self.queued: dict[str, int] = {}
        self.tats: dict[str, int] = {}
        self.budgets: dict[str, tuple[int, int, int]] = {}  # window, spent, reserved
        self.queue: list[Waiting] = [] if base is None else list(base.queue)

    def find(self, table: str, name: str, default: Any) -> Any:
        """An entry of a table, of the overlay or of what lies under it."""
        found = getattr(self, table).get(name)
        if found is not None:
            return found
        return default if self.base is None else self.base.find(table, name, default)

    def open_at(self, place: str) -> int:
        """How many are out at a place."""
        found = self.open.get(place)
        if found is None:
            return 0 if self.base is None else self.base.open_at(place)
        return found

    def queued_at(self, place: str) -> int:
        """How many wait at a place."""
        found = self.queued.get(place)
        if found is None:
            return 0 if self.base is None else self.base.queued_at(place)
        return found

    def tat_at(self, place: str) -> int:
        """The theoretical arrival time at a place; 0 when nothing came lately."""
        found = self.tats.get(place)
        if found is None:
            return 0 if self.base is None else self.base.tat_at(place)
        return found

    def budget_at(self, name: str, window: int) -> tuple[int, int]:
        """What of a budget is spent in a window, and what is reserved."""
        held, spent, reserved = self.find("budgets", name, (window, 0, 0))
        return (spent if held == window else 0), reserved

    # ---- changes ----------------------------------------------------------------------------

    def enter(self, claims: Claims, origin: Origin, flows: Mapping[str, Flow], now_ns: int) -> None:
        """An intent goes out: it counts at every place, and the rate moves on."""
        self._count(claims, origin, 1)
        for claim in claims:
            flow = flows.get(claim["flow"])
            if flow is not None and flow.gap_ns is not None:
                at = place_of(claim)
                self.tats[at] = max(self.tat_at(at), now_ns) + flow.gap_ns

    def leave(self, claims: Claims, origin: Origin) -> None:
        """An intent that was out is settled."""
        self._count(claims, origin, -1)

    def _count(self, claims: Claims, origin: Origin, by: int) -> None:
        """Count at every place of every claim."""
        own = self.open
        under = own if self.base is None else self.base.open
        ends = ends_of(origin)
        for claim in claims:
            name = claim["flow"]
            places = [name + end for end in ends]
            if "key" in claim:
                places.append(f"{name} key {claim['key']}")
            for place in places:
                found = own.get(place)
                count = (under.get(place, 0) if found is None else found) + by
                if count or own is not under:  # an overlay says 0 over what lies under it
                    own[place] = count
                else:
                    own.pop(place, None)  # or every cell that ever asked would be remembered

    def wait(self, claims: Claims, who: Waiting) -> None:
        """An intent waits for room."""
        insort(self.queue, who)
        self._queue(claims, 1)

    def unwait(self, claims: Claims, who: Waiting) -> None:
        """An intent waits no longer."""
        at = bisect_left(self.queue, who)
        assert self.queue[at] == who, "what waited stands in the queue"
        del self.queue[at]
        self._queue(claims, -1)

    def _queue(self, claims: Claims, by: int) -> None:
        for claim in claims:
            place = place_of(claim)
            count = self.queued_at(place) + by
            if count or self.base is not None:
                self.queued[place] = count
            else:
                self.queued.pop(place, None)

    def forget(self, now_ns: int) -> None:
        """Let go of arrival times that have passed: nothing came lately where they stood."""
        self.tats = {place: tat for place, tat in self.tats.items() if tat > now_ns}

    def reserve(self, claims: Claims) -> None:
        """Set aside the cost of an intent that opens."""
        for claim in claims:
            if "budget" in claim:
                name, window = claim["budget"], claim["window"]
                spent, reserved = self.budget_at(name, window)
                self.budgets[name] = (window, spent, reserved + claim["cost"])

    def spend(self, claims: Claims, usage: Mapping[str, int] | None, *, out: bool) -> None:
        """Settle what was set aside: to what was used, to all of it, or to nothing."""
        for claim in claims:
            if "budget" in claim:
                window, spent, reserved = self.find("budgets", claim["budget"], (0, 0, 0))
                used = (usage or {}).get(claim["unit"])
                paid = (claim["cost"] if used is None else used) if out else 0
                after = min(spent + paid, _SPENT_MAX)
                self.budgets[claim["budget"]] = (window, after, reserved - claim["cost"])

    # ---- the whole --------------------------------------------------------------------------

    def value(self, now_ns: int) -> dict[str, Any]:
        """Everything that counts, as one value for the root and the snapshot; empty when it is."""
        assert self.base is None, "only the levels of a world are kept"
        tables = {
            "open": {place: count for place, count in self.open.items() if count},
            "queued": {place: count for place, count in self.queued.items() if count},
            "tats": {place: tat for place, tat in self.tats.items() if tat > now_ns},
            "budgets": {name: list(row) for name, row in self.budgets.items()},
            "queue": [list(who) for who in self.queue],
        }
        return {name: table for name, table in tables.items() if table}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Levels:
        """The levels behind a value."""
        made = cls()
        made.open = dict(value.get("open", {}))
        made.queued = dict(value.get("queued", {}))
        made.tats = dict(value.get("tats", {}))
        made.budgets = {name: tuple(row) for name, row in value.get("budgets", {}).items()}
        made.queue = [Waiting(*row) for row in value.get("queue", ())]
        return made


def place_of(claim: Mapping[str, Any]) -> str:
    """Where a claim's rate and queue are: at its key, or at the flow."""
    key = claim.get("key")
    name: str = claim["flow"]
    return name if key is None else f"{name} key {key}"


def ends_of(origin: Origin) -> tuple[str, str, str]:
    """How the places of a request end, after the name of a flow: world, workflow, cell."""
    workflow = origin.workflow
    return " world", f" workflow {workflow}", f" cell {workflow} {origin.key.hex()}"
