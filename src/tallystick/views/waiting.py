"""Why an effect is still open, and how it was judged when it was asked for (D13, K-23).

The judgement trail is the recorded one; nothing is evaluated again.
What only the node knows, who serves an effect and what runs now, comes as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tallystick.kernel.parts import CALL, TIMER, Intent
from tallystick.model.records import IntentDenied, IntentOpened, JudgedGrant, JudgedRule
from tallystick.values import canon
from tallystick.views import shown

STAGES: Final = ("declared", "shape", "capability", "policy", "capacity")
ASK: Final = "sys/human.ask@1"


class Serving(NamedTuple):
    """What the node knows of executors: who serves an effect, and which attempts run now.

    `serves(effect, executor)` is False when nobody on this node or in a pool takes it.
    `running` holds the attempt number of each intent that an executor has in hand, `pools` the
    pool of each one that waits for a remote worker.
    """

    serves: Callable[[str, str], bool]
    running: Mapping[bytes, int]
    pools: Mapping[bytes, str] = MappingProxyType({})


class Reason(NamedTuple):
    """Why something waits: a code, a sentence, and the facts."""

    code: str
    text: str
    detail: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """The reason as JSON."""
        return {"code": self.code, "text": self.text, "detail": self.detail}


def why(intent: Intent, serving: Serving | None = None) -> Reason:
    """Why an open intent is open; without news from the node, what the world alone says."""
    record = intent.record
    if intent.hold is not None:
        kind = intent.hold["kind"]
        return Reason("held", f"held: {kind}", shown.json_of(intent.hold))
    if record.effect == TIMER:
        return Reason("timer", "waits for its time", {"due_ns": intent.due_ns})
    if record.effect == CALL:
        return _child(record)
    detail = {"attempt": intent.attempt, "timeout_at_ns": record.timeout_at_ns}
    if serving is None:
        return Reason("outside", "waits for its executor", detail)
    attempt = serving.running.get(record.intent)
    if record.effect == ASK:
        return Reason("person", "waits for a person to answer", detail)
    if attempt is not None:
        return Reason("running", f"an executor has it, attempt {attempt}", detail)
    pool = serving.pools.get(record.intent)
    if pool is not None:
        text = f"waits for a worker of the pool {pool}"
        return Reason("worker", text, {**detail, "pool": pool})
    if not serving.serves(record.effect, record.executor):
        return Reason("no_executor", f"nobody serves {record.effect}", detail)
    return Reason("queued", f"waits for a free slot, attempt {intent.attempt}", detail)


def _child(record: IntentOpened) -> Reason:
    """Which cell is waited for, if the request that named it is small enough to stand inline."""
    if record.params is None:
        return Reason("child", "waits for the cell it called to end", {})
    wanted = canon.decode(record.params)
    workflow, key = wanted["workflow"], wanted.get("key") or b""
    text = f"waits for {workflow} {shown.key_text(key)} to end"
    return Reason("child", text, {"workflow": workflow, "key": shown.key_json(key)})


# ---- the recorded judgement -----------------------------------------------------------------


def trail(asked: IntentOpened | IntentDenied) -> list[dict[str, Any]]:
    """The five stages in order: what each said; those behind the first "no" were not reached."""
    refused = asked.stage if isinstance(asked, IntentDenied) else None
    rows: list[dict[str, Any]] = []
    reached = True
    for stage in STAGES:
        if not reached:
            rows.append({"stage": stage, "verdict": "not reached", "detail": None})
            continue
        verdict = "deny" if stage == refused else "ok"
        rows.append({"stage": stage, "verdict": verdict, "detail": _detail(asked, stage)})
        reached = stage != refused
    return rows


def _detail(asked: IntentOpened | IntentDenied, stage: str) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    said = getattr(asked.judged, stage)
    if isinstance(said, JudgedGrant):
        found = {"slot": said.slot, "grant": said.grant}
        found["grant_hash"] = canon.text_of(said.grant_hash)
    elif isinstance(said, JudgedRule):
        found = {"policy": said.policy, "rule": said.rule, "id": said.id}
        found["decision"] = said.decision
    if isinstance(asked, IntentDenied) and asked.stage == stage:
        found |= {"code": asked.code, "message": asked.message}
        found |= {"rule_text": asked.rule, "path": asked.path}
    return found or None
