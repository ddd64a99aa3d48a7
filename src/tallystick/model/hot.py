"""Hot encoders: the four record types that every event, tick, effect and receipt writes.

The general codec walks a table; here the table is written out, in canonical order, with keys and
fixed heads joined beforehand.
A record with a rare field goes back to the general codec, and a test proves both equal.
What goes without saying in a frame is not written (ADR 0028).
"""

# tidy: four tables of one kind; apart they would be harder to compare.
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.model.records import (
    KIND_OF,
    Address,
    EventAdmitted,
    IdemKey,
    IntentOpened,
    Judged,
    JudgedGrant,
    JudgedRule,
    Origin,
    ReceiptSettled,
    Record,
    Source,
    Stamp,
    Target,
    Ticked,
    put_framed,
)
from tallystick.values import canon

_NAMES: Final = canon.NAMES
_NUMBERS: Final = canon.NUMBERS
_OCTETS: Final = canon.OCTETS
_MAPS: Final = tuple(canon.head(5, n) for n in range(24))
_K = canon.put_key
_put_int = canon.put_int
_put_bytes = canon.put_bytes
_put_text = canon.put_text

_D: Final = b"\x58\x20"  # the head of a digest
RUNNING: Final = "running"


def _record(name: str) -> bytes:
    return _K("record") + canon.put_text(name)


def put(record: Record) -> bytes:
    """The encoded map of a record."""
    return PUT[type(record)](record)


# ---- events ---------------------------------------------------------------------------------

_KEY: Final = _K("key")
_KIND: Final = _K("kind")
_TICK_SEQ: Final = _K("tick_seq")
_WORKFLOW: Final = _K("workflow")
_STAMP: Final = _K("stamp") + canon.head(5, 2) + _K("now_ns")
_STAMP_LATE: Final = _K("stamp") + canon.head(5, 3) + _K("now_ns")
_ENTROPY: Final = _K("entropy")
_LOGICAL: Final = _K("logical_ns")


def _stamp(stamp: Stamp) -> bytes:
    now_ns, logical_ns, entropy = stamp
    now = _NUMBERS[now_ns]
    # Logical time follows the clock unless inputs come faster than that.
    if logical_ns == now_ns:
        return b"".join((_STAMP, now, _ENTROPY, _OCTETS[len(entropy)], entropy))
    chance = _OCTETS[len(entropy)] + entropy + _LOGICAL
    return b"".join((_STAMP_LATE, now, _ENTROPY, chance, _put_int(logical_ns)))


_ARM: Final = _K("arm")
_CREATE: Final = (_K("create") + b"\xf4", _K("create") + b"\xf5")


def _target(target: Target) -> bytes | None:
    workflow, key, create, arm, upcast, value, init, caps, caller = target
    if not (upcast is None and value is None and init is None and caps is None and caller is None):
        return None
    head = _MAPS[3] if arm is None else _MAPS[4] + _ARM + _NAMES[arm]
    place = _CREATE[create]
    return b"".join((head, _KEY, _OCTETS[len(key)], key, place, _WORKFLOW, _NAMES[workflow]))


_FROM_TICK: Final = _K("origin") + canon.head(5, 4) + _KEY
_FROM_WORKFLOW: Final = _KIND + canon.put_text("workflow") + _TICK_SEQ
_ORIGIN_KIND: Final = tuple(_K("origin") + canon.head(5, n) + _KIND for n in (1, 2))
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
            _WORKFLOW,
            _NAMES[workflow],
        )
    )


_TO_NONE: Final = _K("to") + canon.head(4, 0)
_TO_ONE: Final = _K("to") + canon.head(4, 1)
_HOPS: Final = _K("hops")
_VALUE: Final = _K("value")
_EVENT: Final = _record("EventAdmitted") + _K("schema")
_EVENT_HASH: Final = _K("event_hash") + _D
_IDEM_KEY: Final = _K("idem_key") + canon.head(5, 2) + _KEY
_IDEM_DIGEST: Final = _K("digest") + _D


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
            _MAPS[7 + (stamp is not None) + (idem is not None)],
            _TO_ONE if to else _TO_NONE,
            target,
            _HOPS,
            _NUMBERS[hops],
            b"" if stamp is None else _stamp(stamp),
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
_SIZE: Final = _K("size")
_AFTER: Final = _K("after") + _D
_STATE: Final = _K("state")
_BEFORE: Final = _K("before") + _D
_ENGINE: Final = _K("engine")
_EVENTS: Final = _K("events")
_OUTPUT: Final = _K("output") + _D
_TICKED: Final = _record("Ticked")
_RESULT: Final = _K("result")
_STATUS: Final = _K("status")
_EFFECTS: Final = _K("effects")
_BORN: Final = _K("born_seq")
_INPUT_SEQ: Final = _K("input_seq")
_INPUT_INDEX: Final = _K("input_index")
_MODULE_HASH: Final = _K("module_hash") + _D
_STATE_VERSION: Final = _K("state_version")
_WORKFLOW_HASH: Final = _K("workflow_hash") + _D
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
        word = b"" if status == RUNNING else _STATUS + _NAMES[status]
        place = _INPUT_INDEX + _NUMBERS[index] if index else b""
        form = b"" if version == 1 else _STATE_VERSION + _NUMBERS[version]
        made = (
            16 - (count, word, place, form).count(b""),
            _ENGINE + _NAMES[engine] + count + _OUTPUT,
            word + _EFFECTS + _NUMBERS[effects] + _BORN,
            _WORKFLOW + _NAMES[workflow] + _INPUT_SEQ,
            b"".join((place, _MODULE_HASH, module_hash, form, _WORKFLOW_HASH, workflow_hash)),
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
        _MAPS[said], noted, _KEY, _OCTETS[len(key)], key, _FUEL, _NUMBERS[fuel], _SIZE,
        _NUMBERS[size], new, kept, old, ran, output, _TICKED, told, ends, _NUMBERS[born], of,
        _NUMBERS[input_seq], code,
    )  # fmt: skip
    return b"".join(parts)


