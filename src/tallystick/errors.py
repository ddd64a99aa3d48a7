"""Errors, by whose fault they are.

    TallyError
      Rejected      the caller       400-422, exit 1 or 2
        NotCanonical    bytes that are not canonical CBOR            (cbor.*)
        SchemaMismatch  a value that does not fit its schema         (value.*)
        BadDefinition   a schema, definition or bundle that is wrong (schema.* def.* ...)
        UnknownName     a name nobody defined
        Forbidden       an identity without the right
        TooLarge        over a size that is a rule
        NotQuiescent    work is open where none may be
        Conflict        the same key, another content
      Fault         a workflow       422, exit 1
        TickFault LimitExceeded ReceiptFault
      Unavailable   the outside      429 503 507, exit 3
        Busy ExecutorDown LaneMissing DiskFull NotOwner SyncFailed
      Diverged      us or the disk   500, exit 4: stop
        ReplayDiverged JournalCorrupt (BlobLost: 503, it may come back)

Each class has a stable default `code` (`area.reason`), an HTTP status and an exit code.
Each instance has one sentence, `where` (path, seq, cell) and a `hint` that says what to do.
Tests and callers match on `code`, never on text.
A denial is a receipt, not an exception; a tick fault inside the kernel is a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class TallyError(Exception):
    """Base of every error the product raises on purpose."""

    default_code: ClassVar[str] = "tally.error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        where: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code if code is not None else self.default_code
        self.where: dict[str, Any] = dict(where or {})
        self.hint = hint if hint is not None else self.default_hint

    def problem(self) -> dict[str, Any]:
        """The error as one JSON-ready object, as the CLI and the API show it."""
        return {
            "code": self.code,
            "status": self.status,
            "detail": self.message,
            "where": self.where,
            "hint": self.hint,
        }


class Rejected(TallyError):
    """The caller sent something that is not taken. Nothing was written."""

    default_code = "request.rejected"
    status = 400
    exit_code = 2
    default_hint = "correct the request and send it again"


class NotCanonical(Rejected):
    """Bytes that are not one canonical document; `where["offset"]` is the byte."""

    default_code = "cbor.prefix"
    status = 422
    default_hint = "encode the value with tallystick's canonical codec"

    def __init__(self, message: str, *, code: str, offset: int) -> None:
        super().__init__(message, code=code, where={"offset": offset})
        self.offset = offset


class SchemaMismatch(Rejected):
    """A value does not fit its schema; `errors` holds up to 16 findings, each with its path."""

    default_code = "value.mismatch"
    status = 422
    default_hint = "compare the value at the given paths with the schema"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        schema: str = "",
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        where = {"schema": schema, "errors": [dict(e) for e in errors]}
        super().__init__(message, code=code, where=where)
        self.schema = schema
        self.errors: list[dict[str, Any]] = where["errors"]  # type: ignore[assignment]  # same list, precise type


class BadDefinition(Rejected):
    """A schema, definition, manifest or bundle that the checker refuses."""

    default_code = "def.bad_name"
    status = 422
    default_hint = "see the path, correct the definition and check it again"


class UnknownName(Rejected):
    """A name that the world, the manifest or the node does not know."""

    default_code = "name.unknown"
    status = 404
    default_hint = "list the known names and compare the spelling"


class Forbidden(Rejected):
    """The identity is known and lacks the right."""

    default_code = "auth.forbidden"
    status = 403
    exit_code = 1
    default_hint = "ask for a token with the scope that is named"


class TooLarge(Rejected):
    """Over a size that is a rule of the world."""

    default_code = "ingress.too_large"
    status = 413
    default_hint = "send less, or pass large content by reference"


class NotQuiescent(Rejected):
    """Work is open where none may be; the blockers are named in `where`."""

    default_code = "gov.not_quiescent"
    status = 409
    exit_code = 1
    default_hint = "finish or cancel the named work first"


class Conflict(Rejected):
    """The same key was used before with another content."""

    default_code = "ingress.idempotency_conflict"
    status = 409
    exit_code = 1
    default_hint = "use a new key for a new content"


class Fault(TallyError):
    """A workflow did what it may not; the cell pays, nobody else."""

    default_code = "exception"
    status = 422
    exit_code = 1
    default_hint = "correct the workflow, then resume or skip the entry"


class TickFault(Fault):
    """A tick ended without an acceptable output; `code` is a fault code of the kernel."""


class LimitExceeded(TickFault):
    """A tick passed a limit; `code` is the limit's name."""

    default_code = "fuel"
    default_hint = "do less per tick, or raise the limit in the manifest"

    def __init__(self, name: str, limit: int, got: int) -> None:
        super().__init__(f"{name}: {got} is over the limit of {limit}", code=name)
        self.limit = {"name": name, "max": limit, "got": got}


class ReceiptFault(Fault):
    """A receipt that cannot be read under the schema of its effect."""

    default_code = "receipt.unreadable"
    default_hint = "correct the executor: its payload must fit the effect's receipt schema"


class Unavailable(TallyError):
    """Something outside cannot serve now; the same request may succeed later."""

    default_code = "node.unavailable"
    status = 503
    exit_code = 3
    default_hint = "try again later"


class Busy(Unavailable):
    """A bounded queue is full."""

    default_code = "ingress.busy"
    status = 429
    default_hint = "wait for the time in Retry-After, then send again with the same Idempotency-Key"


class ExecutorDown(Unavailable):
    """No executor serves the effect."""

    default_code = "effect.no_executor"
    default_hint = "start a worker that serves the effect"


class LaneMissing(Unavailable):
    """What runs a kind of module is not installed here; the module itself may be sound."""

    default_code = "wasm.not_installed"
    default_hint = "pip install 'tallystick[wasm]'"


class DiskFull(Unavailable):
    """The disk is full; reads go on."""

    default_code = "node.disk_full"
    status = 507
    default_hint = "free space; the node recovers by itself"


class NotOwner(Unavailable):
    """Another writer owns the world now."""

    default_code = "world.moved"
    default_hint = "ask the node that owns the world"


class SyncFailed(Unavailable):
    """A sync to disk failed; the node stops and acknowledges nothing more (D15)."""

    default_code = "journal.sync_failed"
    default_hint = "check the disk, then start the node again; nothing unacknowledged is promised"


class Diverged(TallyError):
    """Our own promise is broken, or the disk's: stop before more is built on it."""

    default_code = "replay.diverged"
    status = 500
    exit_code = 4
    default_hint = "keep the journal as it is and report the sequence number"


class ReplayDiverged(Diverged):
    """A tick run again gave other bytes than the journal holds."""


class JournalCorrupt(Diverged):
    """The journal, a blob or a snapshot is damaged."""

    default_code = "journal.corrupt"
    default_hint = "restore from a backup, or start from the last good checkpoint"


class BlobLost(JournalCorrupt):
    """The disk has lost bytes that the world names: it stops, for their absence is no fact."""

    default_code = "journal.blob_lost"
    status = 503
    default_hint = "put the same bytes back: PUT W/blobs from a backup; the world goes on by itself"
