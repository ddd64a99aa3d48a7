"""Checkers of single records: their bytes (I13), and the judgements they hold (I26).

Both are computed here by another way than the product's own: the general reader and encoder for
bytes, the published rule for the facts behind a judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from tallystick.errors import NotCanonical
from tallystick.kernel.index import bare
from tallystick.model.frames import Sealed, open_frame, open_value
from tallystick.model.records import (
    EffectAttempted,
    EventAdmitted,
    IntentDenied,
    IntentOpened,
    Judged,
    ProgressNoted,
    Record,
)
from tallystick.testing.violation import Violation, must
from tallystick.values import canon

DOCUMENTS: Final = ("value", "state", "params", "payload", "result", "ann", "init", "key")


def check_I13(frame: Sealed, blobs: Mapping[bytes, bytes]) -> list[Record]:  # noqa: N802
    """Only canonical bytes are hashed and stored, and both readers read them as one.

    Gives the records of the frame.
    """
    value = _canonical(frame.body, f"the frame at {frame.seq}")
    _, _, _, records = open_frame(frame.body)
    general = open_value(value)[3]
    must(general == records, "I13", f"two readings of the frame at {frame.seq}")
    for i, record in enumerate(records):
        where = f"{type(record).__name__} at {frame.seq + i}"
        # A rejected payload is kept as evidence, as unreadable as it came.
        if getattr(record, "status", None) != "rejected":
            _check_documents(record, where)
        if isinstance(record, EventAdmitted):
            for target in record.to:
                _check_documents(target, where)
    for name, data in blobs.items():
        covered = sha256(bare(data) if name[32:] else data).digest()
        must(covered == name[:32], "I13", f"blob {name.hex()[:8]} has another name")
    return records


def _check_documents(record: Any, where: str) -> None:
    for name in DOCUMENTS:
        data = getattr(record, name, None)
        if type(data) is bytes and data:
            _canonical(data, f"{name} of {where}")


def _canonical(data: bytes, what: str) -> Any:
    try:
        value = canon.decode(data)
    except NotCanonical as why:
        raise Violation("I13", f"{what}: {why.message}") from why
    must(canon.encode(value) == data, "I13", f"{what}: encoded again it is something else")
    return value


# The trail of a denial ends at the stage that said no; the stages behind it were not asked.
_STAGES: Final = ("declared", "shape", "capability", "policy", "capacity")


class Judgements:
    """The verdicts of one world: equal questions under one manifest have equal answers."""

    def __init__(self) -> None:
        self._given: dict[tuple[bytes, str, str, str], tuple[Any, Any]] = {}
        self._given_to: dict[str, tuple[str, bytes]] = {}

    def check_I26(  # noqa: N802 - named by the invariant
        self, record: IntentOpened | IntentDenied, manifest: bytes, logical_ns: int
    ) -> None:
        """The record holds the outcome of each stage asked, and the digest of its facts."""
        judged = record.judged
        grant = judged.capability
        if grant is not None:
            when = logical_ns.to_bytes(8, "big")
            facts = sha256(b"facts@1" + record.intent + grant.grant_hash + when).digest()
            must(judged.inputs_digest == facts, "I26", f"{record.effect}: other facts")
        if isinstance(record, IntentDenied):
            _check_denied(record)
            return
        said = (judged.declared, judged.shape, judged.capacity)
        must(said == ("ok", "ok", "ok"), "I26", f"{record.effect} was opened after {said}")
        must(grant is not None and judged.policy is not None, "I26", "opened without a yes")
        # What a cell was given when it was spawned is a question of its own.
        given = grant.grant if grant is not None and "~" in grant.grant else ""
        place = (manifest, record.origin.workflow, record.effect, given)
        verdict = (grant, judged.policy)
        known = self._given.setdefault(place, verdict)
        must(known == verdict, "I26", f"{record.effect}: {verdict} where it was {known}")

    def check_I27(self, record: IntentOpened | IntentDenied) -> None:  # noqa: N802
        """Origins are the kernel's word; what a cell was given serves that cell alone."""
        kind = record.origin.kind
        must(kind in ("workflow", "system", "governance"), "I27", f"{kind} is no origin")
        grant = record.judged.capability
        if grant is not None and "~" in grant.grant:
            cell = (record.origin.workflow, record.origin.key)
            must(self._given_to.setdefault(grant.grant, cell) == cell, "I27", "a grant was lent")


class Progresses:
    """How far each open intent has told its progress."""

    def __init__(self) -> None:
        self._told: dict[bytes, int] = {}

    def check_I24(self, record: ProgressNoted | EffectAttempted) -> None:  # noqa: N802
        """Progress grows within an attempt."""
        if isinstance(record, EffectAttempted):
            self._told.pop(record.intent, None)
            return
        must(record.seq > self._told.get(record.intent, 0), "I24", "progress does not grow")
        self._told[record.intent] = record.seq


def _check_denied(record: IntentDenied) -> None:
    judged: Judged = record.judged
    must(record.stage in _STAGES, "I26", f"there is no stage {record.stage}")
    must(bool(record.code and record.message), "I26", "a denial without its reason")
    at = _STAGES.index(record.stage)
    passed = [getattr(judged, stage) for stage in _STAGES]
    # An undeclared read is found in the shape of its parameters, so that one stage may be ahead.
    behind = passed[max(at + 1, 2) :]
    must(not any(behind), "I26", f"{record.stage} said no, and {behind} was asked")
    before = passed[:at]
    good = all(each is not None and each != "no" for each in before)
    must(good, "I26", f"{record.stage} was asked after {before}")
