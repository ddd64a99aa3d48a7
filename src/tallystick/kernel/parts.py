"""The parts of a world: mail, cells, open intents, remembered keys, the duplicate fence.

These are the only mutable objects of the kernel, and only `fold` changes them.
Their leaf forms, which the root covers, are in `leaves`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final, NamedTuple

from tallystick.model.cells import COMPLETED, RUNNING, WAITING, CellId
from tallystick.model.records import (
    IntentDenied,
    IntentOpened,
    Origin,
    ProgressNoted,
    ReceiptSettled,
)

KERNEL: Final = "kernel"
WHATIF: Final = "whatif"  # the issuer of receipts that a synthetic world assumes
TIMER: Final = "sys/timer.set@1"
SPAWN: Final = "sys/workflow.spawn@1"
CALL: Final = "sys/workflow.call@1"
READ: Final = "sys/cell.read@1"
CANCEL: Final = "sys/effect.cancel@1"
PLAY_STEP: Final = "sys/playbook.step@1"
# Holds of what was never sent: it waits for people, or for room.
_OWN_HOLDS: Final = ("approval", "capacity")
UNSENT: Final[dict[str, Any]] = {"unsent": True}  # the detail of a fork's hold over one of these
INLINE_VALUE_MAX: Final = 64 * 1024
INLINE_STATE_MAX: Final = 4 * 1024
# Fault codes, the closed list (03 section 5): another word of module code is an `exception`.
FAULTS: Final = frozenset(
    {
        "fuel",
        "effects_max",
        "events_max",
        "event_bytes_max",
        "output_bytes_max",
        "state_bytes_max",
        "inflight_max",
        "hops_max",
        "logs_max",
        "metrics_max",
        "history_max",
        "inbox_max",
        "trap",
        "exception",
        "bad_output",
        "bad_key",
        "set_order",
        "foreign_await",
        "checkpoint_busy",
        "nondeterministic",
        "upcast_failed",
        "migration_failed",
    }
)


def is_unsent(hold: Any) -> bool:
    """True for the hold of an intent that never left; one that a fork found so is still unsent."""
    return hold is not None and (hold["kind"] in _OWN_HOLDS or hold["detail"] == UNSENT)


class Waiter(NamedTuple):
    """One continuation that an intent owes: who asked, and under which correlation id."""

    origin: Origin
    issuer_ref: str | None


class Intent:
    """An open intent: its record, and what changed since.

    Whoever asked first waits for it, by the record; `more` are those who asked again.
    """

    __slots__ = ("attempt", "due_ns", "hold", "manifest", "more", "progress", "record", "seq")

    def __init__(self, record: IntentOpened, seq: int, manifest: bytes) -> None:
        self.record = record
        self.seq = seq
        self.manifest = manifest
        self.attempt = 1
        self.hold: Any = record.hold
        self.progress = 0
        self.due_ns: int | None = record.timeout_at_ns
        self.more: tuple[Waiter, ...] = ()


class Keyed:
    """An intent with an explicit key, remembered while its cell lives (D8)."""

    __slots__ = ("manifest", "opened", "seq", "settled", "settled_seq")

    def __init__(self, opened: IntentOpened, seq: int, manifest: bytes) -> None:
        self.opened = opened
        self.seq = seq
        self.manifest = manifest
        self.settled: ReceiptSettled | None = None
        self.settled_seq = 0

    def params_digest(self) -> bytes:
        """What the key was first asked with."""
        return params_digest(self.opened)


class Fence(NamedTuple):
    """An Idempotency-Key that was seen: with what, where and when."""

    digest: bytes
    seq: int
    at_ns: int


def params_digest(record: IntentOpened | IntentDenied) -> bytes:
    """The digest of an intent's parameters, inline or not."""
    if record.params is not None:
        return sha256(record.params).digest()
    assert record.params_hash is not None, "parameters stand inline or by digest"
    return record.params_hash


class Continuation(NamedTuple):
    """A receipt or progress frame on its way to the cell that asked; its document is built late."""

    opened: IntentOpened | IntentDenied
    manifest: bytes
    waiter: Waiter
    came: ReceiptSettled | ProgressNoted


