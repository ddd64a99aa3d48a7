"""The contract of a journal, whatever stores it (04 section 2).

After a crash every flushed frame is there, plus a prefix of the unflushed, none partial.
An append is all or nothing for each world, and it is fenced: it names the head it builds on and the
epoch of its writer, and a deposed writer's append fails at the store (I11).

`History` opens a world and `Appender` drives one.
`Reader` is all that anyone may ask, also from another thread over a connection of its own.
`Journal` is the whole; one thread owns it.
"""

# tidy: the contract is one page.
from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tallystick.model.frames import FrameHeader, Sealed

OPEN: Final = "open"
UNFINISHED: Final = "unfinished"  # the state of a world that is being written


class Head(NamedTuple):
    """Where a journal ends: last sequence, its frame's hash, and the epoch of its writer."""

    seq: int
    hash: bytes
    epoch: int


# ---- rows -----------------------------------------------------------------------------------


class SnapshotRow(NamedTuple):
    """A snapshot that a journal keeps: where it stands, its root and its document."""

    seq: int
    root: bytes
    document: bytes
    pinned: bool = False
    at_ns: int = 0


class CheckpointRow(NamedTuple):
    """The statement `checkpoint@1` about a world, and the canonical bytes of its seal."""

    seq: int
    head: bytes
    root: bytes
    manifest: bytes
    epoch: int
    at_ns: int
    seal: bytes


class WorkRow(NamedTuple):
    """An intent that waits for a worker or is leased to one; state `settled` removes the row."""

    intent: bytes
    effect: str
    pool: str
    state: str
    attempt: int
    owner: str | None = None
    lease_id: str | None = None
    lease_until: int | None = None
    opened_seq: int = 0


class TokenRow(NamedTuple):
    """A bearer token: only the hash of its secret is kept."""

    id: str
    hash: bytes
    principal: str
    scopes: tuple[str, ...]
    worlds: tuple[str, ...]
    expires_ns: int | None = None
    revoked_ns: int | None = None


class WorldRow(NamedTuple):
    """What a journal knows of a world beside its frames.

    `base` is the floor: frames at or below it are the parent's, or trimmed.
    """

    world: str
    parent: str | None
    fork_seq: int | None
    base: Head
    head: Head
    state: str


# ---- appending ------------------------------------------------------------------------------


class Append(NamedTuple):
    """Frames of one world that become durable together with what they name."""

    world: str
    frames: Sequence[Sealed]
    expect: Head
    blobs: Mapping[bytes, bytes]
    snapshots: Sequence[SnapshotRow] = ()
    work: Sequence[WorkRow] = ()
    checkpoints: Sequence[CheckpointRow] = ()


class Fenced(NamedTuple):
    """Another writer was faster; nothing was written, now or ever by this one."""

    head: Head


class Full(NamedTuple):
    """The disk is full; the commit was rolled back and the journal stays usable."""

    head: Head


class Ambiguous(NamedTuple):
    """The store was lost while it committed: whoever asked must read the head back."""

    expect: Head


Outcome = Head | Fenced | Full | Ambiguous


class Lease(NamedTuple):
    """The right to write a world, until another epoch begins."""

    world: str
    node: str
    epoch: int


class Held(NamedTuple):
    """Another node writes this world until then."""

    node: str
    until_ns: int


class Swept(NamedTuple):
    """What a collection removed."""

    blobs: int
    bytes: int


# ---- the doors ------------------------------------------------------------------------------


