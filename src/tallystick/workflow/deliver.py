"""From a delivered event to the object that a reducer matches on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallystick.model.abi import Came
from tallystick.values import canon
from tallystick.workflow import outcomes, outside
from tallystick.workflow.ctx import Asked
from tallystick.workflow.shape import CANCEL, PROGRESS, RECEIPT, REJECTED, Shape

_CALL: Final = "sys/workflow.call@1"
_READ: Final = "sys/cell.read@1"
_FAILED: Final = {"timeout": "Timeout", "cancelled": "Cancelled", "error": "Error"}


def event_of(shape: Shape, plain: Any, ctx: Asked) -> Any:
    """The event of a tick: a record, an outcome, progress or a request to cancel."""
    if shape.plain_event:
        return next(iter(shape.codecs.values())).value(plain)
    tag, value = plain["$tag"], plain["$value"]
    codec = shape.codecs.get(tag)
    if codec is not None:
        return codec.value(value)
    at = ctx.now
    if tag == RECEIPT:
        intent = canon.raw_of(value["intent_hash"])
        kept = (value["effect"], value["status"]["$tag"], value["receipt_payload"])
        return outcome_of(shape, Came(*kept, value["issuer_ref"], intent), at)
    if tag == REJECTED:
        cls: Any = shape.heard.get(value["effect"], outcomes)
        message = value["error_message"]
        return cls.Rejected(
            **_place(value, at), kind="rejected", code=value["error_code"], message=message
        )
    if tag == PROGRESS:
        return _progress(shape, value, at)
    assert tag == CANCEL, "the event schema has no other arms"
    return outside.CancelRequested(**value)


def outcome_of(shape: Shape, came: Came, at: int) -> Any:
    """The outcome behind a receipt; its payload follows its status (02 section 5)."""
    effect, status, raw, issuer_ref, intent = came
    # What was neither declared nor named is refused, and that refusal is of no effect's class.
    cls: Any = shape.heard.get(effect, outcomes)
    payload = canon.decode(raw)
    place = {"corr": issuer_ref or "", "intent": canon.text_of(intent), "at": at}
    if status == "ok":
        return _ok(shape, cls, payload, place)
    if status == "denied":
        named = {name: payload[name] for name in ("code", "message", "rule")}
        return cls.Denied(**place, kind="denied", **named)
    if not isinstance(payload, dict) or "code" not in payload:
        # An effect with an error schema of its own: its whole payload is the message.
        said = canon.text_of(canon.digest(payload))
        return cls.Error(**place, kind=status, code=f"effect.{status}", message=said)
    named = {name: payload.get(name) for name in ("kind", "code", "message", "retryable")}
    return getattr(cls, _FAILED[status])(**place, **named)


def _ok(shape: Shape, cls: Any, payload: Any, place: dict[str, Any]) -> Any:
    name = shape.spec.bundle.name_of(cls)
    if name == _CALL:
        if payload["status"]["$tag"] == "completed":
            result = payload["result"]
            return cls.Ok(**place, value=None if result is None else canon.decode(result))
        code, message = payload["code"] or "workflow.failed", payload["message"] or ""
        return cls.Error(**place, kind="child", code=code, message=message)
    if name == _READ:
        state = payload["state"]
        found = None if state is None else shape.read_codec.value(canon.decode(state))
        return cls.Ok(**place, value=found)
    return cls.Ok(**place, value=cls.tally_receipt.value(payload))


def _progress(shape: Shape, value: Mapping[str, Any], at: int) -> Any:
    cls: Any = shape.heard[value["effect"]]
    payload = canon.decode(value["payload"]) if value["payload"] else None
    return cls.Progress(**_place(value, at), seq=value["seq"], kind=value["kind"], payload=payload)


def _place(value: Mapping[str, Any], at: int) -> dict[str, Any]:
    return {"corr": value["issuer_ref"] or "", "intent": value["intent_hash"], "at": at}
