"""The tick: one delivery to one cell, all of it or none of it (K-01, K-08, X-02..X-04).

The module runs on bytes; its whole output is checked before a single record is kept.
Any exception, trap, limit or bad output is a fault: a record, never a crash of the world.
"""

# tidy: input, output and fault of a tick are one story.
from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from tallystick.errors import LimitExceeded, NotCanonical, SchemaMismatch, TickFault
from tallystick.kernel import internal, receipts
from tallystick.kernel.admit import Asking, Opened, ask
from tallystick.kernel.delivery import Delivered, Surroundings, Turn
from tallystick.kernel.draft import DELETED, Answer, Draft, Frame
from tallystick.kernel.emit import emit, emit_system
from tallystick.kernel.ending import End, delete_cell, end_cell
from tallystick.kernel.evolve import MIGRATION_FAILED, Older, evolved, is_older
from tallystick.kernel.leaves import read_blob
from tallystick.kernel.parts import FAULTS, INLINE_STATE_MAX, Cell, Mail
from tallystick.kernel.route import first_state
from tallystick.kernel.world import World
from tallystick.model import envelopes
from tallystick.model.abi import EffectRequest, Halted, Ran, TickInput, TickOutput, bad_output
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import FAILED, RUNNING
from tallystick.model.limits import Limits
from tallystick.model.records import (
    CellUnpinned,
    EventAdmitted,
    IntentAttached,
    IntentDenied,
    ReceiptSettled,
    Ticked,
    WorkflowFaulted,
)
from tallystick.model.tuples import make
from tallystick.values import canon
from tallystick.values.schema import Admitted

NOTE_BYTES_MAX = 1024
ASYNC_STATE = "sys/AsyncState@1"  # the state of a workflow that seals its history in blobs


def advance(world: World) -> Frame | None:
    """The frame of the next ready cell's tick; None when nothing is ready."""
    if not world.ring:
        return None
    name, key = world.ring[0]
    cell = world.cells[name].get(key)
    assert cell is not None, "a cell in the ring exists"
    catalogue = world.active.catalogue if cell.pin is None else world.catalogue(cell.pin)
    workflow = catalogue.workflows[name]
    mail = cell.mailbox[0]
    turn: Turn = (world, workflow, cell, mail, catalogue, None)
    if is_older(world, workflow, cell, mail):
        made = evolved(Older(world, catalogue, workflow, cell, mail), world.upgraded_seq)
        if isinstance(made, Halted):
            return _fault_frame(turn, made)
        turn = (world, workflow, cell, made.mail, catalogue, made)
    ran = _run(turn)
    if isinstance(ran, Halted):
        return _fault_frame(turn, ran)
    if ran.moved:
        assert cell.pin is not None, "only a pinned cell has a successor"
        active = world.active.catalogue
        turn = (world, active.workflows[name], cell, turn[3], active, turn[5])
    try:
        return _frame(turn, ran)
    except TickFault as why:
        limit = why.limit if isinstance(why, LimitExceeded) else None
        return _fault_frame(turn, Halted(why.code, why.message, ran.fuel, ran.engine, limit))


def rehearse(world: World, catalogue: Catalogue, *, fit: bool) -> Ran | Halted:
    """What the next ready cell would answer under other definitions; nothing of it is kept.

    With `fit` its state and its event are read as these definitions take them.
    """
    name, key = world.ring[0]
    cell = world.cells[name].get(key)
    assert cell is not None, "a cell in the ring exists"
    workflow, mail = catalogue.workflows[name], cell.mailbox[0]
    turn: Turn = (world, workflow, cell, mail, catalogue, None)
    if fit:
        made = evolved(Older(world, catalogue, workflow, cell, mail), world.seq + 1)
        if isinstance(made, Halted):
            return made
        turn = (world, workflow, cell, made.mail, catalogue, made)
    ran = _run(turn)
    if isinstance(ran, Ran):
        try:
            state = ran.output.state
            kept = None if state is None else _checked_state(workflow, state)
            _check_limits(workflow, workflow.limits, ran, kept)
            if ran.output.result is not None and not ran.written:
                _check_result(ran.output.result)
        except TickFault as why:
            return Halted(why.code, why.message, ran.fuel, ran.engine)
    return ran


# ---- running --------------------------------------------------------------------------------


