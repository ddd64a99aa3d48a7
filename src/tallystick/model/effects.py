"""Intent identity: who asked, for what, and where in history (02 section 5).

Without an explicit key the identity includes the position, by the published two-step rule.
With one (D8) it is (workflow, cell, effect, key): asked again, it is the same intent.
The cell is named by key and birth, so a deleted and re-created cell inherits no old answers.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from tallystick.values import canon

STATUSES: Final = ("ok", "error", "timeout", "denied", "rejected", "cancelled")
KEY_BYTES_MAX: Final = 128


class Asker(NamedTuple):
    """The cell that asks: workflow, its definition hash as text, key bytes and birth."""

    workflow: str
    workflow_hash: str
    key: bytes
    born_seq: int


class Asked(NamedTuple):
    """The effect that is asked for: names as text, hashes as text, params as bytes."""

    effect: str
    effect_hash: str
    executor_module: str
    executor_module_hash: str
    executor_entrypoint: str
    params: bytes


# Keys of the two published preimages, in canonical order, encoded once:
# this runs for every effect of every tick.
_K = canon.put_key
_OCTETS: Final = canon.OCTETS
_NUMBERS: Final = canon.NUMBERS
_P1: Final = canon.PREFIX + canon.head(5, 8) + _K("effect")
_P1_HASH: Final = _K("effect_hash")
_P1_INDEX: Final = _K("effect_index")
_P1_SEQ: Final = _K("emitted_at_seq")
_P1_WORKFLOW: Final = _K("origin_workflow")
_P1_KEY: Final = _K("origin_instance_key")
_P1_WF_HASH: Final = _K("origin_workflow_hash")
_P1_IDEM: Final = _K("requested_idempotency_key") + canon.put_bytes(b"")
_P2: Final = canon.PREFIX + canon.head(5, 7) + _K("effect")
_P2_PARAMS: Final = _K("params")
_P2_HASH: Final = _K("effect_hash")
_P2_MODULE: Final = _K("executor_module")
_P2_IDEM: Final = _K("idempotency_key")
_P2_ENTRY: Final = _K("executor_entrypoint")
_P2_MOD_HASH: Final = _K("executor_module_hash")
_D: Final = canon.PREFIX + canon.head(5, 3) + _K("$type") + _K("dispatch@1") + _K("world")
_D_INTENT: Final = _K("intent")


class Site:
    """The part of an intent's identity that is fixed for one workflow and one effect.

    The published two-step rule; only key, place and parameters are encoded anew.
    """

    __slots__ = ("_a", "_b", "_c", "_d", "_e", "_f")

    def __init__(self, workflow: str, workflow_hash: str, asked: Asked) -> None:
        effect = canon.put_key(asked.effect)
        effect_hash = canon.put_text(asked.effect_hash)
        self._a = _P1 + effect + _P1_HASH + effect_hash + _P1_INDEX
        self._b = _P1_WORKFLOW + canon.put_key(workflow) + _P1_KEY
        self._c = _P1_WF_HASH + canon.put_text(workflow_hash) + _P1_IDEM
        self._d = _P2 + effect + _P2_PARAMS
        module = canon.put_key(asked.executor_module)
        self._e = _P2_HASH + effect_hash + _P2_MODULE + module + _P2_IDEM + b"\x58\x20"
        self._f = (
            _P2_ENTRY
            + canon.put_key(asked.executor_entrypoint)
            + _P2_MOD_HASH
            + canon.put_text(asked.executor_module_hash)
        )

    def position(self, key: bytes, seq: int, index: int) -> bytes:
        """K: the key that a position gives to an effect without an explicit one."""
        at, when = _NUMBERS[index], _NUMBERS[seq]
        parts = (self._a, at, _P1_SEQ, when, self._b, _OCTETS[len(key)], key, self._c)
        return sha256(b"".join(parts)).digest()

    def intent(self, key: bytes, params: bytes, seq: int, index: int) -> bytes:
        """The intent digest of an effect without an explicit key at one position."""
        # The position as above, in place: this runs for every effect of every tick.
        at, when, head = _NUMBERS[index], _NUMBERS[seq], _OCTETS[len(key)]
        first = b"".join((self._a, at, _P1_SEQ, when, self._b, head, key, self._c))
        place = sha256(first).digest()
        parts = (self._d, _OCTETS[len(params)], params, self._e, place, self._f)
        return sha256(b"".join(parts)).digest()


def intent_by_position(asker: Asker, asked: Asked, seq: int, index: int) -> bytes:
    """The same without a prepared site, for what is asked once."""
    site = Site(asker.workflow, asker.workflow_hash, asked)
    return site.intent(asker.key, asked.params, seq, index)


def intent_by_key(asker: Asker, effect: str, key: bytes) -> bytes:
    """The intent digest of an effect with an explicit idempotency key (D8)."""
    return canon.tagged(
        "intent_key@1",
        {
            "origin_workflow": asker.workflow,
            "origin_instance_key": asker.key,
            "origin_born_seq": asker.born_seq,
            "effect": effect,
            "idempotency_key": key,
        },
    )


def dispatch_key(world: str, intent: bytes) -> bytes:
    """The idempotency token the outside sees: other in every fork, equal for every attempt."""
    # `canon.tagged` of type, world and intent, whose keys are encoded once.
    text = canon.put_text(canon.text_of(intent))
    return sha256(b"".join((_D, canon.put_key(world), _D_INTENT, text))).digest()


def event_hash(schema: str, value: bytes, key: bytes | None) -> bytes:
    """The published event hash: the document of schema, value and, when given, key."""
    if key is None:
        parts = (_E2, _OCTETS[len(value)], value, _E_SCHEMA, canon.NAMES[schema])
        return sha256(b"".join(parts)).digest()
    return sha256(
        _E3
        + canon.put_bytes(key)
        + _E_VALUE
        + canon.put_bytes(value)
        + _E_SCHEMA
        + canon.put_key(schema)
    ).digest()


_E_VALUE: Final = _K("value")
_E_SCHEMA: Final = _K("schema")
_E2: Final = canon.PREFIX + canon.head(5, 2) + _E_VALUE
_E3: Final = canon.PREFIX + canon.head(5, 3) + _K("key")
