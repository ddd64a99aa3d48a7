"""What happened in an execution, in the words of the net (07 section 10): a view of the journal.

The cell tells in the annotations of its ticks what it decided; intents, attempts, progress and
receipts say what its workers did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tallystick.model.frames import Sealed
from tallystick.model.records import (
    EffectAttempted,
    IntentOpened,
    ProgressNoted,
    ReceiptSettled,
    Record,
    Ticked,
)
from tallystick.playbooks.trace import events_of
from tallystick.values import canon
from tallystick.views.journal import entries, time_of

WORKFLOW: Final = "sys/playbook@1"
STEP: Final = "sys/playbook.step@1"
_OWN: Final = ("event", "step", "run", "token", "iteration")

Row = dict[str, Any]


class _Told:
    """Which run a step is of, and which unit an intent is of, as far as the frames have told."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.steps: dict[str, str] = {}
        self.units: dict[bytes, tuple[str, int | None]] = {}

    def rows(self, record: Record) -> Iterator[Row]:
        """The events that one record tells of."""
        match record:
            case Ticked() if record.workflow == WORKFLOW and record.key == self.key:
                yield from self._ticked(record)
            case IntentOpened() if record.effect == STEP and record.origin.key == self.key:
                params = canon.decode(record.params) if record.params is not None else {}
                self.units[record.intent] = (params.get("run", ""), params.get("iteration"))
                yield self._row("token.claimed", record.intent, 1)
            case EffectAttempted() if record.intent in self.units:
                payload = {"reason": record.reason}
                yield self._row("step.taken_over", record.intent, record.attempt, payload)
            case ProgressNoted() if record.intent in self.units:
                yield self._progress(record)
            case ReceiptSettled() if record.intent in self.units:
                yield from self._settled(record)
            case _:
                return

    def _ticked(self, record: Ticked) -> Iterator[Row]:
        if record.ann is None:
            return
        for event in events_of(record.ann):
            run = event.get("run")
            if run is not None and event.get("step") is not None:
                self.steps[run] = event["step"]
            rest = {key: value for key, value in event.items() if key not in _OWN}
            yield {
                "event_type": event["event"],
                "step": event.get("step", self.steps.get(run or "")),
                "run": run,
                "token": event.get("token"),
                "iteration": event.get("iteration"),
                "attempt": None,
                "payload": rest,
            }

    def _progress(self, record: ProgressNoted) -> Row:
        payload = canon.decode(record.payload)
        word = record.frame_kind
        if word == "task.attempt" and isinstance(payload, dict):
            word += ".done" if payload.get("status") == "ok" else ".failed"
        return self._row(word, record.intent, record.attempt, payload)

    def _settled(self, record: ReceiptSettled) -> Iterator[Row]:
        started = {"started_ns": record.started_ns}
        yield self._row("step.started", record.intent, record.attempt, started)
        told = canon.decode(record.payload) if record.payload is not None else {}
        for task in (told.get("tasks") or ()) if isinstance(told, Mapping) else ():
            word = "task.done" if task["status"] == "ok" else "task.failed"
            yield self._row(word, record.intent, record.attempt, task)

    def _row(self, word: str, intent: bytes, attempt: int, payload: Any = None) -> Row:
        run, iteration = self.units[intent]
        return {
            "event_type": word,
            "step": self.steps.get(run),
            "run": run,
            "token": None,
            "iteration": iteration,
            "attempt": attempt,
            "payload": payload or {},
        }


def execution_events(
    frames: Iterable[Sealed], name: str, after: int = 0, limit: int = 100
) -> dict[str, Any]:
    """The events of an execution behind a sequence; the frames begin where the execution does."""
    told = _Told(canon.encode(name))
    items: list[Row] = []
    at_ns: int | None = None
    for entry in entries(frames):
        at_ns = time_of(entry.record, at_ns)
        for i, row in enumerate(told.rows(entry.record)):
            if entry.seq > after:
                items.append({"seq": entry.seq, "i": i, "time": at_ns, **row})
        # A record is shown whole, so a page may be a little longer than was asked for.
        if len(items) >= limit:
            return {"items": items, "next": str(entry.seq)}
    return {"items": items, "next": None}
