"""What a tick of a built-in cell of reactions is given, and what it answers.

A body is plain JSON-like data.
Bytes that must outlive the tick are kept as blobs, and a body names one as `{"blob": hash}`: these
are the hashes that the state holds on to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tallystick.reactions.document import Definition, definition_of
from tallystick.reactions.listed import Manifest
from tallystick.values import canon

Body = dict[str, Any]
# Why a value does not fit a schema of the active manifest, or None.
Misfit = Callable[[str, Any], str | None]
TIMER: Final = "sys/timer.set@1"
CANCEL: Final = "sys/effect.cancel@1"
MS: Final = 1_000_000


class Asked(NamedTuple):
    """One effect that a cell asks for."""

    effect: str
    params: Mapping[str, Any]
    ref: str
    slot: str
    key: bytes | None = None
    timeout_ns: int | None = None


class Sent(NamedTuple):
    """One event that a cell emits."""

    schema: str
    value: Mapping[str, Any]


class Turn:
    """One tick: the recorded time and position, a reader of blobs, and what has been asked for."""

    def __init__(
        self, now_ns: int, seq: int, world: str, content: Callable[[str], bytes], misfit: Misfit
    ) -> None:
        self.misfit = misfit
        self.now_ns = now_ns
        self.seq = seq
        self.world = world
        self.sent: list[Sent] = []
        self.asked: list[Asked] = []
        self.blobs: dict[str, bytes] = {}
        self._content = content

    def emit(self, name: str, value: Mapping[str, Any]) -> None:
        """Emit `sys/<name>@1`."""
        self.sent.append(Sent(f"sys/{name}@1", value))

    def ask(self, asked: Asked) -> None:
        """Ask for an effect."""
        self.asked.append(asked)

    def timer(self, ref: str, at_ns: int) -> None:
        """Ask to be woken; the receipt has the reference."""
        self.ask(Asked(TIMER, {"deliver_at_ns": at_ns, "key": None}, ref, "timer"))

    def cancel(self, ref: str) -> None:
        """Give up on what was asked under a reference."""
        params = {"intent": None, "issuer_ref": ref}
        self.ask(Asked(CANCEL, params, f"cancelled:{ref}", "plain"))

    def keep(self, value: Any) -> dict[str, str]:
        """Keep a value as a blob and give what a body holds of it."""
        return self.keep_bytes(canon.encode(value))

    def keep_bytes(self, data: bytes) -> dict[str, str]:
        """Keep bytes as a blob."""
        name = canon.hash_of(data)
        self.blobs[name] = data
        return {"blob": name}

    def keep_trigger(self, trigger: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a trigger with the definition and the manifest that it names."""
        names = ("definition_hash", "inputs")
        return {**self.keep(trigger), "names": [{"blob": trigger[name]} for name in names]}

    def bytes_of(self, held: str) -> bytes:
        """The bytes behind a hash."""
        return self.blobs[held] if held in self.blobs else self._content(held)

    def read(self, held: Mapping[str, Any]) -> Any:
        """The value that a body holds by its blob."""
        return canon.decode(self.bytes_of(held["blob"]))

    def manifest(self, hash_text: str) -> Manifest:
        """The manifest of a hash; its rows are read when somebody asks for them."""
        return Manifest(self.bytes_of(hash_text), self.bytes_of)

    def definition(self, hash_text: str) -> Definition:
        """The definition of a hash."""
        return definition_of(self.bytes_of(hash_text))


class Told(NamedTuple):
    """An outcome in the words of the pipeline (stage table of 08 section 6)."""

    outcome: str
    code: str | None = None
    guard: str | None = None


def tell(turn: Turn, trigger: Mapping[str, Any], told: Told) -> None:
    """Record how a trigger ended: silence is a record."""
    turn.emit(
        "TriggerOutcome",
        {
            "trigger_id": trigger["trigger_id"],
            "workspace_id": trigger["workspace_id"],
            "reaction": trigger["reaction"],
            "target": trigger["target"]["path"],
            "outcome": told.outcome,
            "code": told.code,
            "guard": told.guard,
            "paths": [change["path"] for change in trigger["changes"][:32]],
            "count": 1,
        },
    )


def held_by(value: Any, found: dict[str, None]) -> dict[str, None]:
    """The blobs that a body names."""
    if isinstance(value, dict):
        name = value.get("blob")
        if isinstance(name, str):
            found[name] = None
        for inner in value.values():
            held_by(inner, found)
    elif isinstance(value, list):
        for inner in value:
            held_by(inner, found)
    return found


def settled(trigger: Mapping[str, Any], run_key: str, outcome: str, **more: Any) -> dict[str, Any]:
    """A `sys/RunSettled@1` of a run, or of a request that became none."""
    return {
        "workspace_id": trigger["workspace_id"],
        "target_id": trigger["target"]["target_id"],
        "reaction": trigger["reaction"],
        "run_key": run_key,
        "run_id": None,
        "attempt": 0,
        "kind": "run",
        "trigger_id": trigger["trigger_id"],
        "root_trigger_id": trigger["root_trigger_id"],
        "outcome": outcome,
        "code": None,
        "tokens": 0,
        "outputs": [],
        **more,
    }
