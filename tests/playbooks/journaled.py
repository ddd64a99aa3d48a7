"""What the journal alone says of an execution: the token equation, and one end (07 section 7).

Nothing of the runtime is asked: the notes of ticks are counted, and compared with the states that
stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallystick.kernel.index import Blobs
from tallystick.model.records import IntentOpened, ReceiptSettled, Record, Ticked
from tallystick.playbooks.bundle import WORKFLOW
from tallystick.playbooks.trace import events_of
from tallystick.values import canon

CLOCKS = ("deadline", "wake")
GONE = ("consumed", "absorbed", "discarded")


class Told:
    """One execution as its records tell it, tick by tick."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self.live: dict[str, str] = {}
        self.counts = dict.fromkeys(("created", *GONE), 0)
        self.open: dict[bytes, str] = {}
        self.finished: list[str] = []
        self.final: list[str] = []
        self.ticks = 0
        self.last = b""

    def take(self, record: Record) -> None:
        """One record of this execution's cell; refuses what the rules of tokens do not allow."""
        if isinstance(record, IntentOpened):
            self.open[record.intent] = record.issuer_ref or ""
        elif isinstance(record, ReceiptSettled):
            self.open.pop(record.intent, None)
        elif isinstance(record, Ticked):
            self.tick(record)

    def tick(self, record: Ticked) -> None:
        self.ticks += 1
        over = bool(self.finished)
        for event in () if record.ann is None else events_of(record.ann):
            self.event(event)
        net = self.net(record)
        assert set(net["tokens"]) == set(self.live), "the state has the tokens that were told of"
        counts = net["counts"]
        assert {word: counts[word] for word in self.counts} == self.counts
        gone = sum(counts[word] for word in GONE)
        assert counts["created"] == gone + len(net["tokens"]), "a token is somewhere, or it ended"
        assert (net["phase"] == "done") == bool(self.finished), "an end is told, and only an end"
        if self.finished and not over:
            assert not self.live, "nobody is left"
            waiting = [ref for ref in self.open.values() if ref not in CLOCKS]
            asked = {ref for ref in waiting if not ref.startswith("cancel ")}
            assert len(asked) <= 1, f"it finished while {asked} were open"

    def event(self, event: dict[str, Any]) -> None:
        word = event["event"]
        assert not self.finished or word == "group.closed", f"{word} after the end"
        if word == "token.enqueued":
            assert event["token"] not in self.live, "a token is made once"
            self.live[event["token"]] = event["step"]
            self.counts["created"] += 1
        elif word.removeprefix("token.") in GONE:
            assert self.live.pop(event["token"]) == event["step"], "only a live token ends"
            self.counts[word.removeprefix("token.")] += 1
        elif word == "playbook.finished":
            self.finished.append(event["status"])
        elif word == "playbook.quiescent":
            self.final.append(event["status"])

    def net(self, record: Ticked) -> dict[str, Any]:
        """The net that a tick left, from its record or from the store."""
        data = record.state
        if data is None:
            assert record.after is not None, "an execution is never deleted"
            same = canon.digest_of(self.last) == record.after  # nothing changed
            data = self.last if same else self.blob(record.after)
        self.last = data
        state = canon.decode(data)
        if state["net"] is None:
            state = canon.decode(self.blob(canon.raw_of(state["held"][0])))
        net: dict[str, Any] = state["net"]
        return net

    def blob(self, digest: bytes) -> bytes:
        data = self.blobs.get(digest)
        assert data is not None, "what a record names is in the store"
        return data


def judged(records: Iterable[Record], blobs: Blobs, key: str = "e1") -> Told:
    """Go through the records of one execution; an AssertionError names what is wrong."""
    told = Told(blobs)
    raw = canon.encode(key)
    mine: set[bytes] = set()
    for record in records:
        if isinstance(record, IntentOpened) and record.origin.workflow == WORKFLOW:
            if record.origin.key == raw:
                mine.add(record.intent)
                told.take(record)
        elif (isinstance(record, ReceiptSettled) and record.intent in mine) or (
            isinstance(record, Ticked) and (record.workflow, record.key) == (WORKFLOW, raw)
        ):
            told.take(record)
    return told
