"""From verdicts to a plan: what becomes of each open cell (06 section 9).

One cell that is refused blocks it all; the cells are then the blockers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected
from tallystick.governance.prove import DIVERGES, FORM, IDENTICAL, NEEDS_MIGRATION, Verdict
from tallystick.kernel.inputs import Planned
from tallystick.kernel.plans import CONTINUE, MIGRATE, PIN
from tallystick.values import canon

REFUSE: Final = "refuse"
ROWS_MAX: Final = 10_000

# Verdict -> what may be done about it, the default first.
ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    IDENTICAL: (CONTINUE, PIN),
    DIVERGES: (REFUSE, PIN),
    NEEDS_MIGRATION: (MIGRATE, PIN, REFUSE),
}


class Choice(NamedTuple):
    """A plan, or the verdicts that stand in its way."""

    plan: dict[tuple[str, bytes], Planned]
    refused: list[Verdict]


def chosen(verdicts: Iterable[Verdict], on: Mapping[str, str] | None = None) -> Choice:
    """The plan of verdicts; `on` chooses otherwise for `VERDICT` or `WORKFLOW:VERDICT`."""
    wanted = dict(on or {})
    _check(wanted)
    plan: dict[tuple[str, bytes], Planned] = {}
    refused: list[Verdict] = []
    for each in verdicts:
        action = _action(each, wanted)
        if action == REFUSE:
            refused.append(each)
        else:
            plan[each.cell.workflow, each.cell.key] = Planned(each.seq, action)
    return Choice(plan, refused)


def _action(verdict: Verdict, wanted: Mapping[str, str]) -> str:
    name = verdict.verdict
    own = wanted.get(f"{verdict.cell.workflow}:{name}", wanted.get(name))
    if own is None:
        return ALLOWED[name][0] if verdict.ok else REFUSE
    # A migration that was tried in vain is not tried again on the live cell.
    return REFUSE if own == MIGRATE and not verdict.ok else own


def _check(wanted: Mapping[str, str]) -> None:
    for name, action in wanted.items():
        verdict = name.rpartition(":")[2]
        allowed = ALLOWED.get(verdict)
        if allowed is None or action not in allowed:
            words = ", ".join(f"{v}={a}" for v, all_ in ALLOWED.items() for a in all_)
            raise Rejected(
                f"{name}={action} is no choice",
                code="gov.bad_choice",
                where={"path": "/on"},
                hint=f"use one of {words}, or put WORKFLOW: before it",
            )


def proof_report(
    base: bytes, bundle: bytes, verdicts: Iterable[Verdict], proposal: str | None = None
) -> dict[str, Any]:
    """The report of a proof: how many verdicts of each kind, and the rows in a fixed order.

    Rows of identical cells are counted and hashed, and only the first of the others are written
    out: a report is one document, however many cells there are.
    """
    rows = sorted(verdicts, key=lambda each: each.cell)
    counts = dict.fromkeys(ALLOWED, 0)
    digest = sha256()
    for each in rows:
        counts[each.verdict] += 1
        digest.update(canon.encode(each.row()))
    told = [each.row() for each in rows if each.verdict != IDENTICAL]
    return {
        "report": FORM,
        "proposal": proposal,
        "base": canon.text_of(base),
        "bundle": canon.text_of(bundle),
        "cells": len(rows),
        "ticks": sum(each.ticks for each in rows),
        "verdicts": counts,
        "rows_hash": canon.text_of(digest.digest()),
        "rows": told[:ROWS_MAX],
    }
