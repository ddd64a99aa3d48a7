"""The bodies that routes take: closed shapes, so that a misspelt field is refused by its path.

Bytes are base64 in JSON and bytes in CBOR.
"""

# tidy: every body that a route takes, in one list.
from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(min_length=1, max_length=64)]
Reason = Annotated[str, Meta(max_length=1024)]
Tag = Annotated[str, Meta(max_length=200)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
HashText = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
IdemText = Annotated[str, Meta(pattern=r"^[\x20-\x7e]{1,128}$")]


class Body(Struct, forbid_unknown_fields=True):
    """A body with these fields and no others."""


class NewWorld(Body):
    """A world to create; `bundle` is a `.tally.zip`, an empty one when absent."""

    name: Name
    bundle: bytes | None = None


class EventBody(Body):
    """One event; `key` asserts the key that its subscribers will read from it."""

    schema: str
    value: Any
    key: Any | UnsetType = UNSET
    tags: tuple[Tag, ...] = ()
    idempotency_key: IdemText | None = None


class Operation(Body):
    """Why an operator acts; `force` ends a cell that would handle the request itself."""

    reason: Reason = ""
    force: bool = False


class NewExecution(Body):
    """A playbook to play: its text or its path, values over its workload, what its tools may do.

    `allow` maps a kind of tool to the params of its grant; it needs the scope admin.
    `unchecked` passes over errors about the net, which may then starve or go round for ever.
    """

    playbook: str
    file: str = "playbook.yaml"
    workload: dict[str, Any] = {}
    allow: dict[str, dict[str, Any]] = {}
    execution: Name | None = None
    unchecked: bool = False


class NewPlaybook(Body):
    """A playbook to publish under the path it names."""

    playbook: str
    file: str = "playbook.yaml"


class PlayPatch(Body, rename={"only_if": "if"}):
    """Keys of ctx to write and to remove; `if` compares first."""

    reason: Annotated[str, Meta(min_length=1, max_length=1024)]
    set: dict[str, Any] = {}
    unset: tuple[str, ...] = ()
    only_if: dict[str, Any] = {}


class PlaySignal(Body):
    """The value of a signal."""

    value: Any = None


class Decision(Body):
    """A word on a held effect; a seal is over `approval@1` and names its `at_ns`."""

    comment: Reason | None = None
    seal: dict[str, Any] | None = None


class ReceiptBody(Body):
    """A sealed outcome; `payload` is the canonical document that the seal covers."""

    executor: str
    status: str
    payload: bytes
    started_ns: Natural
    ended_ns: Natural
    seal: dict[str, Any]
    usage: dict[str, Natural] | None = None


class IntentReceipt(ReceiptBody, kw_only=True):
    """A sealed outcome that names its intent; `world`, when given, must be the path's."""

    intent: HashText
    attempt: Positive
    effect: str
    world: str | None = None


class AskAnswer(Body):
    """What a person answers."""

    choice: str | None = None
    answer: Any = None
    comment: Reason | None = None


class NewSnapshot(Body):
    """Whether the snapshot is kept for ever."""

    pin: bool = False


class NewFork(Body):
    """Where a fork begins, what it is called, and what becomes of open intents."""

    name: Name
    at: Positive | None = None
    pending: str = "suspend"
    pending_for: dict[str, str] = {}
    edits: list[Any] | None = None


class AliasBody(Body):
    """Which world a name means; `expect` is the one it must mean now.

    With `preview` nothing moves: what the old world settled since the fork is only told.
    """

    world: str
    expect: str | None = None
    preview: bool = False


class BackupOptions(Body):
    """Where a backup goes: a folder of the node's machine that does not exist yet."""

    dest: Annotated[str, Meta(pattern=r"^/")]


class CollectOptions(Body):
    """What is collected: all worlds, or one that is trimmed into an archive of the machine."""

    dry_run: bool = False
    world: str | None = None
    trim_before: Positive | None = None
    archive: Annotated[str, Meta(pattern=r"^/")] | None = None


class VerifyOptions(Body):
    """How much of a world is checked: quick, full, or full and every tick run again."""

    level: Literal["quick", "full", "replay"] = "full"


class ReplayOptions(Body):
    """Which part of a world is run again; 0 is genesis; without a workflow, all of them."""

    from_seq: Natural | None = None
    to_seq: Positive | None = None
    workflow: str | None = None


class LeaseBody(Body):
    """What a worker can do, and how much it takes."""

    worker: Annotated[str, Meta(min_length=1, max_length=200)]
    pools: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    max: Annotated[int, Meta(ge=1, le=1000)] = 1
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0
    lease_ms: Annotated[int, Meta(ge=1)] | None = None


class ExtendBody(Body):
    """For how long a lease is wanted."""

    lease_ms: Annotated[int, Meta(ge=1)] | None = None


class ProgressBody(Body):
    """A progress frame; `payload` is a canonical document."""

    seq: Positive
    kind: Annotated[str, Meta(min_length=1, max_length=64)]
    payload: bytes
    seal: dict[str, Any] | None = None


class NewToken(Body):
    """A token to make; it can do no more than the one that makes it.

    With `ui` the answer holds the way in for a browser, too.
    """

    principal: Annotated[str, Meta(min_length=1, max_length=200)]
    scopes: tuple[str, ...]
    worlds: tuple[Annotated[str, Meta(pattern=r"^(\*|[A-Za-z0-9._-]{1,64})$")], ...] = ("*",)
    expires_ns: Positive | None = None
    ui: bool = False


class SessionCode(Body):
    """The code of a link, which is spent with this."""

    code: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{43}$")]


class NewKey(Body):
    """A public key and what its seals count for."""

    public_key: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    executors: tuple[str, ...]
    effects: tuple[str, ...] = ("*",)


class RevokeBody(Body):
    """Why something is revoked."""

    reason: Reason = ""


class RevokeGrantBody(RevokeBody):
    """Why a grant is revoked, and whether what is out under it is cancelled too."""

    cancel_open: bool = False


class NewProposal(Body):
    """A change: one of a patch, a `.tally.zip`, and the id of a proposal to make anew."""

    patch: Any = None
    bundle: bytes | None = None
    rebase: Name | None = None
    description: Reason | None = None


class VoteBody(Body):
    """A word on a proposal; a seal is over `approval@1` and names its `at_ns`."""

    report_hash: HashText | None = None
    comment: Reason | None = None
    seal: dict[str, Any] | None = None


class ApplyBody(Body):
    """How long new events may be refused so that what is open comes to its end.

    With `prove`, open cells are proved and go on, are migrated or pinned, as `on` chooses.
    """

    wait_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 0
    prove: bool = False
    on: dict[str, str] = {}
    tail: Natural | None = None


class SeedEvent(Body):
    """An event that a shadow sends behind the recorded ones."""

    schema: str
    value: Any


class ScriptedAnswer(Body):
    """What a shadow answers to an effect that nothing on record answers."""

    status: str = "ok"
    payload: Any = None


class ShadowBody(Body):
    """How a proposal is shadowed: how many inputs back, with what else, and what is made up.

    With `synthetic` false, what neither the record nor a script answers stays pending.
    """

    tail: Natural | None = None
    seed: tuple[SeedEvent, ...] = ()
    receipts: dict[str, tuple[ScriptedAnswer, ...]] = {}
    synthetic: bool = True


class ProveBody(Body):
    """How many ticks of each cell are run again; 0 means all."""

    tail: Natural | None = None


class MadeUp(Body):
    """A request that nobody made: who would ask for what."""

    workflow: str
    effect: str
    params: Any = None
    key: str = "-"
    cap_slot: str | None = None


class NewWorkspace(Body):
    """A directory of the node's host to watch."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    shared: bool = False


class TrustBody(Body):
    """Which reactions to trust, all when empty; `follow` trusts later edits too."""

    reactions: tuple[Name, ...] = ()
    follow: bool | None = None


class ScanBody(Body):
    """For how long to wait until all that follows has happened."""

    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class FrameBody(Body):
    """A context frame about a place of a workspace."""

    path: Annotated[str, Meta(max_length=4096)]
    type: Name
    content: bytes
    meta: dict[str, Any] = {}
    workspace: str | None = None


class StampBody(Body):
    """A path that reactions have written."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    workspace: str | None = None


class RunBody(Body):
    """A command for a reaction; `key` makes asking twice one request."""

    path: Annotated[str, Meta(max_length=4096)] = ""
    args: dict[str, Any] = {}
    key: Annotated[str, Meta(max_length=200)] = ""


class SimulateBody(Body):
    """A path that is taken for changed."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class ProvenanceBody(Body):
    """Where to begin: a run, definition, tree, trigger, decision or content; all when absent."""

    id: Annotated[str, Meta(max_length=200)] | None = None