def _run(turn: Turn) -> Ran | Halted:
    world, workflow, cell, mail, catalogue, newer = turn
    if mail.value is None and mail.continuation is None and mail.hollow():
        return Halted("upcast_failed", f"no upcast of {mail.schema} succeeded", 0, "kernel")
    state = cell.state if newer is None else newer.state
    if state is None and cell.state_hash is not None:
        state = world.state_of(cell)
    ctx = Surroundings(turn) if workflow.context else None
    event = Delivered(world, mail)
    after = None if cell.pin is None else _successor(turn)
    given = make(TickInput, (state, workflow.event_name, event, cell.id.key or None, ctx, after))
    if state is None and cell.workflow_hash is None:
        # The first tick of a cell starts from what the subscription or the module gives it.
        first: bytes | Halted | None = mail.init
        if mail.seq < cell.born_seq:  # it found a cell, which is gone
            first = first_state(world, workflow.name, mail)
        if first is None:
            first = world.runner.init(catalogue, workflow, given)
        if first is not None:
            if isinstance(first, Halted):
                return first
            given = given._replace(state=first)
    reader = None
    if workflow.module_runtime == "builtin":
        reader = _Reading(world, given.state or b"", mail)
    return world.runner.tick(catalogue, workflow, given, reader)


def _successor(turn: Turn) -> tuple[Catalogue, Workflow] | None:
    """What a pinned flow goes on with when it starts anew: it has no history to keep then."""
    world, workflow, _, _, catalogue, _ = turn
    active = world.active.catalogue
    if catalogue is active or workflow.state.name != ASYNC_STATE:
        return None
    newer = active.workflows.get(workflow.name)
    return None if newer is None else (active, newer)


class _Reading:
    """Reads blobs that the cell's state, its event or a blob read before names (03 section 5).

    Content-addressed, so it gives the same at replay; a hash that nothing names is refused.
    A named blob that is not there stops the world: what a disk has lost is no fact, and a record
    that rested on it would be another one where the bytes are back.
    """

    __slots__ = ("_mail", "_named", "_world")

    def __init__(self, world: World, state: bytes, mail: Mail) -> None:
        self._world = world
        self._named = [state]
        self._mail: Mail | None = mail

    def _is_named(self, hash_text: str) -> bool:
        wanted, raw = hash_text.encode(), canon.raw_of(hash_text)
        if any(wanted in document or raw in document for document in self._named):
            return True
        if self._mail is None:
            return False
        # The event is written out only when nothing else names what is asked for.
        self._named.append(self._world.document(self._mail))
        self._mail = None
        return self._is_named(hash_text)

    def __call__(self, hash_text: str) -> bytes:
        if not self._is_named(hash_text):
            raise TickFault(f"nothing here names {hash_text}", code="exception")
        data = read_blob(self._world.blobs, canon.raw_of(hash_text))
        self._named.append(data)
        return data


# ---- a good tick ----------------------------------------------------------------------------


# tidy: the records of a tick, in their order.
def _frame(turn: Turn, ran: Ran) -> Frame:
    world, workflow, cell, mail, _, newer = turn
    output, envelope, fuel, engine, moved, written = ran
    state, status, result, reason, events, effects, ann, logs, metrics, blobs = output
    if state is not None and not (type(state) is Admitted and state.schema is workflow.state):
        state = _checked_state(workflow, state)
    limits = workflow.limits
    noted = reason is not None or logs or metrics or blobs
    # Nearly every output is small and plain, which few looks tell; others are asked one by one.
    size = len(envelope)
    large = size > limits.state_bytes_max or size > limits.output_bytes_max
    if large or events or noted or ann is not None or len(effects) > limits.effects_max:
        _check_limits(workflow, limits, ran, state)
    if result is not None and not written:
        _check_result(result)
    draft = Draft(world)
    draft.hops = hops = mail.hops + 1
    before = cell.state_hash
    after = inline = None
    size = 0
    if state is not None:
        data = state.bytes
        size = len(data)
        after = sha256(data).digest()
        if size <= INLINE_STATE_MAX:
            inline = None if after == before else data
        elif after != before:
            draft.blobs[after] = data
    fields = (
        workflow.name, cell.id.key, workflow.hash, workflow.module_hash, mail.seq, mail.index,
        cell.born_seq, size, workflow.state_version, status, sha256(envelope).digest(),
        len(events), len(effects), fuel, engine, before, after, inline, None, result, ann,
        None, None, None,
    )  # fmt: skip
    ticked = make(Ticked, fields)
    records = draft.records
    records.append(_with_notes(draft, ticked, output) if noted else ticked)
    if newer is not None and newer.migrated is not None:
        records.append(newer.migrated)
    if moved:
        records.append(CellUnpinned(workflow.name, cell.id.key, "checkpoint"))
    # What this tick causes finds its cell as the tick leaves it: an ended one is not woken.
    ended = state is None or status != RUNNING
    if ended:
        draft.ended[cell.id] = DELETED if state is None else status
    for event in events:
        emit(draft, workflow, cell, event)
    if effects:
        _ask(draft, turn, effects)
    if hops > limits.hops_max:
        _check_hops(draft, workflow)
    if ended:
        _finish(draft, turn, (state, status, result, reason))
    else:
        assert state is not None, "a cell without a state has ended"
        workflow.state.expect(state)  # by the next tick of this cell
        if cell.pin is not None and not moved and _rests(draft, turn):
            records.append(CellUnpinned(workflow.name, cell.id.key, "rest"))
    return draft.frame(make(Answer, ("ticked", world.seq + 1, None, None)))


