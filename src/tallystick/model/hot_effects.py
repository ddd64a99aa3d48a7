"""Hot encoders, part two: intents and receipts, and the stamp that receipts share with events."""

from __future__ import annotations

from typing import Any, Final

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
    Address,
    IntentOpened,
    Judged,
    JudgedGrant,
    JudgedRule,
    Origin,
    ReceiptSettled,
    Stamp,
    put_framed,
)
from tallystick.values import canon

_NAMES: Final = canon.NAMES
_NUMBERS: Final = canon.NUMBERS
_OCTETS: Final = canon.OCTETS
_K = canon.put_key
_put_int = canon.put_int
_put_bytes = canon.put_bytes
_put_text = canon.put_text


# ---- stamps ---------------------------------------------------------------------------------

_STAMP: Final = _K("stamp") + canon.head(5, 2) + _K("now_ns")
_STAMP_LATE: Final = _K("stamp") + canon.head(5, 3) + _K("now_ns")
_ENTROPY: Final = _K("entropy")
_LOGICAL: Final = _K("logical_ns")


def put_stamp(stamp: Stamp) -> bytes:
    """The stamp of an input, with its key."""
    now_ns, logical_ns, entropy = stamp
    now = _NUMBERS[now_ns]
    # Logical time follows the clock unless inputs come faster than that.
    if logical_ns == now_ns:
        return b"".join((_STAMP, now, _ENTROPY, _OCTETS[len(entropy)], entropy))
    chance = _OCTETS[len(entropy)] + entropy + _LOGICAL
    return b"".join((_STAMP_LATE, now, _ENTROPY, chance, _put_int(logical_ns)))


# ---- intents --------------------------------------------------------------------------------

_PASSED: Final = _K("judged") + canon.head(5, 3)
_POLICY: Final = _K("policy")
_RULE: Final = _K("rule")
_ID: Final = _K("id")
_DECISION: Final = _K("decision")
_CAPABILITY: Final = _K("capability") + canon.head(5, 3) + _K("slot")
_GRANT: Final = _K("grant")
_GRANT_HASH: Final = _K("grant_hash") + DIGEST
_FACTS: Final = _K("inputs_digest") + DIGEST


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
            MAPS[3] if ident is None else MAPS[4] + _ID + _NAMES[ident],
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


_ORIGIN: Final = _K("origin") + canon.head(5, 6) + KEY
_INDEX: Final = _K("index")


def _origin(origin: Origin) -> bytes:
    kind, workflow, workflow_hash, key, tick_seq, index = origin
    return b"".join(
        (
            _ORIGIN,
            _OCTETS[len(key)],
            key,
            KIND,
            _NAMES[kind],
            _INDEX,
            _NUMBERS[index],
            TICK_SEQ,
            _NUMBERS[tick_seq],
            WORKFLOW,
            _NAMES[workflow],
            WORKFLOW_HASH,
            workflow_hash,
        )
    )


_EFFECT: Final = _K("effect")
_INTENT: Final = _K("intent") + DIGEST
_PARAMS: Final = _K("params")
_OPENED: Final = type_of("IntentOpened") + _K("executor")
_ISSUER: Final = _K("issuer_ref")
_EFFECT_HASH: Final = _K("effect_hash") + DIGEST
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
            MAPS[n],
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

_ADDRESS: Final = _K("to") + canon.head(4, 1) + canon.head(5, 2) + KEY
_SEAL: Final = _K("seal")
_USAGE: Final = _K("usage")
_KEY_ID: Final = _K("key_id")
_SETTLED: Final = type_of("ReceiptSettled")
_SOURCE: Final = _K("source")
_ATTEMPT: Final = _K("attempt")
_OUTCOME: Final = _K("outcome")
_PAYLOAD: Final = _K("payload")
_ENDED: Final = _K("ended_ns")
_EXECUTOR: Final = _K("executor")
_STARTED: Final = _K("started_ns")


def _to(to: tuple[Address, ...]) -> bytes:
    if not to:
        return TO_NONE
    workflow, key = to[0]
    return b"".join((_ADDRESS, _OCTETS[len(key)], key, WORKFLOW, _NAMES[workflow]))


_SINGLE: Final = _SEAL + canon.head(5, 3) + _K("alg") + canon.put_text("ed25519") + KEY
_SIG: Final = _K("sig")
_BATCH: Final = _SEAL + canon.head(5, 7) + _K("alg") + canon.put_text("ed25519-merkle") + KEY
_PATH: Final = _K("path")
_ROOT: Final = _K("root") + DIGEST


def _seal(seal: dict[str, Any]) -> bytes:
    if len(seal) == 3 and seal["alg"] == "ed25519":
        sig = seal["sig"]
        return b"".join((_SINGLE, _NAMES[seal["key"]], _SIG, _OCTETS[len(sig)], sig))
    if len(seal) == 7 and seal["alg"] == "ed25519-merkle":
        path, root, sig = seal["path"], seal["root"], seal["sig"]
        nodes = DIGEST.join(path)
        # Digests all of them, as in every seal that was checked; the rest goes the plain way.
        if len(nodes) == 34 * len(path) - 2 and len(root) == 32:
            length = canon.head(4, len(path)) + DIGEST
            parts = (_NAMES[seal["key"]], _SIG, _OCTETS[len(sig)], sig, _PATH, length, nodes)
            size, index = canon.put_int(seal["size"]), canon.put_int(seal["index"])
            return b"".join((_BATCH, *parts, _ROOT, root, SIZE, size, _INDEX, index))
    return _SEAL + canon.encode_item(seal)


# tidy: the table of one record, written out.
def put_settled(record: ReceiptSettled) -> bytes:
    """A settled receipt."""
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
        moment = put_stamp(stamp)
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
        said = STATUS + _NAMES[status]
        n += 1
    if attempt != 1:
        tried = _ATTEMPT + _NUMBERS[attempt]
        n += 1
    if outcome != "delivered":
        ended = _OUTCOME + _NAMES[outcome]
        n += 1
    parts = (
        MAPS[n], _to(to), sealed, moment, used, _INTENT, intent, signer, _SETTLED, came, said,
        tried, ended, _PAYLOAD, _OCTETS[len(payload)], payload, _ENDED, _NUMBERS[ended_ns],
        _EXECUTOR, _NAMES[executor], _STARTED, _NUMBERS[started_ns],
    )  # fmt: skip
    return b"".join(parts)
