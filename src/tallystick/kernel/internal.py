"""Internal effects: spawn, call, read, cancel (X-17, X-18, X-27).

They run inside the frame of the tick that asks, without an executor, and leave intents and
receipts like any other effect: seen in traces, replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.authority.denial import Denial
from tallystick.errors import NotCanonical, SchemaMismatch
from tallystick.kernel import receipts
from tallystick.kernel.active import workflow_forged
from tallystick.kernel.admit import PERFORMED, Asking, Opened
from tallystick.kernel.draft import DELETED, Draft
from tallystick.kernel.emit import send_to
from tallystick.kernel.grants import pass_on
from tallystick.kernel.parts import CALL, CANCEL, READ, SPAWN, Cell
from tallystick.kernel.pins import catalogue_of, pinned_at
from tallystick.model.catalogue import Catalogue, Workflow
from tallystick.model.cells import CellId
from tallystick.model.records import Target
from tallystick.model.sys_definitions import EMITTED
from tallystick.values import canon


def perform(draft: Draft, asking: Asking, opened: Opened) -> None:
    """Perform an internal effect: one that is in the table below."""
    ACTIONS[opened.effect.name](draft, asking, opened)


def _answer(draft: Draft, opened: Opened, payload: dict[str, Any]) -> None:
    record = draft.opened[opened.intent]
    data = opened.effect.receipt.admit(payload, "native").bytes
    receipts.settle(draft, record, "ok", data)


def _fail(draft: Draft, opened: Opened, kind: str, code: str, message: str) -> None:
    record = draft.opened[opened.intent]
    receipts.settle(draft, record, "error", receipts.error_payload(kind, code, message))


# ---- spawn and call -------------------------------------------------------------------------


def _spawn(draft: Draft, asking: Asking, opened: Opened) -> None:
    started = _start(draft, asking, opened, caller=None)
    if started is not None:
        ident, created = started
        _answer(
            draft,
            opened,
            {"workflow": ident.workflow, "key": ident.key or None, "created": created},
        )


def _call(draft: Draft, asking: Asking, opened: Opened) -> None:
    # The receipt comes when the child ends (`ending`): that is the join.
    _start(draft, asking, opened, caller=opened.intent)


# tidy: every refusal of a spawn stands in order.
def _start(
    draft: Draft, asking: Asking, opened: Opened, caller: bytes | None
) -> tuple[CellId, bool] | None:
    """Send the payload to the child cell; on trouble settle the intent and give None."""
    wanted = opened.params.value
    child = CellId(wanted["workflow"], wanted["key"] or b"")
    # A child that is there already may be pinned; a new one uses the active bundle, also one that
    # takes the place of a cell that its own tick deletes.
    gone = draft.ended.get(child) == DELETED
    pinned = None if gone else pinned_at(draft.world, child)
    known = draft.world.active.catalogue if pinned is None else catalogue_of(draft.world, pinned)
    workflow = known.workflows.get(wanted["workflow"])
    if workflow is None:
        _fail(draft, opened, "not_found", "spawn.unknown_workflow", wanted["workflow"])
        return None
    payload = wanted["payload"]
    fault = _payload_fault(known, asking.workflow, workflow, wanted)
    if fault is not None:
        _fail(draft, opened, "schema", "spawn.bad_payload", fault)
        return None
    ident = child
    there = draft.world.cell(ident)
    created = not draft.exists(ident, there)
    if not created and not draft.takes_mail(ident, there, workflow.lifecycle):
        _fail(draft, opened, "conflict", "spawn.terminal", "the cell has ended already")
        return None
    if wanted["caps"] is not None and not created and _has_its_own(there):
        # Neither may another cell take its authority away, nor would it do with more what this one
        # meant for less.
        message = "the cell is there and keeps what it may do: spawn it without caps"
        _fail(draft, opened, "conflict", "spawn.has_caps", message)
        return None
    caps = None
    if wanted["caps"] is not None:
        given = pass_on(draft.world, asking.cell, asking.workflow, wanted["caps"], opened.intent)
        assert not isinstance(given, Denial), "admission has judged the capabilities already"
        caps = given
    target = Target(
        workflow=workflow.name,
        key=ident.key,
        create=created,
        arm=None if payload["schema"] == workflow.event_name else workflow.arms[payload["schema"]],
        caps=caps,
        caller=caller,
    )
    event = (payload["schema"], payload["value"])
    send_to(draft, asking.workflow, asking.cell, event, target)
    return ident, created


def _has_its_own(there: Cell | None) -> bool:
    """True for a cell whose authority its manifest or an operator gave it, and no spawn."""
    return there is not None and (there.caps is None or "beside" in there.caps)


def _payload_fault(
    known: Catalogue, asking: Workflow, workflow: Workflow, wanted: dict[str, Any]
) -> str | None:
    """Why a child cannot take this payload under this key, or None."""
    name = wanted["payload"]["schema"]
    if name != workflow.event_name and name not in workflow.arms:
        return f"{workflow.name} takes no {name}"
    if name.startswith("sys/") and name not in EMITTED.get(asking.name, ()):
        return f"{name} is made by the kernel alone"
    try:
        payload = known.schemas[name].read(wanted["payload"]["value"])
        if name == workflow.event_name and _is_forged(workflow, payload.value):
            return f"the arm {payload.value['$tag']} is filled by the kernel alone"
        if workflow.key is not None:
            workflow.key.read(wanted["key"] or b"")
    except (NotCanonical, SchemaMismatch) as why:
        return why.message
    if workflow.key is None and wanted["key"] is not None:
        return f"{workflow.name} has no key"
    return None


def _is_forged(workflow: Workflow, value: Any) -> bool:
    return bool(workflow.arms) and value["$tag"] in workflow_forged(workflow)


# ---- read and cancel ------------------------------------------------------------------------


def _read(draft: Draft, asking: Asking, opened: Opened) -> None:
    wanted = opened.params.value
    cell = draft.world.cell(CellId(wanted["workflow"], wanted["key"] or b""))
    state = None if cell is None else draft.world.state_of(cell)
    most = asking.workflow.limits.receipt_bytes_max
    if state is not None and len(state) > most:
        _fail(draft, opened, "limit", "read.too_large", f"{len(state)} bytes, over {most}")
        return
    # `as of this frame`: the state before the tick that asks, also when a cell reads itself.
    _answer(
        draft,
        opened,
        {
            "found": cell is not None,
            "state": state,
            "hash": None if state is None else canon.hash_of(state),
            "as_of": draft.world.seq,
        },
    )


def _cancel(draft: Draft, asking: Asking, opened: Opened) -> None:
    wanted = opened.params.value
    found = [i for i in _own(draft, asking) if _meant(draft, i, wanted) and i != opened.intent]
    for intent in found:
        receipts.cancel(draft, intent, "effect.cancelled")
    _answer(
        draft,
        opened,
        {
            "cancelled": [canon.text_of(intent) for intent in found],
            "status": {"$tag": "cancelled"} if found else None,
        },
    )


def _own(draft: Draft, asking: Asking) -> list[bytes]:
    """The open intents of the asking cell, those of this very frame included, each once."""
    cell = asking.cell
    # A frame that lets out what waited holds intents of other cells, and old ones of this cell.
    fresh = [i for i, r in draft.opened.items() if (r.origin.workflow, r.origin.key) == cell.id]
    return [i for i in dict.fromkeys([*cell.inflight, *fresh]) if draft.is_open(i)]


def _meant(draft: Draft, intent: bytes, wanted: dict[str, Any]) -> bool:
    if wanted["intent"] is not None:
        return bool(canon.text_of(intent) == wanted["intent"])
    if wanted["issuer_ref"] is None:
        return False
    return bool(receipts.opened_record(draft, intent).issuer_ref == wanted["issuer_ref"])


Action = Callable[[Draft, Asking, Opened], None]

ACTIONS: Final[dict[str, Action]] = {SPAWN: _spawn, CALL: _call, READ: _read, CANCEL: _cancel}
assert ACTIONS.keys() == PERFORMED, "what admission leaves to the kernel is what stands here"