def _ask(draft: Draft, turn: Turn, effects: tuple[EffectRequest, ...]) -> None:
    """Admit or deny what the tick asks for, and derive what follows at once."""
    world, workflow, cell, _, _, _ = turn
    place = (draft, cell, workflow, world.seq + 1, world.logical_ns + 1)
    own: list[Opened] = []
    for index, wanted in enumerate(effects):
        opened = ask(place, index, wanted)
        if opened is not None:
            own.append(opened)
    # Receipts of denials and of what the kernel performs, in the order of the effects.
    if len(draft.opened) < len(effects):
        _deny_all(draft)
    if own:
        asking = Asking(cell, workflow, world.seq + 1, world.logical_ns + 1)
        for each in own:
            internal.perform(draft, asking, each)
    most = workflow.limits.inflight_max
    if len(cell.inflight) + len(draft.opened) > most:
        # What ends in this very frame, as a cancel does and what it cancels, is not in flight.
        count = sum(intent not in draft.settled for intent in (*cell.inflight, *draft.opened))
        if count > most:
            raise LimitExceeded("inflight_max", most, count)


def _checked_state(workflow: Workflow, state: bytes | Admitted) -> Admitted:
    if isinstance(state, Admitted) and state.schema is workflow.state:
        return state
    raw = state.bytes if isinstance(state, Admitted) else state
    try:
        return workflow.state.read(raw)
    except (NotCanonical, SchemaMismatch) as why:
        raise bad_output(f"state does not fit {workflow.state.name}: {why.message}") from why


def _check_limits(workflow: Workflow, limits: Limits, ran: Ran, state: Admitted | None) -> None:
    output, envelope, _, _, _, _ = ran
    _, _, _, _, events, effects, ann, logs, metrics, blobs = output
    size = 0 if state is None else len(state.bytes)
    if size > limits.state_bytes_max:
        raise LimitExceeded("state_bytes_max", limits.state_bytes_max, size)
    rest = len(envelope) - size
    if rest > limits.output_bytes_max:
        raise LimitExceeded("output_bytes_max", limits.output_bytes_max, rest)
    if effects and len(effects) > limits.effects_max:
        raise LimitExceeded("effects_max", limits.effects_max, len(effects))
    if events and len(events) > limits.events_max:
        raise LimitExceeded("events_max", limits.events_max, len(events))
    if logs or metrics or ann is not None or blobs:
        _check_notes(workflow, output, limits)


def _check_result(result: bytes) -> None:
    """What a lane has not written itself is read before it is kept."""
    try:
        canon.decode(result)
    except NotCanonical as why:
        raise bad_output(f"result is not a canonical document: {why.message}") from why


def _check_notes(workflow: Workflow, output: TickOutput, limits: Limits) -> None:
    _bound("logs_max", limits.logs_max, len(output.logs))
    _bound("metrics_max", limits.metrics_max, len(output.metrics or {}))
    for entry in output.logs:
        size = len(canon.encode(dict(entry)))
        if size > NOTE_BYTES_MAX:
            raise LimitExceeded("logs_max", NOTE_BYTES_MAX, size)
    for name in output.metrics or {}:
        if len(name) > NOTE_BYTES_MAX:
            raise LimitExceeded("metrics_max", NOTE_BYTES_MAX, len(name))
    if output.ann is not None:
        if workflow.annotations is None:
            raise bad_output(f"{workflow.name} declares no annotations")
        try:
            # What our own modules note is written by this release; tests hold it to its schema.
            if workflow.module_runtime != "builtin":
                workflow.annotations.read(output.ann)
        except (NotCanonical, SchemaMismatch) as why:
            raise bad_output(f"annotations do not fit: {why.message}") from why
    if output.blobs and workflow.module_runtime != "builtin" and workflow.state.name != ASYNC_STATE:
        raise bad_output("blobs are for built-in and async modules")


def _bound(name: str, most: int, got: int) -> None:
    if got > most:
        raise LimitExceeded(name, most, got)


