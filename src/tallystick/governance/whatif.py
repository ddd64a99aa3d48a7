"""What-if: recorded inputs with some of them changed (06 section 11).

An edit names the record of an input by its sequence: another receipt, another event, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tallystick.errors import Rejected, SchemaMismatch
from tallystick.governance.recorded import Step
from tallystick.kernel.inputs import Assume, Submit
from tallystick.model.catalogue import Catalogue, Effect

_ERROR: Final = "sys/EffectError@1"
_SAID: Final = {"kind": "whatif", "code": "whatif", "message": "", "retryable": False}


class Edit(NamedTuple):
    """One change; exactly one of the three is set."""

    seq: int
    receipt: Mapping[str, Any] | None = None
    event: Any | None = None
    drop: bool = False


def read_edits(raw: Any) -> tuple[Edit, ...]:
    """The edits of a document, in their order; refuses what is none with its path."""
    if type(raw) is not list or not raw:
        raise _refused("a list of edits is expected", "/edits")
    found = tuple(_edit(each, f"/edits/{place}") for place, each in enumerate(raw))
    seqs = [edit.seq for edit in found]
    if len({*seqs}) != len(seqs):
        raise _refused("one input is edited twice", "/edits")
    return tuple(sorted(found, key=lambda edit: edit.seq))


def _edit(raw: Any, path: str) -> Edit:
    words = ("receipt", "event", "drop")
    if type(raw) is not dict or type(raw.get("seq")) is not int:
        raise _refused("an edit has a seq", path)
    chosen = [word for word in words if word in raw]
    if len(chosen) != 1 or raw.keys() - {"seq", *words}:
        raise _refused("an edit has one of receipt, event and drop", path)
    receipt = raw.get("receipt")
    if receipt is not None and (type(receipt) is not dict or receipt.get("status") not in _STATUS):
        raise _refused("a receipt has a status, ok or error, and a payload", path + "/receipt")
    return Edit(raw["seq"], receipt, raw.get("event"), raw.get("drop") is True)


_STATUS: Final = ("ok", "error")


def edited(steps: Iterable[Step], edits: Sequence[Edit], catalogue: Catalogue) -> Iterator[Step]:
    """The steps with the edits in place; refuses an edit of what is no input."""
    wanted = {edit.seq: edit for edit in edits}
    for step in steps:
        edit = wanted.pop(step.seq, None)
        made = step if edit is None else _applied(step, edit, catalogue)
        if made is not None:
            yield made
    for seq in wanted:
        raise _refused(f"the record at seq {seq} is no input", "/edits")


def _applied(step: Step, edit: Edit, catalogue: Catalogue) -> Step | None:
    if edit.drop:
        return None
    given = step.given
    try:
        if edit.receipt is not None and isinstance(given, Assume) and step.about is not None:
            effect = catalogue.effects[step.about.place.effect]
            status, payload = _receipt(effect, edit.receipt)
            return step._replace(given=given._replace(status=status, payload=payload))
        if edit.event is not None and isinstance(given, Submit):
            schema = catalogue.schemas[given.schema]
            value = schema.admit(edit.event, "sugar").bytes
            return step._replace(given=given._replace(value=value, idem_key=None))
    except SchemaMismatch as why:
        raise _refused(f"seq {edit.seq}: {why.message}", "/edits") from why
    what = "a receipt" if edit.receipt is not None else "an event"
    raise _refused(f"the record at seq {edit.seq} is not {what} from outside", "/edits")


def _receipt(effect: Effect, said: Mapping[str, Any]) -> tuple[str, bytes]:
    payload = said.get("payload")
    schema = effect.receipt
    if said["status"] == "error":
        schema = effect.error
        if schema.name == _ERROR and isinstance(payload or {}, dict):
            payload = {**_SAID, **(payload or {})}
    return said["status"], schema.admit(payload, "sugar").bytes


def _refused(message: str, path: str) -> Rejected:
    return Rejected(
        message,
        code="whatif.bad_edit",
        where={"path": path},
        hint='write [{"seq": 7, "receipt": {"status": "error", "payload": {}}}]',
    )