# ---- intents --------------------------------------------------------------------------------

_PASSED: Final = _K("judged") + canon.head(5, 3)
_POLICY: Final = _K("policy")
_RULE: Final = _K("rule")
_ID: Final = _K("id")
_DECISION: Final = _K("decision")
_CAPABILITY: Final = _K("capability") + canon.head(5, 3) + _K("slot")
_GRANT: Final = _K("grant")
_GRANT_HASH: Final = _K("grant_hash") + _D
_FACTS: Final = _K("inputs_digest") + _D


class _Trails(dict[tuple[JudgedGrant, JudgedRule], bytes]):
    """Encoded trails up to their facts: a world has few pairs of a grant and a rule."""

    def __missing__(self, pair: tuple[JudgedGrant, JudgedRule]) -> bytes:
        made = _trail(*pair)
        if len(self) < 1024:
            self[pair] = made
        return made


_TRAILS: Final[dict[tuple[JudgedGrant, JudgedRule], bytes]] = _Trails()


def _judged(judged: Judged) -> bytes | None:
    declared, shape, grant, rule, capacity, facts = judged
    if grant is None or rule is None or facts is None:
        return None
    if declared != "ok" or shape != "ok" or capacity != "ok":
        return None
    return _TRAILS[grant, rule] + facts


def _trail(grant: JudgedGrant, rule: JudgedRule) -> bytes:
    policy, number, decision, ident = rule
    return b"".join(
        (
            _PASSED,
            _POLICY,
            _MAPS[3] if ident is None else _MAPS[4] + _ID + _NAMES[ident],
            _RULE,
            _NUMBERS[number],
            _POLICY,
            _NAMES[policy],
            _DECISION,
            _NAMES[decision],
            _CAPABILITY,
            _NAMES[grant[0]],
            _GRANT,
            _NAMES[grant[1]],
            _GRANT_HASH,
            grant[2],
            _FACTS,
        )
    )


_ORIGIN: Final = _K("origin") + canon.head(5, 6) + _KEY
_INDEX: Final = _K("index")


def _origin(origin: Origin) -> bytes:
    kind, workflow, workflow_hash, key, tick_seq, index = origin
    return b"".join(
        (
            _ORIGIN,
            _OCTETS[len(key)],
            key,
            _KIND,
            _NAMES[kind],
            _INDEX,
            _NUMBERS[index],
            _TICK_SEQ,
            _NUMBERS[tick_seq],
            _WORKFLOW,
            _NAMES[workflow],
            _WORKFLOW_HASH,
            workflow_hash,
        )
    )


_EFFECT: Final = _K("effect")
_INTENT: Final = _K("intent") + _D
_PARAMS: Final = _K("params")
_OPENED: Final = _record("IntentOpened") + _K("executor")
_ISSUER: Final = _K("issuer_ref")
_EFFECT_HASH: Final = _K("effect_hash") + _D
_TIMEOUT: Final = _K("timeout_at_ns")
_IDEM: Final = _K("idempotency_key")


# tidy: the table of one record, written out.
def put_opened(record: IntentOpened, *, own: bool = False) -> bytes:
    """An opened intent; `own` leaves its origin out, which is the tick of its own frame."""
    (
        intent, effect, effect_hash, executor, origin, judged, params, _, issuer, idem, timeout,
        hold, flow,
    ) = record  # fmt: skip
    trail = _judged(judged) if hold is None and flow is None else None
    if params is None or trail is None:
        return put_framed(record._replace(origin=None) if own else record)  # type: ignore[arg-type]  # left out
    n = 8 - own + (issuer is not None) + (idem is not None) + (timeout is not None)
    return b"".join(
        (
            _MAPS[n],
            _EFFECT,
            _NAMES[effect],
            _INTENT,
            intent,
            trail,
            b"" if own else _origin(origin),
            _PARAMS,
            _OCTETS[len(params)],
            params,
            _OPENED,
            _NAMES[executor],
            b"" if issuer is None else _ISSUER + _put_text(issuer),
            _EFFECT_HASH,
            effect_hash,
            b"" if timeout is None else _TIMEOUT + _put_int(timeout),
            b"" if idem is None else _IDEM + _put_bytes(idem),
        )
    )


