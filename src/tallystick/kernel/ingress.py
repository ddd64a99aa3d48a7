"""Ingress: the door for events from outside (K-09, K-12, X-01).

Everything is refused before anything is written, with a code and the path of the fault.
A refusal leaves the world, and so its root, as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tallystick.errors import Conflict, Rejected, SchemaMismatch, TooLarge, Unavailable, UnknownName
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Sample, Spelling, Submit
from tallystick.kernel.mint import REQUEST, mint
from tallystick.kernel.route import BadKeyError, Event, Lost, route
from tallystick.kernel.world import World
from tallystick.model.cells import CellId
from tallystick.model.effects import event_hash
from tallystick.model.records import Dropped, EventAdmitted, IdemKey, Source
from tallystick.model.sys_definitions import SYSTEM_INPUTS
from tallystick.model.tuples import make
from tallystick.values import canon, names
from tallystick.values.schema import Admitted

IDEM_KEY_MAX = 128
TAGS_MAX = 64
ORIGINS = frozenset({"external", "system", "governance"})
_ANYBODY: Final = Source("external")  # as nearly every event comes


def _read_only(world: World) -> Unavailable:
    where = {"world": world.id}
    if not world.frozen:
        return Unavailable("the world is read-only", code="ingress.read_only", where=where)
    return Unavailable(
        "the world is frozen: its name means another one now",
        code="ingress.read_only",
        where=where,
        hint="send to the name; `tally world alias` moves it back",
    )


# tidy: the order of the questions is the rule.
def submit_event(world: World, given: Submit) -> Frame:
    """Admit one event from outside, or refuse it."""
    if world.read_only:
        raise _read_only(world)
    sample, schema, sent, lens, key, tags, idem_key, origin, principal = given
    if schema not in world.active.doors or idem_key is not None or tags or origin != "external":
        _check_door(world, given)
    admitted = admit_value(world, schema, sent, lens)
    digest = event_hash(schema, admitted.bytes, key)
    if idem_key is not None:
        seen = _seen(world, idem_key, sample, digest)
        if seen is not None:
            return seen
    draft = Draft(world)
    source = _ANYBODY
    if principal is not None or origin != "external":
        source = make(Source, (origin, principal, None, None, None))
    event = (schema, admitted, source, tags, key)
    try:
        targets, lost = route(draft, event, bounded=True)
    except BadKeyError as why:
        raise _unkeyed(schema, why) from why
    value, value_hash = draft.store(admitted.bytes)
    fields = (
        schema,
        digest,
        source,
        0,
        targets,
        value,
        value_hash,
        key,
        list(tags) if tags else None,
        None if idem_key is None else IdemKey(idem_key, digest),
        draft.stamp(sample),
    )
    draft.records.append(make(EventAdmitted, fields))  # routing has noted the cells it creates
    if targets:
        admitted.schema.expect(admitted)  # by the tick of its cell
    if lost:
        note_lost(draft, event, digest, lost)
    if schema == REQUEST and origin == "system":
        mint(draft, admitted.value, targets)
    said = "accepted" if targets else "unrouted"
    return draft.frame(make(Answer, (said, world.seq + 1, digest, None)))


def _sendable(world: World) -> Iterator[str]:
    return (name for name in world.active.catalogue.schemas if not names.is_reserved(name))


# tidy: a list of refusals, each with its words.
def _check_door(world: World, given: Submit) -> None:
    schema = given.schema
    if names.is_reserved(schema) and schema not in _system_inputs(given):
        raise Rejected(
            f"{schema} is made by the kernel and cannot be sent",
            code="ingress.reserved_schema",
            where={"path": "/schema", "schema": schema},
            hint="send a domain event; receipts come from executors with a seal",
        )
    if schema not in world.active.catalogue.schemas:
        raise UnknownName(
            f"no schema {schema} in the active manifest",
            code="ingress.unknown_schema",
            where={"path": "/schema", "schema": schema},
            hint=names.nearest(schema, _sendable(world))
            or "list the schemas of the bundle, or check the version after the @",
        )
    if given.idem_key is not None and not 1 <= len(given.idem_key) <= IDEM_KEY_MAX:
        raise Rejected(
            f"an Idempotency-Key has 1 to {IDEM_KEY_MAX} bytes",
            code="ingress.bad_key",
            where={"path": "/idem_key", "max": IDEM_KEY_MAX, "got": len(given.idem_key)},
        )
    if given.origin not in ORIGINS:
        # K-22: only the kernel says that a workflow sent something.
        raise Rejected(
            f"no sender has the origin {given.origin!r}",
            code="ingress.bad_origin",
            where={"path": "/origin"},
        )
    tags = given.tags
    if tags and (len(tags) > TAGS_MAX or any(type(t) is not str or len(t) > 200 for t in tags)):
        raise Rejected(
            f"at most {TAGS_MAX} tags of 200 characters",
            code="ingress.bad_tags",
            where={"path": "/tags"},
        )


def _system_inputs(given: Submit) -> frozenset[str]:
    """The `sys/` schemas that the node's own rooms may send; none from anybody else."""
    return SYSTEM_INPUTS if given.origin == "system" else frozenset()