def _with_notes(draft: Draft, ticked: Ticked, output: TickOutput) -> Ticked:
    """The record of a tick that says more than its state: a reason, logs, metrics, blobs."""
    _, _, _, reason, _, _, _, logs, metrics, blobs = output
    if blobs:
        draft.blobs.update({canon.raw_of(text): data for text, data in blobs.items()})
    return ticked._replace(
        reason=None if reason is None else dict(reason),
        logs=[dict(entry) for entry in logs] if logs else None,
        metrics=dict(metrics) if metrics else None,
        blobs=[canon.raw_of(text) for text in blobs] if blobs else None,
    )


def _deny_all(draft: Draft) -> None:
    for record in list(draft.records):
        if isinstance(record, IntentDenied):
            receipts.settle(draft, record, "denied", receipts.denial_payload(record))


def _check_hops(draft: Draft, workflow: Workflow) -> None:
    """A chain that feeds itself without any outside input ends somewhere (I16)."""
    most = workflow.limits.hops_max
    for record in draft.records:
        if isinstance(record, EventAdmitted | ReceiptSettled):
            sends = bool(record.to)
        else:
            sends = isinstance(record, IntentAttached) and _is_remembered(draft, record)
        if sends:
            raise LimitExceeded("hops_max", most, draft.hops)


def _is_remembered(draft: Draft, record: IntentAttached) -> bool:
    """True for a key that is settled already: its receipt is delivered once more, at once."""
    origin = record.origin
    ended = (origin.workflow, origin.key) in draft.ended
    return not ended and not draft.is_open(record.intent) and record.intent not in draft.opened


def _rests(draft: Draft, turn: Turn) -> bool:
    """True when a tick leaves an entity with nothing to wait for: it reopens on today's code."""
    _, workflow, cell, _, _, _ = turn
    if workflow.lifecycle != "entity" or len(cell.mailbox) > 1 or draft.opened:
        return False
    if any(draft.is_open(intent) for intent in cell.inflight):
        return False
    sent = (r for r in draft.records if isinstance(r, EventAdmitted | ReceiptSettled))
    return not any((to.workflow, to.key) == cell.id for record in sent for to in record.to)


# The state, status, result and reason that a tick ends its cell with.
Last = tuple[Admitted | None, str, bytes | None, Mapping[str, str] | None]


def _finish(draft: Draft, turn: Turn, last: Last) -> None:
    state, status, result, reason = last
    _, workflow, cell, _, _, _ = turn
    if status != RUNNING:
        handled = 1 if state is not None else len(cell.mailbox)
        code = message = None
        if reason is not None:
            code, message = reason["code"], reason["message"]
        end_cell(draft, workflow, cell, (status, result, code, message, handled))
    if state is None:
        delete_cell(draft, cell)


# ---- a fault --------------------------------------------------------------------------------

# A tick with two answers says nothing about its cell, a failed migration nothing about its event:
# the cell waits for somebody to look.
_LOOKED_AT: Final = frozenset({"nondeterministic", MIGRATION_FAILED})


def _is_proved(world: World, cell: Cell) -> bool:
    """True before the first tick under code that a proof brought: its fault ends no cell."""
    return cell.last_seq < world.proved_seq and cell.pin is None


# tidy: one record and the event that tells of it.
def _fault_frame(turn: Turn, why: Halted) -> Frame:
    """Nothing of the tick counts; the cell is failed or suspended as it declared (X-04)."""
    world, workflow, cell, mail, _, _ = turn
    kept = workflow.on_fault == "suspend" or why.code in _LOOKED_AT or _is_proved(world, cell)
    action = "suspended" if kept else FAILED
    draft = Draft(world)
    draft.hops = mail.hops + 1
    # What module code raised may hold text that has no bytes.
    message = why.message[:NOTE_BYTES_MAX].encode("utf-8", "replace").decode()
    code = why.code if why.code in FAULTS else "exception"
    limit = None if why.limit is None else dict(why.limit)
    draft.add(
        WorkflowFaulted(
            workflow=workflow.name,
            key=cell.id.key,
            input_seq=mail.seq,
            input_index=mail.index,
            code=code,
            message=message,
            limit=limit,
            fuel=why.fuel,
            engine=why.engine,
            action=action,
        )
    )
    if action == FAILED:
        draft.ended[cell.id] = FAILED
    value = {
        "workflow": workflow.name,
        "key": cell.id.key or None,
        "code": code,
        "message": message,
        "input_seq": mail.seq,
        "limit": limit,
        "action": {"$tag": action},
    }
    emit_system(draft, workflow, cell, envelopes.FAULT, canon.encode(value))
    if action == FAILED:
        end_cell(draft, workflow, cell, End(FAILED, None, code, message, 1))
    return draft.frame(Answer("faulted", world.seq + 1))
