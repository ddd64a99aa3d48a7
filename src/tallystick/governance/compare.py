"""Two histories of the same inputs, side by side: what the record says and what a run gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tallystick.governance.recorded import Asked, Requests, place_of
from tallystick.governance.rerun import Tick
from tallystick.kernel.parts import params_digest
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import (
    EventAdmitted,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    ReceiptSettled,
    Ticked,
    WorkflowFaulted,
)
from tallystick.values import canon

CHANGES_MAX = 100


class Live:
    """What the recorded history did in the frames that are run again."""

    def __init__(self, world: World, frames: Iterable[Sealed]) -> None:
        self.requests = Requests(world)
        self.ticks: list[Tick] = []
        self.effects: list[tuple[int, Asked, IntentOpened | IntentDenied]] = []
        self.statuses: dict[bytes, str] = {}
        for frame in frames:
            records = tuple(open_frame(frame.body)[3])
            if isinstance(records[0], Ticked | WorkflowFaulted):
                self.ticks.append(Tick(frame.seq, records))
            for offset, record in enumerate(records):
                self._note(frame.seq + offset, record)

    def _note(self, seq: int, record: Any) -> None:
        if isinstance(record, IntentOpened):
            self.effects.append((seq, self.requests.opened(record), record))
        elif isinstance(record, IntentDenied):
            place = place_of(record)
            asked = Asked(place, self.requests.count(place))
            self.effects.append((seq, asked, record))
        elif isinstance(record, ReceiptSettled):
            self.statuses[record.intent] = record.status


def by_cell(ticks: Iterable[Tick]) -> dict[CellId, list[Tick]]:
    """Ticks by the cell that ran, in order."""
    found: dict[CellId, list[Tick]] = {}
    for tick in ticks:
        first = tick.records[0]
        assert isinstance(first, Ticked | WorkflowFaulted), "a tick begins with its outcome"
        found.setdefault(CellId(first.workflow, first.key), []).append(tick)
    return found


class Difference(NamedTuple):
    """One way in which two ticks differ."""

    kind: str
    live: Any
    shadow: Any


def differences(live: Tick, shadow: Tick) -> Iterator[Difference]:
    """Every way in which two ticks of one cell differ."""
    one, other = live.records[0], shadow.records[0]
    faults = (_fault(one), _fault(other))
    if faults[0] != faults[1]:
        yield Difference("fault", *faults)
        return
    if isinstance(one, Ticked) and isinstance(other, Ticked):
        if one.after != other.after:
            yield Difference("state", _hash(one.after), _hash(other.after))
        if one.status != other.status:
            yield Difference("status", one.status, other.status)
    for kind, look in (("event", _events), ("effect", _effects), ("denial", _denials)):
        left, right = look(live), look(shadow)
        if left != right:
            yield Difference(kind, left, right)


def _fault(record: Any) -> str | None:
    return record.code if isinstance(record, WorkflowFaulted) else None


def _hash(digest: bytes | None) -> str | None:
    return None if digest is None else canon.text_of(digest)


def _events(tick: Tick) -> list[list[str]]:
    found = (r for r in tick.records if isinstance(r, EventAdmitted))
    # What the kernel tells of ends and faults names seqs, which are not the workflow's doing.
    own = (r for r in found if not r.schema.startswith("sys/"))
    return [[r.schema, canon.text_of(r.event_hash)] for r in own]


def _effects(tick: Tick) -> list[list[str]]:
    found: list[list[str]] = []
    for record in tick.records:
        if isinstance(record, IntentOpened | IntentDenied):
            found.append([record.effect, canon.text_of(params_digest(record))])
        elif isinstance(record, IntentAttached):
            found.append(["attached", canon.text_of(record.intent)])
    return found


def _denials(tick: Tick) -> list[list[str]]:
    return [[r.effect, r.code] for r in tick.records if isinstance(r, IntentDenied)]


# ---- values -----------------------------------------------------------------------------------


def key_shown(key: bytes) -> Any:
    """A cell's key as JSON can hold it."""
    if not key:
        return None
    return plain(canon.decode(key))


def plain(value: Any) -> Any:
    """A canonical value as JSON can hold it: bytes as hex."""
    if type(value) is bytes:
        return value.hex()
    if type(value) is dict:
        return {str(name): plain(inner) for name, inner in value.items()}
    if type(value) is list:
        return [plain(inner) for inner in value]
    return value


def changes(live: Any, shadow: Any) -> list[dict[str, Any]]:
    """The places where two values differ, by path; the first hundred."""
    found: list[dict[str, Any]] = []
    for each in _changes("$", live, shadow):
        if len(found) == CHANGES_MAX:
            break
        found.append(each)
    return found


def _changes(path: str, live: Any, shadow: Any) -> Iterator[dict[str, Any]]:
    if type(live) is dict and type(shadow) is dict:
        # A map may have other keys than before: numbers and texts are not compared.
        for name in sorted({**live, **shadow}, key=lambda name: (type(name) is str, name)):
            yield from _changes(f"{path}.{name}", live.get(name), shadow.get(name))
    elif type(live) is list and type(shadow) is list and len(live) == len(shadow):
        for place, (one, other) in enumerate(zip(live, shadow, strict=True)):
            yield from _changes(f"{path}[{place}]", one, other)
    elif live != shadow or type(live) is not type(shadow):
        yield {"path": path, "live": plain(live), "shadow": plain(shadow)}