def admit_value(world: World, name: str, value: Any, lens: Spelling) -> Admitted:
    """The value as canonical bytes under its schema."""
    catalogue = world.active.catalogue
    schema = catalogue.schemas[name]
    most = catalogue.limits.event_bytes_max
    if lens == "canonical":
        if type(value) is not bytes:
            raise SchemaMismatch("document bytes expected", schema=name)
        if len(value) > most:
            raise _too_large(name, len(value), most)
        return schema.read(value)
    admitted = schema.admit(value, lens)
    if len(admitted.bytes) > most:
        raise _too_large(name, len(admitted.bytes), most)
    return admitted


def _too_large(schema: str, size: int, most: int) -> TooLarge:
    return TooLarge(
        f"{schema} has {size} bytes; an event has at most {most}",
        where={"schema": schema, "max": most, "got": size},
    )


def _seen(world: World, idem_key: bytes, sample: Sample, digest: bytes) -> Frame | None:
    """The first answer, when this Idempotency-Key was seen within its window (I9)."""
    path = canon.digest_of(idem_key)
    known = world.fence.get(path)
    if known is None:
        return None
    logical_ns = max(world.logical_ns + 1, sample.now_ns)
    window = world.active.catalogue.limits.idempotency_window
    if known.at_ns + window <= logical_ns:
        return None
    if known.digest != digest:
        raise Conflict(
            f"this Idempotency-Key was used at seq {known.seq} with another event",
            where={"seq": known.seq},
        )
    return Draft(world).frame(Answer("seen", known.seq, digest))


def _unkeyed(schema: str, why: BadKeyError) -> Exception:
    """What the sender of an event is told when its key cannot be taken."""
    if why.code.startswith("ingress."):
        return Rejected(why.message, code=why.code, where={"path": why.path})
    finding = {"code": why.code, "path": why.path, "expected": "key", "got": why.message[:80]}
    return SchemaMismatch(why.message, schema=schema, errors=[finding])


def note_lost(draft: Draft, event: Event, digest: bytes, lost: tuple[Lost, ...]) -> None:
    """Leave evidence for deliveries that did not happen."""
    _, admitted, _, _, _ = event
    size = len(admitted.bytes)
    for each in lost:
        draft.add(lost_record("event", each.reason, each.ident, (digest, size)))


def lost_record(what: str, reason: str, ident: CellId, content: tuple[bytes, int]) -> Dropped:
    """The record of something that reached a cell in vain; content is its digest and size."""
    digest, size = content
    return Dropped(
        what=what,
        reason=reason,
        workflow=ident.workflow,
        key=ident.key,
        digest=digest,
        size=size,
        source="kernel",
    )
