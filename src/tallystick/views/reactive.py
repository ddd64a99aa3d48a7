"""What the journal says of reactions, folded record by record.

One pass gives the stamps, the frame heads, and what was observed, offered, decided, run and
written; going on from where it stopped costs only what is new.
Nothing here is state of its own: the same records fold to the same projection at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tallystick.model.frames import Sealed
from tallystick.model.records import EventAdmitted, Record
from tallystick.reactions.heads import Head, head_of
from tallystick.reactions.stamps import Stamps
from tallystick.values import canon
from tallystick.views.journal import entries

KEPT_MAX: Final = 20_000
Blob = Callable[[bytes], bytes | None]


class Noted(NamedTuple):
    """A value of the journal in its place."""

    seq: int
    at_ns: int
    value: dict[str, Any]


class Place:
    """What is known of one workspace."""

    def __init__(self) -> None:
        self.observed: Noted | None = None
        self.heads: dict[tuple[bytes, str], Head] = {}
        self.moved: list[tuple[int, Head]] = []
        self.commands: list[Noted] = []
        self.fired: dict[str, int] = {}
        self.stamps_at: dict[int, int] = {}

    @property
    def feed_upto(self) -> int:
        """Up to where heads and commands have become triggers."""
        return 0 if self.observed is None else int(self.observed.value["feed_upto"])

    def waiting(self) -> tuple[list[Head], list[Noted]]:
        """Heads that moved and commands that were asked for since the last observation."""
        upto = self.feed_upto
        self.moved = [row for row in self.moved if row[0] > upto]
        self.commands = [row for row in self.commands if row.seq > upto]
        newest = {(head.path, head.type): head for _, head in self.moved}
        return list(newest.values()), list(self.commands)


class Reactive:
    """The projection; `keep` bounds each list of things, the oldest go first."""

    def __init__(self, keep: int = KEPT_MAX) -> None:
        self.seq = 0
        self.stamps = Stamps()
        self.places: dict[str, Place] = {}
        self.triggers: dict[str, Noted] = {}
        self.decisions: dict[str, Noted] = {}
        self.settled: dict[str, Noted] = {}
        self.provenance: dict[str, Noted] = {}
        self.outcomes: dict[int, Noted] = {}
        self._keep = keep
        self._at_ns = 0

    def place(self, workspace_id: str) -> Place:
        """What is known of a workspace."""
        return self.places.setdefault(workspace_id, Place())

    def read(self, frames: Iterable[Sealed], blob: Blob) -> None:
        """Fold frames in their order."""
        for entry in entries(frames):
            self.note(entry.seq, entry.record, blob)

    def note(self, seq: int, record: Record, blob: Blob) -> None:
        """Fold one record."""
        self.seq = seq
        stamp = getattr(record, "stamp", None)
        if stamp is not None:
            self._at_ns = stamp.now_ns
        self.stamps.note(record, blob)
        if isinstance(record, EventAdmitted):
            take = _TAKE.get(record.schema)
            if take is not None:
                take(self, Noted(seq, self._at_ns, _value(record, blob)), blob)

    # ---- events -----------------------------------------------------------------------------

    def _observed(self, noted: Noted, blob: Blob) -> None:
        del blob
        value = noted.value
        place = self.place(value["workspace_id"])
        place.observed = noted._replace(value={**value, "triggers": (), "blobs": ()})
        self._put(place.stamps_at, value["n"], value["stamps_at"])
        for trigger in value["triggers"]:
            if trigger["kind"] == "schedule":
                place.fired[trigger["reaction"]] = value["observed_at"]

    def _head(self, noted: Noted, blob: Blob) -> None:
        told = noted.value
        head = head_of(told, blob(canon.raw_of(told["content_id"])))
        place = self.place(told["workspace_id"])
        place.heads[(head.path, head.type)] = head
        place.moved.append((noted.seq, head))

    def _command(self, noted: Noted, blob: Blob) -> None:
        del blob
        self.place(noted.value["workspace_id"]).commands.append(noted)

    def _trigger(self, noted: Noted, blob: Blob) -> None:
        del blob
        self._put(self.triggers, noted.value["trigger_id"], noted)

    def _decision(self, noted: Noted, blob: Blob) -> None:
        del blob
        self._put(self.decisions, noted.value["decision_id"], noted)

    def _outcome(self, noted: Noted, blob: Blob) -> None:
        del blob
        self._put(self.outcomes, noted.seq, noted)

    def _settled(self, noted: Noted, blob: Blob) -> None:
        del blob
        if noted.value["run_id"] is not None:
            self._put(self.settled, noted.value["run_id"], noted)

    def _provenance(self, noted: Noted, blob: Blob) -> None:
        del blob
        self._put(self.provenance, noted.value["run_id"], noted)

    def _put(self, into: dict[Any, Any], key: Any, noted: Any) -> None:
        into.pop(key, None)
        into[key] = noted
        if len(into) > self._keep:
            into.pop(next(iter(into)))


def _value(record: EventAdmitted, blob: Blob) -> dict[str, Any]:
    data = record.value
    if data is None:
        assert record.value_hash is not None, "a value stands inline or by digest"
        data = blob(record.value_hash)
        assert data is not None, "a record's value is in the store"
    found: dict[str, Any] = canon.decode(data)
    return found


_TAKE: Final[dict[str, Callable[[Reactive, Noted, Blob], None]]] = {
    "sys/Observed@1": Reactive._observed,  # noqa: SLF001 - the table of its own methods
    "sys/FrameHeadChanged@1": Reactive._head,  # noqa: SLF001
    "sys/CommandAsked@1": Reactive._command,  # noqa: SLF001
    "sys/TriggerOffered@1": Reactive._trigger,  # noqa: SLF001
    "sys/Decision@1": Reactive._decision,  # noqa: SLF001
    "sys/TriggerOutcome@1": Reactive._outcome,  # noqa: SLF001
    "sys/RunSettled@1": Reactive._settled,  # noqa: SLF001
    "sys/Provenance@1": Reactive._provenance,  # noqa: SLF001
}
