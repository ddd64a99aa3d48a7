"""Operator verbs: suspend, resume, skip, cancel; cancel, release and attempt of an intent (X-26).

Each is a record with principal and reason; the principal is `node` when the node acts itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.errors import Conflict, Rejected, UnknownName
from tallystick.kernel import receipts
from tallystick.kernel.draft import Answer, Draft, Frame
from tallystick.kernel.inputs import Operate
from tallystick.kernel.parts import Cell, Intent
from tallystick.kernel.pins import known_workflow, workflow_of
from tallystick.kernel.release import let_go
from tallystick.kernel.settle import fail_cell
from tallystick.kernel.world import World
from tallystick.model import envelopes
from tallystick.model.cells import COMPLETED, FAILED, SUSPENDED, CellId
from tallystick.model.records import (
    CellCancelRequested,
    CellResumed,
    CellSkipped,
    CellSuspended,
    EffectAttempted,
    Stamp,
)


def operate(world: World, given: Operate) -> Frame:
    """Carry out a verb, or refuse it with the reason."""
    action = _VERBS.get(given.verb)
    if action is None:
        raise Rejected(
            f"no operator verb {given.verb!r}",
            code="operate.unknown_verb",
            where={"path": "/verb"},
            hint=f"use one of {', '.join(sorted(_VERBS))}",
        )
    draft = Draft(world)
    action(draft, given, draft.stamp(given.sample))
    return draft.frame(Answer("operated", world.seq + 1))


def _cell(draft: Draft, given: Operate) -> Cell:
    cell = draft.world.cell(CellId(given.workflow, given.key))
    if cell is None or known_workflow(draft.world, cell) is None:
        raise UnknownName(
            f"{given.workflow} has no such cell",
            code="cell.unknown",
            where={"workflow": given.workflow, "key": given.key.hex()},
        )
    return cell


def _refuse(cell: Cell, verb: str, why: str) -> Conflict:
    return Conflict(
        f"cannot {verb} a cell that {why}",
        code="cell.wrong_status",
        where={"workflow": cell.id.workflow, "key": cell.id.key.hex(), "status": cell.status},
        hint="look at the cell's status and trace",
    )


def _suspend(draft: Draft, given: Operate, stamp: Stamp) -> None:
    cell = _cell(draft, given)
    entity = workflow_of(draft.world, cell).lifecycle == "entity"
    if cell.status in (FAILED, SUSPENDED) or (cell.status == COMPLETED and not entity):
        raise _refuse(cell, "suspend", f"is {cell.status}")
    draft.add(CellSuspended(given.workflow, given.key, given.principal, given.reason, stamp))


def _resume(draft: Draft, given: Operate, stamp: Stamp) -> None:
    cell = _cell(draft, given)
    if cell.status != SUSPENDED:
        raise _refuse(cell, "resume", "is not suspended")
    draft.add(CellResumed(given.workflow, given.key, given.principal, given.reason, stamp))


def _skip(draft: Draft, given: Operate, stamp: Stamp) -> None:
    cell = _cell(draft, given)
    if cell.status != SUSPENDED:
        raise _refuse(cell, "skip an entry of", "is not suspended")
    if not cell.mailbox:
        raise _refuse(cell, "skip an entry of", "has an empty mailbox")
    front = cell.mailbox[0].seq
    draft.add(CellSkipped(given.workflow, given.key, given.principal, given.reason, stamp, front))


def _cancel(draft: Draft, given: Operate, stamp: Stamp) -> None:
    if not given.workflow:
        _cancel_effect(draft, given, stamp)
        return
    cell = _cell(draft, given)
    workflow = workflow_of(draft.world, cell)
    if cell.status == FAILED or (cell.status == COMPLETED and workflow.lifecycle != "entity"):
        raise _refuse(cell, "cancel", f"is {cell.status}")
    if given.force or envelopes.CANCEL not in workflow.arms:
        fail_cell(draft, cell.id, given.principal, given.reason, stamp)
        return
    draft.add(
        CellCancelRequested(
            given.workflow,
            given.key,
            given.principal,
            given.reason,
            stamp,
            given.deadline_ns,
        )
    )


def _intent(draft: Draft, given: Operate) -> Intent:
    intent = draft.world.intents.get(given.intent)
    if intent is None:
        raise UnknownName(
            "no open intent has this id",
            code="effect.not_open",
            where={"intent": given.intent.hex()},
        )
    return intent


def _cancel_effect(draft: Draft, given: Operate, stamp: Stamp) -> None:
    """Settle one open intent as cancelled; who did it and why stand in its receipt."""
    intent = _intent(draft, given)
    message = f"cancelled by {given.principal}: {given.reason}"[:1024]
    payload = receipts.error_payload("cancelled", "effect.cancelled", message, retryable=False)
    receipts.settle(draft, intent.record, "cancelled", payload, stamp=stamp)


def _release(draft: Draft, given: Operate, stamp: Stamp) -> None:
    intent = _intent(draft, given)
    hold: Any = intent.hold
    if hold is None or hold["kind"] not in ("fork", "restore"):
        raise Conflict(
            "only an intent held by a fork or a restore is released by hand",
            code="effect.not_held",
            where={"intent": given.intent.hex()},
            hint="approvals and flows release their own holds",
        )
    let_go(draft, intent, given.reason, stamp)


def _attempt(draft: Draft, given: Operate, stamp: Stamp) -> None:
    intent = _intent(draft, given)
    draft.add(EffectAttempted(given.intent, intent.attempt + 1, given.reason, stamp))
    # Journaled first, published when that is durable: the journal bounds the calls outside.
    draft.opened[given.intent] = intent.record


Verb = Callable[[Draft, Operate, Stamp], None]

_VERBS: Final[dict[str, Verb]] = {
    "suspend": _suspend,
    "resume": _resume,
    "skip": _skip,
    "cancel": _cancel,
    "release": _release,
    "attempt": _attempt,
}
