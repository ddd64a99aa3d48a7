"""Emission: events that a tick or the kernel itself puts into the world (K-01).

They are admitted within the same frame and delivered to mailboxes; they run in later turns.
"""

from __future__ import annotations

from tallystick.errors import LimitExceeded, NotCanonical, SchemaMismatch, TickFault
from tallystick.kernel.draft import Draft
from tallystick.kernel.ingress import note_lost
from tallystick.kernel.parts import Cell
from tallystick.kernel.pins import asked_under
from tallystick.kernel.route import BadKeyError, Event, as_fault, route
from tallystick.model.abi import EmittedEvent
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.effects import event_hash
from tallystick.model.records import EventAdmitted, Noted, Source, Target
from tallystick.model.sys_definitions import EMITTED
from tallystick.model.tuples import make
from tallystick.values import canon, names
from tallystick.values.schema import Admitted, Schema


def emit(draft: Draft, workflow: Workflow, cell: Cell, emitted: EmittedEvent) -> None:
    """Admit an event of a tick; one that does not fit is a fault of the whole tick."""
    if names.is_reserved(emitted.schema) and emitted.schema not in EMITTED.get(workflow.name, ()):
        raise TickFault(f"{emitted.schema} is made by the kernel alone", code="bad_output")
    schema = draft.world.active.catalogue.schemas.get(emitted.schema)
    if cell.pin is not None:
        own = asked_under(draft.world, cell, workflow)
        schema, emitted = _of_pinned(own, emitted, schema)
    if schema is None:
        raise TickFault(f"no schema {emitted.schema} in the active manifest", code="bad_output")
    value = emitted.value
    if not isinstance(value, Admitted) or value.schema is not schema:
        raw = value.bytes if isinstance(value, Admitted) else value
        try:
            value = schema.admit(canon.decode(raw), "native")
        except (NotCanonical, SchemaMismatch) as bad:
            raise TickFault(f"{emitted.schema}: {bad.message}", code="bad_output") from bad
    most = workflow.limits.event_bytes_max
    if len(value.bytes) > most:
        raise LimitExceeded("event_bytes_max", most, len(value.bytes))
    source = _source(draft, workflow, cell)
    event = (emitted.schema, value, source, emitted.tags, emitted.key)
    try:
        _admit(draft, event)
    except BadKeyError as why:
        raise as_fault(why) from why


def _of_pinned(
    catalogue: Catalogue, emitted: EmittedEvent, active: Schema | None
) -> tuple[Schema | None, EmittedEvent]:
    """What a pinned cell emits is of its own schemas; the world takes it under the active one.

    A schema that has left the active manifest is still good for the record; nobody subscribes.
    """
    own = catalogue.schemas.get(emitted.schema)
    if own is None:
        return None, emitted
    raw = emitted.value.bytes if isinstance(emitted.value, Admitted) else emitted.value
    try:
        value = own.admit(canon.decode(raw), "native")
        if active is not None:
            value = active.admit_older(value.bytes)
    except (NotCanonical, SchemaMismatch) as bad:
        raise TickFault(f"{emitted.schema}: {bad.message}", code="bad_output") from bad
    return value.schema, emitted._replace(value=value)


def emit_system(draft: Draft, workflow: Workflow, cell: Cell, schema: str, document: bytes) -> None:
    """Admit an event that the kernel makes; subscribers take it like any other."""
    source = _source(draft, workflow, cell)
    digest = event_hash(schema, document, None)
    most = workflow.limits.hops_max
    if draft.hops > most + 1:
        # The one past the limit tells of the fault; a chain of ends that starts cells stops here.
        data = {"schema": schema, "max": most, "got": draft.hops}
        draft.add(_record(draft, (schema, document, source, (), None), digest, ()))
        draft.add(Noted(topic="hops_max", data=data, workflow=workflow.name, key=cell.id.key))
        return
    if schema not in draft.world.active.routes:
        inline, by_hash = draft.store(document)
        fields = (schema, digest, source, draft.hops, (), inline, by_hash, None, None, None, None)
        draft.records.append(make(EventAdmitted, fields))
        return
    admitted = draft.world.active.catalogue.schemas[schema].read(document)
    event: Event = (schema, admitted, source, (), None)
    # A subscriber whose key the event does not hold cannot stop the end of another cell.
    _admit(draft, event, lenient=True)


def send_to(
    draft: Draft, workflow: Workflow, cell: Cell, event: tuple[str, bytes], target: Target
) -> int:
    """Admit an event addressed to one cell (spawn, call); routing has no say."""
    schema, data = event
    source = _source(draft, workflow, cell)
    digest = event_hash(schema, data, None)  # who sends it has read it under its schema
    return draft.add(_record(draft, (schema, data, source, (), None), digest, (target,)))


def _source(draft: Draft, workflow: Workflow, cell: Cell) -> Source:
    first = draft.world.seq + 1
    return make(Source, ("workflow", None, workflow.name, cell.id.key, first))


def _admit(draft: Draft, event: Event, *, lenient: bool = False) -> None:
    targets, lost = route(draft, event, bounded=False, lenient=lenient)
    schema, admitted, source, tags, key = event
    digest = event_hash(schema, admitted.bytes, key)
    draft.add(_record(draft, (schema, admitted.bytes, source, tags, key), digest, targets))
    note_lost(draft, event, digest, lost)


# Schema, document, source, tags and explicit key of an event.
Plain = tuple[str, bytes, Source, tuple[str, ...], bytes | None]


def _record(draft: Draft, event: Plain, digest: bytes, to: tuple[Target, ...]) -> EventAdmitted:
    schema, document, source, tags, key = event
    inline, by_hash = draft.store(document)
    tagged = list(tags) if tags else None
    place = (schema, digest, source, draft.hops, to, inline, by_hash, key, tagged, None, None)
    return make(EventAdmitted, place)
