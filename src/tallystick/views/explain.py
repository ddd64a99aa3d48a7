"""Explain: why is this waiting, denied or blocked (D13, K-23).

Each answer is a list of reasons, every one with a code, a sentence and the facts behind it.
Nothing is judged again: what was decided stands in the world or in the record that is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from tallystick.kernel.parts import Cell
from tallystick.kernel.world import World
from tallystick.model.cells import COMPLETED, FAILED, RESTING, SUSPENDED, CellId
from tallystick.model.records import EventAdmitted, IntentDenied
from tallystick.values import canon
from tallystick.views import shown, waiting
from tallystick.views.cells import found_cell, places, status_of
from tallystick.views.pages import LOOKED_MAX
from tallystick.views.waiting import Reason, Serving

REASONS_MAX: Final = 100


def explain_cell(
    world: World,
    ident: CellId,
    serving: Serving | None = None,
    last: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Why a cell is where it is; `last` is what was last done to it, from its history."""
    cell = found_cell(world, ident)
    reasons = [*_status(world, cell, last), *_open(world, cell, serving)]
    return {
        "subject": _subject(ident),
        "status": status_of(world, cell),
        "reasons": [reason.shown() for reason in reasons[:REASONS_MAX]],
        "more": max(len(reasons) - REASONS_MAX, 0),
        "as_of": world.seq,
    }


def _status(world: World, cell: Cell, last: dict[str, Any] | None) -> list[Reason]:
    status = status_of(world, cell)
    facts = {"last": last} if last is not None else {}
    found = []
    if status == SUSPENDED:
        found.append(Reason("suspended", "an operator or a fault suspended it", facts))
    elif status == FAILED:
        found.append(Reason("failed", "it has failed and takes no more mail", facts))
    elif status == COMPLETED:
        found.append(Reason("completed", "it has ended", facts))
    elif status == RESTING:
        found.append(Reason("resting", "it has nothing to do until its next event", facts))
    if cell.mailbox:
        mail = {"events": len(cell.mailbox), "first_seq": cell.mailbox[0].seq}
        code = "blocked_mail" if status == SUSPENDED else "ready"
        text = "mail waits for it to be resumed" if status == SUSPENDED else "its turn comes"
        found.append(Reason(code, text, mail))
    return found


def _open(world: World, cell: Cell, serving: Serving | None) -> list[Reason]:
    found = []
    for path in islice(cell.inflight, REASONS_MAX + 1):
        intent = world.intents.get(path)
        assert intent is not None, "what is in flight is open"
        reason = waiting.why(intent, serving)
        facts = {"intent": canon.text_of(path), "effect": intent.record.effect}
        found.append(Reason(reason.code, reason.text, {**facts, **reason.detail}))
    return found


def explain_world(world: World, looked_max: int = LOOKED_MAX) -> dict[str, Any]:
    """Why a world is not quiescent: the first hundred blockers, each named (K-20).

    Open effects and ready cells are looked for first, then a bounded number of cells.
    `quiescent` is null when nothing was found and there are more cells to look at.
    """
    found = list(islice(_blockers(world, looked_max), REASONS_MAX))
    whole = world.cell_count <= looked_max
    quiescent = False if found else True if whole else None
    return {"quiescent": quiescent, "blockers": found, "as_of": world.seq}


def _blockers(world: World, looked_max: int) -> Iterator[dict[str, Any]]:
    for ident in world.ring:
        yield {"kind": "ready", **_subject(ident)}
    for path, intent in world.intents.entries():
        asked = CellId(intent.record.origin.workflow, intent.record.origin.key)
        facts: dict[str, Any] = {"intent": canon.text_of(path), "effect": intent.record.effect}
        yield {"kind": "intent_open", **_subject(asked), **facts, "hold": intent.hold}
    for _, cell in islice(places(world), looked_max):
        status = status_of(world, cell)
        if status not in (COMPLETED, FAILED, RESTING):
            age_ns = max(world.logical_ns - cell.last_active_ns, 0)
            facts = {"status": status, "since_seq": cell.last_seq, "age_ns": age_ns}
            yield {"kind": "cell_open", **_subject(cell.id), **facts}
        if cell.mailbox and not cell.queued:
            yield {"kind": "mailbox", **_subject(cell.id), "events": len(cell.mailbox)}


def _subject(ident: CellId) -> dict[str, Any]:
    return {"workflow": ident.workflow, "key": shown.key_json(ident.key)}


def explain_event(record: EventAdmitted, seq: int) -> dict[str, Any]:
    """Where an event went; or that nobody subscribes to it, which is no error."""
    to = [{"workflow": each.workflow, "key": shown.key_json(each.key)} for each in record.to]
    if to:
        reason = Reason("delivered", f"it went to {len(to)} cell(s)", {"to": to})
    else:
        reason = Reason("unrouted", f"no subscription took {record.schema}", {})
    return {"subject": {"seq": seq}, "status": reason.code, "reasons": [reason.shown()]}


def explain_denial(record: IntentDenied, seq: int) -> dict[str, Any]:
    """Which stage said no, with which code, and what every stage before it said."""
    facts = {"stage": record.stage, "rule": record.rule, "path": record.path}
    reason = Reason(record.code, record.message, facts)
    return {
        "subject": {"seq": seq, "intent": canon.text_of(record.intent), "effect": record.effect},
        "status": "denied",
        "reasons": [reason.shown()],
        "judged": waiting.trail(record),
    }


def explain_effect(found: dict[str, Any]) -> dict[str, Any]:
    """Why an effect is open, or how it ended; `found` is the effect as it is shown whole."""
    names = ("intent", "effect", "workflow", "key", "opened_seq", "settled_seq")
    reason = found["reason"]
    if reason is None:
        text = f"its receipt at {found['settled_seq']} says {found['status']}"
        reason = Reason(f"settled_{found['status']}", text, {"outcome": found["why"]}).shown()
    return {
        "subject": {name: found[name] for name in names},
        "status": found["status"],
        "reasons": [reason],
        "judged": found["judged"],
    }
