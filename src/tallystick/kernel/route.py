"""Routing: from an admitted event to deliveries, in manifest order (K-30..K-33, X-01).

Filters, then the key, then the arm; a missing cell is created or the event is ignored for it.
Continuations never come here: they go to the cell that asked (K-13).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tallystick.errors import Busy, NotCanonical, SchemaMismatch, TickFault
from tallystick.kernel.active import Route
from tallystick.kernel.draft import Draft
from tallystick.kernel.parts import Cell, Mail
from tallystick.kernel.pins import catalogue_of, narrowed, workflow_of
from tallystick.kernel.world import World
from tallystick.model.abi import Halted
from tallystick.model.catalogue import Workflow
from tallystick.model.cells import CellId
from tallystick.model.records import Source, Target
from tallystick.model.tuples import make
from tallystick.values import canon
from tallystick.values.schema import Admitted, Schema

# In place of an upcast's name: an event that a pinned cell is given in its older shape.
PINNED: Final = "sys/pinned"


class Lost(NamedTuple):
    """A delivery that did not happen, and why: evidence, not an error."""

    ident: CellId
    reason: str


Routed = tuple[tuple[Target, ...], tuple[Lost, ...]]
"""The outcome of routing one event: deliveries, and those that did not happen."""


# An admitted event on its way: schema, value, source, tags and explicit key.
Event = tuple[str, Admitted, Source, tuple[str, ...], bytes | None]


class BadKeyError(Exception):
    """An event whose key cannot be taken; the caller says whose fault that is."""

    def __init__(self, code: str, message: str, path: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path


def route(draft: Draft, event: Event, *, bounded: bool, lenient: bool = False) -> Routed:
    """The deliveries of an event; with `bounded` a full mailbox refuses the whole event.

    With `lenient` a subscriber whose key cannot be taken is left out, and the others are served.
    """
    targets: list[Target] = []
    lost: list[Lost] = []
    schema, _, _, _, _ = event
    for way in draft.world.active.routes.get(schema, ()):
        if way.filtered and not _passes(way, event):
            continue
        try:
            found = _target(draft, way, event, bounded=bounded)
        except BadKeyError:
            if not lenient:
                raise
            found = Lost(CellId(way.workflow.name, b""), "unread")
        if type(found) is Target:
            targets.append(found)
        else:
            assert isinstance(found, Lost), "a delivery happens or it does not"
            lost.append(found)
    return tuple(targets), tuple(lost) if lost else ()


def _passes(way: Route, event: Event) -> bool:
    wanted = way.subscription
    _, _, source, tags, _ = event
    if wanted.origins and not any(_from(source, origin) for origin in wanted.origins):
        return False
    return not wanted.tags or all(tag in tags for tag in wanted.tags)


def _from(source: Source, origin: str) -> bool:
    if not origin.startswith("workflow:"):
        return source.kind == origin
    name = origin[len("workflow:") :]
    if source.kind != "workflow" or source.workflow is None:
        return False
    return source.workflow.startswith(name[:-1]) if name.endswith("*") else source.workflow == name


# tidy: the order of the questions is the rule.
def _target(draft: Draft, way: Route, event: Event, *, bounded: bool) -> Target | Lost:
    workflow = way.workflow
    _, admitted, _, _, explicit = event
    value: Admitted | None = admitted
    upcast = None
    if way.upcasts:
        upcast = way.upcasts[-1].name
        value = _upcast(draft, way, admitted)
    if way.forged and value is not None and value.value["$tag"] in way.forged:
        message = f"the arm {value.value['$tag']} is filled by the kernel alone"
        raise BadKeyError("ingress.reserved_schema", message, "/$tag")
    # A failed upcast is its cell's fault at the tick; the key is then read from what came.
    key = b"" if workflow.key is None else _key(draft, way, value or admitted, explicit)
    name = workflow.name
    ident = (name, key)
    cell = draft.world.cell(ident)
    create = cell is None
    if draft.created or draft.ended:
        create = not draft.exists(ident, cell)
    if cell is not None and cell.pin is not None and not create:
        found = _to_pinned(draft, event, cell)
        if bounded and type(found) is Target:
            _check_room(cell, workflow)
        return found
    wanted = way.subscription
    if create and not wanted.create_if_missing:
        return Lost(CellId(name, key), "no_instance")
    if not create:
        if not draft.takes_mail(ident, cell, workflow.lifecycle):
            return Lost(CellId(name, key), "terminal")
        if bounded and cell is not None:
            _check_room(cell, workflow)
    newer = value.bytes if upcast is not None and value is not None else None
    init = None
    if way.starts and (create or (cell is not None and _is_blank(cell))):
        init = _init(draft.world, way, None if value is None else value.bytes)
    if create:
        # Later subscriptions of the same event see the cell that this one creates.
        draft.created[ident] = None
    return make(Target, (name, key, create, way.arm, upcast, newer, init, None, None))


def _is_blank(cell: Cell) -> bool:
    """True for a cell that never ticked and waits for nothing: what made it was skipped."""
    return cell.workflow_hash is None and not cell.mailbox


def _to_pinned(draft: Draft, event: Event, cell: Cell) -> Target | Lost:
    """A pinned cell is given what its own workflow takes, in the version that this one knows."""
    own, workflow = catalogue_of(draft.world, cell), workflow_of(draft.world, cell)
    if not draft.takes_mail(cell.id, cell, workflow.lifecycle):
        return Lost(cell.id, "terminal")
    schema, given, _, _, _ = event
    name: str | None = schema
    admitted: Admitted | None = given
    upcast = None
    while name is not None and name != workflow.event_name and name not in workflow.arms:
        step = own.upcasts.get(name)
        name = None if step is None else step.to
        if step is not None and admitted is not None:
            answer = draft.world.runner.pure(
                own, step.module, step.entrypoint, admitted.bytes, None
            )
            upcast = step.name
            admitted = None if isinstance(answer, Halted) else _read(own.schemas[step.to], answer)
    if name is None:
        return Lost(cell.id, "unread")
    fitting = None if admitted is None else narrowed(own.schemas[name], admitted)
    if fitting is None and upcast is None:
        return Lost(cell.id, "unread")
    value = None if fitting is None else fitting.bytes
    if upcast is None:
        upcast = PINNED if value != given.bytes else None
        value = None if upcast is None else value
    arm = workflow.arms.get(name)
    return Target(workflow.name, cell.id.key, create=False, arm=arm, upcast=upcast, value=value)


def _read(schema: Schema, data: bytes) -> Admitted | None:
    try:
        return schema.read(data)
    except (NotCanonical, SchemaMismatch):
        return None


def _check_room(cell: Cell, workflow: Workflow) -> None:
    most = workflow.limits.mailbox_max
    if len(cell.mailbox) >= most:
        raise Busy(
            f"the mailbox of {workflow.name} holds {most} entries",
            where={"workflow": workflow.name, "key": cell.id.key.hex()},
        )


# ---- keys -----------------------------------------------------------------------------------


def _key(draft: Draft, way: Route, value: Admitted, explicit: bytes | None) -> bytes:
    schema = way.workflow.key
    assert schema is not None, "only a keyed workflow has a key"
    name, found = way.key_name, value.value
    if name is not None and type(found) is dict and name in found:
        raw = found[name]  # as nearly every subscription has it
    else:
        raw = _key_value(draft, way, value)
    try:
        key = schema.document(raw)
    except SchemaMismatch as why:
        path = "/" + "/".join(way.key_path)
        raise BadKeyError("value.mismatch", f"key does not fit {schema.name}: {why}", path) from why
    if explicit is not None and explicit != key:
        raise BadKeyError(
            "ingress.key_mismatch",
            f"the given key disagrees with the one that {way.workflow.name} reads from the event",
            "/" + "/".join(way.key_path),
        )
    return key


def _key_value(draft: Draft, way: Route, value: Admitted) -> Any:
    if way.subscription.key_fn is not None:
        answer = _pure(draft, way.subscription.key_fn, value)
        if isinstance(answer, Halted):
            raise BadKeyError("value.mismatch", f"key function failed: {answer.message}", "")
        return canon.decode(answer)
    found: Any = value.value
    for i, name in enumerate(way.key_path):
        if type(found) is not dict or name not in found:
            path = "/" + "/".join(way.key_path[: i + 1])
            raise BadKeyError("value.mismatch", f"the event has nothing at {path}", path)
        found = found[name]
    return found


# ---- upcasts and first states ---------------------------------------------------------------


def _upcast(draft: Draft, way: Route, value: Admitted) -> Admitted | None:
    """The event as the newest schema of the chain, or None when an upcast faulted (X-20)."""
    schemas = draft.world.active.catalogue.schemas
    for upcast in way.upcasts:
        answer = _pure(draft, (upcast.module, upcast.entrypoint), value)
        if isinstance(answer, Halted):
            return None
        try:
            value = schemas[upcast.to].read(answer)
        except SchemaMismatch:
            return None
    return value


def first_state(world: World, workflow: str, mail: Mail) -> bytes | Halted | None:
    """The state that a cell begins anew from for an entry which found one that is gone."""
    way = world.active.way_of(workflow, mail)
    if way is None:
        return None
    try:
        return _init(world, way, world.document(mail))
    except BadKeyError as why:
        return Halted("exception", why.message, 0, "kernel")


def _init(world: World, way: Route, value: bytes | None) -> bytes | None:
    """The state a new cell starts from: written in the manifest, or by its init function."""
    wanted = way.subscription
    if wanted.init_state is not None:
        return wanted.init_state.bytes
    if wanted.init_fn is None or value is None:
        return None
    answer = world.runner.pure(world.active.catalogue, *wanted.init_fn, value, None)
    if isinstance(answer, Halted):
        raise BadKeyError("value.mismatch", f"init function failed: {answer.message}", "")
    try:
        return way.workflow.state.read(answer).bytes
    except SchemaMismatch as why:
        raise BadKeyError("value.mismatch", f"first state does not fit: {why.message}", "") from why


def _pure(draft: Draft, call: tuple[str, str], value: Admitted) -> bytes | Halted:
    world = draft.world
    return world.runner.pure(world.active.catalogue, *call, value.bytes, None)


def as_fault(why: BadKeyError) -> TickFault:
    """The same trouble when a tick emitted the event."""
    code = "bad_output" if why.code == "ingress.reserved_schema" else "bad_key"
    return TickFault(why.message, code=code, where={"path": why.path})
