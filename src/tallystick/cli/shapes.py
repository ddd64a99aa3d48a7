"""The shapes of the answers that more than one command gives (04 section 9)."""

from __future__ import annotations

from typing import Any, Final

from tallystick.cli.shape import ANY, HASH

SEQ: Final = {"seq": int}
CURSOR: Final = (str, None)


def items(row: Any) -> dict[str, Any]:
    """A list answer of such rows."""
    return {"items": [row], "next": CURSOR, "as_of?": (int, None)}


def part(row: Any) -> dict[str, Any]:
    """A list out of history: with its `floor` where a journal was trimmed and a part is missing."""
    return {**items(row), "floor?": int}


WORLD_ROW: Final = {
    "world": str,
    "name": (str, None),
    "aliases": [str],
    "seq": int,
    "head": HASH,
    "epoch": int,
    "parent": (str, None),
    "fork_seq": (int, None),
    "state": str,
}
WORLD: Final = {
    **WORLD_ROW,
    "manifest": HASH,
    "logical_now_ns": int,
    "cells": int,
    "workflows": [str],
    "read_only": bool,
    "as_of": int,
}
ROOT: Final = {
    "world": str,
    "seq": int,
    "logical_now_ns": int,
    "state_root": HASH,
    "root": HASH,
    "head": HASH,
    "manifest": HASH,
    "epoch": int,
}
ROW: Final = {
    "seq": int,
    "kind": str,
    "at_ns": (int, None),
    "frame": HASH,
    "workflow": (str, None),
    "key": ANY,
    "intent": (str, None),
    "record": ANY,
}
CELL: Final = {
    "world": str,
    "workflow": str,
    "key": ANY,
    "status": str,
    "state": ANY,
    "state_hash": (HASH, None),
    "state_version": int,
    "workflow_hash": (HASH, None),
    "pinned": (HASH, None),
    "size": int,
    "last_seq": int,
    "mailbox": int,
    "mail": [ANY],
    "as_of": int,
    "born_seq": int,
    "last_active_ns": int,
    "inflight_count": int,
    "about": ANY,
    "inflight": [
        {
            "intent": HASH,
            "effect": str,
            "opened_seq": int,
            "timeout_at_ns": (int, None),
            "attempt": int,
            "issuer_ref": ANY,
            "hold": ANY,
        }
    ],
}
EFFECT: Final = {
    "intent": HASH,
    "effect": str,
    "workflow": str,
    "key": ANY,
    "status": str,
    "hold": ANY,
    "opened_seq": int,
    "settled_seq": (int, None),
    "attempts": int,
    "why": ANY,
}
VERIFY: Final = {
    "world": str,
    "level": str,
    "ok": bool,
    "frames": int,
    "records": int,
    "receipts": {"sealed": int, "bad": int},
    "blobs": {"checked": int, "missing": int, "bad": int},
    "snapshots": ANY,
    "checkpoints": ANY,
    "head": (HASH, None),
    "root": (HASH, None),
    "first_bad": (None, {"seq": (int, None), "where": ANY, "what": str}),
    "seconds": float,
}
REPLAY: Final = {
    "world": str,
    "from": ANY,
    "to": int,
    "ticks": int,
    "ok": bool,
    "root": (HASH, None),
    "expected_root": (HASH, None),
    "ticks_per_s": float,
    "first_divergence": (
        None,
        {
            "seq": int,
            "workflow": (str, None),
            "key": ANY,
            "field": str,
            "expected": ANY,
            "got": ANY,
        },
    ),
}
DOCTOR: Final = {
    "ok": bool,
    "checks": [{"id": str, "level": str, "found": ANY, "want": ANY, "fix": ANY}],
}
EFFECT_WHY: Final = {
    "intent": HASH,
    "effect": str,
    "status": str,
    "hold": ANY,
    "why": (str, None),
    "reason": ANY,
    "judged": [ANY],
    "receipt": ANY,
    "as_of": int,
}
EFFECT_SHOW: Final = {
    **EFFECT,
    "executor": (str, None),
    "effect_hash": (HASH, None),
    "timeout_at_ns": (int, None),
    "issuer_ref": (str, None),
    "asked": ANY,
    "judged": [ANY],
    "receipt": ANY,
    "reason": ANY,
    "drops?": ANY,
    "progress?": ANY,
    "as_of": int,
}
TRACE: Final = {
    "seq": int,
    "rows": [ANY],
    "more": int,
    "summary": ANY,
    "as_of": int,
    "text?": str,
    "quiet?": bool,
}
TIMELINE: Final = {
    "workflow": str,
    "key": ANY,
    "ticks": [ANY],
    "effects": [ANY],
    "marks": [ANY],
    "more": int,
    "as_of": int,
    "floor?": int,
    "text?": str,
}
GRAPH: Final = {
    "nodes": [ANY],
    "edges": [ANY],
    "more": int,
    "as_of": int,
    "floor?": int,
    "text?": str,
}
REASON: Final = {"code": str, "text": str, "detail": ANY}
EXPLAIN: Final = {
    "subject": ANY,
    "status": str,
    "reasons": [REASON],
    "judged?": [ANY],
    "more?": int,
    "as_of": int,
}
EXPLAIN_WORLD: Final = {"quiescent": (bool, None), "blockers": [ANY], "as_of": int}
DIFF: Final = {
    "world": str,
    "with": str,
    "items": [ANY],
    "next": CURSOR,
    "as_of": int,
    "with_as_of": int,
    "same": bool,
    "manifest": ANY,
    "roots": [{"root": HASH, "state_root": HASH}],
    "ancestor": ANY,
    "effects": ANY,
}
SENT: Final = {"world": str, "seq": int, "event": HASH, "quiet?": bool}
SENT_MANY: Final = {
    "sent": int,
    "refused": int,
    "first_refused": ANY,
    "seq": (int, None),
    "quiet?": bool,
}
JUDGED: Final = {
    "workflow": str,
    "effect": str,
    "decision": str,
    "code": (str, None),
    "message": (str, None),
    "hold": ANY,
    "judged": [ANY],
    "as_of": int,
}
FLOWS: Final = {
    "flows": [ANY],
    "budgets": [ANY],
    "queue": [ANY],
    "queued": int,
    "now_ns": int,
    "as_of": int,
}
