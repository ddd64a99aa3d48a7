"""The judge of approvals, flows, budgets, proposals and attempts: plain dicts, from records alone.

It has read 06 sections 3, 4, 6 and 8 and shares no code with the product: who may decide, who has
room, what is left of a budget and what may be applied is worked out here once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallystick.testing import program_rules as program
from tallystick.testing.violation import must

Asked = dict[str, Any]


class Judge:
    """What is open, held and spent, and how far each proposal is."""

    def __init__(self) -> None:
        self.logical = 0
        self.open: dict[bytes, Asked] = {}
        self.attempts: dict[bytes, int] = {}
        self.fresh: list[bytes] = []  # what this frame has opened
        self.spent = self.reserved = self.tat = 0
        self.manifest = b""
        self.proposals: dict[str, dict[str, Any]] = {}

    def frame(self, seq: int, records: Sequence[Any]) -> None:
        """Take one frame; raises Violation."""
        del seq
        first = records[0]
        self.fresh = [r.intent for r in records if type(r).__name__ == "IntentOpened"]
        stamp = getattr(first, "stamp", None)
        self.logical = self.logical + 1 if stamp is None else stamp.logical_ns
        for record in records:
            take = getattr(self, "_" + type(record).__name__, None)
            if take is not None:
                take(record)
        if type(first).__name__ != "SnapshotTaken":
            late = [a for a in self._queue() if self._has_room(a)]
            must(not late, "I3", "something waits although it has room")

    # ---- room -------------------------------------------------------------------------------

    def _out(self, effect: str) -> list[Asked]:
        return [a for a in self.open.values() if a["effect"] == effect and a["hold"] is None]

    def _queue(self) -> list[Asked]:
        """What waits for room, in the order of asking."""
        waits = [a for a in self.open.values() if a["hold"] == "capacity"]
        return sorted(waits, key=lambda a: a["at"])

    def _has_room(self, asked: Asked) -> bool:
        effect = asked["effect"]
        if effect == program.CALL:
            out = self._out(effect)
            mine = [a for a in out if a["cell"] == asked["cell"]]
            return len(out) < program.OPEN_WORLD and len(mine) < program.OPEN_CELL
        return effect != program.PACED or self.logical >= self.due()

    def due(self) -> int:
        """When the next paced request may go out."""
        return self.tat - (program.BURST - 1) * program.GAP_NS

    def _goes(self, asked: Asked) -> None:
        asked["hold"] = None
        if asked["effect"] == program.PACED:
            self.tat = max(self.tat, self.logical) + program.GAP_NS

    # ---- asking -----------------------------------------------------------------------------

    def _IntentOpened(self, record: Any) -> None:  # noqa: N802 - named by the record
        origin, effect = record.origin, record.effect
        hold = None if record.hold is None else record.hold["kind"]
        asked: Asked = {"effect": effect, "cell": origin.key, "at": (origin.tick_seq, origin.index)}
        asked |= {"hold": hold, "votes": [], "expires": None, "cost": 0, "rejected": False}
        if effect == program.PAY:
            must(hold == "approval", "I6", "a payment was opened without asking anybody")
            asked["expires"] = self.logical + program.TTL_NS
            said = (record.hold or {})["detail"]["expires_ns"]
            must(said == asked["expires"], "I25", "the time to decide is another")
        elif effect in (program.CALL, program.PACED):
            room = self._has_room(asked)
            must(room == (hold is None), "I6", f"{effect}: room {room}, hold {hold}")
            waits = [a for a in self._queue() if a["effect"] == effect]
            must(room or len(waits) < program.QUEUE_MAX, "I42", "more wait than may")
        else:
            must(hold is None, "I6", f"{effect} waits for {hold}")
        if effect == program.SPEND:
            asked["cost"] = program.cost_of(record.params)
            must(asked["cost"] <= self._free(), "I6", "opened beyond the budget")
            self.reserved += asked["cost"]
        if hold is None:
            self._goes(asked)
        self.open[record.intent] = asked
        self.attempts[record.intent] = 1

    def _free(self) -> int:
        return program.LIMIT - self.spent - self.reserved

    def _IntentDenied(self, record: Any) -> None:  # noqa: N802
        effect = record.effect
        if record.code == "flow.budget_exhausted":
            poor = program.cost_of(record.params) > self._free()
            must(effect == program.SPEND and poor, "I6", "denied although the purse has enough")
        elif record.code == "flow.queue_full":
            waits = [a for a in self._queue() if a["effect"] == effect]
            must(len(waits) == program.QUEUE_MAX, "I6", "denied although there was a place")
        else:
            must(False, "I6", f"{effect} was denied: {record.code}")

    # ---- deciding ---------------------------------------------------------------------------

    def _IntentApproval(self, record: Any) -> None:  # noqa: N802
        asked = self.open.get(record.intent)
        must(asked is not None and asked["hold"] == "approval", "I6", "nothing to decide about")
        assert asked is not None, "looked at above"
        must(record.principal in program.BOSSES, "I6", f"{record.principal} may not decide")
        must(record.principal not in asked["votes"], "I6", "one voted twice")
        must(self.logical < asked["expires"], "I25", "decided after the time was over")
        asked["votes"].append(record.principal)
        asked["rejected"] = record.decision == "reject"

    def _IntentReleased(self, record: Any) -> None:  # noqa: N802
        asked = self.open[record.intent]
        if record.cause == "approved":
            good = len(asked["votes"]) >= program.NEEDED and not asked["rejected"]
            must(good, "I6", f"released with {len(asked['votes'])} votes")
        else:
            first = next((a for a in self._queue() if self._has_room(a)), None)
            must(first is asked, "I18", "another one was next to go")
        self._goes(asked)

    def _EffectAttempted(self, record: Any) -> None:  # noqa: N802
        must(record.attempt == self.attempts[record.intent] + 1, "I22", "an attempt was skipped")
        self.attempts[record.intent] = record.attempt

    def _ReceiptSettled(self, record: Any) -> None:  # noqa: N802
        asked = self.open.pop(record.intent, None)
        if asked is None:
            return  # of a request that was denied and never opened
        if record.source == "executor":
            must(asked["hold"] is None, "I6", "a receipt for what was never let out")
            must(record.attempt == self.attempts[record.intent], "I22", "of another attempt")
        if record.status == "denied":
            self._denied(asked, record.error["code"])
        if asked["cost"]:
            cost: int = asked["cost"]
            usage: Mapping[str, int] = record.usage or {}
            self.reserved -= cost
            left = record.status != "cancelled" or record.intent not in self.fresh
            self.spent += usage.get("tokens", cost) if asked["hold"] is None and left else 0

    def _denied(self, asked: Asked, code: str) -> None:
        if code == "policy.approval_rejected":
            must(asked["rejected"], "I6", "denied, and nobody said no")
        else:
            must(code == "policy.approval_expired", "I6", f"denied: {code}")
            over = asked["hold"] == "approval" and asked["expires"] <= self.logical
            must(over, "I25", "expired before its time")

    # ---- proposals --------------------------------------------------------------------------

    def _Proposed(self, record: Any) -> None:  # noqa: N802
        must(record.base == self.manifest, "I8", "proposed for another base")
        fresh = {"base": record.base, "report": None, "votes": [], "end": None}
        self.proposals[record.proposal] = {**fresh, "manifest": record.manifest}

    def _Shadowed(self, record: Any) -> None:  # noqa: N802
        known = self.proposals[record.proposal]
        must((record.voided or []) == known["votes"], "I8", "other votes were voided")
        known |= {"report": record.report_hash if record.complete else None, "votes": []}

    def _Approved(self, record: Any) -> None:  # noqa: N802
        known = self.proposals[record.proposal]
        must(record.principal in program.BOSSES, "I8", f"{record.principal} may not approve")
        good = known["report"] is not None and record.report_hash == known["report"]
        must(good and known["end"] is None, "I8", "approved without the newest report")
        known["votes"].append(record.principal)

    def _Rejected(self, record: Any) -> None:  # noqa: N802
        self.proposals[record.proposal]["end"] = "rejected"

    def _BundleActivate(self, record: Any) -> None:  # noqa: N802
        if record.proposal is not None:
            known = self.proposals[record.proposal]
            must(known["base"] == self.manifest, "I8", "applied on another base")
            must(known["end"] is None and bool(known["votes"]), "I8", "applied without a yes")
            must(record.to == known["manifest"], "I8", "another bundle was applied")
            must(not self.open, "I8", f"applied with {len(self.open)} intents open")
            known["end"] = "applied"
        self.manifest = record.to
