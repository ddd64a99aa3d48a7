"""How a cell ends: its completion event, its callers' receipts, its open intents, its mail.

Whatever ends a cell (its own status, a fault, an operator, an unreadable receipt) comes here, so
that nothing of a cell outlives it unseen.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tallystick.kernel import receipts
from tallystick.kernel.draft import Draft
from tallystick.kernel.emit import emit_system
from tallystick.kernel.ingress import lost_record
from tallystick.kernel.parts import Cell, Mail
from tallystick.model import envelopes
from tallystick.model.catalogue import Workflow
from tallystick.model.cells import COMPLETED
from tallystick.model.records import Noted
from tallystick.values import canon

DROPS_MAX: Final = 16


class End(NamedTuple):
    """How a cell ends: with its result or its reason; so many entries of its mail are handled."""

    status: str
    result: bytes | None = None
    code: str | None = None
    message: str | None = None
    handled: int = 0


# The same as a tick gives it, which ends most cells.
Ended = tuple[str, bytes | None, str | None, str | None, int]


def end_cell(draft: Draft, workflow: Workflow, cell: Cell, end: Ended) -> None:
    """Record the end of a cell: completed or failed, with its result or its reason."""
    status, result, code, message, handled = end
    ident = cell.id
    draft.ended.setdefault(ident, status)  # a deleted cell stays deleted
    seq = draft.world.seq + len(draft.records)
    document = envelopes.ended_document(
        (workflow.name, ident.key or None, status, result, code, message, cell.born_seq, seq)
    )
    emit_system(draft, workflow, cell, envelopes.COMPLETED, document)
    if cell.callers:
        _answer_callers(draft, cell, end)
    if cell.inflight or draft.opened:
        cancel_open(draft, cell, "cell.ended")
    if len(cell.mailbox) > handled and not (status == COMPLETED and workflow.lifecycle == "entity"):
        drop_mail(draft, cell, list(cell.mailbox)[handled:], "terminal")


def delete_cell(draft: Draft, cell: Cell) -> None:
    """Record what goes with a deleted cell: its open intents, and mail for no new cell."""
    # A caller waits for the end of its child, however it ends.
    _answer_callers(draft, cell, End(COMPLETED, code="cell.deleted"))
    cancel_open(draft, cell, "cell.deleted")
    active, name = draft.world.active, cell.id.workflow
    waiting = [m for m in list(cell.mailbox)[1:] if not active.begins(name, m)]
    drop_mail(draft, cell, waiting, "no_instance")


def cancel_open(draft: Draft, cell: Cell, code: str) -> None:
    """Settle every intent that the cell still has open."""
    fresh = [i for i, record in draft.opened.items() if _of(record, cell)]
    for intent in [*cell.inflight, *fresh]:
        if draft.is_open(intent):
            receipts.cancel(draft, intent, code)


def _of(record: Any, cell: Cell) -> bool:
    return bool(record.origin.workflow == cell.id.workflow and record.origin.key == cell.id.key)


def _answer_callers(draft: Draft, cell: Cell, end: Ended) -> None:
    """Join: each cell that called this one gets its receipt now (X-18)."""
    status, result, code, message, _ = end
    for intent in list(cell.callers):
        if not draft.is_open(intent):
            continue
        payload = canon.encode(
            {
                "status": {"$tag": status},
                "result": result,
                "code": code,
                "message": message,
            }
        )
        receipts.settle(draft, receipts.opened_record(draft, intent), "ok", payload)


def drop_mail(draft: Draft, cell: Cell, waiting: list[Mail], reason: str) -> None:
    """Leave evidence of mail that will not be read: the first few one by one, then a count."""
    for mail in waiting[:DROPS_MAX]:
        document = b"" if mail.hollow() else draft.world.document(mail)
        content = (canon.digest_of(document), len(document))
        draft.add(lost_record("mail", reason, cell.id, content))
    if len(waiting) > DROPS_MAX:
        draft.add(
            Noted(
                topic="mail.dropped",
                data={"reason": reason, "count": len(waiting) - DROPS_MAX},
                workflow=cell.id.workflow,
                key=cell.id.key,
            )
        )
