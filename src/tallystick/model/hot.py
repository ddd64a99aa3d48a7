"""Hot encoders: the four record types that every event, tick, effect and receipt writes.

The general codec walks a table; here the table is written out, in canonical order, with keys and
fixed heads joined beforehand.
A record with a rare field goes back to the general codec, and a test proves both equal.
What goes without saying in a frame is not written (ADR 0028).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.model.hot_effects import put_opened, put_settled, put_stamp
from tallystick.model.hot_pieces import (
    DIGEST,
    KEY,
    KIND,
    MAPS,
    SIZE,
    STATUS,
    TICK_SEQ,
    TO_NONE,
    WORKFLOW,
    WORKFLOW_HASH,
    type_of,
)
from tallystick.model.records import (
    KIND_OF,
    EventAdmitted,
    IdemKey,
    IntentOpened,
    ReceiptSettled,
    Record,
    Source,
    Target,
    Ticked,
    put_framed,
)
from tallystick.values import canon

_NAMES: Final = canon.NAMES
_NUMBERS: Final = canon.NUMBERS
_OCTETS: Final = canon.OCTETS
_K = canon.put_key
_put_text = canon.put_text

RUNNING: Final = "running"


def put(record: Record) -> bytes:
    """The encoded map of a record."""
    return PUT[type(record)](record)


# ---- events ---------------------------------------------------------------------------------

_ARM: Final = _K("arm")
_CALLER: Final = _K("caller") + DIGEST
_CREATE: Final = (_K("create") + b"\xf4", _K("create") + b"\xf5")


def _target(target: Target) -> bytes | None:
    workflow, key, create, arm, upcast, value, init, caps, caller = target
    if not (upcast is None and value is None and init is None and caps is None):
        return None
    head = MAPS[3 + (arm is not None) + (caller is not None)]
    named = b"" if arm is None else _ARM + _NAMES[arm]
    asked = b"" if caller is None else _CALLER + caller
    place = _CREATE[create]
    return b"".join(
        (head, named, KEY, _OCTETS[len(key)], key, asked, place, WORKFLOW, _NAMES[workflow])
    )


_FROM_TICK: Final = _K("origin") + canon.head(5, 4) + KEY
_FROM_WORKFLOW: Final = KIND + canon.put_text("workflow") + TICK_SEQ
_ORIGIN_KIND: Final = tuple(_K("origin") + canon.head(5, n) + KIND for n in (1, 2))
_PRINCIPAL: Final = _K("principal")


class _Senders(dict[tuple[str, str | None], bytes]):
    """Who sends from outside, encoded: kind and principal recur."""

    def __missing__(self, sender: tuple[str, str | None]) -> bytes:
        kind, principal = sender
        made = _ORIGIN_KIND[principal is not None] + _put_text(kind)
        if principal is not None:
            made += _PRINCIPAL + _put_text(principal)
        if len(self) < _SENDERS_MAX:
            self[sender] = made
        return made


_SENDERS_MAX: Final = 1024
_SENDERS: Final[dict[tuple[str, str | None], bytes]] = _Senders()


def _source(source: Source) -> bytes | None:
    kind, principal, workflow, key, tick_seq = source
    if key is None and tick_seq is None and workflow is None:
        return _SENDERS[kind, principal]
    if kind != "workflow" or key is None or tick_seq is None or workflow is None:
        return None
    if principal is not None:
        return None
    return b"".join(
        (
            _FROM_TICK,
            _OCTETS[len(key)],
            key,
            _FROM_WORKFLOW,
            _NUMBERS[tick_seq],
            WORKFLOW,
            _NAMES[workflow],
        )
    )


_TO_ONE: Final = _K("to") + canon.head(4, 1)
_HOPS: Final = _K("hops")
_VALUE: Final = _K("value")
_EVENT: Final = type_of("EventAdmitted") + _K("schema")
_EVENT_HASH: Final = _K("event_hash") + DIGEST
_IDEM_KEY: Final = _K("idem_key") + canon.head(5, 2) + KEY
_IDEM_DIGEST: Final = _K("digest") + DIGEST


def _fence(idem: IdemKey) -> bytes:
    key, digest = idem
    return b"".join((_IDEM_KEY, _OCTETS[len(key)], key, _IDEM_DIGEST, digest))


def _event(record: EventAdmitted) -> bytes:
    schema, event_hash, origin, hops, to, value, _, key, tags, idem, stamp = record
    if value is None or len(to) > 1:
        return put_framed(record)
    if not (key is None and tags is None):
        return put_framed(record)
    target = _target(to[0]) if to else b""
    came = _source(origin)
    if target is None or came is None:
        return put_framed(record)
    return b"".join(
        (
            MAPS[7 + (stamp is not None) + (idem is not None)],
            _TO_ONE if to else TO_NONE,
            target,
            _HOPS,
            _NUMBERS[hops],
            b"" if stamp is None else put_stamp(stamp),
            _VALUE,
            _OCTETS[len(value)],
            value,
            came,
            _EVENT,
            _NAMES[schema],
            b"" if idem is None else _fence(idem),
            _EVENT_HASH,
            event_hash,
        )
    )


# ---- ticks ----------------------------------------------------------------------------------

_ANN: Final = _K("ann")
_FUEL: Final = _K("fuel")
_AFTER: Final = _K("after") + DIGEST
_STATE: Final = _K("state")
_BEFORE: Final = _K("before") + DIGEST
_ENGINE: Final = _K("engine")
_EVENTS: Final = _K("events")
_OUTPUT: Final = _K("output") + DIGEST
_TICKED: Final = type_of("Ticked")
_RESULT: Final = _K("result")
_EFFECTS: Final = _K("effects")
_BORN: Final = _K("born_seq")
_INPUT_SEQ: Final = _K("input_seq")
_INPUT_INDEX: Final = _K("input_index")
_MODULE_HASH: Final = _K("module_hash") + DIGEST
_STATE_VERSION: Final = _K("state_version")
_NO_NOTES: Final = (None, None, None, None)
_RAN_MAX: Final = 4096


_Said = tuple[str, int, str, int, str, int, bytes, int, bytes]
_Pieces = tuple[int, bytes, bytes, bytes, bytes]


class _Ran(dict[_Said, _Pieces]):
    """What recurs in the ticks of a workflow: how many fields are said, and four pieces.

    They are engine and events, up to the digest of the output; status and effects, up to the birth
    of the cell; its workflow, up to its input; index and code, the end of the record.
    """

    def __missing__(self, said: _Said) -> _Pieces:
        engine, events, status, effects, workflow, index, module_hash, version, workflow_hash = said
        count = _EVENTS + _NUMBERS[events] if events else b""
        word = b"" if status == RUNNING else STATUS + _NAMES[status]
        place = _INPUT_INDEX + _NUMBERS[index] if index else b""
        form = b"" if version == 1 else _STATE_VERSION + _NUMBERS[version]
        made = (
            16 - (count, word, place, form).count(b""),
            _ENGINE + _NAMES[engine] + count + _OUTPUT,
            word + _EFFECTS + _NUMBERS[effects] + _BORN,
            WORKFLOW + _NAMES[workflow] + _INPUT_SEQ,
            b"".join((place, _MODULE_HASH, module_hash, form, WORKFLOW_HASH, workflow_hash)),
        )
        if len(self) < _RAN_MAX:
            self[said] = made
        return made


_RAN: Final[dict[_Said, _Pieces]] = _Ran()


# tidy: the table of one record, written out.
def _ticked(record: Ticked) -> bytes:
    (
        workflow, key, workflow_hash, module_hash, input_seq, index, born, size, version, status,
        output, events, effects, fuel, engine, before, after, state, reason, result, ann, logs,
        metrics, blobs,
    ) = record  # fmt: skip
    if (reason, logs, metrics, blobs) != _NO_NOTES:
        return put_framed(record)
    said, ran, ends, of, code = _RAN[
        engine, events, status, effects, workflow, index, module_hash, version, workflow_hash
    ]
    noted = new = kept = old = told = b""
    if ann is not None:
        noted = _ANN + _OCTETS[len(ann)] + ann
        said += 1
    if after is not None:
        new = _AFTER + after
        said += 1
    if state is not None:
        kept = _STATE + _OCTETS[len(state)] + state
        said += 1
    if before is not None:
        old = _BEFORE + before
        said += 1
    if result is not None:
        told = _RESULT + _OCTETS[len(result)] + result
        said += 1
    parts = (
        MAPS[said], noted, KEY, _OCTETS[len(key)], key, _FUEL, _NUMBERS[fuel], SIZE,
        _NUMBERS[size], new, kept, old, ran, output, _TICKED, told, ends, _NUMBERS[born], of,
        _NUMBERS[input_seq], code,
    )  # fmt: skip
    return b"".join(parts)


PUT: Final[dict[type, Callable[[Any], bytes]]] = {
    **dict.fromkeys(KIND_OF, put_framed),
    EventAdmitted: _event,
    Ticked: _ticked,
    IntentOpened: put_opened,
    ReceiptSettled: put_settled,
}
