"""The effects and events that every world knows, as classes (04, section on executors).

Their definitions are ambient, so a bundle that uses them defines nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.values.schema.annotations import Hash, Json, Nat, Time
from tallystick.workflow.effects import Effect
from tallystick.workflow.records import Record


class Secret(Record, name="sys/Secret@1"):
    """A secret by alias and version; the value itself never enters a world."""

    alias: str
    version: int = 1


class CancelRequested(Record, name="sys/CancelRequested@1"):
    """Somebody asks this cell to stop."""

    reason: str
    principal: str
    deadline_ns: Nat | None = None


class WorkflowCompleted(Record, name="sys/WorkflowCompleted@1"):
    """A cell ended."""

    workflow: str
    key: bytes | None
    status: Json
    result: bytes | None
    code: str | None
    message: str | None
    born_seq: Nat
    ended_seq: Nat


class WorkflowFault(Record, name="sys/WorkflowFault@1"):
    """A tick of a cell faulted."""

    workflow: str
    key: bytes | None
    code: str
    message: str
    input_seq: Nat
    limit: Json
    action: Json


class TimerFired(Record, name="sys/TimerSetReceipt@1"):
    """When a timer fired."""

    delivered_at_ns: Nat
    key: str | None


class Timer(Effect[TimerFired], name="sys/timer.set@1", cap="timer"):
    """A wake-up at a logical time; `ctx.timer` asks for one."""

    deliver_at_ns: Time
    key: str | None = None

    if TYPE_CHECKING:

        class Fired(Effect.Ok):
            """The time has come."""


# "It fired" reads better in a match than "it is ok".
Timer.Fired = Timer.Ok  # type: ignore[misc,assignment]  # outcomes are attached to each class


class HttpAnswer(Record, name="sys/HttpRequestReceipt@1"):
    """What a server answered."""

    status: Nat
    url: str
    headers: dict[str, str]
    body: bytes | None
    body_ref: Hash | None
    size: Nat
    timings: dict[str, int]


class Http(Effect[HttpAnswer], name="sys/http.request@1", cap="http.out"):
    """One HTTP request; header values are text or a `Secret`."""

    method: str
    url: str
    headers: Json = None
    body: bytes | None = None
    body_ref: Hash | None = None
    redirects: Nat | None = None


class BlobStored(Record, name="sys/BlobPutReceipt@1"):
    """Where a blob is."""

    blob_ref: Hash
    edge_ref: Hash
    size: Nat


class Blob(Effect[BlobStored], name="sys/blob.put@1", cap="blob", idempotent=True, pure=True):
    """Keep bytes under their hash."""

    bytes: bytes
    blob_ref: Hash | None = None
    refs: list[Hash] | None = None


class FileWritten(Record, name="sys/FileWriteReceipt@1"):
    """What a write changed."""

    path: str
    pre_id: Hash | None
    post_id: Hash | None
    size: Nat
    status: str


class File(Effect[FileWritten], name="sys/file.write@1", cap="file", idempotent=True):
    """Write one file of a workspace."""

    workspace: str
    path: str
    content: bytes | None = None
    content_ref: Hash | None = None
    expect: Json = None
    mode: str | None = None
    stamp: Json = None


class ShellDone(Record, name="sys/ShellRunReceipt@1"):
    """How a program ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    stdout_ref: Hash | None
    stderr_ref: Hash | None
    truncated: bool
    timings: dict[str, int]


class Shell(Effect[ShellDone], name="sys/shell.run@1", cap="shell"):
    """Run a program; values of `env` are text or a `Secret`."""

    argv: list[str]
    cwd: str | None = None
    env: Json = None
    stdin_ref: Hash | None = None
    net: bool | None = None


class SqlRows(Record, name="sys/SqlQueryReceipt@1"):
    """What a query found."""

    columns: list[str]
    rows: Json
    rows_ref: Hash | None
    row_count: Nat
    truncated: bool


class Sql(Effect[SqlRows], name="sys/sql.query@1", cap="sql", idempotent=True):
    """One query."""

    db: str
    sql: str
    args: Json = None
    mode: str | None = None
    max_rows: Nat | None = None


class LlmText(Record, name="sys/LlmGenerateReceipt@1"):
    """What a model wrote."""

    text: str | None
    output_ref: Hash
    finish: str
    usage: Json


class Llm(Effect[LlmText], name="sys/llm.generate@1", cap="llm"):
    """Ask a language model; `api_key` is text or a `Secret`."""

    provider: str
    model: str
    messages: Json
    max_tokens: Nat
    options: Json = None
    api_key: Json = None


class HumanAnswer(Record, name="sys/HumanAskReceipt@1"):
    """What a person decided."""

    choice: str | None
    answer: Json
    by: str
    comment: str | None
    at_ns: Nat


class Human(Effect[HumanAnswer], name="sys/human.ask@1", cap="human", idempotent=True):
    """Ask people; the answer comes through the inbox of the node."""

    title: str
    body: str
    choices: list[str] | None = None
    form: Json = None
    to: list[str] | None = None
    default: Json = None
    expires_at_ns: Nat | None = None


class Spawn(Effect[Any], name="sys/workflow.spawn@1", cap="workflow"):
    """Start a child cell; `ctx.spawn` asks for one."""

    workflow: str
    key: bytes | None
    payload: Json
    caps: Json = None


class Call(Effect[Any], name="sys/workflow.call@1", cap="workflow"):
    """Start a child cell and wait for its end: `Call.Ok(value)` holds its result."""

    workflow: str
    key: bytes | None
    payload: Json
    caps: Json = None


class Read(Effect[Any], name="sys/cell.read@1"):
    """Read the state of another cell: `Read.Ok(value)`, None when there is no such cell."""

    workflow: str
    key: bytes | None


class Cancel(Effect[Any], name="sys/effect.cancel@1"):
    """Cancel open effects of this cell by their correlation."""

    intent: Hash | None = None
    issuer_ref: str | None = None


# The public surface is full, and a secret is only ever written inside one of these.
Http.Secret = Shell.Secret = Llm.Secret = Secret  # type: ignore[attr-defined]  # as `Timer.Fired`


def secrets_written(plain: Any) -> Any:
    """Text and secrets in a map or alone as the arms of `sys/TextOrSecretRef@1`."""
    if isinstance(plain, Secret):
        return {"$tag": "secret", "$value": {"alias": plain.alias, "version": plain.version}}
    if isinstance(plain, str):
        return {"$tag": "literal", "$value": plain}
    if isinstance(plain, dict):
        return {name: secrets_written(value) for name, value in plain.items()}
    return plain
