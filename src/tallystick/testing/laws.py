"""What must hold of a workflow whatever happens to it (05 section 7).

The laws look at records and at the live world, so the model checker and a `TestWorld` judge alike.

| law | says |
|---|---|
| fault | no tick faults |
| left_open | no cell completes while the outside still works for it |
| doubled | the same content again asks for nothing a second time, unless a key names it |
| stuck | a cell that has not ended waits for something |
| ends | from everywhere an end can be reached |
| invariant | what `@app.invariant` says |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from tallystick.kernel.parts import params_digest
from tallystick.kernel.world import World
from tallystick.model.cells import COMPLETED, TERMINAL, CellId
from tallystick.model.records import (
    EventAdmitted,
    IntentAttached,
    IntentDenied,
    IntentOpened,
    ReceiptSettled,
    Ticked,
    WorkflowFaulted,
)
from tallystick.testing.moves import OWN
from tallystick.testing.world import CellView
from tallystick.values import canon
from tallystick.workflow.bundle import WorkflowSpec
from tallystick.workflow.codec import codec_of
from tallystick.workflow.shape import shape_of

LAWS: Final = {
    "fault": "no tick faults",
    "left_open": "a cell does not complete while the outside still works for it",
    "doubled": "the same content again asks for nothing twice without a key",
    "stuck": "a cell that has not ended waits for something",
    "ends": "an end can be reached",
}
INVARIANT: Final = "invariant "


class Happened(NamedTuple):
    """One thing on the way: `event`, `emitted`, `asked` or `settled`.

    `value` is the record, or the parameters of the effect; `status` is how it was settled.
    """

    kind: str
    name: str
    value: Any
    status: str | None = None


Doubles = frozenset[tuple[str, bytes]]


def faulted(records: Iterable[Any]) -> str | None:
    """The fault among these records, in words."""
    for record in records:
        if isinstance(record, WorkflowFaulted):
            return f"{record.code}: {record.message}"
    return None


def left_open(frame: Sequence[Any], ident: CellId, effects: Callable[[bytes], str]) -> str | None:
    """The effect that the frame of a completion had to cancel."""
    done = any(
        isinstance(record, Ticked)
        and (record.workflow, record.key) == ident
        and record.status == COMPLETED
        for record in frame
    )
    if not done:
        return None
    for record in frame:
        if isinstance(record, ReceiptSettled) and record.status == "cancelled":
            # A cell that cancels its own request first has left nothing open.
            ended = _code(record) in ("cell.ended", "cell.deleted")
            name = effects(record.intent)
            if ended and name not in OWN:
                return f"{name} was open when the cell completed"
    return None


def _code(record: ReceiptSettled) -> str:
    assert record.payload is not None, "what the kernel says is short"
    return str(canon.decode(record.payload)["code"])


def unkeyed(records: Iterable[Any], ident: CellId) -> list[tuple[str, bytes]]:
    """The requests of a cell to the outside that no key names, by effect and parameters."""
    return [
        (record.effect, params_digest(record))
        for record in records
        if isinstance(record, IntentOpened)
        and record.idempotency_key is None
        and record.effect not in OWN
        and (record.origin.workflow, record.origin.key) == ident
    ]


def doubled(records: Iterable[Any], ident: CellId, before: Doubles) -> str | None:
    """The request that a repeated event made although it stood before."""
    for asked in unkeyed(records, ident):
        if asked in before:
            return f"{asked[0]} was asked for again, without a key, by a repeated event"
    return None


def has_ended(world: World, spec: WorkflowSpec, ident: CellId) -> bool:
    """True for a cell that ended, was deleted or rests, and for one that has not begun."""
    cell = world.cell(ident)
    if cell is None or cell.status in TERMINAL:
        return True
    return spec.options.lifecycle == "entity" and cell.at_rest("entity")


def is_idle(world: World, ident: CellId) -> bool:
    """True when nothing is on its way to a cell."""
    cell = world.cell(ident)
    return cell is not None and not cell.inflight and not cell.mailbox


class Reading:
    """Turns records and cells of one workflow into what invariants are given."""

    def __init__(self, spec: WorkflowSpec, app: Any) -> None:
        self.spec = spec
        self._shape = shape_of(spec)
        self._classes = dict(_classes(spec, app))

    def cell(self, world: World, ident: CellId) -> CellView:
        """The cell as a value."""
        cell = world.cell(ident)
        if cell is None:
            return CellView(None, "absent", 0, 0)
        data = world.state_of(cell)
        state = None if data is None else canon.decode(data)
        if state is not None and not self.spec.is_async:
            state = self._shape.state_codec.value(state)
        status = cell.shown_status(self.spec.options.lifecycle)
        return CellView(state, status, len(cell.mailbox), len(cell.inflight))

    def trace(self, records: Iterable[Any]) -> tuple[Happened, ...]:
        """What happened, from records in their order."""
        found: list[Happened] = []
        effects: dict[bytes, tuple[str, Any]] = {}
        for record in records:
            match record:
                case EventAdmitted(schema=schema, value=value, stamp=stamp):
                    kind = "event" if stamp is not None else "emitted"
                    found.append(Happened(kind, schema, self._value(schema, value)))
                case IntentOpened() | IntentDenied():
                    params = self._value(record.effect, record.params)
                    effects[record.intent] = (record.effect, params)
                    found.append(Happened("asked", record.effect, params))
                case IntentAttached(intent=intent) if intent in effects:
                    found.append(Happened("asked", *effects[intent]))
                case ReceiptSettled(intent=intent, status=status) if intent in effects:
                    found.append(Happened("settled", *effects[intent], status))
        return tuple(found)

    def _value(self, name: str, data: bytes | None) -> Any:
        cls = self._classes.get(name)
        if data is None:
            return None
        plain = canon.decode(data)
        return plain if cls is None else codec_of(cls).value(plain)


def _classes(spec: WorkflowSpec, app: Any) -> Iterable[tuple[str, Any]]:
    for value in spec.tick.__globals__.values():
        if isinstance(value, type) and hasattr(value, "tally_named"):
            yield app.name_of(value), value