class History(Protocol):
    """What is needed to open a world, now or as of any sequence."""

    def read(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[Sealed]:
        """Frames behind a sequence, in order; a fork's prefix is its parent's."""
        ...

    def head(self, world: str) -> Head:
        """Where the world's journal ends."""
        ...

    def blob(self, world: str, name: bytes) -> bytes | None:
        """The bytes behind a name, along the fork lineage; damaged ones are never given out.

        A name is a digest, and behind it the place of a node of the index that was put at one.
        """
        ...

    def room(self, world: str) -> int:
        """The first place at which no node of the world's own was put; 1 for an unknown world."""
        ...

    def snapshots(self, world: str) -> list[SnapshotRow]:
        """The snapshots that are kept, oldest first; a fork sees its parent's up to the fork."""
        ...

    def forks(self, world: str) -> list[str]:
        """The children of a world: they read its blobs, so a collection must ask them too."""
        ...


class Reader(History, Protocol):
    """Everything that may be asked of a journal; nothing here changes it."""

    def headers(self, world: str, after: int = 0, upto: int | None = None) -> Iterator[FrameHeader]:
        """What listings show of the same frames: who wrote them and when."""
        ...

    def blobs(self, world: str) -> Iterator[tuple[bytes, int]]:
        """Name and size of every blob and node of the world's own."""
        ...

    def contents(self, world: str) -> Iterator[tuple[bytes, bytes | None]]:
        """The same with their bytes, each checked against its digest; None for damaged ones."""
        ...

    def added(self, world: str, name: bytes) -> int:
        """The sequence behind which a blob or node of its own was added; -1 when there is none."""
        ...

    def faults(self) -> list[str]:
        """What the store finds wrong with itself below the rows; empty when it is sound."""
        ...

    def checkpoints(self, world: str) -> list[CheckpointRow]:
        """The signed statements about this world, oldest first."""
        ...

    def lineage(self, world: str) -> list[WorldRow]:
        """The world, its parent, and so on up to the world that was not forked."""
        ...

    def worlds(self) -> list[WorldRow]:
        """All worlds, in the order they began."""
        ...

    def aliases(self) -> dict[str, str]:
        """World by alias; the first alias of a world is its name."""
        ...

    def resolve(self, name: str) -> str:
        """The id of a world by alias or id; refuses what nobody knows."""
        ...

    def tokens(self) -> list[TokenRow]:
        """All tokens, revoked ones too."""
        ...

    def work(self, world: str) -> list[WorkRow]:
        """The intents of a world that wait for workers or are leased to them."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class Appender(History, Protocol):
    """What is needed to drive a world."""

    def append(self, *batch: Append) -> list[Outcome]:
        """Write the frames of all worlds in one commit; each world's are written whole or not.

        Raises `SyncFailed` when the store failed: nothing may be released or tried again (D15).
        """
        ...

    def acquire(self, world: str, node: str = "") -> Lease | Held:
        """Become the writer of a world: a new epoch; older writers are fenced from here on.

        An unknown world begins here.
        """
        ...

    def fork(self, parent: str, at: Head, child: str) -> None:
        """Register a child that shares the parent's frames up to a head; copies nothing.

        At what the parent inherited, the child is one of the world that it was inherited from.
        Refuses a child that exists: a history is never replaced.
        """
        ...

    def alias(self, name: str, world: str) -> None:
        """Let a name mean a world from now on."""
        ...


class Journal(Reader, Appender, Protocol):
    """Where frames become durable, and all that a node keeps beside them."""

    def tail(self, world: str, after: int) -> AsyncIterator[Sealed]:
        """Durable frames behind a sequence, then new ones as they become durable."""
        ...

    def reader(self) -> Reader:
        """A reader for another thread; whoever asked closes it."""
        ...

    def renew(self, lease: Lease) -> bool:
        """True while the lease is still the newest."""
        ...

    def release(self, lease: Lease) -> None:
        """Let another node acquire the world at once; a lease that was lost is left alone."""
        ...

    def begin(self, world: str, base: Head) -> None:
        """Register a world whose journal begins behind a floor; refuses one that exists."""
        ...

    def move_alias(self, name: str, to: str, batch: Sequence[Append]) -> list[Outcome]:
        """Append, and in the same commit let a name mean a world and fence those that lose it.

        All of it or none: one world of the batch that is fenced already undoes the whole.
        """
        ...

    def unalias(self, name: str) -> None:
        """Forget a name; one that is not there is no error."""
        ...

    def put_token(self, row: TokenRow) -> None:
        """Keep a token."""
        ...

    def revoke_token(self, token: str, at_ns: int) -> bool:
        """Revoke a token by id; False when there is none."""
        ...

    def put_work(self, world: str, *rows: WorkRow) -> None:
        """Change work without a frame: leases granted, extended and given back."""
        ...

    def add_checkpoint(self, world: str, row: CheckpointRow) -> None:
        """Keep a signed statement about a world."""
        ...

    def pin(self, world: str, seq: int, pinned: bool = True) -> None:
        """Keep a snapshot for ever, or no longer; refuses a sequence without a snapshot."""
        ...

    def set_state(self, world: str, state: str) -> None:
        """Note that a world is `open`, `read_only`, or `unfinished` and to be dropped."""
        ...

    def drop_world(self, world: str) -> None:
        """Remove a world and all it owns; refuses one that has forks."""
        ...

    def discard(self, world: str, blobs: Iterable[bytes], before: int | None = None) -> Swept:
        """Remove those of these blobs that were added before a sequence."""
        ...