class Mail(NamedTuple):
    """One entry of a mailbox: what came, and what a tick may know of time and chance.

    `parent` is the entropy that the tick's own is derived from.
    `event_hash` stands where schema and value do not give it: with an explicit key, or an upcast.
    `fits` is the schema of a value that an upcast made; else the value is of `schema`.
    """

    seq: int
    index: int  # type: ignore[assignment]  # position of the delivery; tuple.index is not used
    schema: str
    arm: str | None
    parent: bytes
    now_ns: int
    hops: int
    value: bytes | None = None
    value_hash: bytes | None = None
    init: bytes | None = None
    continuation: Continuation | None = None
    event_hash: bytes | None = None
    fits: str | None = None

    def hollow(self) -> bool:
        """True when no upcast could give the entry a value; its tick is a fault."""
        return self.value is None and self.value_hash is None and self.continuation is None


# A cell at rest has no mail, and an empty deque is larger than all the rest of it.
# So is one with a single entry, and hardly a cell has more: no entry and one are tuples.
Mailbox = deque[Mail] | tuple[Mail, ...]
NO_MAIL: Final[Mailbox] = ()
# Distinct intents in their order; nearly every cell has none or one, and a dictionary is large.
Bonds = Collection[bytes]
NO_BONDS: Final[Bonds] = ()


def bonds_of(intents: Collection[bytes]) -> Bonds:
    """Bonds of their own: a tuple of up to one, else a dictionary."""
    return dict.fromkeys(intents) if len(intents) > 1 else tuple(intents)


def with_bond(bonds: Bonds, intent: bytes) -> Bonds:
    """The bonds with one more, changed in place where there are several."""
    if not bonds:
        return (intent,)
    if isinstance(bonds, dict):
        bonds[intent] = None
        return bonds
    return bonds_of(dict.fromkeys((*bonds, intent)))


def without_bond(bonds: Bonds, intent: bytes) -> Bonds:
    """The bonds without one, changed in place while some are left."""
    if isinstance(bonds, dict):
        bonds.pop(intent, None)
        return bonds or NO_BONDS
    return NO_BONDS if intent in bonds else bonds


class Cell:
    """One instance of a workflow."""

    __slots__ = (
        "born_seq",
        "callers",
        "caps",
        "id",
        "inflight",
        "keyed",
        "last_active_ns",
        "last_seq",
        "mailbox",
        "pin",
        "queued",
        "size",
        "state",
        "state_hash",
        "state_version",
        "status",
        "workflow_hash",
    )

    def __init__(self, ident: CellId, born_seq: int) -> None:
        self.id = ident
        self.born_seq = born_seq
        self.status = RUNNING
        self.state: bytes | None = None
        self.state_hash: bytes | None = None
        self.state_version = 1
        self.size = 0
        self.last_active_ns = 0
        self.last_seq = born_seq
        self.workflow_hash: bytes | None = None
        self.mailbox: Mailbox = NO_MAIL
        self.queued = False
        self.inflight: Bonds = NO_BONDS
        self.keyed: Bonds = NO_BONDS
        self.callers: Bonds = NO_BONDS
        self.caps: Any = None
        self.pin: bytes | None = None  # the manifest it runs under, when that is not the active one

    def post(self, mail: Mail) -> None:
        """Append to the mailbox."""
        mailbox = self.mailbox
        if not mailbox:
            self.mailbox = (mail,)
        elif isinstance(mailbox, deque):
            mailbox.append(mail)
        else:
            self.mailbox = deque((*mailbox, mail))

    def forget_first(self) -> None:
        """Take the front entry out of the mailbox."""
        mailbox = self.mailbox
        if len(mailbox) > 1 and isinstance(mailbox, deque):
            mailbox.popleft()
        else:
            self.mailbox = NO_MAIL

    def at_rest(self, lifecycle: str) -> bool:
        """An entity rests between events; a process must end (D5)."""
        if self.status == COMPLETED:
            return True
        idle = not self.inflight and not self.mailbox
        return lifecycle == "entity" and self.status == RUNNING and idle

    def shown_status(self, lifecycle: str) -> str:
        """The status readers see: waiting and rest are derived."""
        if self.status == RUNNING:
            if self.at_rest(lifecycle):
                return COMPLETED
            if self.inflight and not self.mailbox:
                return WAITING
        return self.status
