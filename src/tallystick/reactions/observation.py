"""What one look at a workspace brings, in plain values: the input of `triggers.derive`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallystick.reactions.document import Definition
from tallystick.reactions.heads import Head, Heads
from tallystick.reactions.stamps import Stamps
from tallystick.reactions.tree import Tree


class Request(NamedTuple):
    """Somebody asks for a reaction by name; `key` makes asking twice one request.

    A command of a run carries the run's depth, lineage and root.
    """

    reaction: str
    path: bytes
    name: str = "run"
    args: Mapping[str, Any] = {}
    key: str = ""
    actor: Mapping[str, str] = {"kind": "human", "id": ""}
    cause: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Two trees of a workspace and what else has happened between them.

    `before` is None when nothing was ever seen of it.
    `moved` are the heads that moved, `due` the names of reactions whose `every` is due.
    """

    world_id: str
    workspace_id: str
    n: int
    observed_at: int
    before: Tree | None
    after: Tree
    definitions: Sequence[Definition]
    stamps: Stamps
    heads: Heads = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    git_commit: str | None = None
    moved: Sequence[Head] = ()
    commands: Sequence[Request] = ()
    due: Sequence[str] = ()
    folding: bool = False


class Derived(NamedTuple):
    """Envelopes, outcomes and the blobs that they name: what `sys/Observed@1` carries."""

    triggers: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    blobs: list[bytes]
