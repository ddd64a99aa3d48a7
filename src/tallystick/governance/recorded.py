"""Recorded inputs: the frames of a world read back as what was handed in (06 section 7).

A frame that an external input made is one step, with the stamp it came with.
What is about an intent names it by its place (who asked, for which effect, with which params) and
its number there, because under other code the same request has another id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

from tallystick.kernel import plans
from tallystick.kernel.index import Blobs
from tallystick.kernel.inputs import (
    Activate,
    Assume,
    Clock,
    Decide,
    Input,
    Operate,
    Planned,
    Progress,
    RevokeGrant,
    RevokeKey,
    Sample,
    Submit,
    TrustKey,
)
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import KERNEL, params_digest
from tallystick.kernel.reach import Marks
from tallystick.kernel.world import World
from tallystick.model import records
from tallystick.model.frames import Sealed, open_frame
from tallystick.model.records import IntentDenied, IntentOpened, Record, Stamp

NOBODY: Final = b""  # stands for the intent of a step until its place is found in the other history


class Place(NamedTuple):
    """Who asked for which effect with which parameters."""

    workflow: str
    key: bytes
    effect: str
    params: bytes


class Asked(NamedTuple):
    """The n-th request at a place."""

    place: Place
    number: int


class Step(NamedTuple):
    """One external input: where it stands, what it is, and the request that it is about.

    `ticks` is how many ticks were recorded between the input before and this one.
    """

    seq: int
    given: Input
    about: Asked | None = None
    ticks: int = 0


def place_of(opened: IntentOpened | IntentDenied) -> Place:
    """The place of a request."""
    origin = opened.origin
    return Place(origin.workflow, origin.key, opened.effect, params_digest(opened))


class Requests:
    """Numbers the requests of a history by their places, beginning with those open at its start."""

    def __init__(self, world: World) -> None:
        self._ids: dict[bytes, Asked] = {}
        self._at: dict[Place, list[bytes]] = {}
        began = sorted((intent.seq, intent.record) for _, intent in world.intents.entries())
        for _, record in began:
            self.opened(record)

    def opened(self, record: IntentOpened) -> Asked:
        """One more request."""
        place = place_of(record)
        there = self._at.setdefault(place, [])
        asked = Asked(place, len(there))
        there.append(record.intent)
        self._ids[record.intent] = asked
        return asked

    def asked(self, intent: bytes) -> Asked | None:
        """What an intent of this history is."""
        return self._ids.get(intent)

    def intent(self, asked: Asked) -> bytes | None:
        """The intent of a request in this history, once it was asked for."""
        there = self._at.get(asked.place, ())
        return there[asked.number] if asked.number < len(there) else None

    def count(self, place: Place) -> int:
        """How often that was asked for."""
        return len(self._at.get(place, ()))


def steps(world: World, frames: Iterable[Sealed]) -> Iterator[Step]:
    """The external inputs of frames that begin where a world stands; the world is only read."""
    requests = Requests(world)
    ticks = 0
    for frame in frames:
        found = open_frame(frame.body)[3]
        ticks += isinstance(found[0], records.Ticked | records.WorkflowFaulted)
        step = _step(world.blobs, frame.seq, found[0], requests)
        for record in found:
            if isinstance(record, IntentOpened):
                requests.opened(record)
        if step is not None:
            yield step._replace(ticks=ticks)
            ticks = 0


def _step(blobs: Blobs, seq: int, first: Record, requests: Requests) -> Step | None:
    stamp: Stamp | None = getattr(first, "stamp", None)
    read = _READ.get(type(first))
    if stamp is None or read is None:
        return None
    sample = Sample(stamp.now_ns, stamp.entropy)
    given = read(blobs, sample, first)
    intent = getattr(given, "intent", None)
    if not intent:
        return Step(seq, given)
    asked = requests.asked(intent)
    assert asked is not None, "an input is about what was open at the start, or asked for since"
    return Step(seq, given._replace(intent=NOBODY), asked)


# ---- from a record to the input that made it --------------------------------------------------


def submitted(blobs: Blobs, sample: Sample, record: records.EventAdmitted) -> Submit:
    """The event that was handed in."""
    value = record.value
    if value is None:
        assert record.value_hash is not None, "a value stands inline or by digest"
        value = read_blob(blobs, record.value_hash)
    return Submit(
        sample=sample,
        schema=record.schema,
        value=value,
        lens="canonical",
        key=record.key,
        tags=tuple(record.tags or ()),
        idem_key=None if record.idem_key is None else record.idem_key.key,
        origin=record.origin.kind,
        principal=record.origin.principal,
    )


def _receipt(blobs: Blobs, sample: Sample, record: records.ReceiptSettled) -> Input:
    if record.source == KERNEL:
        if record.status == "cancelled" and not record.error:
            fields = ("cancel", "operator", "cancelled before")
            return Operate(sample, *fields, intent=record.intent)
        return Clock(sample)
    payload = record.payload
    if payload is None:
        assert record.payload_hash is not None, "a payload stands inline or by digest"
        payload = read_blob(blobs, record.payload_hash)
    status = "ok" if record.status == "rejected" else record.status
    return Assume(sample, record.intent, status, payload, record.usage)


def _progress(_: Blobs, sample: Sample, record: records.ProgressNoted) -> Input:
    rest = (record.attempt, record.seq, record.frame_kind, record.payload)
    return Progress(sample, "", record.intent, *rest)


def _approval(_: Blobs, sample: Sample, record: records.IntentApproval) -> Input:
    who = (record.principal, record.decision, record.comment)
    return Decide(sample, record.intent, *who)


def _released(_: Blobs, sample: Sample, record: records.IntentReleased) -> Input:
    if record.hold in ("fork", "restore"):
        return Operate(sample, "release", "operator", record.cause, intent=record.intent)
    return Clock(sample)


def _operated(verb: str) -> Any:
    def read(_: Blobs, sample: Sample, record: Any) -> Input:
        who = (verb, record.principal, record.reason, record.workflow, record.key)
        return Operate(sample, *who, deadline_ns=getattr(record, "deadline_ns", None))

    return read


def _failed(_: Blobs, sample: Sample, record: records.CellFailed) -> Input:
    who = ("cancel", record.principal, record.reason, record.workflow, record.key)
    return Operate(sample, *who, force=True)


def _trusted(_: Blobs, sample: Sample, record: records.KeyTrusted) -> Input:
    names = (tuple(record.executors), tuple(record.effects))
    return TrustKey(sample, record.public_key, *names, record.principal)


def _key_revoked(_: Blobs, sample: Sample, record: records.KeyRevoked) -> Input:
    return RevokeKey(sample, record.key, record.principal, record.reason)


def _grant_revoked(_: Blobs, sample: Sample, record: records.GrantRevoked) -> Input:
    return RevokeGrant(sample, record.name, record.principal, record.reason)


def _activated(blobs: Blobs, sample: Sample, record: records.BundleActivate) -> Input:
    """The change itself; who proposed and approved it belongs to the recorded history alone."""
    plan = {} if record.plan is None else {r.cell: r for r in plans.rows(record.plan, blobs)}
    planned = {tuple(cell): Planned(row.seq, row.action) for cell, row in plan.items()}
    marks = Marks(blobs)
    marks.record(record)
    held = {digest: data for digest in marks.kept if (data := blobs.get(digest)) is not None}
    ids = (record.bundle, record.to, record.from_ or b"")
    return Activate(sample, *ids, held, record.principal, cast("Any", planned))


Read = Callable[[Blobs, Sample, Any], Any]

_READ: Final[dict[type, Read]] = {
    records.EventAdmitted: submitted,
    records.ReceiptSettled: _receipt,
    records.ProgressNoted: _progress,
    records.IntentApproval: _approval,
    records.IntentReleased: _released,
    records.CellSuspended: _operated("suspend"),
    records.CellResumed: _operated("resume"),
    records.CellSkipped: _operated("skip"),
    records.CellCancelRequested: _operated("cancel"),
    records.CellFailed: _failed,
    records.KeyTrusted: _trusted,
    records.KeyRevoked: _key_revoked,
    records.GrantRevoked: _grant_revoked,
    records.BundleActivate: _activated,
}
