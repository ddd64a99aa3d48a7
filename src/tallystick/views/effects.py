"""Effects as readers see them: open ones of the live world, settled ones from history.

A world holds open intents only; what settled stands in the journal.
So the list has two sources with one row: `effect_list` over the world, `Settlements` over frames.
The open list goes by intent, which is the order of its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected, UnknownName
from tallystick.kernel.fold_flows import QUEUED
from tallystick.kernel.parts import UNSENT, Intent, is_unsent
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed
from tallystick.model.records import (
    EffectAttempted,
    IntentDenied,
    IntentOpened,
    IntentReleased,
    ReceiptSettled,
    WorldForked,
    WorldRestored,
)
from tallystick.values import canon
from tallystick.views import pages, shown, waiting
from tallystick.views.journal import entries
from tallystick.views.pages import Page
from tallystick.views.waiting import Serving

OPEN: Final = "open"
PREFIX_MIN: Final = 8


class EffectFilter(NamedTuple):
    """Which effects a list shows; an empty filter shows all."""

    status: str | None = None
    effect: str | None = None
    held: bool | None = None
    cell: CellId | None = None

    def passes(self, row: dict[str, Any]) -> bool:
        """True when the row is wanted; a cell is compared as it is shown."""
        if self.status not in (None, row["status"]) or self.effect not in (None, row["effect"]):
            return False
        if self.held is not None and self.held != (row["hold"] is not None):
            return False
        if self.cell is None:
            return True
        key = shown.key_json(self.cell.key)
        return bool(row["workflow"] == self.cell.workflow and row["key"] == key)


def effect_list(
    world: World,
    page: Page | None = None,
    wanted: EffectFilter | None = None,
    serving: Serving | None = None,
) -> dict[str, Any]:
    """A page of open effects, each with the reason why it is still open."""
    page = (page or Page()).checked()
    wanted = wanted or EffectFilter()
    after = b"" if page.after is None else pages.digest_cursor(page.after)
    items: list[dict[str, Any]] = []
    for looked, (path, intent) in enumerate(world.intents.entries(after)):
        if len(items) == page.limit or looked == page.looked_max:
            return pages.listed(items, after.hex(), world.seq)
        after = path
        row = open_row(intent, waiting.why(intent, serving).code)
        if wanted.passes(row):
            items.append(row)
    return pages.listed(items, None, world.seq)


def open_row(intent: Intent, why: str) -> dict[str, Any]:
    """An open intent as a row of the list."""
    record = intent.record
    return {
        "intent": canon.text_of(record.intent),
        "effect": record.effect,
        "workflow": record.origin.workflow,
        "key": shown.key_json(record.origin.key),
        "status": OPEN,
        "hold": shown.json_of(intent.hold),
        "opened_seq": intent.seq,
        "settled_seq": None,
        "attempts": intent.attempt,
        "why": why,
    }


# ---- finding one ----------------------------------------------------------------------------


def open_intent(world: World, text: str) -> Intent:
    """An open intent by its hash, or by 8 or more hex digits that it alone begins with."""
    given = text.removeprefix("sha256:")
    low = _lowest(given)
    for path, intent in world.intents.entries(low):
        if path.hex().startswith(given):
            following = next(iter(world.intents.entries(path)), None)
            if following is not None and following[0].hex().startswith(given):
                raise _refused(text, "more than one open intent begins so", "intent.ambiguous")
            return intent
        break
    raise UnknownName(
        "no open intent begins so",
        code="intent.unknown",
        where={"intent": text[:80]},
        hint="list the effects; a settled one is in the journal",
    )


def _lowest(given: str) -> bytes:
    """The path just before all that begin with these digits."""
    if not PREFIX_MIN <= len(given) <= 64 or not set(given) <= set("0123456789abcdef"):
        raise _refused(given, "an intent is named by 8 to 64 hex digits", "intent.bad_name")
    number = int(given.ljust(64, "0"), 16)
    return (number - 1).to_bytes(32, "big") if number else b""


def _refused(text: str, message: str, code: str) -> Rejected:
    return Rejected(message, code=code, where={"intent": text[:80]}, hint="give more digits")


# ---- from history ---------------------------------------------------------------------------


class Halves:
    """Both halves of one effect as frames give them: the asking, and the receipt."""

    __slots__ = ("asked", "asked_seq", "attempts", "hold", "receipt", "receipt_seq")

    def __init__(self, asked: IntentOpened | IntentDenied, seq: int) -> None:
        self.asked = asked
        self.asked_seq = seq
        self.attempts = 1 if isinstance(asked, IntentOpened) else 0
        self.hold: Any = asked.hold if isinstance(asked, IntentOpened) else None
        self.receipt: ReceiptSettled | None = None
        self.receipt_seq: int | None = None

    def row(self) -> dict[str, Any]:
        """The effect as a row of the list."""
        receipt = self.receipt
        origin = self.asked.origin
        return {
            "intent": canon.text_of(self.asked.intent),
            "effect": self.asked.effect,
            "workflow": origin.workflow,
            "key": shown.key_json(origin.key),
            "status": OPEN if receipt is None else receipt.status,
            "hold": shown.json_of(self.hold),
            "opened_seq": self.asked_seq,
            "settled_seq": self.receipt_seq,
            "attempts": self.attempts,
            "why": None if receipt is None else receipt.outcome,
        }


def _next_hold(record: IntentReleased, seq: int) -> dict[str, Any] | None:
    """What holds an effect behind a release: nothing, or the queue that it went on to."""
    if record.cause != QUEUED:
        return None
    return {"kind": "capacity", "since_seq": seq, "detail": {}}


class Settlements:
    """Folds frames to the effects in them; only those opened within the frames are known.

    A denial frees its key, so one intent may be denied more than once: the last asking counts.
    """

    def __init__(self) -> None:
        self.known: dict[bytes, Halves] = {}

    # tidy: one case for each record that moves an effect.
    def read(self, frames: Iterable[Sealed]) -> Settlements:
        """Take in frames; gives itself."""
        known = self.known
        for seq, _, record in entries(frames):
            match record:
                case IntentOpened() | IntentDenied():
                    known[record.intent] = Halves(record, seq)
                case EffectAttempted() if record.intent in known:
                    known[record.intent].attempts = record.attempt
                case IntentReleased() if record.intent in known:
                    known[record.intent].hold = _next_hold(record, seq)
                case ReceiptSettled() if record.intent in known:
                    known[record.intent].receipt = record
                    known[record.intent].receipt_seq = seq
                    known[record.intent].hold = None
                case WorldForked():
                    self._hold("fork", record.pending, seq)
                case WorldRestored():
                    self._hold("restore", {"*": "suspend"}, seq)
                case _:
                    pass
        return self

    def _hold(self, kind: str, modes: dict[str, Any], seq: int) -> None:
        for halves in self.known.values():
            mode = modes.get(halves.asked.effect, modes["*"])
            asked = halves.hold is not None and halves.hold["kind"] == "approval"
            if halves.receipt is None and mode == "suspend" and not asked:
                detail = dict(UNSENT) if is_unsent(halves.hold) else None
                halves.hold = {"kind": kind, "since_seq": seq, "detail": detail}

    def rows(self, wanted: EffectFilter | None = None) -> Iterator[dict[str, Any]]:
        """Rows in the order in which the effects were asked for."""
        wanted = wanted or EffectFilter()
        for halves in sorted(self.known.values(), key=_asked_seq):
            row = halves.row()
            if wanted.passes(row):
                yield row


def _asked_seq(halves: Halves) -> int:
    return halves.asked_seq


def effect_history(
    frames: Iterable[Sealed], page: Page, wanted: EffectFilter, as_of: int
) -> dict[str, Any]:
    """A page of the effects asked for in these frames, in that order, settled ones included."""
    page.checked()
    last = 0 if page.after is None else pages.number_cursor(page.after)
    items: list[dict[str, Any]] = []
    for row in Settlements().read(frames).rows(wanted):
        if row["opened_seq"] <= last:
            continue
        if len(items) == page.limit:
            return pages.listed(items, str(items[-1]["opened_seq"]), as_of)
        items.append(row)
    return pages.listed(items, None, as_of)


# ---- one effect -----------------------------------------------------------------------------


def effect_show(
    asked: IntentOpened | IntentDenied, row: dict[str, Any], receipt: ReceiptSettled | None
) -> dict[str, Any]:
    """Both halves of one effect: its row, what was asked, how it was judged, what came back."""
    return {
        **row,
        "executor": getattr(asked, "executor", None),
        "effect_hash": None if asked.effect_hash is None else canon.text_of(asked.effect_hash),
        "timeout_at_ns": getattr(asked, "timeout_at_ns", None),
        "issuer_ref": asked.issuer_ref,
        "asked": shown.record_json(asked),
        "judged": waiting.trail(asked),
        "receipt": None if receipt is None else shown.record_json(receipt),
    }


def open_show(world: World, intent: Intent, serving: Serving | None = None) -> dict[str, Any]:
    """An open effect whole, from the live world."""
    reason = waiting.why(intent, serving)
    found = effect_show(intent.record, open_row(intent, reason.code), None)
    found["drops"] = dict(sorted(world.drops.get(intent.record.intent, {}).items()))
    found["progress"] = intent.progress
    found["as_of"] = world.seq
    return found