# ---- receipts -------------------------------------------------------------------------------

_ADDRESS: Final = _K("to") + canon.head(4, 1) + canon.head(5, 2) + _KEY
_SEAL: Final = _K("seal")
_USAGE: Final = _K("usage")
_KEY_ID: Final = _K("key_id")
_SETTLED: Final = _record("ReceiptSettled")
_SOURCE: Final = _K("source")
_ATTEMPT: Final = _K("attempt")
_OUTCOME: Final = _K("outcome")
_PAYLOAD: Final = _K("payload")
_ENDED: Final = _K("ended_ns")
_EXECUTOR: Final = _K("executor")
_STARTED: Final = _K("started_ns")


def _to(to: tuple[Address, ...]) -> bytes:
    if not to:
        return _TO_NONE
    workflow, key = to[0]
    return b"".join((_ADDRESS, _OCTETS[len(key)], key, _WORKFLOW, _NAMES[workflow]))


_SINGLE: Final = _SEAL + canon.head(5, 3) + _K("alg") + canon.put_text("ed25519") + _KEY
_SIG: Final = _K("sig")
_BATCH: Final = _SEAL + canon.head(5, 7) + _K("alg") + canon.put_text("ed25519-merkle") + _KEY
_PATH: Final = _K("path")
_ROOT: Final = _K("root") + _D


def _seal(seal: dict[str, Any]) -> bytes:
    if len(seal) == 3 and seal["alg"] == "ed25519":
        sig = seal["sig"]
        return b"".join((_SINGLE, _NAMES[seal["key"]], _SIG, _OCTETS[len(sig)], sig))
    if len(seal) == 7 and seal["alg"] == "ed25519-merkle":
        path, root, sig = seal["path"], seal["root"], seal["sig"]
        nodes = _D.join(path)
        # Digests all of them, as in every seal that was checked; the rest goes the plain way.
        if len(nodes) == 34 * len(path) - 2 and len(root) == 32:
            length = canon.head(4, len(path)) + _D
            parts = (_NAMES[seal["key"]], _SIG, _OCTETS[len(sig)], sig, _PATH, length, nodes)
            size, index = canon.put_int(seal["size"]), canon.put_int(seal["index"])
            return b"".join((_BATCH, *parts, _ROOT, root, _SIZE, size, _INDEX, index))
    return _SEAL + canon.encode_item(seal)


# tidy: the table of one record, written out.
def _settled(record: ReceiptSettled) -> bytes:
    (
        intent, status, source, executor, attempt, started_ns, ended_ns, to, outcome, payload, _,
        usage, seal, key_id, stamp, error,
    ) = record  # fmt: skip
    if payload is None or error is not None or len(to) > 1:
        return put_framed(record)
    if seal is not None and type(seal) is dict and seal.get("key") == key_id:
        key_id = None
    n = 7
    sealed = moment = used = signer = came = said = tried = ended = b""
    if seal is not None:
        sealed = _seal(seal)
        n += 1
    if stamp is not None:
        moment = _stamp(stamp)
        n += 1
    if usage is not None:
        used = _USAGE + canon.encode_item(usage)
        n += 1
    if key_id is not None:
        signer = _KEY_ID + _NAMES[key_id]
        n += 1
    if source != "executor":
        came = _SOURCE + _NAMES[source]
        n += 1
    if status != "ok":
        said = _STATUS + _NAMES[status]
        n += 1
    if attempt != 1:
        tried = _ATTEMPT + _NUMBERS[attempt]
        n += 1
    if outcome != "delivered":
        ended = _OUTCOME + _NAMES[outcome]
        n += 1
    parts = (
        _MAPS[n], _to(to), sealed, moment, used, _INTENT, intent, signer, _SETTLED, came, said,
        tried, ended, _PAYLOAD, _OCTETS[len(payload)], payload, _ENDED, _NUMBERS[ended_ns],
        _EXECUTOR, _NAMES[executor], _STARTED, _NUMBERS[started_ns],
    )  # fmt: skip
    return b"".join(parts)


PUT: Final[dict[type, Callable[[Any], bytes]]] = {
    **dict.fromkeys(KIND_OF, put_framed),
    EventAdmitted: _event,
    Ticked: _ticked,
    IntentOpened: put_opened,
    ReceiptSettled: _settled,
}
